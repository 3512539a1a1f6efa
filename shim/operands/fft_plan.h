/* SPDX-License-Identifier: Apache-2.0
 *
 * cuFFT's plans. A plan is a number that cannot be asked for its layout, so what it was made of is
 * kept here, by library and number, from its making to its end.
 */
#ifndef FASHIM_FFT_PLAN_H
#define FASHIM_FFT_PLAN_H

#include "shim/operands/operands.h"

struct library;

#define FFT_RANK 3

/* One side of a transform. */
struct fft_side {
	cudaDataType type;
	bool basic; /* packed; embed, stride and distance do not count */
	int64_t embed[FFT_RANK], stride, distance;
};

struct fft_layout {
	int rank;
	int64_t size[FFT_RANK], batch;
	struct fft_side input, output;
};

struct fft_plan {
	const struct library *library;
	int number;
	bool known; /* layout holds */
	bool odd;   /* callbacks, several devices: never understood */
	struct fft_layout layout;
	CUstream stream;
	const void *work;
	uint64_t work_bytes;
	struct fft_plan *next;
};

/* A layout of one of the types that cufftType names; false: no such type. Its sides are basic. */
bool fft_layout_of_type(struct fft_layout *layout, int type);

/* The plan's entry, made if there is none; NULL: no memory, the plan stays unknown. What is changed
 * in it is changed between fft_plan_lock() and fft_plan_unlock(). */
struct fft_plan *fft_plan_get(const struct library *library, int number);
void fft_plan_lock(void);
void fft_plan_unlock(void);
void fft_plan_forget(const struct library *library, int number);

/* Adds what executing the plan touches, and tells its stream. `types`: whose sides' types it must
 * have; NULL: any. */
void fft_plan_operands(const struct library *library, int number, const struct fft_layout *types,
		       const void *input, const void *output, struct operands *operands,
		       CUstream *stream);

#endif
