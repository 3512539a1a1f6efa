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
#include "shim/op/op.h"
#include "tools/replay/guess.h"

#define BELOW_CONTEXT ((CUcontext)0x1000)
#define BELOW_SCRATCH 0xff000000000000ull /* scratch addresses lie above */

enum act_kind {
	ACT_GEMM,	/* a held-back GEMM is run: a, b, c */
	ACT_LAUNCH,	/* a held-back launch is run: function; first pointers in a, b */
	ACT_COPY,	/* device to device: a from, b to; rows of `bytes`, if any */
	ACT_FUSED,	/* a: Q, b: O, c: K */
	ACT_WRITE_BACK, /* out of scratch: a from, b to, bytes */
	ACT_LAY_OUT,	/* a copy that was never made, or what it was made of: a from, b to */
	ACT_COMPLEMENT, /* a from, b to */
	ACT_SLOPES,	/* a from, b to */
	ACT_FILL,	/* a, bytes */
	ACT_ORDER,	/* a stream waits for another */
	ACT_KINDS
};

struct act {
	enum act_kind kind;
	uint64_t a, b, c, bytes, rows, pitch;
	CUstream stream;
	CUfunction function;
};

#define BELOW_ACTS 4096

/* Since below_reset(). */
struct below {
	uint64_t count[ACT_KINDS];
	int acts; /* in act[], the first BELOW_ACTS */
	struct act act[BELOW_ACTS];
	uint64_t saved;		/* bytes copied to scratch */
	int64_t scratch;	/* pieces taken and not given back; survives the reset */
	int64_t scratch_most;	/* that were out at a time */
	bool no_scratch;	/* requests that may fail do */
	bool no_rows;		/* copies by rows fail */
	bool no_kernel;		/* no variant fits */
	unsigned kernels_later; /* so often they are not loaded yet */
	bool no_fused;		/* the fused launch fails */
	bool no_order;		/* streams cannot be ordered */
	bool no_rerun;		/* held-back launches and products fail */
	bool far;		/* kernels without a rule follow addresses in memory … */
	bool unsettled;		/* … or the answer is not there yet */
	bool dear;		/* their code would tell, and cannot be afforded */
	bool unfinished;	/* no event is ever done */
	int waits;		/* for a stream, or an event, by the host */
	int marks;		/* events recorded */
	const struct attn_variant
		*odd;	       /* fits where Q lies at no multiple of 16; NULL: as elsewhere */
	int looks, looked;     /* at masks, by fused launches; of these, spared */
	int verdicts;	       /* comparisons asked for */
	uint64_t waited_ns;    /* that the latest might have been waited for */
	int site;	       /* of the latest comparison */
	struct attn_args args; /* of the latest comparison or fused launch */
	int guesses;	       /* candidates of the latest chain that had any */
	struct attn_spec guess[GUESSES];

	/* No product of its can be run by us. */
	const struct library *no_handle;
};

extern struct below below;

void below_reset(void);

void below_note(struct act act);

/* No kernel is loaded any more. */
void below_unload(void);

/* A kernel under its mangled name with parameters of these sizes at their natural offsets. Handles
 * and names last as long as the program. NULL: too many. */
CUfunction below_function(const char *name, unsigned params, const size_t *offset,
			  const size_t *size);

/* The parameters of a handle; false when it is none of ours. */
bool below_layout(CUfunction handle, unsigned *params, const size_t **offset, const size_t **size);

#endif
