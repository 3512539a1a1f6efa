/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of decode.cu and rounded_decode.cu, once for the kernels themselves and once
 * for select.c's table.
 *
 *   width  largest D and Dv
 *   parts  blocks, of one cluster, that share the keys of a query
 */
#ifndef FASHIM_DECODE_VARIANTS_H
#define FASHIM_DECODE_VARIANTS_H

#define DECODE_THREADS 256
#define DECODE_PIECES  8 /* of 16 bytes, of K and of V, that a thread holds at a time */

/* Bytes of what a warp holds so of K, or of V; the shared memory that both come through. */
#define DECODE_SLOT   (32 * DECODE_PIECES * 16)
#define DECODE_SHARED (DECODE_THREADS / 32 * 2 * DECODE_SLOT)

/* Keys that a block reads at a time, of elements of `size` bytes. */
#define DECODE_KEYS(width, size) (DECODE_PIECES * 16 / (int)(size)*DECODE_THREADS / (width))

/*        width parts; parts rising within a width */
#define DECODE_VARIANTS(V)                                                                         \
	V(64, 1)                                                                                   \
	V(64, 4)                                                                                   \
	V(64, 8)                                                                                   \
	V(128, 1)                                                                                  \
	V(128, 4)                                                                                  \
	V(128, 8)                                                                                  \
	V(256, 1)                                                                                  \
	V(256, 4)                                                                                  \
	V(256, 8)

/* Those of rounded_decode.cu, and how many keys it has room for: x of each takes 4 bytes. */
#define ROUNDED_DECODE_VARIANTS(V)                                                                 \
	V(64, 1)                                                                                   \
	V(64, 4)                                                                                   \
	V(128, 1)                                                                                  \
	V(128, 4)                                                                                  \
	V(256, 1)                                                                                  \
	V(256, 4)

#define ROUNDED_DECODE_KEYS   8192
#define ROUNDED_DECODE_SHARED (DECODE_SHARED + 4 * ROUNDED_DECODE_KEYS)

#endif
