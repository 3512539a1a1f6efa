/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled kernels, embedded: one image per architecture, in parts that are loaded one by one.
 * A part holds the variants of one file and one dtype; another the helpers, which are all other
 * kernels.
 */
#ifndef FASHIM_IMAGES_H
#define FASHIM_IMAGES_H

#include <stdbool.h>
#include <stddef.h>

struct kernel_image {
	int arch;	  /* compute capability * 10 it was compiled for */
	bool ptx;	  /* text for the driver to compile, else machine code */
	const void *data; /* the parts, one behind the other */
	size_t size;	  /* bytes */
};

extern const struct kernel_image kernel_images[];
extern const int kernel_image_count;

/* The image to load on a GPU of compute capability `arch` / 10: machine code of the same
 * generation and not newer, the newest of it; else the newest PTX that it can run; else NULL. */
const struct kernel_image *kernel_image_for(int arch);

/* The same choice from any list. */
const struct kernel_image *kernel_image_pick(const struct kernel_image *images, int count,
					     int arch);

/* The part that a variant's kernel is in, by the kernel's name: what cuModuleLoadData takes. NULL:
 * the image has none such, or it is a helper. */
const void *kernel_image_part(const struct kernel_image *image, const char *symbol);

/* Its size. */
size_t kernel_image_part_bytes(const void *part);

/* In place of a name: the part with the helpers, which each image has. */
#define KERNEL_HELPERS "fashim_helpers_"

/* A helper that does nothing: the image has it where it has the variants with ATTN_NEEDS_ARCH. */
#define KERNEL_FOR_ARCH "fashim_for_arch"

#endif
