/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 10: the second product on the tensor cores too.
 *
 * Adds: P V by WMMA, like Q K^T in step 9, on the same tiles of 32 rows and 32 keys.
 * Why:  in step 9 half of the multiplications still went through the ordinary lanes, one at a
 *       time, and took nearly all of its 986 us.
 * How:  tiles.cuh has both products. P goes out to shared memory as halves, a left operand like
 *       any other. O must lie there too now, not with the threads: its fragments are loaded, added
 *       to and stored again for every tile, and between two tiles its rows are rescaled. That and
 *       the softmax is done by one thread a row: 32 scores and 64 columns of O one after another,
 *       while three warps of four wait at the barrier.
 * L4:   221 us, 4.45 times faster.
 * H200: 79 us, after 77: nothing gained. A third of the instructions is gone (17 to 11 million),
 *       but each tile waits for one warp's softmax at a barrier (1.4 warps for each that issues,
 *       0.7 before), and O goes through shared memory. With 128 blocks on 132 multiprocessors no
 *       other block fills the gap, as on the L4.
 *
 * 30 KB of shared memory and 128 threads: three such blocks fit a multiprocessor of the L4.
 */
#include "kernels/ladder/tiles.cuh"

namespace step10
{

constexpr int ROWS = 32, KEYS = 32, WARPS = 4, THREADS = 32 * WARPS;
typedef struct tiles<ROWS, KEYS, 1> block;

/* Row r of S, which is row i of all, becomes P, and its row of O is rescaled; all by one thread,
 * which keeps the row's max and sum. */
static __device__ void softmax_row(const struct attn_args &a, block &t, int r, int i, int j0,
				   float &max, float &sum)
{
	const int begin = keys_begin(a, i) - j0, end = keys_end(a, i) - j0;
	const float old = max;

	for (int k = 0; k < KEYS; k++) {
		const float x = a.spec.scale * t.s[r][k];
		t.s[r][k] = k >= begin && k < end ? x : -INFINITY;
		max = fmaxf(max, t.s[r][k]);
	}
	const float base = max == -INFINITY ? 0.0f : max; /* -inf: nothing seen so far */
	const float keep = __expf(old - base);
	sum *= keep;
	for (int k = 0; k < KEYS; k++) {
		const float weight = __expf(t.s[r][k] - base);
		t.p[r][k] = __float2half_rn(weight);
		sum += weight;
	}
	for (int c = 0; c < LADDER_D; c++)
		t.o[r][c] *= keep;
}

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_10_wmma_pv(const __grid_constant__ struct attn_args a)
{
	__shared__ block t;
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, warp = me / 32, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	float max = -INFINITY, sum = 0.0f; /* of row `me`, if there is one */

	load_tile(t.q, q, first, a.Sq, a.D, me, THREADS);
	clear_sums<THREADS>(t, me);
	for (int j = keys_begin(a, first) / KEYS * KEYS; j < keys_end(a, last); j += KEYS) {
		__syncthreads(); /* nobody needs the last tile any more */
		load_tile(t.k[0], k, j, a.Sk, a.D, me, THREADS);
		load_tile(t.v[0], v, j, a.Sk, a.Dv, me, THREADS);
		__syncthreads(); /* K and V are there */
		multiply_scores<WARPS>(t, 0, warp);
		__syncthreads(); /* S is there */
		if (me < ROWS)
			softmax_row(a, t, me, first + me, j, max, sum);
		__syncthreads(); /* P is there */
		multiply_values<WARPS>(t, 0, warp);
	}

	__syncthreads();
	if (me < ROWS)
		for (int c = 0; c < LADDER_D; c++)
			t.o[me][c] *= row_factor(a, sum);
	__syncthreads();
	for (int e = me; e < ROWS * LADDER_D; e += THREADS) {
		const int r = e / LADDER_D, c = e % LADDER_D;

		if (first + r < a.Sq && c < a.Dv)
			store(o, first + r, c, t.o[r][c]);
	}
}
LADDER_STEP(10_wmma_pv, ROWS, THREADS, 0)

} /* namespace step10 */
