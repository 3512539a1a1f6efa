/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention that rounds where the program rounds: O as the unfused chain would have it, up to
 * the order of its fp32 sums.
 *
 * What: a program in 16 bits stores S = Q K^T, S times the scale, S plus its bias, and P divided by
 * its sum, each in 16 bits. Fused kernels keep all of them in fp32, which is closer to the exact O
 * and yet another O: in bf16 by 0.6 to 1.5 % root mean square where scores are large, which some
 * models make visible. This kernel repeats every such step (`round_s` of attention.h, with
 * ATTN_ROUND_WEIGHTS), at the price of walking over the keys twice.
 *
 * How: first K alone, for the maximum and the sum of each row, which each lane keeps for its own
 * columns, so that no shuffle stands in the loop; then K again and V, with P = exp(x - maximum) /
 * sum as it is stored. Both walks compute x by the same instructions, so that no exponent is ever
 * positive and the weights of a row add up to one.
 *
 * Why not more: three products instead of two, two exponentials a score, one row of warps a block.
 * It is asked for only where a faster kernel moved the program's O too far.
 *
 * Measured (H100, other work beside it, bf16, B2 H8 S512 D64): 55 us, split.cu 12, the program's own
 * five kernels 62; S1024 91 us, tma.cu 20, the program 232. O differs from the program's by 1e-5
 * root mean square, where the others move it by 1e-2; with S rounded but not P, by 2.5e-3.
 */
#include "kernels/products.cuh"
#include "kernels/rounded_variants.h"
#include "kernels/rows_out.cuh"

/* One tile of x for a warp's 16 rows: S with the program's roundings, biases, masks. */
template <typename T, int KEYS, int WIDTH>
static __device__ __forceinline__ void
rounded_tile(float (&x)[2][KEYS / 4], const struct queries<T, 1, WIDTH> &queries, const T *k,
	     const struct attn_args &a, const struct view &w, float alpha, float after, int first,
	     int j0)
{
	const bool product = a.spec.round_s & ATTN_ROUND_PRODUCT;
	const bool scaled = a.spec.round_s & ATTN_ROUND_SCALED;
	const int i = first + threadIdx.x % 32 / 4, j = j0 + 2 * (threadIdx.x % 4);
	float s[1][KEYS / 8][4];

	score_tile<T, KEYS>(s, queries, k);
#pragma unroll
	for (int r = 0; r < 2; r++) {
#pragma unroll
		for (int n = 0; n < KEYS / 4; n += 2) {
			float2 two = make_float2(alpha * s[0][n / 2][2 * r],
						 alpha * s[0][n / 2][2 * r + 1]);
			if (product)
				two = unpack2<T>(pack2<T>(two.x, two.y));
			two.x *= after;
			two.y *= after;
			if (scaled)
				two = unpack2<T>(pack2<T>(two.x, two.y));
			x[r][n] = two.x;
			x[r][n + 1] = two.y;
		}
		modify_scaled<true>(x[r], a, w, 1.0f, i + 8 * r, j);
	}
	hide_tile<true, KEYS>(x, a, w, first, j0);
}

/* exp(x - row_max), where a row that has seen no key yet counts from 0. */
static __device__ __forceinline__ float weight_of(float x, float row_max)
{
	return exp2_fast((x - (row_max == -INFINITY ? 0.0f : row_max)) * LOG2E);
}

/* The maxima and sums of the lane's own columns, with those of one tile. */
template <int N>
static __device__ __forceinline__ void count_tile(const float (&x)[2][N], float (&row_max)[2],
						  float (&row_sum)[2])
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float most = row_max[r], sum = 0.0f;
#pragma unroll
		for (int n = 0; n < N; n++)
			most = fmaxf(most, x[r][n]); /* passes NaN by; exp2 brings it back */
#pragma unroll
		for (int n = 0; n < N; n++)
			sum += weight_of(x[r][n], most);
		row_sum[r] = row_sum[r] * weight_of(row_max[r], most) + sum;
		row_max[r] = most;
	}
}

/* The row's maximum and sum, from those of the four lanes that share it. */
static __device__ __forceinline__ void count_row(float &row_max, float &row_sum)
{
	float most = fmaxf(row_max, __shfl_xor_sync(WARP_ALL, row_max, 1));

	most = fmaxf(most, __shfl_xor_sync(WARP_ALL, most, 2));
	row_sum *= row_max == -INFINITY ? 1.0f : weight_of(row_max, most); /* 0 or NaN stays */
	row_sum += __shfl_xor_sync(WARP_ALL, row_sum, 1);
	row_sum += __shfl_xor_sync(WARP_ALL, row_sum, 2);
	row_max = most;
}

