/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a tensor that lies in another one's columns, copied to the same places elsewhere: Q out of
 * QKV, say. cuMemcpy2DAsync takes 13.5 us for 8 MiB that the cache does not hold, in rows of 1 or
 * 2 KiB, where cuMemcpyAsync takes 8.1 for as many bytes in one piece (one H200). Here a thread has
 * 16 bytes, and four such in flight: in GPT-2-medium's forward 3.6 us a copy, where cuMemcpy2DAsync
 * took 7.
 */
#include "kernels/device.cuh"

#define DEPTH 4

extern "C" __global__ void __launch_bounds__(COPY_ROWS_THREADS)
	fashim_copy_rows(const __grid_constant__ struct copy_rows_args args)
{
	const uint4 *from = (const uint4 *)args.from;
	uint4 *to = (uint4 *)args.to;
	const uint32_t step = gridDim.x * COPY_ROWS_THREADS, width = (uint32_t)args.width;

	for (uint64_t n = blockIdx.x * COPY_ROWS_THREADS + threadIdx.x; n < args.count;
	     n += DEPTH * step) {
		uint4 x[DEPTH];
		uint64_t at[DEPTH];

#pragma unroll
		for (int k = 0; k < DEPTH; k++) {
			const uint32_t piece = (uint32_t)n + k * step; /* count is below 2^31 */
			at[k] = (uint64_t)(piece / width) * args.pitch + piece % width;
			if (n + k * step < args.count)
				x[k] = from[at[k]];
		}
#pragma unroll
		for (int k = 0; k < DEPTH; k++)
			if (n + k * step < args.count)
				to[at[k]] = x[k];
	}
}
SIM_KERNEL(fashim_copy_rows)

#undef DEPTH
