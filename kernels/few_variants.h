/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of few.cu, once for the kernels themselves and once for select.c's table.
 *
 *   width   largest D and Dv
 *   parts   blocks, of one cluster, that share the keys of a tile of rows
 */
#ifndef FASHIM_FEW_VARIANTS_H
#define FASHIM_FEW_VARIANTS_H

#define FEW_ROWS    16 /* queries, of one head or of several that share K and V */
#define FEW_THREADS 128

/* Keys that a warp, and that a block, reads at a time. */
#define FEW_TILE(width) ((width) > 64 ? 16 : 32)
#define FEW_KEYS(width) (FEW_TILE(width) * FEW_THREADS / 32)

/* Bytes of such a tile of K or V, how many of them a warp has under way, and in all. */
#define FEW_SLOT   4096
#define FEW_SLOTS  5
#define FEW_SHARED (FEW_THREADS / 32 * FEW_SLOTS * FEW_SLOT)

/*        width parts; parts rising within a width */
#define FEW_VARIANTS(V)                                                                            \
	V(64, 1)                                                                                   \
	V(64, 2)                                                                                   \
	V(64, 4)                                                                                   \
	V(64, 8)                                                                                   \
	V(128, 1)                                                                                  \
	V(128, 2)                                                                                  \
	V(128, 4)                                                                                  \
	V(128, 8)

#endif