/* ROW_WARPS warps of 16 rows each, with tiles of KEYS keys; D, Dv <= WIDTH. */
template <typename T, int WIDTH, int KEYS, int ROW_WARPS>
static __device__ __forceinline__ void attention(const struct attn_args &a)
{
	constexpr int ROWS = 16 * ROW_WARPS, LINE = WIDTH + PAD, THREADS = 32 * ROW_WARPS;

	DYNAMIC_SHARED(T, shared);
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, thread = threadIdx.x;
	const struct view w = view_of(a, ROWS);
	const int first = w.first + 16 * warp;
	const bool idle = first >= a.Sq; /* this warp only helps to load */
	const float scale = scale_of(a, w.b, w.h);
	const float alpha = a.spec.round_s & ~ATTN_ROUND_WEIGHTS ? a.spec.alpha : scale;
	const float after = alpha == scale ? 1.0f : scale / alpha;

	T *const own = shared + 16 * warp * LINE;
	T *const k_tile = shared + ROWS * LINE, *const v_tile = k_tile + KEYS * LINE;
	const int a_offset = (lane % 16) * LINE + lane / 16 * 8;
	const int k_offset = (lane / 16 * 8 + lane % 8) * LINE + lane / 8 % 2 * 8;

	const T *const q = (const T *)tensor_at(a.q, w.b, w.h, a.H);
	const T *const k = (const T *)tensor_at(a.k, w.b, w.h, a.H);
	const T *const v = (const T *)tensor_at(a.v, w.b, w.h, a.H);
	const int k_pieces = pieces_of(a.k, k), v_pieces = pieces_of(a.v, v);
	auto load_keys = [&](T *to, int tile) {
		load_tile<T, KEYS, WIDTH, THREADS>(to, k, a.k, k_pieces, tile * KEYS, a.Sk, a.D,
						   thread);
		copy_commit();
	};

	int begin, end;
	key_tiles(a, shared_length(a, w, w.first), w.first, min(w.first + ROWS, a.Sq) - 1, KEYS,
		  &begin, &end);
	load_tile<T, ROWS, WIDTH, THREADS>(shared, q, a.q, pieces_of(a.q, q), w.first, a.Sq, a.D,
					   thread);
	if (begin < end)
		load_keys(k_tile, begin);
	copy_commit();
	copy_wait();
	__syncthreads();

	struct queries<T, 1, WIDTH> queries;
	queries.init(own + a_offset);
	float x[2][KEYS / 4], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.0f, 0.0f};

	/* the first walk: K in both tiles by turns */
#pragma unroll 1
	for (int tile = begin; tile < end; tile++) {
		T *const here = (tile - begin) % 2 ? v_tile : k_tile;
		if (tile + 1 < end)
			load_keys((tile - begin) % 2 ? k_tile : v_tile, tile + 1);
		if (!idle) {
			rounded_tile<T, KEYS>(x, queries, here + k_offset, a, w, alpha, after,
					      first, tile * KEYS);
			count_tile(x, row_max, row_sum);
		}
		copy_wait();
		__syncthreads(); /* the next keys are there, these may go */
	}

	float part[2], out[1][2], sums[1][2];
#pragma unroll
	for (int r = 0; r < 2; r++) {
		count_row(row_max[r], row_sum[r]);
		part[r] = count_sink(row_sum[r], row_max[r], a, w.b, w.h, first + 8 * r + lane / 4,
				     1.0f);
		part[r] = row_sum[r] == 0.0f ? 0.0f : part[r] / row_sum[r];
		sums[0][r] = row_sum[r] == 0.0f ? 0.0f : 1.0f; /* the weights hold the rest */
		out[0][r] = a.spec.out_scale;
	}

	float o[1][WIDTH / 8][4];
#pragma unroll
	for (int n = 0; n < WIDTH / 2; n++)
		o[0][n / 4][n % 4] = 0.0f;
	if (begin < end)
		load_keys(k_tile, begin);
	copy_wait();
	__syncthreads();

	/* the second walk */
#pragma unroll 1
	for (int tile = begin; tile < end; tile++) {
		const int j0 = tile * KEYS;

		load_tile<T, KEYS, WIDTH, THREADS>(v_tile, v, a.v, v_pieces, j0, a.Sk, a.Dv,
						   thread);
		copy_commit();
		if (!idle) {
			rounded_tile<T, KEYS>(x, queries, k_tile + k_offset, a, w, alpha, after,
					      first, j0);
#pragma unroll
			for (int r = 0; r < 2; r++)
#pragma unroll
				for (int n = 0; n < KEYS / 4; n++)
					x[r][n] = weight_of(x[r][n], row_max[r]) * part[r];
		}
		copy_wait();
		__syncthreads(); /* V is there, K may go */
		if (tile + 1 < end)
			load_keys(k_tile, tile + 1);
		if (!idle) {
			float p[1][KEYS / 8][4];
#pragma unroll
			for (int n = 0; n < KEYS / 2; n++)
				p[0][n / 4][n % 4] = x[n % 4 / 2][n / 4 * 2 + n % 2];
			value_tile<T, KEYS, WIDTH>(o, p, v_tile + a_offset);
		}
		copy_wait();
		__syncthreads(); /* K is there, V may go */
	}
	if (idle)
		return;
	divide_rows<T, 1, WIDTH>(o, sums, out, own, a, w);
	store_rows<T, 1, WIDTH>(o, own, a, w, first);
}

#define VARIANT(symbol, T, width, keys, row_warps, per_sm)                                         \
	extern "C" __global__ void __launch_bounds__(32 * row_warps, per_sm)                       \
		symbol(const __grid_constant__ struct attn_args args)                              \
	{                                                                                          \
		attention<T, width, keys, row_warps>(args);                                        \
	}                                                                                          \
	SIM_KERNEL(symbol)

#define ROUNDED_F16(rows, width, keys, row_warps, per_sm)                                          \
	VARIANT(fashim_rounded_f16_d##width##_r##rows, __half, width, keys, row_warps, per_sm)
#define ROUNDED_BF16(rows, width, keys, row_warps, per_sm)                                         \
	VARIANT(fashim_rounded_bf16_d##width##_r##rows, __nv_bfloat16, width, keys, row_warps,     \
		per_sm)
EXPAND_TYPES(ROUNDED_VARIANTS, ROUNDED_F16, ROUNDED_BF16)
