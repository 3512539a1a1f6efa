/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 8: tensor cores by hand, in two kernels.
 *
 * Adds: the matrix instructions through WMMA: a warp multiplies 16x16 by 16x16 halves and adds to
 *       16x16 floats. Those squares, "fragments", are spread over the registers of the warp in a
 *       way that is not documented; they can be loaded, multiplied, scaled and stored.
 * Why:  step 7 says where the time is. Two kernels are the easy way: the first leaves S in memory,
 *       the second does the softmax and P V.
 * How:  S: a block has a tile of 64 x 64, a warp 16 rows of it: four fragments, each the sum of
 *       four products. P V: a block has 32 rows. It walks over them once for maximum and sum, and
 *       once more, with both known, for P and the product: O is never rescaled, and stays in
 *       fragments.
 * L4:   211 us or so, and 1.8 times what the same became when fused (step 13).
 * H200: 97 us, 74 of them the second kernel. It is no match for the library's 13: its warps wait
 *       for memory (2.6 for each that issues), and the tensor cores, busy for half a percent of the
 *       time, wait with them.
 */
#include "kernels/ladder/ladder.cuh"

namespace step08
{

using namespace nvcuda;

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> right_transposed;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> square;

constexpr int PAD = 8; /* halves: 16 bytes, so that lines start in different banks */
constexpr int THREADS = 128, WARPS = THREADS / 32;
constexpr int ROWS = 32, KEYS = 64; /* of the second kernel */

/* The row of S that query i of head h, batch b has. */
static __device__ __forceinline__ float *scores_at(const struct ladder_scores &args, int i)
{
	const struct attn_args &a = args.attn;

	return (float *)args.scores + (((int64_t)blockIdx.z * a.H + blockIdx.y) * a.Sq + i) * a.Sk;
}

/* ---- S = scale Q K^T ------------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(LADDER_SCORES_THREADS)
	fashim_ladder_scores(const __grid_constant__ struct ladder_scores args)
{
	constexpr int TILE = 64;
	static_assert(TILE == LADDER_SCORES_ROWS && TILE == LADDER_SCORES_KEYS &&
			      TILE == 16 * WARPS && THREADS == LADDER_SCORES_THREADS,
		      "as launch.c has it");
	__shared__ __align__(32) __half q_tile[TILE][LADDER_D + PAD], k_tile[TILE][LADDER_D + PAD];
	__shared__ __align__(32) float s[TILE][TILE + 4];
	const struct attn_args &a = args.attn;
	const int tiles = (a.Sk + TILE - 1) / TILE; /* of keys */
	const int i0 = blockIdx.x / tiles * TILE, j0 = blockIdx.x % tiles * TILE;
	const int me = threadIdx.x, row = me / 32 * 16;

	load_tile(q_tile, matrix_of(a.q, blockIdx.z, blockIdx.y, a.H), i0, a.Sq, a.D, me, THREADS);
	load_tile(k_tile, matrix_of(a.k, blockIdx.z, blockIdx.y, a.H), j0, a.Sk, a.D, me, THREADS);
	__syncthreads();

	for (int key = 0; key < TILE; key += 16) {
		square sum;
		left q;
		right_transposed k; /* column by column, K^T lies as K does row by row */

		wmma::fill_fragment(sum, 0.0f);
#pragma unroll
		for (int d = 0; d < LADDER_D; d += 16) {
			wmma::load_matrix_sync(q, &q_tile[row][d], LADDER_D + PAD);
			wmma::load_matrix_sync(k, &k_tile[key][d], LADDER_D + PAD);
			wmma::mma_sync(sum, q, k, sum);
		}
		for (int e = 0; e < sum.num_elements; e++)
			sum.x[e] *= a.spec.scale;
		wmma::store_matrix_sync(&s[row][key], sum, TILE + 4, wmma::mem_row_major);
	}
	__syncthreads();
	for (int e = me; e < TILE * TILE; e += THREADS) {
		const int r = e / TILE, c = e % TILE;

		if (i0 + r < a.Sq && j0 + c < a.Sk)
			scores_at(args, i0 + r)[j0 + c] = s[r][c];
	}
}
SIM_KERNEL(fashim_ladder_scores)

