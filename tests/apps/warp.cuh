/* SPDX-License-Identifier: Apache-2.0
 *
 * One number of 32 threads, for all of them.
 */
#ifndef FASHIM_APP_WARP_CUH
#define FASHIM_APP_WARP_CUH

static __device__ float most_of_warp(float x)
{
	for (int lanes = 16; lanes; lanes /= 2)
		x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
	return x;
}

static __device__ float sum_of_warp(float x)
{
	for (int lanes = 16; lanes; lanes /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, lanes);
	return x;
}

#endif
