/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that only move: a tensor laid out anew, rows of one tensor among another's.
 */
#include "kernels/attention.h"
#include "tests/unit/test_kernels_launch.h"

#include <math.h>
#include <string.h>
#include "tests/cmocka.h"

static uint64_t address(const void *memory)
{
	return (uint64_t)(uintptr_t)memory;
}

/* [B,S,H,D] read as [B,H,S,D], in elements of each size. */
static void test_lay_out(void **state)
{
	enum { D = 24, S = 5, H = 3, B = 2, ALL = B * H * S * D };
	static unsigned char from[16 * ALL] __attribute__((aligned(16)));
	static unsigned char to[16 * ALL + 16] __attribute__((aligned(16)));
	static const int elements[] = {2, 4, 16};

	for (size_t n = 0; n < sizeof(from); n++)
		from[n] = (unsigned char)(n * 31 + n / 256);
	for (int e = 0; e < 3; e++) {
		const size_t element = (size_t)elements[e];
		struct lay_out_args args = {.to = address(to),
					    .from = address(from),
					    .count = ALL,
					    .element = elements[e],
					    .dims = 4,
					    .size = {D, S, H, B},
					    .stride = {1, H * D, D, S * H * D}};

		memset(to, 0xee, sizeof(to));
		launch("fashim_lay_out", 2 + (unsigned)e, LAY_OUT_THREADS, &args, sizeof(args));
		for (size_t n = 0; n < ALL; n++) {
			const size_t d = n % D, s = n / D % S, h = n / D / S % H, b = n / D / S / H;
			const size_t at = ((b * S + s) * H + h) * D + d;

			assert_memory_equal(to + n * element, from + at * element, element);
		}
		assert_int_equal(to[ALL * element], 0xee);
	}
}

/* [B,H,D,S], its lines longer than S, read as [B,H,S,D]: of full tiles, and of parts. */
static void test_across(void **state)
{
	enum { D = 70, S = 133, LINE = 136, H = 2, B = 2, ALL = B * H * S * D };
	static unsigned char from[4 * B * H * D * LINE] __attribute__((aligned(16)));
	static unsigned char to[4 * ALL + 4] __attribute__((aligned(16)));

	for (size_t n = 0; n < sizeof(from); n++)
		from[n] = (unsigned char)(n * 31 + n / 256);
	for (size_t element = 2; element <= 4; element += 2)
		for (unsigned blocks = 1; blocks <= 100; blocks += 33) {
			struct lay_out_args args = {.to = address(to),
						    .from = address(from),
						    .count = ALL,
						    .element = (int)element,
						    .dims = 4,
						    .size = {D, S, H, B},
						    .stride = {LINE, 1, D * LINE, H * D * LINE}};

			memset(to, 0xee, sizeof(to));
			launch("fashim_lay_out", blocks, LAY_OUT_THREADS, &args, sizeof(args));
			for (size_t n = 0; n < ALL; n++) {
				const size_t d = n % D, s = n / D % S, m = n / D / S;
				const size_t at = (m * D + d) * LINE + s;

				assert_memory_equal(to + n * element, from + at * element, element);
			}
			assert_int_equal(to[ALL * element], 0xee);
		}
}

/* The same of 16 bits, made fp32. */
static void test_lay_out_cast(void **state)
{
	enum { D = 5, S = 7 };
	static const unsigned short numbers[2][3] = {{0x3c00, 0xc100, 0x7c00},
						     {0x3f80, 0xc020, 0x7f80}};
	static const float made[3] = {1, -2.5f, INFINITY};
	unsigned short from[D * S];
	float to[D * S + 1];

	for (int type = 0; type < 2; type++) {
		struct lay_out_args args = {.to = address(to),
					    .from = address(from),
					    .count = D * S,
					    .element = 4,
					    .dims = 2,
					    .cast = 1 + (type ? ATTN_BF16 : ATTN_F16),
					    .size = {D, S},
					    .stride = {S, 1}};

		for (int n = 0; n < D * S; n++)
			from[n] = numbers[type][n % 3];
		to[D * S] = 3;
		launch("fashim_lay_out", 1, LAY_OUT_THREADS, &args, sizeof(args));
		for (int n = 0; n < D * S; n++)
			assert_true(to[n] == made[(n % D * S + n / D) % 3]);
		assert_true(to[D * S] == 3);
	}
}

/* Rows copied, what lies between them left alone, whatever the number of blocks. */
static void test_copy_rows(void **state)
{
	enum { WIDTH = 5 * 16, PITCH = 9 * 16, ROWS = 300 };
	static unsigned char from[ROWS * PITCH] __attribute__((aligned(16)));
	static unsigned char to[ROWS * PITCH] __attribute__((aligned(16)));

	for (size_t n = 0; n < sizeof(from); n++)
		from[n] = (unsigned char)(n * 7 + n / 200);
	for (unsigned blocks = 1; blocks < 9; blocks++)
		for (size_t rows = 1; rows <= ROWS; rows += 299) {
			struct copy_rows_args args = {.to = address(to),
						      .from = address(from),
						      .count = WIDTH / 16 * rows,
						      .width = WIDTH / 16,
						      .pitch = PITCH / 16};

			memset(to, 0xee, sizeof(to));
			launch("fashim_copy_rows", blocks, COPY_ROWS_THREADS, &args, sizeof(args));
			for (size_t n = 0; n < sizeof(to); n++) {
				const int copied = n / PITCH < rows && n % PITCH < WIDTH;

				assert_int_equal(to[n], copied ? from[n] : 0xee);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lay_out),
		cmocka_unit_test(test_across),
		cmocka_unit_test(test_lay_out_cast),
		cmocka_unit_test(test_copy_rows),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
