/* SPDX-License-Identifier: Apache-2.0
 *
 * complement.cu: out[n] = (1 - in[n]) * weight, each step of it rounded to the output's type; of
 * flags, numbers of any type, weight where they hide and else 0; or in[n], raised to weight. With
 * `keys`, flags of [B,H,Sq,Sk] by strides, 0 where they are shared, and out is [.,heads,rows,keys]
 * without holes, weight also where j < i + first or j > i + last. With `also`, out are flags in
 * rows of `keys`, of which the first `width` count, 1 where either hides.
 *   kernel `fashim_complement(struct complement_args)`, any grid.x, block.x = COMPLEMENT_THREADS.
 */
#ifndef FASHIM_COMPLEMENT_H
#define FASHIM_COMPLEMENT_H

#include <stdint.h>

#define COMPLEMENT_THREADS 256

enum complement_flags { COMPLEMENT_NUMBERS, COMPLEMENT_KEEPS, COMPLEMENT_HIDES, COMPLEMENT_FLOORS };

struct complement_args {
	uint64_t in, out; /* out 0: there is nothing to do */
	int64_t count;
	int32_t in_dtype, out_dtype; /* enum attn_dtype: F16, BF16, F32; flags may also be of
					ATTN_BOOL, ATTN_ONE, ATTN_I8, ATTN_I32, or ATTN_F64: eight
					bytes' integers */
	float weight;
	int32_t flags;		   /* enum complement_flags */
	int32_t heads, rows, keys; /* keys 0: in's elements are in the order of out's */
	int64_t stride[4];	   /* of in, elements */
	int64_t first, last;
	uint64_t also; /* a second mask, ATTN_BOOL; 0: none, which all that follows is for */
	int64_t also_stride[4];
	int32_t also_keeps, width;
};

#endif
