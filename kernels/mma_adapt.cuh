/* SPDX-License-Identifier: Apache-2.0
 *
 * Between two turns of mma.cu's loop, which knows nothing of biases, masks, windows and ends: x of
 * q.k, where that is more than a factor.
 */
#ifndef FASHIM_MMA_ADAPT_CUH
#define FASHIM_MMA_ADAPT_CUH

#include "kernels/mma_work.cuh"

/* x of row r, of those that a lane has. */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ float &x_of(struct work<BLOCKS, WIDTH, KEYS> &u, int r, int k)
{
	return u.s[k / 4][r / 2][k / 2 % 2][r % 2 * 2 + k % 2];
}

/* Has `what` do something to each of the lane's scores whose key is there, with its element of t,
 * of rows as said in block_view: two neighbours at a time, elements side by side, wherever they
 * are, or for several keys. The rows start at the lane's first, i, and its first key is j. */
template <typename E, int KEYS, int BLOCKS, int WIDTH, typename F>
static __device__ __forceinline__ void
with_elements(struct work<BLOCKS, WIDTH, KEYS> &u, const struct attn_args &a,
	      const struct attn_tensor &t, const struct beside &own, int i, int j, const F &what)
{
	const int left = a.Sk - j, rows = own.rows;
	const E *const first = (const E *)in_global(own.at), *const base = first + j * t.stride[3];

	if (rows == FOLDED) {
		const struct places places = places_by(t.columns);
#pragma unroll
		for (int k = 0; k < KEYS / 4; k++) {
			const int64_t at = place_of(places, j + key_of(k)) * t.stride[3];
			if (key_of(k) < left)
#pragma unroll
				for (int r = 0; r < 2 * BLOCKS; r++)
					what(x_of(u, r, k),
					     first[min(i + 8 * r, a.Sq - 1) * t.stride[2] + at]);
		}
		return;
	}
#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++) {
		const E *const at = base + min(i + 8 * r, a.Sq - 1) * t.stride[2];

		if (rows == IN_PAIRS) {
#pragma unroll
			for (int k = 0; k < KEYS / 4; k += 2)
				if (key_of(k) < left) {
					const pair<E> two = *(const pair<E> *)(at + key_of(k));
					what(x_of(u, r, k), two.low);
					what(x_of(u, r, k + 1), two.high);
				}
		} else if (rows == SIDE_BY_SIDE) {
#pragma unroll
			for (int k = 0; k < KEYS / 4; k++)
				if (key_of(k) < left)
					what(x_of(u, r, k), at[key_of(k)]);
		} else {
#pragma unroll
			for (int k = 0; k < KEYS / 4; k++)
				if (key_of(k) < left)
					what(x_of(u, r, k), at[key_of(k) * t.stride[3]]);
		}
	}
}

/* with_elements() of numbers. */
template <int KEYS, int BLOCKS, int WIDTH, typename F>
static __device__ __forceinline__ void
with_numbers(struct work<BLOCKS, WIDTH, KEYS> &u, const struct attn_args &a,
	     const struct attn_tensor &t, const struct beside &own, int i, int j, const F &what)
{
	if (t.dtype == ATTN_F16)
		with_elements<__half>(u, a, t, own, i, j, [&](float &x, __half number) {
			what(x, to_float<__half>(number));
		});
	else if (t.dtype == ATTN_BF16)
		with_elements<__nv_bfloat16>(u, a, t, own, i, j,
					     [&](float &x, __nv_bfloat16 number) {
						     what(x, to_float<__nv_bfloat16>(number));
					     });
	else
		with_elements<float>(u, a, t, own, i, j, what);
}

/* S as the program stores it, scales and softcap. */
template <typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void scale_scores(struct work<BLOCKS, WIDTH, KEYS> &u,
						    const struct attn_args &a,
						    const struct block_view &b, int i, int j)
{
	const struct attn_spec &s = a.spec;
	constexpr int COUNT = BLOCKS * KEYS / 2;
	auto score = [&](int n) -> float & { return x_of(u, n / (KEYS / 4), n % (KEYS / 4)); };

	if (s.round_s) {
		store_scores<T, COUNT>(s, b.scale, score);
	} else {
		overflow_scores<T, COUNT>(s, score);
#pragma unroll
		for (int n = 0; n < COUNT; n++)
			score(n) *= b.scale;
	}
	if (attn_scales_each(&s))
		with_numbers(u, a, s.scales, b.scales, i, j,
			     [&](float &x, float own) { x *= factor_of(s, own); });
	if (s.softcap != 0.0f)
#pragma unroll
		for (int r = 0; r < 2 * BLOCKS; r++)
#pragma unroll
			for (int k = 0; k < KEYS / 4; k++)
				x_of(u, r, k) = cap_score(x_of(u, r, k), s.softcap);
}

