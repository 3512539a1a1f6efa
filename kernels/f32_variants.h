/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of f32.cu and f32_sm90.cu, once for the kernels themselves and once for
 * select.c's table.
 *
 *   width  largest D and Dv
 *   keys   keys per tile
 *   warps  of 16 query rows each
 *
 *   groups    warpgroups that compute, of 64 query rows each; one more copies and splits
 *   stages    tiles of K and of V in shared memory, split
 *   raws      0: rows are on 16 bytes and read straight into registers; 1, 2: any layout, read by
 *             way of so many tiles in shared memory
 *   parts     blocks, of a cluster, that share the keys
 *   per_sm    blocks per multiprocessor to leave registers for
 *   kind      F32_USUAL, or F32_PLAIN: no bias, mask or softcap, a positive scale, -inf outside the
 *             window, or F32_IMAGE: biases of which a number stands for several keys
 *   ahead     1: K and V are read one tile ahead, which takes registers
 *   few, many registers per thread of the group that copies, and of those that compute; with
 *             (groups, per_sm) these add up to what a block has
 *
 *   start, tile  what a block takes when per_sm of them share a multiprocessor of Hopper, in ns:
 *             to begin and end, and for each tile of keys; fitted to the times of f32_check. By
 *             them the fastest variant was chosen in 26 of its 27 calls, and one within 5 %; those
 *             of any_d256_p4 to the three calls that f32_sm90.cu has. Those of _image are guessed
 */
#ifndef FASHIM_F32_VARIANTS_H
#define FASHIM_F32_VARIANTS_H

/*        width keys warps per_sm start tile */
#define F32_VARIANTS(V)                                                                            \
	V(64, 32, 4, 3, 3900, 5230)                                                                \
	V(128, 32, 4, 2, 3000, 8000)                                                               \
	V(256, 16, 4, 1, 2200, 3900)

/* Bytes of dynamic shared memory: Q, K and V in rows padded by 16 bytes. */
#define F32_SHARED(width, keys, warps) ((16 * (warps) + 2 * (keys)) * ((width) + 4) * 4)

#define F32_USUAL 0
#define F32_PLAIN 1
#define F32_IMAGE 2

/*        name width keys groups stages raws parts per_sm kind ahead few many start tile */
#define F32_SM90_VARIANTS(V)                                                                       \
	V(d32_r64, 32, 64, 1, 1, 0, 1, 3, F32_USUAL, 0, 48, 112, 6000, 2700)                       \
	V(d32, 32, 64, 3, 2, 0, 1, 1, F32_USUAL, 1, 104, 136, 4100, 1900)                          \
	V(d64_plain, 64, 64, 3, 2, 0, 1, 1, F32_PLAIN, 0, 80, 144, 4200, 2310)                     \
	V(d64, 64, 64, 2, 2, 0, 1, 1, F32_USUAL, 1, 104, 200, 4400, 1970)                          \
	V(d64_r64, 64, 64, 1, 2, 0, 1, 2, F32_USUAL, 1, 104, 152, 5000, 1890)                      \
	V(d128_plain, 128, 64, 2, 2, 0, 1, 1, F32_PLAIN, 0, 104, 200, 5300, 3530)                  \
	V(d128, 128, 64, 2, 2, 0, 1, 1, F32_USUAL, 0, 120, 192, 6200, 3380)                        \
	V(any_d32_r64, 32, 64, 1, 1, 2, 1, 2, F32_USUAL, 0, 104, 152, 5300, 2000)                  \
	V(any_d64_plain, 64, 64, 3, 2, 2, 1, 1, F32_PLAIN, 0, 96, 136, 4700, 2710)                 \
	V(any_d64, 64, 64, 2, 2, 2, 1, 1, F32_USUAL, 0, 104, 200, 4900, 2320)                      \
	V(any_d64_r64, 64, 64, 1, 1, 2, 1, 2, F32_USUAL, 0, 104, 152, 5400, 2490)                  \
	V(any_d64_image, 64, 64, 2, 2, 2, 1, 1, F32_IMAGE, 0, 104, 200, 4900, 3500)                \
	V(any_d128_image, 128, 64, 2, 2, 1, 1, 1, F32_IMAGE, 0, 120, 192, 6600, 5500)              \
	V(any_d128, 128, 64, 2, 2, 1, 1, 1, F32_USUAL, 0, 120, 192, 6600, 4450)                    \
	V(any_d64_p4, 64, 64, 1, 1, 2, 4, 2, F32_USUAL, 0, 104, 152, 7200, 2450)                   \
	V(any_d64_p8, 64, 64, 1, 1, 2, 8, 2, F32_USUAL, 0, 104, 152, 8100, 2740)                   \
	V(any_d128_p4, 128, 64, 1, 2, 1, 4, 1, F32_USUAL, 0, 216, 240, 8400, 3430)                 \
	V(any_d256, 256, 32, 1, 2, 1, 1, 1, F32_USUAL, 0, 248, 256, 10400, 3880)                   \
	V(any_d256_p4, 256, 32, 1, 2, 1, 4, 1, F32_USUAL, 0, 248, 256, 15000, 3880)

/* Bytes of dynamic shared memory: Q, and K and V of each stage, as two halves of 16 bits in slabs
 * of 64 columns; what is staged; the scales, by row of Q and K and by tile of V; eight barriers,
 * and room for three notes of four warps, twice. */
#define F32_SM90_SHARED(width, keys, groups, stages, raws)                                         \
	((64 * (groups) + 2 * (stages) * (keys)) * (((width) + 63) / 64 * 64) * 4 +                \
	 (raws) * (keys) * ((width) + 4) * 4 + (64 * (groups) + 2 * (keys) + 4 + 24) * 4 + 64)

#endif
