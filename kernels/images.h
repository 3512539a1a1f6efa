/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled kernels, embedded: one image per architecture, each with every kernel in it.
 */
#ifndef FASHIM_IMAGES_H
#define FASHIM_IMAGES_H

#include <stdbool.h>
#include <stddef.h>

struct kernel_image {
	int arch;	  /* compute capability * 10 it was compiled for */
	bool ptx;	  /* text for the driver to compile (ends in a zero byte), else a cubin */
	const void *data; /* what cuModuleLoadData takes */
	size_t size;	  /* bytes, without the zero byte */
};

extern const struct kernel_image kernel_images[];
extern const int kernel_image_count;

/* The image to load on a GPU of compute capability `arch` / 10: machine code of the same
 * generation and not newer, the newest of it; else the newest PTX that it can run; else NULL. */
const struct kernel_image *kernel_image_for(int arch);

/* The same choice from any list. */
const struct kernel_image *kernel_image_pick(const struct kernel_image *images, int count,
					     int arch);

/* The kernels of kernels/ladder for all of ARCHS, and PTX: what cuModuleLoadData takes. */
extern const char ladder_image[] __attribute__((visibility("hidden")));

#endif
