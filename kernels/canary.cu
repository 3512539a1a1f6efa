/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks on memory that was never written because its contents were not needed, and the copy that
 * brings the contents back where the mark still stands.
 *
 * A granule whose first bytes no longer hold the mark was overwritten by somebody else since, and
 * is left alone. Granules are counted from `base`; the last may be short, even shorter than a mark.
 */
#include "kernels/device.cuh"

/* byte n of the mark */
static __device__ __forceinline__ unsigned char mark(uint64_t n)
{
	return (unsigned char)(CANARY_WORD >> n % 4 * 8);
}

extern "C" __global__ void __launch_bounds__(CANARY_THREADS)
	fashim_canary_set(const __grid_constant__ struct canary_args args)
{
	const uint64_t step = (uint64_t)gridDim.x * CANARY_THREADS;

	for (uint64_t n = (uint64_t)blockIdx.x * CANARY_THREADS + threadIdx.x;; n += step) {
		const uint64_t at = n * CANARY_GRANULE;
		if (at >= args.bytes)
			break;
		unsigned char *p = (unsigned char *)args.base + at;
		if ((uint64_t)p % 16 == 0 && args.bytes - at >= CANARY_BYTES) {
			*(uint4 *)p =
				make_uint4(CANARY_WORD, CANARY_WORD, CANARY_WORD, CANARY_WORD);
			continue;
		}
		for (uint64_t k = 0; k < CANARY_BYTES && at + k < args.bytes; k++)
			p[k] = mark(k);
	}
}
SIM_KERNEL(fashim_canary_set)

/* One warp per granule. */
extern "C" __global__ void __launch_bounds__(CANARY_THREADS)
	fashim_canary_copy(const __grid_constant__ struct canary_args args)
{
	const int lane = threadIdx.x % 32;
	const uint64_t warps = (uint64_t)gridDim.x * (CANARY_THREADS / 32);
	const bool aligned = (args.base | args.source) % 16 == 0;

	for (uint64_t n = (uint64_t)blockIdx.x * (CANARY_THREADS / 32) + threadIdx.x / 32;;
	     n += warps) {
		const uint64_t at = n * CANARY_GRANULE;
		if (at >= args.bytes)
			break;
		const uint64_t bytes = min((uint64_t)CANARY_GRANULE, args.bytes - at);
		unsigned char *to = (unsigned char *)args.base + at;
		const unsigned char *from = (const unsigned char *)args.source + at;

		if (args.use_canary) {
			bool stands = true;
			if (lane < CANARY_BYTES && (uint64_t)lane < bytes)
				stands = to[lane] == mark(lane);
			if (!__all_sync(WARP_ALL, stands))
				continue;
		}
		if (aligned && bytes == CANARY_GRANULE)
			((uint4 *)to)[lane] = ((const uint4 *)from)[lane];
		else
			for (uint64_t k = lane; k < bytes; k += 32)
				to[k] = from[k];
	}
}
SIM_KERNEL(fashim_canary_copy)
