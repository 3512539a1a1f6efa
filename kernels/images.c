/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the compiled images in, file by file, and chooses among them.
 *
 * images.inc is written by kernels.mk: a line IMAGE(label, arch, ptx, "file", bytes) per image.
 * LADDER_IMAGE, from there too, is the file of the ladder's image.
 */
#include "kernels/images.h"

#define EMBED(symbol, file)                                                                        \
	__asm__(".pushsection .rodata\n"                                                           \
		".balign 64\n"                                                                     \
		".globl " #symbol "\n"                                                             \
		".hidden " #symbol "\n" #symbol ":\n"                                              \
		".incbin \"" file "\"\n"                                                           \
		".popsection\n")

#define IMAGE(label, arch, ptx, file, bytes)                                                       \
	EMBED(fashim_image_##label, file);                                                         \
	extern const char fashim_image_##label[] __attribute__((visibility("hidden")));
#include "images.inc"
#undef IMAGE

#define IMAGE(label, arch, ptx, file, bytes) {arch, ptx, fashim_image_##label, bytes},
const struct kernel_image kernel_images[] = {
#include "images.inc"
};
#undef IMAGE
const int kernel_image_count = (int)(sizeof(kernel_images) / sizeof(kernel_images[0]));

EMBED(ladder_image, LADDER_IMAGE);

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
