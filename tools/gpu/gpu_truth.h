/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a result lies from attention in double precision (fashim_reference), on all rows or, of a
 * large call, on rows spread over it.
 */
#ifndef FASHIM_GPU_TRUTH_H
#define FASHIM_GPU_TRUTH_H

#include "tools/gpu/gpu.h"

/* The true rows of one call. */
struct gpu_truth {
	const struct gpu *gpu;
	struct attn_args args;
	int rows;	/* that were computed */
	double *values; /* [rows][Dv] */
};

struct gpu_error {
	double max, rms;   /* of the finite differences */
	int64_t nonfinite; /* elements that are not finite where the truth is, or the reverse */
};

/* Computes the truth of a call. 0 or -errno with one line on stderr; for gpu_truth_free() in any
 * case. */
int gpu_truth_make(struct gpu_truth *truth, const struct gpu *gpu, const struct attn_args *args);
void gpu_truth_free(struct gpu_truth *truth);

/* Fills O with NaN, so that what is left unwritten shows. */
int gpu_truth_spoil(const struct gpu_truth *truth);

/* Compares O, as it is in the GPU's memory once the stream is idle, with the truth. */
int gpu_truth_compare(const struct gpu_truth *truth, struct gpu_error *error);

/* The larger maximum, the larger rms, and the sum of what is not finite. */
void gpu_error_widen(struct gpu_error *most, const struct gpu_error *error);

#endif
