/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 9: fused, the first product on the tensor cores.
 *
 * Adds: the two kernels of step 8 become one: S stays in shared memory, a tile of 32 x 32 at a
 *       time. Q K^T is WMMA's, P V for now a loop over keys as in step 2.
 * Why:  S and its way to memory and back grow with Sq x Sk; everything else does not.
 * How:  S is not known whole any more, so O is rescaled as the maximum grows (step 1). What a
 *       fragment holds cannot be told apart, so rows cannot be rescaled in it: O is kept by
 *       threads, 16 elements each, and S leaves its fragment through shared memory. The softmax of
 *       a row is done by one thread, as in step 2 before shuffles.
 * L4:   986 us, against 211 of the pair of step 8. Half the multiplications are as slow as before
 *       tensor cores, and it is the slower half that one waits for.
 * H200: 77 us, after 97: the scalar half is no disaster here. What is saved is the way of S to
 *       memory and back (0.9 warps wait for memory, 2.6 before).
 */
#include "kernels/ladder/ladder.cuh"

namespace step09
{

using namespace nvcuda;

constexpr int ROWS = 32, KEYS = 32, THREADS = 128;
constexpr int WIDTH = LADDER_D + 8;	       /* of lines, which then start in different banks */
constexpr int S_WIDTH = KEYS + 4;	       /* of lines of S, likewise */
constexpr int OWN = ROWS * LADDER_D / THREADS; /* elements of O per thread, all of one column */

/* S = Q K^T: a warp has one square of 16 x 16 out of the four. */
static __device__ __forceinline__ void multiply_scores(float (&s)[ROWS][S_WIDTH],
						       const __half (&q)[ROWS][WIDTH],
						       const __half (&k)[KEYS][WIDTH], int warp)
{
	const int row = warp / 2 * 16, key = warp % 2 * 16;
	wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> rows;
	wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> keys;
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;

	wmma::fill_fragment(sum, 0.0f);
#pragma unroll
	for (int d = 0; d < LADDER_D; d += 16) {
		wmma::load_matrix_sync(rows, &q[row][d], WIDTH);
		wmma::load_matrix_sync(keys, &k[key][d], WIDTH);
		wmma::mma_sync(sum, rows, keys, sum);
	}
	wmma::store_matrix_sync(&s[row][key], sum, S_WIDTH, wmma::mem_row_major);
}

/* The scores s of row i against the keys from j0 on become weights. max, sum: of the row so far.
 * Returns what the row of O is to be multiplied by. */
static __device__ __forceinline__ float softmax_row(const struct attn_args &a, float *s, int i,
						    int j0, float &max, float &sum)
{
	const int begin = keys_begin(a, i) - j0, end = keys_end(a, i) - j0;
	const float before = max;
	float keep;

	for (int c = 0; c < KEYS; c++) {
		s[c] = c >= begin && c < end ? a.spec.scale * s[c] : -INFINITY;
		max = fmaxf(max, s[c]);
	}
	/* -inf - -inf is no number: until a key was seen, there is nothing to keep */
	keep = before == -INFINITY ? 0.0f : __expf(before - max);
	sum *= keep;
	for (int c = 0; c < KEYS; c++) {
		s[c] = s[c] == -INFINITY ? 0.0f : __expf(s[c] - max);
		sum += s[c];
	}
	return keep;
}

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_09_fused_scalar_pv(const __grid_constant__ struct attn_args a)
{
	__shared__ __align__(32) __half q_tile[ROWS][WIDTH], k_tile[KEYS][WIDTH];
	__shared__ __align__(32) __half v_tile[KEYS][WIDTH];
	__shared__ __align__(32) float s[ROWS][S_WIDTH];
	__shared__ float keep[ROWS], factor[ROWS];
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	const int column = me % LADDER_D, row = me / LADDER_D; /* of O: this and every second on */
	float own[OWN] = {0.0f}, max = -INFINITY, sum = 0.0f;  /* the latter of row `me` */

	load_tile(q_tile, q, first, a.Sq, a.D, me, THREADS);
	for (int j0 = keys_begin(a, first); j0 < keys_end(a, last); j0 += KEYS) {
		load_tile(k_tile, k, j0, a.Sk, a.D, me, THREADS);
		load_tile(v_tile, v, j0, a.Sk, a.Dv, me, THREADS);
		__syncthreads(); /* the tile is there */
		multiply_scores(s, q_tile, k_tile, me / 32);
		__syncthreads(); /* S is there */
		if (me < ROWS)
			keep[me] = softmax_row(a, s[me], first + me, j0, max, sum);
		__syncthreads(); /* P is there */
#pragma unroll
		for (int n = 0; n < OWN; n++) {
			const int r = row + THREADS / LADDER_D * n;

			own[n] *= keep[r];
			for (int c = 0; c < KEYS; c++)
				own[n] += s[r][c] * __half2float(v_tile[c][column]);
		}
		__syncthreads(); /* the tile may go */
	}

	if (me < ROWS)
		factor[me] = row_factor(a, sum);
	__syncthreads();
#pragma unroll
	for (int n = 0; n < OWN; n++) {
		const int r = row + THREADS / LADDER_D * n;

		if (first + r < a.Sq && column < a.Dv)
			store(o, first + r, column, own[n] * factor[r]);
	}
}
LADDER_STEP(09_fused_scalar_pv, ROWS, THREADS, 0)

} /* namespace step09 */
