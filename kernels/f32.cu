/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention for fp32 operands of any layout, as exact as fp32 products (sm_80 and later).
 *
 * The matrix instructions multiply numbers of 11 digits (TF32). Each operand is written as the sum
 * of two such numbers, a = a' + a'' with a'' what a' left, and a b = a' b' + a' b'' + a'' b'; the
 * term left out is 2^-22 of the product. So the error is that of fp32 arithmetic, at a third of
 * the rate of TF32.
 *
 * Why so, in the order in which it was decided:
 *   1. TF32 rather than f16 parts, as in f32_sm90.cu: half as fast on the machines concerned, but
 *      its exponents are those of fp32, so nothing needs to be scaled, and tiles stay in shared
 *      memory as they came.
 *   2. Matrix instructions truncate when they add to an accumulator, so a long sum drifts towards
 *      0. Products of parts a' b' and the smaller ones have accumulators of their own; Q K^T of 64
 *      columns, and P V of one tile of keys, are added up by ordinary, rounding, additions.
 *   3. Column t of a left operand may be any key as long as row t of the right one is the same:
 *      keys 2t and 2t+1 take the places t and t+4, and P is a left operand where it arose.
 *   4. ldmatrix moves 32-bit numbers as pairs of 16-bit ones; V, which it cannot transpose, is
 *      read one number at a time, from rows padded so that no bank is met twice.
 *
 * An infinity has no second part (inf - inf), and one times what a small second part is would have
 * any sign. So it makes NaN of a product, and where a product is NaN it is made again with care:
 * infinities meet first parts only. Then they go where the formula takes them, and no product
 * without any pays for more than the look at its result.
 */
#include "kernels/f32.cuh"
#include "kernels/f32_variants.h"
#include "kernels/tile.cuh"

