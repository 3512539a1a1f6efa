/* SPDX-License-Identifier: Apache-2.0
 *
 * A fused call on numbers of ours. Where the program's O is all zeros, or holds no numbers, as that
 * of a model whose weights were never loaded, a comparison says nothing of the kernel. So it is
 * given Q, K and V of random numbers in scratch, laid out as the program's, and what it makes of
 * them is held against the reference.
 *
 * All functions: flow lock held, the context current.
 */
#ifndef FASHIM_TRIAL_H
#define FASHIM_TRIAL_H

#include "kernels/attention.h"
#include "shim/chain/chain.h"

struct trial {
	struct attn_args args; /* the call, but for O */
	uint64_t block[3];     /* of scratch: Q, K, V */
	CUstream stream;
};

/* Makes the operands; this waits for what the stream was given. false: there is no room, or a
 * layout that is not known on the host; trial_end() all the same. */
bool trial_begin(struct trial *trial, const struct chain *chain, const struct attn_args *args);

/* What uses them is enqueued. */
void trial_end(struct trial *trial);

#endif
