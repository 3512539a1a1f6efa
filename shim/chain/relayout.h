/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch that only lays a tensor out anew: `out`, without holes, gets the elements of `in` in
 * another order, each once or, where `in` is broadcast, more often. Frameworks make such copies of
 * Q, K and V because a batched product wants one stride from matrix to matrix, and of a bias
 * because it wants a number for each score to add to; a fused kernel does not need them. Numbers of
 * 16 bits may become the same ones of 32 bits on the way: a cast.
 *
 * Nothing here calls the driver.
 */
#ifndef FASHIM_RELAYOUT_H
#define FASHIM_RELAYOUT_H

#include "kernels/attention.h"
#include "shim/base/range.h"
#include "shim/chain/step.h"

enum relayout_operand {
	RELAYOUT_Q,
	RELAYOUT_K,
	RELAYOUT_V,
	RELAYOUT_BIAS,	   /* what the first product adds to: bias[0] */
	RELAYOUT_OPERANDS, /* that are read */
	RELAYOUT_O = RELAYOUT_OPERANDS,
	RELAYOUT_TENSORS
};

struct relayout {
	struct step step; /* the launch: refs[0] is what it writes, refs[1] what it reads */
	uint64_t out_begin, out_end, in_begin, in_end;
	uint64_t key; /* equal for launches of the same kernel with the same sizes and strides */
	int dtype, source; /* of out, of in */
	int dims;
	struct {
		int64_t size, to, from; /* strides in elements: of out, ascending, and of in */
	} dim[VIEW_DIMS];
};

/* Is the launch such a copy, of 16- or 32-bit numbers, or such a cast? */
bool relayout_read(struct relayout *r, const struct sight *sight);

/* As an assignment, without room for parameters that the kernel does not have. */
void relayout_copy(struct relayout *to, const struct relayout *from);

/* Elements of `from`, at these strides, one behind another from `out` on, the first dimension the
 * fastest, of from's type. Only described: its step cannot be launched. */
void relayout_gather(struct relayout *copy, const struct attn_tensor *from, uint64_t out, int dims,
		     const int64_t *size, const int64_t *stride);

/* Does it make other numbers than it reads? */
bool relayout_casts(const struct relayout *r);

/* A copy, or cast, of what a cast made, which kept the order of the elements: as one cast. Only
 * described, as below. false: it reads something else. */
bool relayout_join(struct relayout *joined, const struct relayout *cast,
		   const struct relayout *copy);

/* The copy that would undo another: it reads what that wrote. false: there is none, since elements
 * were left out or written more than once, or cast. It is only described: its step cannot be
 * launched. */
bool relayout_invert(struct relayout *inverse, const struct relayout *copy);

/* Makes a call read, instead of copies, what these were made of: operand n begins where the out of
 * from[n] does, whose in now lies at in[n]; from[n] NULL: as it is. O is written there: from[] has
 * the inverse of the copy that the program makes of it. Where a copy gathers heads from two places
 * (a batch of heads, or K and V that groups of heads share), all operands are seen with B and H
 * split anew. false: strides cannot say it; *args is unchanged. */
bool relayout_apply(struct attn_args *args, const struct relayout *const from[RELAYOUT_TENSORS],
		    const uint64_t in[RELAYOUT_TENSORS]);

#endif
