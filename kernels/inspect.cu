/* SPDX-License-Identifier: Apache-2.0
 *
 * Two looks at memory of the program's, or at copies of it, that decide what may be believed of a
 * kernel without a rule: whether addresses lie there, which it may follow, and which bytes two
 * launches left alone. Both go through the memory once, eight bytes a thread at a time.
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
