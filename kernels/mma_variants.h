/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of mma.cu, once for the kernels themselves and once for the table of
 * variants.
 *
 *   width      largest D and Dv, a multiple of 16
 *   rows       query rows per block: of rows / (16 * blocks) warps side by side
 *   kind       _any, or nothing: for plain calls only, of operands whose rows start on 16 bytes
 *   keys       keys per tile
 *   slice      keys that are worked on at a time, in sixteens
 *   blocks     blocks of 16 rows per warp
 *   groups     sets of such warps, each with its share of the key tiles
 *   kept       of the width, in sixteens, what of Q stays in registers
 *   per_sm     blocks per multiprocessor to leave registers for
 */
#ifndef FASHIM_MMA_VARIANTS_H
#define FASHIM_MMA_VARIANTS_H

/* Bytes of dynamic shared memory: Q, and two tiles of K and of V for each group, in rows padded by
 * 16 bytes. */
#define MMA_SHARED(rows, width, keys, groups) (((rows) + 4 * (keys) * (groups)) * ((width) + 8) * 2)

/*  width rows kind keys slice blocks groups kept per_sm */
#define MMA_VARIANTS(V)                                                                            \
	V(32, 128, , 64, 1, 2, 1, 2, 2)                                                            \
	V(32, 64, , 64, 1, 1, 1, 2, 4)                                                             \
	V(32, 64, _any, 64, 1, 1, 1, 0, 4)                                                         \
	V(48, 128, , 64, 1, 2, 1, 3, 2)                                                            \
	V(48, 64, , 64, 1, 1, 1, 3, 4)                                                             \
	V(48, 64, _any, 64, 1, 1, 1, 3, 3)                                                         \
	V(64, 128, , 64, 1, 2, 1, 4, 2)                                                            \
	V(64, 64, , 64, 1, 1, 1, 4, 3)                                                             \
	V(64, 64, _any, 64, 1, 1, 1, 4, 3)                                                         \
	V(64, 32, _any, 32, 2, 1, 4, 4, 1)                                                         \
	V(80, 128, , 32, 2, 2, 1, 0, 2)                                                            \
	V(96, 128, , 32, 2, 2, 1, 3, 2)                                                            \
	V(96, 64, _any, 64, 2, 1, 1, 6, 2)                                                         \
	V(128, 128, , 32, 1, 2, 1, 0, 2)                                                           \
	V(128, 64, _any, 64, 2, 1, 1, 8, 2)                                                        \
	V(128, 32, _any, 16, 1, 1, 4, 8, 1)                                                        \
	V(160, 64, , 32, 2, 1, 1, 10, 2)                                                           \
	V(160, 64, _any, 32, 1, 1, 1, 8, 2)                                                        \
	V(192, 128, , 64, 1, 1, 1, 8, 1)                                                           \
	V(192, 112, , 32, 1, 1, 1, 10, 1)                                                          \
	V(192, 64, , 32, 1, 1, 1, 12, 2)                                                           \
	V(256, 112, , 16, 1, 1, 1, 12, 1)                                                          \
	V(256, 64, , 16, 1, 1, 1, 16, 2)

/* Is it for plain calls? */
#define MMA_IS_PLAIN(kind) (sizeof(#kind) == 1)

#endif
