/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of rounded.cu, once for the kernels themselves and once for select.c's table.
 *
 *   rows    query rows per block: a warp for 16 of them, in each group
 *   kind    _split, for grids that are small: groups share the keys; _p4, _p8: blocks of a cluster,
 *           too; _short: x stays in registers,
 *           of 512 keys, _k256: of 256, _k128: of 128; _window: of one tile of keys. The fewer, the
 *           fewer groups, and the more blocks a multiprocessor has at a time
 *   width   largest D and Dv
 *   keys    keys per tile
 *   groups  sets of warps, each with its share of the key tiles
 *   stages  tiles of K or V that a group has in shared memory
 *   kept    tiles of x that a group keeps for the second walk; 0: none, -1: in shared memory,
 *           where they fit
 *   held    Q stays in registers
 *   parts   blocks, of one cluster, that share the keys of a tile of rows
 *   any     1: with lengths, sinks, softcaps, biases after the mask or for several keys, which take
 *           registers
 *   per_sm  blocks per multiprocessor to leave registers for
 */
#ifndef FASHIM_ROUNDED_VARIANTS_H
#define FASHIM_ROUNDED_VARIANTS_H

/*        rows kind width keys groups stages kept held parts any per_sm; within a width, rows
 * rising, of the same rows parts rising */
#define ROUNDED_VARIANTS(V)                                                                        \
	V(16, , 64, 32, 4, 4, -1, 1, 1, 1, 2)                                                      \
	V(16, _p4, 64, 32, 4, 4, -1, 1, 4, 1, 2)                                                   \
	V(64, _window, 64, 64, 1, 3, 1, 0, 1, 1, 4)                                                \
	V(64, _k128, 64, 64, 1, 3, 2, 0, 1, 1, 3)                                                  \
	V(64, _k256, 64, 64, 2, 2, 2, 0, 1, 1, 2)                                                  \
	V(64, _short, 64, 64, 4, 2, 2, 0, 1, 1, 1)                                                 \
	V(64, _split, 64, 64, 2, 4, 0, 1, 1, 1, 1)                                                 \
	V(64, _p8, 64, 64, 2, 4, 0, 1, 8, 1, 1)                                                    \
	V(128, , 64, 64, 1, 4, 0, 0, 1, 0, 2)                                                      \
	V(16, , 128, 16, 4, 4, -1, 1, 1, 1, 2)                                                     \
	V(16, _p4, 128, 16, 4, 4, -1, 1, 4, 1, 2)                                                  \
	V(64, _short, 128, 64, 2, 2, 4, 0, 1, 1, 1)                                                \
	V(64, _split, 128, 64, 2, 2, 0, 1, 1, 1, 1)                                                \
	V(64, _p8, 128, 64, 2, 3, 0, 1, 8, 1, 1)                                                   \
	V(128, , 128, 64, 1, 4, 0, 1, 1, 1, 1)                                                     \
	V(16, , 256, 16, 4, 2, -1, 0, 1, 1, 2)                                                     \
	V(64, , 256, 32, 1, 4, 0, 0, 1, 1, 1)

/* Room for x in shared memory, in floats. */
#define ROUNDED_X(kept) ((kept) < 0 ? 6656 : 0)

/* Bytes of dynamic shared memory: Q, the tiles of K and V, the groups' maxima and sums, rows'
 * spans, what all threads have in common, x. */
#define ROUNDED_COMMON				   128
#define ROUNDED_TILES(width, keys, groups, stages) ((groups) * (stages) * (keys) * (width)*2)
#define ROUNDED_SHARED(rows, width, keys, groups, stages, kept, parts)                             \
	((rows) * (width)*2 + ROUNDED_TILES(width, keys, groups, stages) +                         \
	 (parts) * (groups) * (rows)*8 + (rows)*8 + ROUNDED_COMMON + ROUNDED_X(kept) * 4)

/* The most keys that a variant which keeps x in registers has room for. */
#define ROUNDED_SHORT_KEYS 512

/* Rows of the variants for few queries. */
#define ROUNDED_FEW_ROWS 16

#endif
