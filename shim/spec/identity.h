/* SPDX-License-Identifier: Apache-2.0
 *
 * What a chain of kernels without a rule was found to compute, and what that means for another
 * occurrence: which memory its inputs are in this time, how many keys there are.
 */
#ifndef FASHIM_IDENTITY_H
#define FASHIM_IDENTITY_H

#include "shim/chain/chain.h"

/* In its tensors `base` is not an address but says which of the pointers that the kernels read,
 * from 1; strides are those of the number of keys it was found with. */
struct identity {
	struct attn_spec spec;
	int64_t heads;	/* 0: as the products have them */
	int pointers;	/* as many of them are accounted for */
	bool blank;	/* not found: nothing but zeros lies where one of them leads */
	bool overflows; /* scores that are infinite do as attention.h's formula says */
	/* Which of spec.bias, from 1, is no bias but slopes [B,H,1,1], to be multiplied by the
	 * number of the key (slopes.h); 0: none. Its base 0: attn_slope_exponent() of these. */
	int slopes;
	int32_t slope_first;
	float slope_most;
	/* Which of spec.bias, from 1, is no bias but flags of `flags_type` (complement.h): where
	 * they hide, flags_weight is added, or so many times what numbers lack to one; 0: none.
	 * `beyond`: so it is to keys that the spec's window leaves out, but for that number. */
	int flags;
	bool beyond;
	int32_t flags_type;
	enum complement_flags flags_say;
	float flags_weight;
	int64_t only_keys; /* it tells of this number of keys alone; 0: of any */
};

/* The tensors of a spec that may stand for such pointers; NULL behind the last. */
static inline struct attn_tensor *identity_tensor(struct attn_spec *spec, int n)
{
	return n < ATTN_MAX_BIAS	? &spec->bias[n]
	       : n == ATTN_MAX_BIAS	? &spec->lengths
	       : n == ATTN_MAX_BIAS + 1 ? &spec->mask
					: NULL;
}

/* Completes args, whose operands are set, for this occurrence. `identity` NULL: nothing is known
 * yet. Slopes are told of as the bias that they will be, but for its memory: that is not theirs
 * yet. REASON_NONE, or what stands against it and `detail` (96 bytes). */
enum reason identity_apply(struct attn_args *args, const struct chain *chain,
			   const struct identity *identity, char *detail);

/* The window_shift of its spec, for a call as in args. */
int32_t identity_shift(const struct identity *identity, const struct attn_args *args);

/* Bytes of the n-th pointer's memory (from 1) that a call as in args reads; *keys: of how many keys
 * they speak, 0: of none. 0: not identified. */
uint64_t identity_extent(const struct identity *identity, const struct attn_args *args,
			 const struct chain *chain, int n, int64_t *keys);

/* How many pointers to memory of the program's own the chain's unknown kernels read; where the last
 * one's can be read now, 0: there is none; and how many bytes from there. */
uint64_t identity_pointer(const struct chain *chain, int *count, uint64_t *room);

/* Which of attn_spec.bias a bias takes that is found by data: the first may be what GEMM1 added to.
 */
static inline int identity_bias_place(const struct chain *chain)
{
	return chain->preload >= 0;
}

#endif
