/* SPDX-License-Identifier: Apache-2.0
 *
 * From q.k to P in sm90.cu: what scores.cuh does, for the order in which that file has its keys, so
 * that biases and masks come by 16-byte loads, the first bias while the product still runs.
 */
#ifndef FASHIM_SM90_SCORES_CUH
#define FASHIM_SM90_SCORES_CUH

#include "kernels/scores.cuh"

namespace hopper
{

/* The keys of lane 4g+t: j0 + 8t + key_of(0..N-1) if SHUFFLED, else j0 + 2t + those of scores.cuh.
 */
template <bool SHUFFLED> static __device__ __forceinline__ int key_of(int k)
{
	return SHUFFLED ? k / 8 * 32 + k % 8 : ::key_of(k);
}

template <typename E> struct alignas(16) eight {
	E e[8];
};
template <> struct alignas(16) eight<float> {
	float e[8];
};

/* x += weight * bias; `at` is the bias of the lane's first key, from which `left` keys remain. */
template <typename E, bool SHUFFLED, int N>
static __device__ __forceinline__ void add_bias(float (&x)[N], const E *at, int64_t stride,
						float weight, int left)
{
	if (!SHUFFLED) {
		::add_bias(x, at, stride, weight, left);
		return;
	}
	if (key_of<true>(N - 1) < left && stride == 1 && (uint64_t)at % 16 == 0) {
#pragma unroll
		for (int k = 0; k < N; k += 8) {
			const eight<E> b = *(const eight<E> *)(at + key_of<true>(k));
#pragma unroll
			for (int e = 0; e < 8; e++)
				x[k + e] += weight * to_float<E>(b.e[e]);
		}
		return;
	}
#pragma unroll
	for (int k = 0; k < N; k++)
		if (key_of<true>(k) < left)
			x[k] += weight * to_float<E>(at[key_of<true>(k) * stride]);
}

template <bool SHUFFLED, int N>
static __device__ __forceinline__ void apply_mask(float (&x)[N], const unsigned char *at,
						  int64_t stride, bool keeps, float value, int left)
{
	if (!SHUFFLED) {
		::apply_mask(x, at, stride, keeps, value, left);
		return;
	}
	if (key_of<true>(N - 1) < left && stride == 1 && (uint64_t)at % 8 == 0) {
#pragma unroll
		for (int k = 0; k < N; k += 8) {
			const uint2 m = *(const uint2 *)(at + key_of<true>(k));
#pragma unroll
			for (int e = 0; e < 8; e++) {
				const uint32_t byte = (e < 4 ? m.x : m.y) & 0xffu << e % 4 * 8;
				x[k + e] = (byte != 0) == keeps ? x[k + e] : value;
			}
		}
		return;
	}
#pragma unroll
	for (int k = 0; k < N; k++)
		if (key_of<true>(k) < left && (at[key_of<true>(k) * stride] != 0) != keeps)
			x[k] = value;
}

/* A lane's part of the first bias, read ahead. */
template <int N> struct ahead {
	uint4 piece[2][N / 8];
};

/* Can the first bias be read ahead for the whole tile? */
static __device__ __forceinline__ bool can_read_ahead(const struct attn_args &a, const char *bias)
{
	const struct attn_tensor &t = a.spec.bias[0];
	return t.base && t.dtype != ATTN_F32 && t.stride[3] == 1 && t.stride[2] % 8 == 0 &&
	       t.stride[2] < 1 << 24 && (uint64_t)bias % 16 == 0;
}

/* The thread's number, read anew: what follows from it need not be kept in registers. */
static __device__ __forceinline__ int thread_again(void)
{
	int thread;
	asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
	return thread;
}

template <int N>
static __device__ __forceinline__ void read_ahead(struct ahead<N> &b, const struct attn_args &a,
						  const struct view &w, int j0)
{
	const struct attn_tensor &t = a.spec.bias[0];
	const char *const at = matrix_at(t, w.b, w.h, a.H);
	const int thread = thread_again(), row = w.first + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int i = min(row + 8 * r, a.Sq - 1), j = j0 + thread % 4 * 8;
		const char *const from = at + ((int64_t)i * (int)t.stride[2] + j) * 2;
#pragma unroll
		for (int n = 0; n < N / 8; n++)
			asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
				     : "=r"(b.piece[r][n].x), "=r"(b.piece[r][n].y),
				       "=r"(b.piece[r][n].z), "=r"(b.piece[r][n].w)
				     : "l"(from + n * 64));
	}
}

template <typename E>
static __device__ __forceinline__ void add_eight(float *x, const uint4 &piece, float weight)
{
	const uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
	for (int e = 0; e < 8; e++) {
		const uint16_t bits = (uint16_t)(words[e / 2] >> e % 2 * 16);
		x[e] += weight * to_float<E>(*(const E *)&bits);
	}
}

/* All but the window and the row's length, for the lane's keys of row i, of which j is the first.
 * `pieces`: the first bias, if `have`. */
