/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor in another order: what a fused kernel wrote where the program would have copied O to,
 * brought to O itself, for the rare reader; V that lies across, or of 16 bits beside a Q and a K of
 * fp32, for kernels that do not take it so. Reads are scattered, writes are not.
 */
#include "kernels/device.cuh"

static __device__ __forceinline__ void put(float *to, __half x)
{
	*to = to_float<__half>(x);
}

static __device__ __forceinline__ void put(float *to, __nv_bfloat16 x)
{
	*to = to_float<__nv_bfloat16>(x);
}

template <typename T> static __device__ __forceinline__ void put(T *to, T x)
{
	*to = x;
}

template <typename T, typename F = T>
static __device__ __forceinline__ void lay_out(const struct lay_out_args &args)
{
	const F *from = (const F *)args.from;
	T *to = (T *)args.to;

	for (int64_t n = (int64_t)blockIdx.x * LAY_OUT_THREADS + threadIdx.x; n < args.count;
	     n += (int64_t)gridDim.x * LAY_OUT_THREADS) {
		int64_t rest = n, at = 0;

		for (int d = 0; d < args.dims; d++) {
			at += rest % args.size[d] * args.stride[d];
			rest /= args.size[d];
		}
		put(to + n, from[at]);
	}
}

extern "C" __global__ void __launch_bounds__(LAY_OUT_THREADS)
	fashim_lay_out(const __grid_constant__ struct lay_out_args args)
{
	if (args.cast == ATTN_F16 + 1)
		lay_out<float, __half>(args);
	else if (args.cast == ATTN_BF16 + 1)
		lay_out<float, __nv_bfloat16>(args);
	else if (args.element == 16)
		lay_out<uint4>(args);
	else if (args.element == 4)
		lay_out<uint32_t>(args);
	else
		lay_out<uint16_t>(args);
}
SIM_KERNEL(fashim_lay_out)
