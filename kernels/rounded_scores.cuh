/* SPDX-License-Identifier: Apache-2.0
 *
 * From q.k to P in rounded.cu, with the program's roundings: x, its maximum and sum over the keys,
 * and what a row's weights are. N scores of each of a lane's two rows, in the order of scores.cuh.
 */
#ifndef FASHIM_ROUNDED_SCORES_CUH
#define FASHIM_ROUNDED_SCORES_CUH

#include "kernels/products.cuh"

namespace rounded
{

/* How S becomes x; the same for all of a head. */
struct rounding {
	bool product, scaled; /* is S rounded, and S times `after`? */
	bool stored;	      /* is x what was rounded last, before any bias? */
	bool less;	      /* is x less the row's largest rounded, too? */
	float alpha, after;
	float cap;  /* softcap; 0: none */
	float unit; /* what is left to multiply x by: its exponential does */
};

static __device__ __forceinline__ struct rounding rounding_of(const struct attn_args &a,
							      const struct view &w)
{
	const struct attn_spec &s = a.spec;
	const float scale = scale_of(a, w.b, w.h);
	struct rounding r;

	r.product = s.round_s & ATTN_ROUND_PRODUCT;
	r.scaled = s.round_s & ATTN_ROUND_SCALED;
	r.alpha = s.round_s & ~ATTN_ROUND_WEIGHTS ? s.alpha : scale;
	r.after = r.alpha == scale ? 1.0f : scale / r.alpha;
	r.cap = s.softcap;
	r.unit = 1.0f;
	r.less = s.round_s & ATTN_ROUND_LESS;
	if (!r.less && !r.scaled && r.cap == 0.0f && !s.bias[0].base && !s.bias[1].base && !s.scales.base &&
	    r.after > 0.0f && (!s.mask.base || s.mask_value == -INFINITY) &&
	    s.window_value == -INFINITY && !s.sinks.base) {
		r.unit = r.after;
		r.after = 1.0f;
	}
	r.stored = r.scaled || r.cap != 0.0f || (r.product && r.after == 1.0f);
	return r;
}

/* unpack2() in one instruction for each where bf16 is the upper half of a float. */
template <typename T> static __device__ __forceinline__ float2 both_of(uint32_t word)
{
	return unpack2<T>(word);
}
#ifdef __CUDACC__
template <> __device__ __forceinline__ float2 both_of<__nv_bfloat16>(uint32_t word)
{
	return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}
#endif

template <typename T, int N> static __device__ __forceinline__ void round_all(float (&x)[2][N])
{
#pragma unroll
	for (int r = 0; r < 2; r++)
#pragma unroll
		for (int n = 0; n < N; n += 2) {
			const float2 two = both_of<T>(pack2<T>(x[r][n], x[r][n + 1]));
			x[r][n] = two.x;
			x[r][n + 1] = two.y;
		}
}

template <int N> static __device__ __forceinline__ void multiply_all(float (&x)[2][N], float factor)
{
#pragma unroll
	for (int r = 0; r < 2; r++)
#pragma unroll
		for (int n = 0; n < N; n++)
			x[r][n] *= factor;
}

/* cap * tanh(x / cap), of which each step is stored. */
template <typename T, int N>
static __device__ __forceinline__ void cap_all(float (&x)[2][N], float cap)
{
	multiply_all(x, 1.0f / cap);
	round_all<T>(x);
#pragma unroll
	for (int r = 0; r < 2; r++)
#pragma unroll
		for (int n = 0; n < N; n++)
			x[r][n] = tanhf(x[r][n]);
	round_all<T>(x);
	multiply_all(x, cap);
	round_all<T>(x);
}

/* What is left of x of the warp's rows within their spans: first and last key of each. */
template <int KEYS>
static __device__ __forceinline__ void hide_outside(float (&x)[2][KEYS / 4], const int2 *spans,
						    int j0)
{
	const int2 keys[2] = {spans[threadIdx.x % 32 / 4], spans[threadIdx.x % 32 / 4 + 8]};
	const int j = j0 + 2 * (threadIdx.x % 4);

	if (__all_sync(WARP_ALL, max(keys[0].x, keys[1].x) <= j0 &&
					 min(keys[0].y, keys[1].y) >= j0 + KEYS - 1))
		return;
#pragma unroll
	for (int r = 0; r < 2; r++)
#pragma unroll
		for (int n = 0; n < KEYS / 4; n++)
			if (j + key_of(n) < keys[r].x || j + key_of(n) > keys[r].y)
				x[r][n] = -INFINITY;
}

/* x of a tile, from j0 on, for the warp's rows from `first` on; ANY as in scores.cuh. clear: the bias
 * is 0 here, or says what `spans` says, if there are any. */
template <bool ANY, typename T, int KEYS>
static __device__ __forceinline__ void
scores_to_x(float (&x)[2][KEYS / 4], const float (&s)[KEYS / 2], const struct rounding &how,
	    const struct attn_args &a, const struct view &w, int first, int j0, bool clear,
	    const int2 *spans)
{
	const int i = first + threadIdx.x % 32 / 4, j = j0 + 2 * (threadIdx.x % 4);

#pragma unroll
	for (int n = 0; n < KEYS / 2; n++)
		x[n / 2 % 2][n / 4 * 2 + n % 2] = s[n];
	if (how.alpha != 1.0f)
		multiply_all(x, how.alpha);
	if (how.product)
		round_all<T>(x);
	if (how.after != 1.0f)
		multiply_all(x, how.after);
	if (how.scaled)
		round_all<T>(x);
	if (ANY && how.cap != 0.0f)
		cap_all<T>(x, how.cap);
	if (clear) { /* 0 is added, and the sum stored */
		if (!how.stored && a.spec.round_x != ATTN_F32)
			round_all<T>(x);
	} else if (a.spec.bias[0].base || a.spec.bias[1].base || a.spec.mask.base) {
#pragma unroll
		for (int r = 0; r < 2; r++)
			modify_capped<ANY>(x[r], a, w, i + 8 * r, j);
	}
	if (spans)
		hide_outside<KEYS>(x, spans, j0);
	else
		hide_tile<ANY, KEYS>(x, a, w, first, j0);
}

/* A maximum as what exponentials are relative to: a row that has seen no key yet counts from 0. */
static __device__ __forceinline__ float base_of(float most)
{
	return most == -INFINITY ? 0.0f : most;
}

/* x of a tile, less the rows' largest, as that is stored. */
template <typename T, int N>
static __device__ __forceinline__ void take_off(float (&x)[2][N], const float (&most)[2])
{
#pragma unroll
	for (int r = 0; r < 2; r++)
#pragma unroll
		for (int n = 0; n < N; n++)
			x[r][n] -= base_of(most[r]);
	round_all<T>(x);
}

/* Exponentials are relative to the maximum times `exponent`, as rounded, where that is moderate: by
 * so much less than they should be, all that belongs to a row. */
static __device__ __forceinline__ float excess(float base, float exponent)
{
	const float folded = base * exponent;

	return fabsf(folded) > FOLD_LIMIT ? 0.0f : fmaf(base, exponent, -folded);
}

/* What was summed under the maximum `old` counts under `most`, which is not smaller. */
static __device__ __forceinline__ float share(float old, float most, float exponent)
{
	const float base = base_of(most);

	return exp2_fast((old - base) * exponent - excess(base_of(old), exponent) +
			 excess(base, exponent));
}

/* exp(x - most) of a tile is 2^(x * slope - offset): one multiply-add, whose rounding of `offset`
 * is the same in a row's sum and its weights. Where a maximum of the warp's is too large for that,
 * x becomes what it is relative to the maximum first, with the same result for the other rows. */
struct exponents {
	float slope, offset[2];

