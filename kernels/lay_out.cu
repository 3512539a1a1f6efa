/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor in another order: what a fused kernel wrote where the program would have copied O to,
 * brought to O itself, for the rare reader. Reads are scattered, writes are not.
 */
#include "kernels/device.cuh"

template <typename T> static __device__ __forceinline__ void lay_out(const struct lay_out_args &args)
{
	const T *from = (const T *)args.from;
	T *to = (T *)args.to;

	for (int64_t n = (int64_t)blockIdx.x * LAY_OUT_THREADS + threadIdx.x; n < args.count;
	     n += (int64_t)gridDim.x * LAY_OUT_THREADS) {
		int64_t rest = n, at = 0;

		for (int d = 0; d < args.dims; d++) {
			at += rest % args.size[d] * args.stride[d];
			rest /= args.size[d];
		}
		to[n] = from[at];
	}
}

extern "C" __global__ void __launch_bounds__(LAY_OUT_THREADS)
	fashim_lay_out(const __grid_constant__ struct lay_out_args args)
{
	if (args.element == 16)
		lay_out<uint4>(args);
	else if (args.element == 4)
		lay_out<uint32_t>(args);
	else
		lay_out<uint16_t>(args);
}
SIM_KERNEL(fashim_lay_out)