template <typename T, bool SHUFFLED, bool ANY, int N>
static __device__ __forceinline__ void modify(float (&x)[N], const struct attn_args &a,
					      const struct view &w, int i, int j, bool have,
					      const uint4 (&pieces)[N / 8])
{
	const struct attn_spec &s = a.spec;
	const int left = a.Sk - j;
	auto hide = [&] {
		if (s.mask.base)
			apply_mask<SHUFFLED>(
				x,
				(const unsigned char *)matrix_at(s.mask, w.b, w.h, a.H) +
					i * s.mask.stride[2] + j * s.mask.stride[3],
				s.mask.stride[3], s.mask_keeps != 0, s.mask_value, left);
	};

	i = min(i, a.Sq - 1);
	if (s.round_s) {
		store_scores<T, N>(s, s.scale, [&](int k) -> float & { return x[k]; });
	} else {
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] = s.scale * overflow_score<T>(s, x[k]);
	}
	if (s.softcap != 0.0f) {
		const float to_exponent = 2.0f * LOG2E / s.softcap;
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] = s.softcap -
			       __fdividef(2.0f * s.softcap, 1.0f + exp2_fast(x[k] * to_exponent));
	}
	if (SHUFFLED && have) {
		if (s.bias[0].dtype == ATTN_F16) {
#pragma unroll
			for (int n = 0; n < N / 8; n++)
				add_eight<__half>(&x[8 * n], pieces[n], s.bias_scale[0]);
		} else {
#pragma unroll
			for (int n = 0; n < N / 8; n++)
				add_eight<__nv_bfloat16>(&x[8 * n], pieces[n], s.bias_scale[0]);
		}
		round_all_to<false>(x, s.round_x);
	}
#pragma unroll 1
	for (int n = SHUFFLED && have; n < ATTN_MAX_BIAS; n++) {
		if (ANY && n == ATTN_MAX_BIAS - s.late_biases)
			hide();
		const struct attn_tensor &t = s.bias[n];
		if (!t.base)
			continue;
		const char *at = matrix_at(t, w.b, w.h, a.H) +
				 (i * t.stride[2] + j * t.stride[3]) * attn_dtype_size(t.dtype);
		if (t.dtype == ATTN_F16)
			add_bias<__half, SHUFFLED>(x, (const __half *)at, t.stride[3],
						   s.bias_scale[n], left);
		else if (t.dtype == ATTN_BF16)
			add_bias<__nv_bfloat16, SHUFFLED>(x, (const __nv_bfloat16 *)at, t.stride[3],
							  s.bias_scale[n], left);
		else
			add_bias<float, SHUFFLED>(x, (const float *)at, t.stride[3],
						  s.bias_scale[n], left);
		round_all_to<false>(x, s.round_x);
	}
	if (!ANY || s.late_biases == 0)
		hide();
}

/* cut_row() of scores.cuh for the lane's keys from j on. */
template <bool SHUFFLED, int N>
static __device__ __forceinline__ void cut_row(float (&x)[N], const struct attn_args &a,
					       const struct view &w, int i, int j)
{
	const int left = length_of(a, w.b, w.h, min(i, a.Sq - 1)) - j;
#pragma unroll
	for (int k = 0; k < N; k++)
		if (key_of<SHUFFLED>(k) >= left)
			x[k] = -INFINITY;
}

/* softmax_step of scores.cuh, but P goes to `p`, two numbers to a register, as it arises: there is
 * no room for both it and x. */
template <typename T, int N>
static __device__ __forceinline__ void softmax_packed(float (&x)[2][N], uint32_t (&p)[N / 4][4],
						      float (&row_max)[2], float (&row_sum)[2],
						      float (&factor)[2], float exponent)
{
	float base[2], old[2];
	bool far = false;

#pragma unroll
	for (int r = 0; r < 2; r++) {
		float even = fmaxf(row_max[r], x[r][0]), odd = x[r][1];
#pragma unroll
		for (int k = 2; k < N; k += 2) {
			even = fmaxf(even, x[r][k]);
			odd = fmaxf(odd, x[r][k + 1]);
		}
		base[r] = fmaxf(even, odd);
	}
#pragma unroll
	for (int lanes = 1; lanes <= 2; lanes *= 2)
#pragma unroll
		for (int r = 0; r < 2; r++)
			base[r] = fmaxf(base[r], __shfl_xor_sync(WARP_ALL, base[r], lanes));
#pragma unroll
	for (int r = 0; r < 2; r++) {
		old[r] = row_max[r];
		row_max[r] = base[r];
		base[r] = base[r] == -INFINITY ? 0.0f : base[r];
		old[r] = old[r] == -INFINITY ? base[r] : old[r];
		far = far || fabsf(base[r] * exponent) > FOLD_LIMIT ||
		      fabsf(old[r] * exponent) > FOLD_LIMIT;
	}
	far = __any_sync(WARP_ALL, far);
	if (far)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			factor[r] = exp2_fast((old[r] - base[r]) * exponent);
#pragma unroll
			for (int k = 0; k < N; k++)
				x[r][k] = (x[r][k] - base[r]) * exponent;
			row_sum[r] *= factor[r];
			base[r] = 0.0f;
		}
	else
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const float folded = base[r] * exponent;
			factor[r] = exp2_fast(old[r] * exponent - folded);
			row_sum[r] *= factor[r];
			base[r] = folded;
		}
	const float slope = far ? 1.0f : exponent;
#pragma unroll
	for (int k = 0; k < N; k += 2)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const float low = exp2_fast(fmaf(x[r][k], slope, -base[r]));
			const float high = exp2_fast(fmaf(x[r][k + 1], slope, -base[r]));
			row_sum[r] += low + high;
			p[k / 4][k % 4 / 2 * 2 + r] = pack2<T>(low, high);
		}
}

} // namespace hopper

#endif