	template <int N>
	__device__ __forceinline__ void init(float (&x)[2][N], const float (&most)[2],
					     float exponent, bool far)
	{
		slope = exponent;
#pragma unroll
		for (int r = 0; r < 2; r++)
			offset[r] = base_of(most[r]) * exponent;
		if (!far)
			return;
#pragma unroll
		for (int r = 0; r < 2; r++) {
#pragma unroll
			for (int n = 0; n < N; n++)
				x[r][n] = (x[r][n] - base_of(most[r])) * exponent;
			offset[r] = -excess(base_of(most[r]), exponent);
		}
		slope = 1.0f;
	}
	__device__ __forceinline__ float of(float x, int r) const
	{
		return exp2_fast(fmaf(x, slope, -offset[r]));
	}
};

/* Is a maximum of the warp's so large that its product is too coarse, or infinite? */
static __device__ __forceinline__ bool is_far(const float (&most)[2], float exponent)
{
	return __any_sync(WARP_ALL, fabsf(base_of(most[0]) * exponent) > FOLD_LIMIT ||
					    fabsf(base_of(most[1]) * exponent) > FOLD_LIMIT);
}

/* Maxima and sums of exponentials: of the lane's own columns first. */
struct counts {
	float most[2], sum[2];

	__device__ __forceinline__ void init(void)
	{
		most[0] = most[1] = -INFINITY;
		sum[0] = sum[1] = 0.0f;
	}

