/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the compiled images in, part by part, and chooses among them.
 *
 * images.inc is written by kernels.mk: a line IMAGE(label, arch, ptx, bytes) per image, and behind
 * it PART(label, name, "file") for each of its parts. They are put one behind the other, without
 * gaps: fat binaries are multiples of 8 bytes.
 */
#include "kernels/images.h"

#include <string.h>

#define PLACE(symbol)                                                                              \
	".globl fashim_image_" #symbol "\n"                                                        \
	".hidden fashim_image_" #symbol "\n"                                                       \
	"fashim_image_" #symbol ":\n"

#define IMAGE(label, arch, ptx, bytes) ".balign 64\n" PLACE(label)
#define PART(label, name, file)	       PLACE(label##_##name) ".incbin \"" file "\"\n"
__asm__(".pushsection .rodata\n"
#include "images.inc"
	".popsection\n");
#undef IMAGE
#undef PART

#define DECLARE(symbol)		       extern const char symbol[] __attribute__((visibility("hidden")));
#define IMAGE(label, arch, ptx, bytes) DECLARE(fashim_image_##label)
#define PART(label, name, file)	       DECLARE(fashim_image_##label##_##name)
#include "images.inc"
#undef IMAGE
#undef PART

#define PART(label, name, file)
#define IMAGE(label, arch, ptx, bytes) {arch, ptx, fashim_image_##label, bytes},
const struct kernel_image kernel_images[] = {
#include "images.inc"
};
#undef IMAGE
#undef PART
const int kernel_image_count = (int)(sizeof(kernel_images) / sizeof(kernel_images[0]));

static const struct part {
	const char *prefix; /* of its kernels' names */
	const char *data;
} parts[] = {
#define IMAGE(label, arch, ptx, bytes)
#define PART(label, name, file) {"fashim_" #name "_", fashim_image_##label##_##name},
#include "images.inc"
#undef IMAGE
#undef PART
};

const struct kernel_image *kernel_image_pick(const struct kernel_image *images, int count, int arch)
{
	const struct kernel_image *best = NULL;

	for (int i = 0; i < count; i++) {
		const struct kernel_image *image = &images[i];

		if (image->arch > arch || (!image->ptx && image->arch / 10 != arch / 10))
			continue;
		if (!best || (best->ptx && !image->ptx) ||
		    (best->ptx == image->ptx && image->arch > best->arch))
			best = image;
	}
	return best;
}

const struct kernel_image *kernel_image_for(int arch)
{
	return kernel_image_pick(kernel_images, kernel_image_count, arch);
}

const void *kernel_image_part(const struct kernel_image *image, const char *symbol)
{
	const char *const begin = image->data, *const end = begin + image->size;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i].data >= begin && parts[i].data < end &&
		    !strncmp(symbol, parts[i].prefix, strlen(parts[i].prefix)))
			return parts[i].data;
	return NULL;
}

size_t kernel_image_part_bytes(const void *part)
{
	const char *const begin = part, *end = NULL;

	for (int i = 0; i < kernel_image_count; i++) {
		const char *const data = kernel_images[i].data;

		if (begin >= data && begin < data + kernel_images[i].size)
			end = data + kernel_images[i].size;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i].data > begin && parts[i].data < end)
			end = parts[i].data;
	return (size_t)(end - begin);
}