#if !FASHIM_TURING
namespace f32
{

/* Terms of Q K^T that an accumulator of matrix instructions sums, which truncates. */
#define SUM_TERMS 64

/* N numbers as sums of two of 11 digits each. CAREFUL: also of what is infinite, or would be once
 * rounded; `finite` is then the first part where that is a number, and else 0. */
template <int N, bool CAREFUL = false> struct parts {
	uint32_t high[N], low[N], finite[CAREFUL ? N : 1];

	__device__ __forceinline__ void set(int n, float x)
	{
		high[n] = round_tf32(x);
		if (!CAREFUL) {
			low[n] = round_tf32(x - __uint_as_float(high[n]));
			return;
		}
		const bool number = fabsf(x) < INFINITY;
		if (number && !(fabsf(__uint_as_float(high[n])) < INFINITY))
			high[n] = __float_as_uint(x) & 0xffffe000; /* towards 0 */
		low[n] = number ? round_tf32(x - __uint_as_float(high[n])) : 0;
		finite[CAREFUL ? n : 0] = number ? high[n] : 0;
	}
	__device__ __forceinline__ void set_all(const uint32_t (&bits)[N])
	{
#pragma unroll
		for (int n = 0; n < N; n++)
			set(n, __uint_as_float(bits[n]));
	}
	/* What meets the other's second parts. */
	__device__ __forceinline__ const uint32_t *across(void) const
	{
		return CAREFUL ? finite : high;
	}
};

/* high += a' b', low += a' b'' + a'' b' */
template <int N, bool A, bool B>
static __device__ __forceinline__ void multiply_parts(float *high, float *low,
						      const struct parts<4, A> &a,
						      const struct parts<N, B> &b, int n)
{
	multiply_tf32(low, a.low, b.across()[n], b.across()[n + 1]);
	multiply_tf32(low, a.across(), b.low[n], b.low[n + 1]);
	multiply_tf32(high, a.high, b.high[n], b.high[n + 1]);
}

/* Is any of these NaN, in any lane? */
template <int N> static __device__ __forceinline__ bool any_nan(const float (&x)[N])
{
	bool nan = false;

#pragma unroll
	for (int n = 0; n < N; n++)
		nan = nan || x[n] != x[n];
	return __any_sync(WARP_ALL, nan);
}

/* S = Q K^T, a sum of `terms`; q and k are this lane's addresses for load_matrix. */
template <int WIDTH, int KEYS, bool CAREFUL>
static __device__ __forceinline__ void scores_once(float (&s)[KEYS / 2], const float *q,
						   const float *k, int terms)
{
	constexpr int LINE = WIDTH + PIECE<float>;
	constexpr bool LONG = WIDTH > SUM_TERMS;
	float low[KEYS / 2], some[KEYS / 2];
	float(&high)[KEYS / 2] = LONG ? some : s;

#pragma unroll
	for (int n = 0; n < KEYS / 2; n++)
		s[n] = low[n] = 0.0f;
#pragma unroll 1
	for (int first = 0; first < (LONG ? terms : 1); first += SUM_TERMS) {
		const int last = LONG ? min(first + SUM_TERMS, terms) : terms;

#pragma unroll
		for (int n = 0; n < KEYS / 2; n++)
			high[n] = 0.0f;
#pragma unroll(CAREFUL ? 1 : 2)
		for (int d = first; d < last; d += 8) {
			uint32_t bits[4];
			struct parts<4, CAREFUL> qp, kp;

			load_matrix(bits, q + d);
			qp.set_all(bits);
#pragma unroll
			for (int n = 0; n < KEYS / 16; n++) {
				load_matrix(bits, k + 16 * n * LINE + d);
				kp.set_all(bits);
				multiply_parts(&high[8 * n], &low[8 * n], qp, kp, 0);
				multiply_parts(&high[8 * n + 4], &low[8 * n + 4], qp, kp, 2);
			}
		}
#pragma unroll
		for (int n = 0; LONG && n < KEYS / 2; n++)
			s[n] += high[n];
	}
#pragma unroll
	for (int n = 0; n < KEYS / 2; n++)
		s[n] += low[n];
}
template <int WIDTH, int KEYS>
static __device__ __forceinline__ void scores(float (&s)[KEYS / 2], const float *q, const float *k,
					      int terms)
{
	scores_once<WIDTH, KEYS, false>(s, q, k, terms);
	if (any_nan(s))
		scores_once<WIDTH, KEYS, true>(s, q, k, terms);
}

/* P V over a tile, for 16 columns; v is the lane's first number. */
template <int LINE, int KEYS, bool CAREFUL>
static __device__ __forceinline__ void
values_once(float (&d)[8], const struct parts<4> (&pp)[KEYS / 8], const float *v)
{
	float high[2][4] = {}, low[2][4] = {};

#pragma unroll
	for (int m = 0; m < KEYS / 8; m++)
#pragma unroll
		for (int c = 0; c < 2; c++) {
			const float *const at = v + 8 * m * LINE + 8 * c;
			struct parts<2, CAREFUL> vp;
			vp.set(0, at[0]);
			vp.set(1, at[LINE]);
			multiply_parts(high[c], low[c], pp[m], vp, 0);
		}
#pragma unroll
	for (int e = 0; e < 8; e++)
		d[e] = high[e / 4][e % 4] + low[e / 4][e % 4];
}

/* O = factor O + P V, of which there are `columns`; v is the lane's first number. */
template <int WIDTH, int KEYS>
static __device__ __forceinline__ void values(float (&o)[WIDTH / 2], const float (&p)[2][KEYS / 4],
					      const float (&factor)[2], const float *v, int columns)
{
	constexpr int LINE = WIDTH + PIECE<float>;
	struct parts<4> pp[KEYS / 8];

#pragma unroll
	for (int m = 0; m < KEYS / 8; m++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			pp[m].set(e, p[e % 2][2 * m + e / 2]);
#pragma unroll
	for (int n = 0; n < WIDTH / 8; n += 2) {
		if (8 * n >= columns)
			break; /* also keeps V from being read too far ahead: registers are few */
		float d[8];

		values_once<LINE, KEYS, false>(d, pp, v + 8 * n);
		if (any_nan(d))
			values_once<LINE, KEYS, true>(d, pp, v + 8 * n);
#pragma unroll
		for (int e = 0; e < 8; e++)
			o[4 * n + e] = o[4 * n + e] * factor[e / 2 % 2] + d[e];
	}
}

/* WARPS warps of 16 rows each, tiles of KEYS keys; D, Dv <= WIDTH. */
template <int WIDTH, int KEYS, int WARPS>
static __device__ __forceinline__ void attention(const struct attn_args &a)
{
	constexpr int ROWS = 16 * WARPS, LINE = WIDTH + PIECE<float>, THREADS = 32 * WARPS;

	DYNAMIC_SHARED(float, shared);
	const struct view w = view_of(a, ROWS);
	const int thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4;
	const int row0 = thread / 32 * 16, first = w.first + row0;
	const bool idle = first >= a.Sq; /* this warp only helps to load */

	float *const k_tile = shared + ROWS * LINE, *const v_tile = k_tile + KEYS * LINE;
	const float *const q_own = shared + (row0 + lane % 16) * LINE + lane / 16 * 4;
	const float *const k_own = k_tile + (lane / 16 * 8 + lane % 8) * LINE + lane / 8 % 2 * 4;
	const float *const v_own = v_tile + 2 * t * LINE + g;

	const float exponent[2] = {w.exponent, w.exponent};
	int tile, end;

	/* where an operand lies, and how to read it, is worked out for each tile: registers are few
	 */
	auto load = [&](float *to, const struct attn_tensor &operand, int n, int columns) {
		const float *at = (const float *)matrix_at(operand, w.b, w.h, a.H);
		int again = thread;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900 /* it is not kept there, either */
		asm volatile("mov.u32 %0, %%tid.x;" : "=r"(again));
#endif
		load_tile<float, KEYS, WIDTH, THREADS>(to, at, operand, pieces_of(operand, at),
						       n * KEYS, a.Sk, columns, again);
	};
	key_tiles(a, shared_length(a, w, w.first), w.first, min(w.first + ROWS, a.Sq) - 1, KEYS,
		  &tile, &end);
	const float *const q = (const float *)matrix_at(a.q, w.b, w.h, a.H);
	load_tile<float, ROWS, WIDTH, THREADS>(shared, q, a.q, pieces_of(a.q, q), w.first, a.Sq,
					       a.D, thread);
	if (tile < end)
		load(k_tile, a.k, tile, a.D);
	copy_commit();
	copy_wait();
	__syncthreads();

	float o[WIDTH / 2], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.0f, 0.0f};
#pragma unroll
	for (int n = 0; n < WIDTH / 2; n++)
		o[n] = 0.0f;
#pragma unroll 1
	for (; tile < end; tile++) {
		const int j0 = tile * KEYS;
		float s[KEYS / 2], x[2][KEYS / 4], factor[2];

		load(v_tile, a.v, tile, a.Dv);
		copy_commit();
		if (!idle)
			scores<WIDTH, KEYS>(s, q_own, k_own, a.D);
		copy_wait();
		__syncthreads(); /* V is there, K may go */

		if (tile + 1 < end)
			load(k_tile, a.k, tile + 1, a.D);
		copy_commit();
		if (!idle) {
#pragma unroll
			for (int n = 0; n < KEYS / 2; n++)
				x[n / 2 % 2][n / 4 * 2 + n % 2] = s[n];
			if (!w.plain)
#pragma unroll
				for (int r = 0; r < 2; r++)
					modify<true, float>(x[r], a, w, first + g + 8 * r, j0 + 2 * t);
			limit<KEYS, true>(x, a, w, first, j0);
			softmax(x, row_max, row_sum, factor, exponent);
			values<WIDTH, KEYS>(o, x, factor, v_own, a.Dv);
		}
		copy_wait();
		__syncthreads(); /* K is there, V may go */
	}
	if (!idle)
		finish<WIDTH, true>(o, row_sum, row_max, a, w, first + g);
}

} // namespace f32

#define F32_KERNEL(width, keys, warps, per_sm, start, tile)                                        \
	extern "C" __global__ void __launch_bounds__(32 * warps, per_sm)                           \
		fashim_f32_d##width(const __grid_constant__ struct attn_args args)                 \
	{                                                                                          \
		f32::attention<width, keys, warps>(args);                                          \
	}                                                                                          \
	SIM_KERNEL(fashim_f32_d##width)
F32_VARIANTS(F32_KERNEL)
#endif
