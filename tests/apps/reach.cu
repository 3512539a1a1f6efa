/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that reach more than their parameters lead to: none of them may be launched twice.
 */
#include "tests/simgpu/cuda_host.h"

__device__ unsigned reach_calls;

/* Counts its calls in a variable of the module. */
extern "C" __global__ void reach_global(float *out, const float *in, int count)
{
	const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i == 0)
		reach_calls++;
	if (i < count)
		out[i] = in[i] * (float)(1 + reach_calls % 2);
}
SIM_KERNEL(reach_global)
SIM_DEED(GLOBALS, reach_global)

/* A sum that every block adds to. */
extern "C" __global__ void reach_atomic(float *sum, const float *in, int count)
{
	const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < count)
		atomicAdd(sum, in[i]);
}
SIM_KERNEL(reach_atomic)
SIM_DEED(ATOMICS, reach_atomic)

/* Where it reads from comes in two numbers, the upper half behind the lower one … */
extern "C" __global__ void reach_copy_halves(__half *to, unsigned low, unsigned high, int count)
{
	const __half *from = (const __half *)((unsigned long long)high << 32 | low);
	const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < count)
		to[i] = from[i];
}
SIM_KERNEL(reach_copy_halves)

struct __attribute__((packed)) reach_packed {
	char tag;
	const __half *from;
};

/* … or behind a single byte. */
extern "C" __global__ void reach_copy_packed(__half *to, struct reach_packed packed, int count)
{
	const __half *from = packed.from;
	const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < count)
		to[i] = from[i];
}
SIM_KERNEL(reach_copy_packed)

/* … or in a struct of 24 bytes, of which no address begins at a fourth. */
struct __attribute__((packed)) reach_even {
	char tag;
	short mode;
	float gain;
	const __half *from;
	char flag;
	__half *to;
};

extern "C" __global__ void reach_copy_even(struct reach_even packed, int count)
{
	const __half *from = packed.from;
	__half *to = packed.to;
	const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < count)
		to[i] = from[i];
}
SIM_KERNEL(reach_copy_even)

/* Counts from one. */
extern "C" __global__ void reach_copy_from_one(__half *to, const __half *from, int count)
{
	const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x) + 1;

	if (i <= count)
		to[i] = from[i];
}
SIM_KERNEL(reach_copy_from_one)

/* Is given where it ends. */
extern "C" __global__ void reach_copy_back(__half *to, const __half *end, int count)
{
	const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < count)
		to[i] = end[i - count];
}
SIM_KERNEL(reach_copy_back)

__device__ __half *reach_from, *reach_to;

/* Keeps two addresses in variables of the module … */
extern "C" __global__ void reach_keep(__half *to, __half *from)
{
	reach_from = from;
	reach_to = to;
}
SIM_KERNEL(reach_keep)
SIM_DEED(GLOBALS, reach_keep)

/* … where this one finds them, and nowhere else. */
extern "C" __global__ void reach_copy_kept(int count)
{
	const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < count)
		reach_to[i] = reach_from[i];
}
SIM_KERNEL(reach_copy_kept)
SIM_DEED(GLOBALS, reach_copy_kept)

/* … or one of them, while it is told the other. */
extern "C" __global__ void reach_copy_kept_to(__half *to, int count)
{
	const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < count)
		to[i] = reach_from[i];
}
SIM_KERNEL(reach_copy_kept_to)
SIM_DEED(GLOBALS, reach_copy_kept_to)
