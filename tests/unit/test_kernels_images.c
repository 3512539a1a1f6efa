/* SPDX-License-Identifier: Apache-2.0
 *
 * Which image a GPU gets, and which part of it holds a variant.
 */
#include "kernels/attention.h"
#include "kernels/images.h"
#include "tests/unit/test_kernels_case.h"

#include <stdio.h>
#include <string.h>
#include "tests/cmocka.h"

static void test_images(void **state)
{
	static const struct kernel_image images[] = {
		{80, false, "", 0}, {89, false, "", 0}, {90, false, "", 0},
		{80, true, "", 0},  {90, true, "", 0},	{75, true, "", 0},
	};
	static const int choice[][2] = {{75, 5}, {80, 0},  {86, 0},  {89, 1},
					{90, 2}, {70, -1}, {100, 4}, {120, 4}};

	for (size_t n = 0; n < sizeof(choice) / sizeof(choice[0]); n++)
		assert_ptr_equal(kernel_image_pick(images, 6, choice[n][0]),
				 choice[n][1] < 0 ? NULL : &images[choice[n][1]]);
	assert_null(kernel_image_pick(images, 0, 90));
}

/* An image is its parts one behind the other, each a fat binary: how many of them end before `to`,
 * or -1 where none begins there. */
static int fatbins_before(const struct kernel_image *image, const char *to)
{
	struct {
		uint32_t magic;
		uint16_t version, header;
		uint64_t bytes;
	} head;
	const char *at = image->data;
	int count = 0;

	for (; at < to; at += head.header + head.bytes, count++) {
		memcpy(&head, at, sizeof(head));
		if (head.magic != 0xba55ed50u)
			return -1;
	}
	return at == to ? count : -1;
}

/* Each image has the parts that its GPUs need, the kernels of a part those of its file and dtype.
 */
static void test_parts(void **state)
{
	assert_true(kernel_image_count > 0);
	for (int i = 0; i < kernel_image_count; i++) {
		const struct kernel_image *image = &kernel_images[i];
		const char *end = (const char *)image->data + image->size;
		const char *helpers = kernel_image_part(image, KERNEL_HELPERS);

		assert_true(fatbins_before(image, end) > 1);
		assert_true(fatbins_before(image, helpers) >= 0);
		assert_null(kernel_image_part(image, "fashim_reference"));
		for (int n = 0; n < attn_variant_total; n++) {
			const struct attn_variant *v = &attn_variants[n],
						  *w = &attn_variants[n ? n - 1 : 0];
			const char *part = kernel_image_part(image, v->symbol);

			if (v->needs & ATTN_NEEDS_ARCH) {
				assert_int_equal(part != NULL,
						 !image->ptx && image->arch == v->min_arch);
			} else if (v->min_arch <= image->arch) {
				assert_non_null(part);
			}
			if (!part)
				continue;
			assert_true(part < end && part != helpers);
			assert_true(fatbins_before(image, part) >= 0);
			assert_int_equal(
				fatbins_before(image, part + kernel_image_part_bytes(part)),
				fatbins_before(image, part) + 1);
			if (w->family != v->family ||
			    (w->dtype == ATTN_F32) != (v->dtype == ATTN_F32))
				assert_ptr_not_equal(part, kernel_image_part(image, w->symbol));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_images),
		cmocka_unit_test(test_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
