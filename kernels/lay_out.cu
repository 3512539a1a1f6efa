/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor in another order: what a fused kernel wrote where the program would have copied O to,
 * brought to O itself, for the rare reader; V that lies across, or of 16 bits beside a Q and a K of
 * fp32, for kernels that do not take it so. Matrices that lie across go through shared memory, by
 * tiles, so that both sides are whole lines; else reads are scattered, and writes are not.
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

#define TILE 64

/* The second dimension is the one whose elements follow one another in memory. By blocks. */
template <typename T>
static __device__ __forceinline__ void lay_across(const struct lay_out_args &args)
{
	__shared__ T tile[TILE][TILE + 2];
	const T *from = (const T *)args.from;
	T *to = (T *)args.to;
	const int64_t columns = args.size[0], rows = args.size[1];
	const int64_t wide = (columns + TILE - 1) / TILE, high = (rows + TILE - 1) / TILE;
	const int64_t tiles = args.count / (columns * rows) * wide * high;
	const int x = threadIdx.x % TILE, y = threadIdx.x / TILE;

	for (int64_t n = blockIdx.x; n < tiles; n += gridDim.x) {
		const int64_t matrix = n / (wide * high);
		const int64_t column = n % wide * TILE, row = n / wide % high * TILE;
		int64_t rest = matrix, at = column * args.stride[0] + row;

		for (int d = 2; d < args.dims; d++) {
			at += rest % args.size[d] * args.stride[d];
			rest /= args.size[d];
		}
		for (int k = y; k < TILE; k += LAY_OUT_THREADS / TILE)
			if (column + k < columns && row + x < rows)
				tile[k][x] = from[at + k * args.stride[0] + x];
		__syncthreads();
		for (int k = y; k < TILE; k += LAY_OUT_THREADS / TILE)
			if (row + k < rows && column + x < columns)
				to[(matrix * rows + row + k) * columns + column + x] = tile[x][k];
		__syncthreads();
	}
}

extern "C" __global__ void __launch_bounds__(LAY_OUT_THREADS)
	fashim_lay_out(const __grid_constant__ struct lay_out_args args)
{
	const bool across =
		!args.cast && args.dims > 1 && args.stride[0] > 1 && args.stride[1] == 1;

	if (across && args.element == 2)
		lay_across<uint16_t>(args);
	else if (across && args.element == 4)
		lay_across<uint32_t>(args);
	else if (args.cast == ATTN_F16 + 1)
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
