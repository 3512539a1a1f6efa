/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of rounded.cu, once for the kernels themselves and once for select.c's table.
 *
 *   rows       query rows per block, = 16 * row_warps
 *   width      largest D and Dv
 *   keys       keys per tile
 *   row_warps  warps side by side over the rows
 *   per_sm     blocks per multiprocessor to leave registers for
 */
#ifndef FASHIM_ROUNDED_VARIANTS_H
#define FASHIM_ROUNDED_VARIANTS_H

/*        rows width keys row_warps per_sm */
#define ROUNDED_VARIANTS(V)                                                                        \
	V(64, 64, 64, 4, 3)                                                                        \
	V(64, 128, 64, 4, 2)                                                                       \
	V(64, 256, 32, 4, 2)

/* Bytes of dynamic shared memory: Q, K and V, in rows padded by 16 bytes. */
#define ROUNDED_SHARED(rows, width, keys) (((rows) + 2 * (keys)) * ((width) + 8) * 2)

#endif
