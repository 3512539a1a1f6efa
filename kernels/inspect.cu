/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at memory of the program's, or at copies of it, that decide what may be believed of a
 * kernel without a rule: whether addresses lie there, which it may follow, which bytes two launches
 * left alone, and whether a causal softmax that writes no more than it must leaves zeros above the
 * diagonal. Each goes through the memory once.
 */
#include "kernels/device.cuh"

/* The first words that may be addresses; all are counted. */
extern "C" __global__ void __launch_bounds__(INSPECT_THREADS)
	fashim_find_addresses(const __grid_constant__ struct addresses_args args)
{
	const uint64_t *words = (const uint64_t *)((args.base + 7) & ~(uint64_t)7);
	const uint64_t count = (args.base + args.bytes - (uint64_t)words) / 8;
	const uint64_t step = (uint64_t)gridDim.x * INSPECT_THREADS;
	struct addresses_result *result = (struct addresses_result *)args.result;

	for (uint64_t n = (uint64_t)blockIdx.x * INSPECT_THREADS + threadIdx.x; n < count;
	     n += step) {
		const uint64_t word = words[n];

		if (word < args.low || word >= args.high)
			continue;
		const unsigned at = atomicAdd((unsigned *)&result->count, 1u);
		if (at < ADDRESSES_FOUND)
			result->word[at] = word;
	}
}
SIM_KERNEL(fashim_find_addresses)

/* Bytes that hold one pattern behind one launch and another behind the next were not written. */
extern "C" __global__ void __launch_bounds__(INSPECT_THREADS)
	fashim_count_unwritten(const __grid_constant__ struct unwritten_args args)
{
	const unsigned char *first = (const unsigned char *)args.first;
	const unsigned char *second = (const unsigned char *)args.second;
	const uint64_t step = (uint64_t)gridDim.x * INSPECT_THREADS;
	unsigned long long mine = 0;

	for (uint64_t n = (uint64_t)blockIdx.x * INSPECT_THREADS + threadIdx.x; n < args.bytes;
	     n += step)
		mine += first[n] == args.first_pattern && second[n] == args.second_pattern;
	if (mine)
		atomicAdd((unsigned long long *)args.result, mine);
}
SIM_KERNEL(fashim_count_unwritten)

template <typename T> __device__ unsigned long long count_triangle(const struct triangle_args &args)
{
	const T *first = (const T *)args.first, *second = (const T *)args.second;
	const T old[2] = {(T)(0x01010101u * (unsigned)args.first_pattern),
			  (T)(0x01010101u * (unsigned)args.second_pattern)};
	const uint64_t rows = args.matrices * (uint64_t)args.rows;
	unsigned long long mine = 0;

	for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
		const int i = (int)(row % (uint64_t)args.rows);
		const uint64_t at = row * (uint64_t)args.rows;
		const int begin = second ? 0 : i + 1, end = second ? i + 1 : args.rows;

		for (int j = begin + (int)threadIdx.x; j < end; j += INSPECT_THREADS)
			mine += second ? first[at + j] == old[0] && second[at + j] == old[1]
				       : first[at + j] != 0;
	}
	return mine;
}

/* A block takes a row at a time: where rows are short most of it idles, and there is little to do.
 */
extern "C" __global__ void __launch_bounds__(INSPECT_THREADS)
	fashim_count_triangle(const __grid_constant__ struct triangle_args args)
{
	const unsigned long long mine = args.size == 2 ? count_triangle<uint16_t>(args)
						       : count_triangle<uint32_t>(args);

	if (mine)
		atomicAdd((unsigned long long *)args.result, mine);
}
SIM_KERNEL(fashim_count_triangle)
