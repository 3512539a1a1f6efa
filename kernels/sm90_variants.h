/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of sm90.cu, once for the kernels themselves and once for select.c's table.
 *
 *   width   D and Dv
 *   keys    keys per tile
 *   groups  warpgroups, of 64 query rows each
 *   per_sm  blocks per multiprocessor to leave registers for
 *   down    1: K is stored [D,S]; 0: its columns have stride 1
 *   any     1: with lengths, sinks, biases after the mask, which take registers
 */
#ifndef FASHIM_SM90_VARIANTS_H
#define FASHIM_SM90_VARIANTS_H

/*        name width keys groups per_sm down any */
#define SM90_VARIANTS(V)                                                                           \
	V(d64, 64, 64, 2, 2, 0, 0)                                                                 \
	V(d64_down, 64, 64, 2, 2, 1, 0)                                                            \
	V(d64_any, 64, 64, 2, 1, 0, 1)                                                             \
	V(d128, 128, 64, 3, 1, 0, 0)                                                               \
	V(d128_down, 128, 64, 3, 1, 1, 0)                                                          \
	V(d128_any, 128, 64, 2, 1, 0, 1)

/* Bytes of dynamic shared memory: Q, twice K and V, and two addresses per thread. */
#define SM90_SHARED(width, keys, groups)                                                           \
	((64 * (groups) + 4 * (keys)) * (width)*2 + 128 * (groups)*16)

#endif