	/* With those of a tile, which may change x. */
	template <int N> __device__ __forceinline__ void add(float (&x)[2][N], float exponent)
	{
		struct exponents e;
		float old[2];

#pragma unroll
		for (int r = 0; r < 2; r++) {
			float even = most[r], odd = x[r][1];
#pragma unroll
			for (int n = 0; n < N; n += 2) {
				even = fmaxf(even, x[r][n]); /* passes NaN by; exp2 has it again */
				odd = fmaxf(odd, x[r][n + 1]);
			}
			old[r] = most[r];
			most[r] = fmaxf(even, odd);
			sum[r] *= share(old[r], most[r], exponent);
		}
		e.init(x, most, exponent, is_far(most, exponent));
#pragma unroll
		for (int r = 0; r < 2; r++) {
			float even = 0.0f, odd = 0.0f;
#pragma unroll
			for (int n = 0; n < N; n += 2) {
				even += e.of(x[r][n], r);
				odd += e.of(x[r][n + 1], r);
			}
			sum[r] += even + odd;
		}
	}

	__device__ __forceinline__ void join(int r, float other_most, float other_sum,
					     float exponent)
	{
		const float both = fmaxf(most[r], other_most);

		sum[r] = sum[r] * share(most[r], both, exponent) +
			 other_sum * share(other_most, both, exponent);
		most[r] = both;
	}

	/* Of the rows, from those of the four lanes that share them. */
	__device__ __forceinline__ void over_lanes(float exponent)
	{
#pragma unroll
		for (int lanes = 1; lanes <= 2; lanes *= 2)
#pragma unroll
			for (int r = 0; r < 2; r++)
				join(r, __shfl_xor_sync(WARP_ALL, most[r], lanes),
				     __shfl_xor_sync(WARP_ALL, sum[r], lanes), exponent);
	}
};

/* P of a tile as the program stores it, which may change x. part: one over the sum. */
template <typename T, int KEYS>
static __device__ __forceinline__ void x_to_weights(uint32_t (&p)[KEYS / 16][4],
						    float (&x)[2][KEYS / 4], const float (&most)[2],
						    const float (&part)[2], float exponent)
{
	struct exponents e;

	e.init(x, most, exponent, is_far(most, exponent));
#pragma unroll
	for (int n = 0; n < KEYS / 4; n += 2)
#pragma unroll
		for (int r = 0; r < 2; r++)
			p[n / 4][n % 4 + r] = pack2<T>(e.of(x[r][n], r) * part[r],
						       e.of(x[r][n + 1], r) * part[r]);
}

/* Where x of a tile stays from the first walk to the second: nowhere, in registers as 16 bits,
 * which they have to fit, or in shared memory. */
template <typename T, int KEYS, int KEPT> struct keeper {
	uint32_t word[KEPT > 0 ? KEPT : 1][KEYS / 16][4];
	float *at;	      /* of the lane's first row and column, in shared memory */
	int line, group_step; /* floats from one row to the next, and from a tile to the next */
	bool there[2];

	__device__ __forceinline__ void put(int tile, const float (&x)[2][KEYS / 4])
	{
		if constexpr (KEPT > 0) {
#pragma unroll
			for (int n = 0; n < KEYS / 4; n += 2)
#pragma unroll
				for (int r = 0; r < 2; r++) {
					const uint32_t two = pack2<T>(x[r][n], x[r][n + 1]);
#pragma unroll
					for (int k = 0; k < KEPT; k++)
						if (k == tile)
							word[k][n / 4][n % 4 + r] = two;
				}
		} else if constexpr (KEPT < 0) {
#pragma unroll
			for (int r = 0; r < 2; r++)
				if (there[r])
#pragma unroll
					for (int n = 0; n < KEYS / 4; n += 2)
						*(float2 *)(at + r * 8 * line + tile * group_step +
							    4 * n) =
							make_float2(x[r][n], x[r][n + 1]);
		}
	}
	__device__ __forceinline__ void get(int tile, float (&x)[2][KEYS / 4]) const
	{
#pragma unroll
		for (int r = 0; r < 2; r++)
#pragma unroll
			for (int n = 0; n < KEYS / 4; n += 2) {
				float2 two = make_float2(-INFINITY, -INFINITY);
				if constexpr (KEPT > 0)
					two = both_of<T>(word[tile][n / 4][n % 4 + r]);
				else if (KEPT < 0 && there[r])
					two = *(const float2 *)(at + r * 8 * line +
								tile * group_step + 4 * n);
				x[r][n] = two.x;
				x[r][n + 1] = two.y;
			}
	}
};

} // namespace rounded

#endif
