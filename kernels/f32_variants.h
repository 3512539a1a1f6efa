/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of f32.cu and f32_sm90.cu, once for the kernels themselves and once for
 * select.c's table.
 *
 *   width  largest D and Dv; in f32_sm90.cu both are just this
 *   keys   keys per tile
 *   warps  of 16 query rows each
 *
 *   groups    warpgroups that compute, of 64 query rows each; one more copies and splits
 *   per_sm    blocks per multiprocessor to leave registers for
 *   plain     1: no bias, mask or softcap, a positive scale, -inf outside the window
 *   ahead     1: K and V are read one tile ahead, which takes registers
 *   few, many registers per thread of the group that copies, and of those that compute; with
 *             (groups, per_sm) these add up to what a block has
 */
#ifndef FASHIM_F32_VARIANTS_H
#define FASHIM_F32_VARIANTS_H

/*        width keys warps per_sm */
#define F32_VARIANTS(V)                                                                            \
	V(64, 32, 4, 3)                                                                            \
	V(128, 32, 4, 2)                                                                           \
	V(256, 16, 4, 1)

/* Bytes of dynamic shared memory: Q, K and V in rows padded by 16 bytes. */
#define F32_SHARED(width, keys, warps) ((16 * (warps) + 2 * (keys)) * ((width) + 4) * 4)

/*        name width keys groups per_sm plain ahead few many */
#define F32_SM90_VARIANTS(V)                                                                       \
	V(d64_plain, 64, 64, 3, 1, 1, 0, 80, 144)                                                  \
	V(d64, 64, 64, 2, 1, 0, 1, 104, 200)                                                       \
	V(d64_r64, 64, 64, 1, 2, 0, 1, 104, 152)                                                   \
	V(d128_plain, 128, 64, 2, 1, 1, 0, 104, 200)                                               \
	V(d128, 128, 64, 2, 1, 0, 0, 120, 192)

/* Bytes of dynamic shared memory: Q, twice K and V, each as two halves of 16 bits; the scales, by
 * row of Q and K and by tile of V; eight barriers, and room for three notes of four warps, twice.
 */
#define F32_SM90_SHARED(width, keys, groups)                                                       \
	((64 * (groups) + 4 * (keys)) * (width)*4 + (64 * (groups) + 2 * (keys) + 4 + 24) * 4 + 64)

#endif
