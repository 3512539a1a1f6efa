/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that the shim would load: which of them there are for a GPU, looked up in
 * libfashim_kernels.so, which has the same images and lies beside the shim.
 */
#ifndef FASHIM_DOCTOR_KERNELS_H
#define FASHIM_DOCTOR_KERNELS_H

#include <stdbool.h>

#include "kernels/images.h"

#define KERNELS_PARTS 32

struct kernels {
	void *handle;
	__typeof__(kernel_image_for) *image_for;
	__typeof__(kernel_image_part) *image_part;
	__typeof__(kernel_image_part_bytes) *part_bytes;
};

/* shim: path of libfashim.so. libcuda.so.1 is loaded. False: there is no such library. For
 * kernels_close() in any case. */
bool kernels_open(struct kernels *kernels, const char *shim);
void kernels_close(struct kernels *kernels);

/* The parts of an image that the shim chooses from; their number. */
int kernels_parts(const struct kernels *kernels, const struct kernel_image *image,
		  const void *parts[KERNELS_PARTS]);

/* What there is for a GPU: "code" for it, "text" that nobody compiled, "prepared": text that
 * `fashim doctor --prepare` compiled, "none". */
const char *kernels_state(const struct kernels *kernels, int arch, int driver);

#endif
