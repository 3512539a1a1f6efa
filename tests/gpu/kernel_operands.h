/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands of a case in device memory. Every operand has a margin around it; margins and the
 * gaps between rows are NaN in what is read and OPERAND_POISON in O.
 */
#ifndef FASHIM_KERNEL_OPERANDS_H
#define FASHIM_KERNEL_OPERANDS_H

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel_cases.h"

/* Bytes of O: no NaN, so that an element left alone is off where NaN is right too. */
#define OPERAND_POISON 0x7a

#define CHECK(call)                                                                                \
	do {                                                                                       \
		CUresult result_ = (call);                                                         \
		if (result_ != CUDA_SUCCESS) {                                                     \
			const char *text_ = "?";                                                   \
			cuGetErrorString(result_, &text_);                                         \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text_);      \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* A device allocation with an operand in it, and what the host put there. */
struct buffer {
	CUdeviceptr block;
	char *host;
	size_t bytes, margin; /* the operand begins `margin` bytes into it */
};

struct operands {
	struct attn_args args;
	struct buffer q, k, v, o, bias[ATTN_MAX_BIAS], mask, lengths, sinks, scales;
	CUdeviceptr array[3];
	double most_v; /* max |V| */
};

/* No margins, so that memcheck sees what goes past an operand: set before the first case. */
extern int operands_tight;

struct operands operands_make(const struct kernel_case *c);
void operands_free(struct operands *x);

/* Puts into the hidden keys of a hard case what may not matter: after the truth is known. */
void operands_spoil(struct operands *x, const struct kernel_case *c);

/* Puts a buffer's host copy on the device. */
void operands_upload(const struct buffer *b);

/* Where element `at` of t is in a buffer's host copy. */
char *operands_element(const struct buffer *b, const struct attn_tensor *t, int64_t at);

/* One element as a double. */
double operands_widen(const void *p, int dtype);

/* Runs the statement for every element [x0,x1,x2,x3]; `at` is its place. */
#define FOR_EACH_ELEMENT(t, extent)                                                                \
	for (int64_t x0 = 0; x0 < (extent)[0]; x0++)                                               \
		for (int64_t x1 = 0; x1 < (extent)[1]; x1++)                                       \
			for (int64_t x2 = 0; x2 < (extent)[2]; x2++)                               \
				for (int64_t x3 = 0, at = x0 * (t)->stride[0] +                    \
							  x1 * (t)->stride[1] +                    \
							  x2 * (t)->stride[2];                     \
				     x3 < (extent)[3]; x3++, at += (t)->stride[3])

#endif
