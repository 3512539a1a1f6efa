/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 7: both products by cuBLAS, the softmax between them by hand.
 *
 * Adds: the library's matrix products, and with them tensor cores; S and P lie in memory.
 * Why:  to know how far off a scalar kernel is, and that the reference is what it says: this chain
 *       must take as long as PyTorch's "math" backend. If that were secretly a fused kernel, it
 *       would not.
 * How:  cuBLAS writes S = scale Q K^T as halves; this kernel turns S into P in its place; cuBLAS
 *       takes P V. Here a warp has a row: it reads it three times, for the maximum, for the sum,
 *       and for the division. The row is a few kilobytes, so it is read from memory only once.
 * L4:   78 us, against 81 of PyTorch's math backend and 839 of the best scalar kernel: ten times as
 *       fast, although 4 MB of scores are written, rewritten and read. Tensor cores first, all else
 *       later.
 * H200: 13.0 us; the "cuBLAS chain" of the tables is this. PyTorch's math backend takes 62 there,
 *       as it multiplies floats by now. No kernel up to step 15 is as fast.
 *
 * Who launches it, and the two products: `fashim bench --ladder`.
 */
#include "kernels/ladder/ladder.cuh"

namespace step07
{

constexpr int ROWS = 8, THREADS = 32 * ROWS;

/* P from x in its place, (Sk), by one warp. */
template <typename T>
static __device__ __forceinline__ void softmax_in_place(const struct attn_args &a, T *s, int i,
							int lane)
{
	const int begin = keys_begin(a, i), end = keys_end(a, i);
	float max = -INFINITY, sum = 0.0f, factor;

	for (int j = begin + lane; j < end; j += 32)
		max = fmaxf(max, to_float<T>(s[j]));
	max = warp_max(max);
	for (int j = begin + lane; j < end; j += 32)
		sum += __expf(to_float<T>(s[j]) - max);
	factor = row_factor(a, warp_sum(sum)); /* one row's, of NaN or zeros if it sees no key */
	for (int j = lane; j < a.Sk; j += 32) {
		const bool seen = j >= begin && j < end;
		const float weight = seen ? __expf(to_float<T>(s[j]) - max) : 0.0f;

		s[j] = from_float<T>(weight * factor);
	}
}

/* The chain is also a reference for bf16. */
extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_07_cublas_hybrid(const __grid_constant__ struct ladder_scores args)
{
	const struct attn_args &a = args.attn;
	const int lane = threadIdx.x % 32, i = blockIdx.x * ROWS + threadIdx.x / 32;
	const int64_t line = ((int64_t)blockIdx.z * a.H + blockIdx.y) * a.Sq + i;

	if (i >= a.Sq)
		return;
	if (a.q.dtype == ATTN_BF16)
		softmax_in_place(a, (__nv_bfloat16 *)args.scores + line * a.Sk, i, lane);
	else
		softmax_in_place(a, (__half *)args.scores + line * a.Sk, i, lane);
}
LADDER_STEP(07_cublas_hybrid, ROWS, THREADS, 0)

} /* namespace step07 */