/* ---- O = softmax(S) V ------------------------------------------------------------------------ */

/* The weight of a score, as the product will have it. */
static __device__ __forceinline__ __half weight_of(float x, float max)
{
	return __float2half_rn(__expf(x - max));
}

/* Maxima and sums of weights of the block's rows, a warp a row. */
static __device__ __forceinline__ void look_at_rows(const struct ladder_scores &args, int first,
						    float (&row_max)[ROWS], float (&row_sum)[ROWS])
{
	const struct attn_args &a = args.attn;
	const int lane = threadIdx.x % 32;

	for (int r = threadIdx.x / 32; r < ROWS && first + r < a.Sq; r += WARPS) {
		const float *const s = scores_at(args, first + r);
		const int begin = keys_begin(a, first + r), end = keys_end(a, first + r);
		float max = -INFINITY, sum = 0.0f;

		for (int j = begin + lane; j < end; j += 32)
			max = fmaxf(max, s[j]);
		max = warp_max(max);
		for (int j = begin + lane; j < end; j += 32)
			sum += __half2float(weight_of(s[j], max));
		sum = warp_sum(sum);
		if (lane == 0) {
			row_max[r] = max;
			row_sum[r] = sum;
		}
	}
}

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_08_unfused_pair(const __grid_constant__ struct ladder_scores args)
{
	__shared__ __align__(32) __half p[ROWS][KEYS + PAD], v_tile[KEYS][LADDER_D + PAD];
	__shared__ __align__(32) float sums[ROWS][LADDER_D + 4];
	__shared__ float row_max[ROWS], row_sum[ROWS];
	const struct attn_args &a = args.attn;
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, h = blockIdx.y, b = blockIdx.z;
	const int row = me / 64 * 16, column = me / 32 % 2 * 32; /* a warp's part of O: 16 x 32 */
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	square sum[2];

	look_at_rows(args, first, row_max, row_sum);
	for (int n = 0; n < 2; n++)
		wmma::fill_fragment(sum[n], 0.0f);

	for (int j0 = keys_begin(a, first); j0 < keys_end(a, last); j0 += KEYS) {
		__syncthreads();
		load_tile(v_tile, v, j0, a.Sk, a.Dv, me, THREADS);
		for (int e = me; e < ROWS * KEYS; e += THREADS) {
			const int r = e / KEYS, c = e % KEYS, i = first + r, j = j0 + c;
			const bool seen = i < a.Sq && j >= keys_begin(a, i) && j < keys_end(a, i);

			p[r][c] = seen ? weight_of(scores_at(args, i)[j], row_max[r])
				       : __float2half_rn(0.0f);
		}
		__syncthreads();
#pragma unroll
		for (int key = 0; key < KEYS; key += 16) {
			left weights;
			right values;

			wmma::load_matrix_sync(weights, &p[row][key], KEYS + PAD);
#pragma unroll
			for (int n = 0; n < 2; n++) {
				wmma::load_matrix_sync(values, &v_tile[key][column + 16 * n],
						       LADDER_D + PAD);
				wmma::mma_sync(sum[n], weights, values, sum[n]);
			}
		}
	}

	for (int n = 0; n < 2; n++)
		wmma::store_matrix_sync(&sums[row][column + 16 * n], sum[n], LADDER_D + 4,
					wmma::mem_row_major);
	__syncthreads();
	for (int e = me; e < ROWS * LADDER_D; e += THREADS) {
		const int r = e / LADDER_D, d = e % LADDER_D;

		if (first + r < a.Sq && d < a.Dv)
			store(o, first + r, d, sums[r][d] * row_factor(a, row_sum[r]));
	}
}
LADDER_STEP(08_unfused_pair, ROWS, THREADS, 0)

} /* namespace step08 */
