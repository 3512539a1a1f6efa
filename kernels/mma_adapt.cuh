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

/* S as a program has it that stores it in T: `alpha` and then, anew, `after`. */
template <typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void round_scores(struct work<BLOCKS, WIDTH, KEYS> &u,
						    const struct attn_spec &s, float after)
{
	const bool product = s.round_s & ATTN_ROUND_PRODUCT, scaled = s.round_s & ATTN_ROUND_SCALED;

#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++)
#pragma unroll
		for (int k = 0; k < KEYS / 4; k += 2) {
			float2 x =
				make_float2(s.alpha * x_of(u, r, k), s.alpha * x_of(u, r, k + 1));
			if (product)
				x = unpack2<T>(pack2<T>(x.x, x.y));
			x.x *= after;
			x.y *= after;
			if (scaled)
				x = unpack2<T>(pack2<T>(x.x, x.y));
			x_of(u, r, k) = x.x;
			x_of(u, r, k + 1) = x.y;
		}
}

/* Scale alone. */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void scale_scores(struct work<BLOCKS, WIDTH, KEYS> &u,
						    float scale)
{
#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++)
#pragma unroll
		for (int k = 0; k < KEYS / 4; k++)
			x_of(u, r, k) *= scale;
}

/* Scale and bias, of a tile that has all its keys. */
template <typename E, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void add_pairs(struct work<BLOCKS, WIDTH, KEYS> &u,
						 const struct attn_args &a, const struct view &w,
						 float scale, int i, int j)
{
	const struct attn_spec &s = a.spec;
	const struct attn_tensor &t = s.bias[0];
	const E *const base = (const E *)tensor_at(t, w.b, w.h, a.H) + j;

#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++) {
		const E *const at = base + min(i + 8 * r, a.Sq - 1) * t.stride[2];
#pragma unroll
		for (int k = 0; k < KEYS / 4; k += 2) {
			const pair<E> two = *(const pair<E> *)(at + key_of(k));
			float &low = x_of(u, r, k), &high = x_of(u, r, k + 1);
			low = fmaf(s.bias_scale[0], to_float<E>(two.low), low * scale);
			high = fmaf(s.bias_scale[0], to_float<E>(two.high), high * scale);
		}
	}
	if (s.round_x != ATTN_F32)
#pragma unroll
		for (int r = 0; r < 2 * BLOCKS; r++)
#pragma unroll
			for (int k = 0; k < KEYS / 4; k++)
				x_of(u, r, k) = s.round_x == ATTN_F16
							? round_to(x_of(u, r, k), ATTN_F16)
							: round_to(x_of(u, r, k), ATTN_BF16);
}

/* Scale and mask, of a tile that has all its keys. */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void mask_pairs(struct work<BLOCKS, WIDTH, KEYS> &u,
						  const struct attn_args &a, const struct view &w,
						  float scale, int i, int j)
{
	const struct attn_spec &s = a.spec;
	const char *const base = tensor_at(s.mask, w.b, w.h, a.H) + j;
	const bool keeps = s.mask_keeps != 0;

#pragma unroll
	for (int r = 0; r < 2 * BLOCKS; r++) {
		const char *const at = base + min(i + 8 * r, a.Sq - 1) * s.mask.stride[2];
#pragma unroll
		for (int k = 0; k < KEYS / 4; k += 2) {
			const pair<char> two = *(const pair<char> *)(at + key_of(k));
			float &low = x_of(u, r, k), &high = x_of(u, r, k + 1);
			low = (two.low != 0) == keeps ? low * scale : s.mask_value;
			high = (two.high != 0) == keeps ? high * scale : s.mask_value;
		}
	}
}

/* The same whatever there is; for the sake of the code's size, one row after the other. */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void modify_rows(struct work<BLOCKS, WIDTH, KEYS> &u,
						   const struct attn_args &a, const struct view &w,
						   float scale, int i, int j)
{
#pragma unroll 1
	for (int row = 0; row < 2 * BLOCKS; row++) {
		float x[KEYS / 4];

#pragma unroll
		for (int k = 0; k < KEYS / 4; k++)
#pragma unroll
			for (int r = 0; r < 2 * BLOCKS; r++)
				if (r == 0 || r == row)
					x[k] = x_of(u, r, k);
		modify_scaled<true>(x, a, w, scale, i + 8 * row, j);
#pragma unroll
		for (int k = 0; k < KEYS / 4; k++)
#pragma unroll
			for (int r = 0; r < 2 * BLOCKS; r++)
				if (r == row)
					x_of(u, r, k) = x[k];
	}
}

/* From q.k to x, for the tile of keys from j0 on, and the lane's maxima anew. */
template <bool SIMPLE, typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void adapt(struct work<BLOCKS, WIDTH, KEYS> &u,
					     const struct attn_args &a, const struct block_view &b,
					     int first, int j0)
{
	const int i = first + threadIdx.x % 32 / 4, j = j0 + 2 * (threadIdx.x % 4);
	const struct view &w = b.w;

	if (!SIMPLE && b.kind != PLAIN) {
		const int bias_type = a.spec.bias[0].dtype;
		const float scale = a.spec.round_s ? 1.0f : a.spec.scale;

		if (a.spec.round_s)
			round_scores<T>(u, a.spec, b.after);
		if (b.kind == SCALED)
			scale_scores(u, scale);
		else if (b.kind == ANY || j0 + KEYS > a.Sk)
			modify_rows(u, a, w, scale, i, j);
		else if (b.kind == MASK)
			mask_pairs(u, a, w, scale, i, j);
		else if (bias_type == ATTN_F16)
			add_pairs<__half>(u, a, w, scale, i, j);
		else if (bias_type == ATTN_BF16)
			add_pairs<__nv_bfloat16>(u, a, w, scale, i, j);
		else
			add_pairs<float>(u, a, w, scale, i, j);
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
