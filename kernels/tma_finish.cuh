/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of tma.cu's tile: O divided by the sum of its weights and written, by way of nothing but
 * registers: four lanes that hold neighbouring columns turn their words so that each writes 16 bytes.
 */
#ifndef FASHIM_TMA_FINISH_CUH
#define FASHIM_TMA_FINISH_CUH

#include "kernels/device.cuh"
#include "kernels/tma_work.cuh"

namespace tma
{

/* Four lanes hold a word of each of four pieces; afterwards lane t holds piece t. */
static __device__ __forceinline__ void turn(uint32_t (&x)[4], int t)
{
	/* lane t sends, in step s, what lane t^s wants: piece t^s */
	uint32_t y[4];
	const bool odd = t & 1, high = t & 2;

	/* exchange with the neighbour: pairs (0,1), (2,3) */
	const uint32_t a = __shfl_xor_sync(WARP_ALL, odd ? x[0] : x[1], 1);
	const uint32_t b = __shfl_xor_sync(WARP_ALL, odd ? x[2] : x[3], 1);
	/* y[0..1]: words 2*(t/2), 2*(t/2)+1 of piece odd; y[2..3]: of piece 2 + odd */
	y[0] = odd ? a : x[0];
	y[1] = odd ? x[1] : a;
	y[2] = odd ? b : x[2];
	y[3] = odd ? x[3] : b;
	const uint32_t c = __shfl_xor_sync(WARP_ALL, high ? y[0] : y[2], 2);
	const uint32_t d = __shfl_xor_sync(WARP_ALL, high ? y[1] : y[3], 2);
	x[0] = high ? c : y[0];
	x[1] = high ? d : y[1];
	x[2] = high ? y[2] : c;
	x[3] = high ? y[3] : d;
}

/* O = out_scale * sums / sum of P for the 16 rows from `first`; rows that are all -inf as
 * `empty_row` says (never ATTN_EMPTY_MEAN here). */
template <typename T, int WIDTH, int N>
static __device__ __forceinline__ void finish(float (&o)[N], float (&sum)[2],
					      const struct attn_args &a, const struct work &w,
					      int first)
{
	constexpr bool ONES = N > WIDTH / 2;
	const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
	char *const out = tensor_at(a.o, w.b, w.h, a.H);

#pragma unroll
	for (int r = 0; r < 2; r++) {
		if constexpr (ONES) {
			sum[r] = o[WIDTH / 2 + 2 * r];
		} else {
			sum[r] += __shfl_xor_sync(WARP_ALL, sum[r], 1);
			sum[r] += __shfl_xor_sync(WARP_ALL, sum[r], 2);
		}
		float weight = a.spec.out_scale / sum[r];
		if (sum[r] == 0.0f)
			weight = a.spec.empty_row == ATTN_EMPTY_NAN ? NAN : 0.0f;
#pragma unroll
		for (int n = 0; n < WIDTH / 8; n++) {
			o[4 * n + 2 * r] *= weight;
			o[4 * n + 2 * r + 1] *= weight;
		}
	}
	if (a.o.dtype == a.q.dtype && a.o.stride[3] == 1 && a.o.stride[2] % 8 == 0 &&
	    a.Dv % 8 == 0 && (uint64_t)out % 16 == 0) {
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const int i = first + g + 8 * r;
			T *const row = (T *)out + i * a.o.stride[2];
#pragma unroll
			for (int n = 0; n < WIDTH / 32; n++) {
				uint32_t x[4];
#pragma unroll
				for (int e = 0; e < 4; e++)
					x[e] = pack2<T>(o[16 * n + 4 * e + 2 * r],
							o[16 * n + 4 * e + 2 * r + 1]);
				turn(x, t);
				if (i < a.Sq && 32 * n + 8 * t < a.Dv)
					*(uint4 *)(row + 32 * n + 8 * t) =
						make_uint4(x[0], x[1], x[2], x[3]);
			}
		}
		return;
	}
#pragma unroll
	for (int n = 0; n < WIDTH / 2; n++) {
		const int i = first + g + n / 2 % 2 * 8, c = n / 4 * 8 + 2 * t + n % 2;
		if (i < a.Sq && c < a.Dv)
			store_to(out, i * a.o.stride[2] + c * a.o.stride[3], a.o.dtype, o[n]);
	}
}

/* The same for rows that see no key at all: the 64 from `first`. */
template <typename T>
static __device__ __forceinline__ void finish_empty(const struct attn_args &a, const struct work &w,
						    int first)
{
	char *const out = tensor_at(a.o, w.b, w.h, a.H);
	const int rows = min(64, a.Sq - first);

	for (int e = threadIdx.x % 128; e < rows * a.Dv; e += 128)
		store_to(out,
			  (first + e / a.Dv) * a.o.stride[2] + e % a.Dv * a.o.stride[3], a.o.dtype,
			  a.spec.empty_row == ATTN_EMPTY_NAN ? NAN : 0.0f);
}

} // namespace tma

#endif
