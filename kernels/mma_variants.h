/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of mma.cu, once for the kernels themselves and once for the table of
 * variants.
 *
 *   name       of the variant, after the dtype
 *   rows       query rows per block, = 16 * blocks * row_warps
 *   width      largest D and Dv, a multiple of 16
 *   keys       keys per tile
 *   slice      keys that are worked on at a time, in sixteens
 *   blocks     blocks of 16 rows per warp
 *   row_warps  warps side by side over the rows
 *   groups     sets of such warps, each with its share of the key tiles
 *   kept       of the width, in sixteens, what of Q stays in registers
 *   per_sm     blocks per multiprocessor to leave registers for
 *   simple     1: for plain calls only, of operands whose rows start on 16 bytes
 */
#ifndef FASHIM_MMA_VARIANTS_H
#define FASHIM_MMA_VARIANTS_H

/* Bytes of dynamic shared memory: Q, and two tiles of K and of V for each group, in rows padded by
 * 16 bytes. */
#define MMA_SHARED(rows, width, keys, groups) (((rows) + 4 * (keys) * (groups)) * ((width) + 8) * 2)

/*      name          rows width keys slice blocks row_warps groups kept per_sm simple */
#define MMA_VARIANTS(V)                                                                            \
	V(d32_r128, 128, 32, 64, 1, 2, 4, 1, 2, 2, 1)                                              \
	V(d48_r128, 128, 48, 64, 1, 2, 4, 1, 3, 2, 1)                                              \
	V(d64_r128, 128, 64, 64, 1, 2, 4, 1, 4, 2, 1)                                              \
	V(d64_r64, 64, 64, 64, 1, 1, 4, 1, 4, 3, 1)                                                \
	V(d64_r128_any, 128, 64, 32, 2, 2, 4, 1, 4, 2, 0)                                          \
	V(d64_r64_any, 64, 64, 64, 1, 1, 4, 1, 4, 3, 0)                                            \
	V(d64_r32_any, 32, 64, 32, 2, 1, 2, 4, 4, 1, 0)                                            \
	V(d80_r128, 128, 80, 64, 1, 2, 4, 1, 0, 2, 1)                                              \
	V(d96_r128, 128, 96, 32, 1, 2, 4, 1, 3, 2, 1)                                              \
	V(d128_r128, 128, 128, 32, 1, 2, 4, 1, 2, 2, 1)                                            \
	V(d128_r128_any, 128, 128, 32, 2, 1, 8, 1, 8, 1, 0)                                        \
	V(d128_r64_any, 64, 128, 64, 2, 1, 4, 1, 8, 2, 0)                                          \
	V(d128_r32_any, 32, 128, 16, 1, 1, 2, 4, 8, 1, 0)                                          \
	V(d160_r64, 64, 160, 32, 1, 1, 4, 1, 10, 2, 1)

#endif
