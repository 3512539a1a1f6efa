/* SPDX-License-Identifier: Apache-2.0
 *
 * The meaning of a chain: its middle ops collapsed into one attn_spec, its GEMM operands into
 * [B,H,S,D] tensors. The result is all that a kernel needs.
 */
#ifndef FASHIM_SPEC_H
#define FASHIM_SPEC_H

#include "shim/chain/chain.h"
#include "shim/spec/identity.h"

/* Fills args for a closed chain. Inputs that were snapshotted are read from the snapshot. `given`:
 * what a chain with steps that no rule explains was found to be, else NULL; while it is NULL such
 * a chain still gets its operands, with a plain spec, and *by_data is set. Returns REASON_NONE, or
 * why the chain is not an attention that could be replaced; `detail` (96 bytes) then says more. */
enum reason spec_of_chain(struct attn_args *args, const struct chain *chain,
			  const struct identity *given, bool *by_data, char *detail);

/* The step whose bias is still to be made of what it lies in: spec_of_chain() described it with the
 * mask's address and strides, and its own type. NULL: there is none. */
const struct meaning *spec_complement(const struct chain *chain);

/* The lowest number of a type that is finite. */
static inline double spec_lowest(int dtype)
{
	return dtype == ATTN_F16    ? (double)ATTN_F16_LOWEST
	       : dtype == ATTN_BF16 ? -0x1.fep127
				    : -0x1.fffffep127;
}

/* Is the chain's only bias not to be below that? */
bool spec_floors(const struct chain *chain);

/* "none", "causal", "bias [B,1,Sq,Sk] f16" … */
void spec_describe_mask(const struct attn_args *args, char *text, size_t size);

#endif