/* x += weight * bias, the n-th of them, and the rounding after it. */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void add_bias(struct work<BLOCKS, WIDTH, KEYS> &u,
						const struct attn_args &a,
						const struct block_view &b, int n, int i, int j)
{
	const struct attn_spec &s = a.spec;
	const float weight = s.bias_scale[n];

	with_numbers(u, a, s.bias[n], b.bias[n], i, j,
		     [&](float &x, float bias) { x = fmaf(weight, bias, x); });
	if (s.round_x != ATTN_F32)
#pragma unroll
		for (int r = 0; r < 2 * BLOCKS; r++)
#pragma unroll
			for (int k = 0; k < KEYS / 4; k++)
				x_of(u, r, k) = s.round_x == ATTN_BF16
							? round_to(x_of(u, r, k), ATTN_BF16)
							: round_to(x_of(u, r, k), ATTN_F16);
	if (s.round_x == ATTN_F16_FLOORED)
#pragma unroll
		for (int r = 0; r < 2 * BLOCKS; r++)
#pragma unroll
			for (int k = 0; k < KEYS / 4; k++)
				if (x_of(u, r, k) < ATTN_F16_LOWEST)
					x_of(u, r, k) = ATTN_F16_LOWEST;
}

/* x = mask_value where the mask says so. */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void hide(struct work<BLOCKS, WIDTH, KEYS> &u,
					    const struct attn_args &a, const struct block_view &b,
					    int i, int j)
{
	const struct attn_spec &s = a.spec;
	const bool keeps = s.mask_keeps != 0;

	with_elements<unsigned char>(u, a, s.mask, b.mask, i, j, [&](float &x, unsigned char set) {
		x = (set != 0) == keeps ? x : s.mask_value;
	});
}

/* From q.k to x, for the tile of keys from j0 on, and the lane's maxima anew. */
template <bool SIMPLE, typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void adapt(struct work<BLOCKS, WIDTH, KEYS> &u,
					     const struct attn_args &a, const struct block_view &b,
					     int first, int j0)
{
	const int i = first + threadIdx.x % 32 / 4, j = j0 + 2 * (threadIdx.x % 4);
	const struct attn_spec &s = a.spec;
	const struct view &w = b.w;

	if (!SIMPLE && !w.plain) {
		scale_scores<T>(u, a, b, i, j);
#pragma unroll 1
		for (int n = 0; n <= ATTN_MAX_BIAS; n++) {
			if (s.mask.base && n == ATTN_MAX_BIAS - s.late_biases)
				hide(u, a, b, i, j);
			if (n < ATTN_MAX_BIAS && s.bias[n].base)
				add_bias(u, a, b, n, i, j);
		}
	}
#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++) {
		int length = a.Sk - j;

		if (w.window) {
			const int low = first_key(a.spec, i + 8 * r) - j;
			const int high = last_key(a.spec, i + 8 * r) - j;
#pragma unroll
			for (int k = 0; k < KEYS / 4; k++)
				if (key_of(k) < low || key_of(k) > high)
					x_of(u, r, k) = a.spec.window_value;
		}
		if (!SIMPLE && a.spec.lengths.base)
			length = length_of(a, w.b, w.h, min(i + 8 * r, a.Sq - 1)) - j;
		float top = -INFINITY;
#pragma unroll
		for (int k = 0; k < KEYS / 4; k++) {
			if (key_of(k) >= length)
				x_of(u, r, k) = -INFINITY;
			top = fmaxf(top, x_of(u, r, k)); /* passes NaN by; exp2 brings it back */
		}
		u.top[r / 2][r % 2] = top;
	}
}

#endif
