/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of wmma.cu, once for the kernels themselves and once for select.c's table.
 *
 *   rows       query rows per block, = 16 * blocks * row_warps
 *   width      largest D and Dv
 *   keys       keys per tile
 *   blocks     blocks of 16 rows per warp
 *   row_warps  warps side by side over the rows
 *   groups     sets of such warps, each with its share of the key tiles
 *   per_sm     blocks per multiprocessor to leave registers for
 *   any        1: with lengths, sinks, biases after the mask, for which registers must do
 */
#ifndef FASHIM_WMMA_VARIANTS_H
#define FASHIM_WMMA_VARIANTS_H

/* The widths of mma.cu, which is chosen wherever it is: for sm_75, which knows f16 alone.
 *        rows width keys blocks row_warps groups per_sm any */
#define WMMA_NARROW_VARIANTS(V)                                                                    \
	V(128, 64, 64, 2, 4, 1, 2, 1)                                                              \
	V(64, 64, 64, 1, 4, 1, 3, 1)                                                               \
	V(128, 128, 32, 2, 4, 1, 2, 1)                                                             \
	V(64, 128, 64, 1, 4, 1, 2, 1)

#define WMMA_VARIANTS(V)                                                                           \
	V(64, 256, 32, 1, 4, 1, 2, 1)                                                              \
	V(32, 256, 32, 1, 2, 1, 3, 1)

/* Bytes of dynamic shared memory: Q, and K and V for each group, in rows padded by 16 bytes. */
#define WMMA_SHARED(rows, width, keys, groups)                                                     \
	(((rows) + 2 * (keys) * (groups)) * ((width) + 8) * 2)

#endif
