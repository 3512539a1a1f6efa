/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies below the shim's core when it is replayed or tested: a driver that does nothing but
 * succeed, kernels that are not launched, scratch memory that is an address, comparisons that pass.
 * Everything the core asks for is counted and kept in a list, in order.
 */
#ifndef FASHIM_REPLAY_BELOW_H
#define FASHIM_REPLAY_BELOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/attention.h"
#include "shim/op.h"

#define BELOW_CONTEXT ((CUcontext)0x1000)
#define BELOW_SCRATCH 0xff000000000000ull /* scratch addresses lie above */

enum act_kind {
	ACT_GEMM,	   /* a held-back GEMM is run: a, b, c */
	ACT_LAUNCH,	   /* a held-back launch is run: function; first pointers in a, b */
	ACT_COPY,	   /* device to device: a from, b to */
	ACT_FUSED,	   /* a: Q, b: O, c: K */
	ACT_CANARY,	   /* a to b */
	ACT_COPY_STANDING, /* a from, b to; canary */
	ACT_FILL,	   /* a, bytes */
	ACT_ORDER,	   /* a stream waits for another */
	ACT_KINDS
};

struct act {
	enum act_kind kind;
	uint64_t a, b, c, bytes;
	bool canary;
	CUstream stream;
	CUfunction function;
};

#define BELOW_ACTS 4096

/* Since below_reset(). */
struct below {
	uint64_t count[ACT_KINDS];
	int acts; /* in act[], the first BELOW_ACTS */
	struct act act[BELOW_ACTS];
	int64_t scratch;       /* pieces taken and not given back; survives the reset */
	bool no_scratch;       /* requests that may fail do */
	bool no_kernel;	       /* no variant fits */
	bool no_fused;	       /* the fused launch fails */
	int verdicts;	       /* comparisons asked for */
	struct attn_args args; /* of the latest comparison or fused launch */
};

extern struct below below;

void below_reset(void);

/* A kernel under its mangled name with parameters of these sizes at their natural offsets. Handles
 * and names last as long as the program. NULL: too many. */
CUfunction below_function(const char *name, unsigned params, const size_t *offset,
			  const size_t *size);

/* The parameters of a handle; false when it is none of ours. */
bool below_layout(CUfunction handle, unsigned *params, const size_t **offset, const size_t **size);

#endif
