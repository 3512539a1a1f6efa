/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of tma.cu, once for the kernels themselves and once for select.c's table.
 *
 *   width   largest D and Dv
 *   groups  warpgroups that compute, of 64 query rows each
 *   keys    keys per tile
 *   q_stages, stages  tiles of Q, and of K and of V, in shared memory
 *   kind    TMA_PLAIN, TMA_BIAS, TMA_MASK or TMA_TWO
 *   down    1: K is stored [D,S]; 0: its columns have stride 1
 */
#ifndef FASHIM_TMA_VARIANTS_H
#define FASHIM_TMA_VARIANTS_H

#define TMA_PLAIN 0 /* no bias, mask or softcap, a positive scale, -inf outside the window */
#define TMA_BIAS  1 /* one 16-bit bias on top */
#define TMA_MASK  2 /* or one boolean mask */
#define TMA_TWO	  3 /* or two 16-bit biases */

#define TMA_SLABS(width)    (((width) + 63) / 64)
#define TMA_THREADS(groups) (128 * ((groups) + 1))

/*        name width groups keys q_stages stages kind down */
#define TMA_VARIANTS(V)                                                                            \
	V(d64_r192, 64, 3, 128, 2, 2, TMA_PLAIN, 0)                                                \
	V(d64_r128, 64, 2, 128, 2, 2, TMA_PLAIN, 0)                                                \
	V(d64_down, 64, 2, 128, 2, 2, TMA_PLAIN, 1)                                                \
	V(d64_r192_bias, 64, 3, 128, 2, 2, TMA_BIAS, 0)                                            \
	V(d64_bias, 64, 2, 128, 2, 2, TMA_BIAS, 0)                                                 \
	V(d64_down_bias, 64, 2, 128, 2, 2, TMA_BIAS, 1)                                            \
	V(d64_two, 64, 2, 128, 2, 2, TMA_TWO, 0)                                                   \
	V(d64_down_two, 64, 2, 128, 2, 2, TMA_TWO, 1)                                              \
	V(d64_mask, 64, 2, 128, 2, 2, TMA_MASK, 0)                                                 \
	V(d64_down_mask, 64, 2, 128, 2, 2, TMA_MASK, 1)                                            \
	V(d96, 96, 2, 128, 2, 2, TMA_PLAIN, 0)                                                     \
	V(d96_bias, 96, 2, 128, 1, 2, TMA_BIAS, 0)                                                 \
	V(d96_two, 96, 2, 128, 1, 2, TMA_TWO, 0)                                                   \
	V(d96_down_two, 96, 2, 128, 1, 2, TMA_TWO, 1)                                              \
	V(d128, 128, 2, 128, 2, 2, TMA_PLAIN, 0)                                                   \
	V(d128_down, 128, 2, 128, 2, 2, TMA_PLAIN, 1)                                              \
	V(d128_bias, 128, 2, 128, 1, 2, TMA_BIAS, 0)                                               \
	V(d128_down_bias, 128, 2, 128, 1, 2, TMA_BIAS, 1)                                          \
	V(d128_two, 128, 2, 128, 1, 2, TMA_TWO, 0)                                                 \
	V(d128_down_two, 128, 2, 128, 1, 2, TMA_TWO, 1)                                            \
	V(d128_mask, 128, 2, 128, 1, 2, TMA_MASK, 0)                                               \
	V(d192, 192, 2, 112, 1, 2, TMA_PLAIN, 0)                                                   \
	V(d192_bias, 192, 2, 64, 1, 2, TMA_BIAS, 0)                                                \
	V(d256, 256, 2, 80, 1, 2, TMA_PLAIN, 0)                                                    \
	V(d256_bias, 256, 2, 64, 1, 2, TMA_BIAS, 0)

/* Where a column of ones beside V sums the weights: the matrix instruction has room for it, and is
 * not what such a width waits for. */
#define TMA_ONES(width) ((width) <= 64)
#define TMA_ONES_BYTES	2048

#define TMA_BIAS_BYTES(groups, keys, kind)                                                         \
	((kind) == TMA_PLAIN  ? 0                                                                  \
	 : (kind) == TMA_MASK ? 64 * (groups) * (keys)                                             \
			      : 64 * (groups) * (keys)*2)

/* Bytes of dynamic shared memory: Q, the stages of K, V and the bias, and barriers. */
#define TMA_SHARED(width, groups, keys, q_stages, stages, kind)                                    \
	(TMA_SLABS(width) * 128 * (64 * (groups) * (q_stages) + 2 * (keys) * (stages)) +           \
	 TMA_BIAS_BYTES(groups, keys, kind) * TMA_BIAS_STAGES + TMA_ONES(width) * TMA_ONES_BYTES + \
	 256)
#define TMA_BIAS_STAGES 2

#endif
