/* SPDX-License-Identifier: Apache-2.0
 *
 * Stand-ins for cuDNN, cuFFT, cuSOLVER, cuSPARSE and NCCL: every function of the table, which does
 * nothing but count itself and fill memory through the driver, as a library's kernel would. What
 * describes a call's arguments works. One source, linked under many SONAMEs.
 */
#ifndef FASHIM_TESTS_STANDIN_H
#define FASHIM_TESTS_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct standin {
	const char *called; /* the last function of the table */
	unsigned calls;
	int result;		    /* what all of them return */
	unsigned long long scratch; /* device memory that each call fills; 0: none */
};

extern struct standin standin;

/* Counts a call of `name`, and does what all of them do. */
int standin_called(const char *name);

/* Handles and communicators. */
struct standin_handle {
	_Alignas(16) void *stream;
	int rank, ranks, device, scalars_on_device;
};

struct standin_tensor {
	int type, format, rank, dim[8], stride[8];
};

struct standin_matrix {
	int format, order, batch, type, index_type;
	int64_t rows, columns, ld, stored;
	void *values, *outer, *inner;
};

#endif
