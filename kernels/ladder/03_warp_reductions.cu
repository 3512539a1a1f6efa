/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 3: maxima and sums by shuffles.
 *
 * Adds: a warp takes a row of the tile of S, a lane a key. The largest of 32 numbers is found in
 *       five steps: each lane asks the lane 16 further for its number, then 8, 4, 2 and 1, and
 *       keeps the larger; in the end every lane has the result. The sum likewise.
 * Why:  in step 2 one thread a row walked over the keys while 96 of 128 threads waited, twice per
 *       tile. Registers of another lane are also nearer than shared memory.
 * How:  maximum, weights and sum need no barrier between them any more, as a row stays within one
 *       warp. What is left are four: tile, S, P, and the end of the tile's use.
 * L4:   1634 us, from 3652.
 * H200: 147 us, slower than 131. No instruction is saved (41 million either way), and the ten
 *       shuffles of a row wait for one another (0.4 warps for each that issues, 0.2 before), where
 *       step 2 had 32 rows side by side. Waiting at barriers, which this step cures, was no cost
 *       there.
 */
#include "kernels/ladder/ladder.cuh"

namespace step03
{

constexpr int ROWS = 32, KEYS = 32, THREADS = 128, WARPS = THREADS / 32;
constexpr int OWN = ROWS * LADDER_D / THREADS; /* elements of O per thread, all of one column */

/* A lane's score of a row becomes its weight. max, sum: of the row so far. Returns what the row of
 * O is to be multiplied by. */
static __device__ __forceinline__ float softmax_step(float &x, float &max, float &sum)
{
	float largest = x, total, keep;

#pragma unroll
	for (int distance = 16; distance > 0; distance /= 2)
		largest = fmaxf(largest, __shfl_xor_sync(WARP_ALL, largest, distance));
	largest = fmaxf(largest, max);
	/* -inf - -inf is no number: until a key was seen, there is nothing to keep */
	keep = max == -INFINITY ? 0.0f : __expf(max - largest);
	x = x == -INFINITY ? 0.0f : __expf(x - largest);

	total = x;
#pragma unroll
	for (int distance = 16; distance > 0; distance /= 2)
		total += __shfl_xor_sync(WARP_ALL, total, distance);
	sum = sum * keep + total;
	max = largest;
	return keep;
}

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_03_warp_reductions(const __grid_constant__ struct attn_args a)
{
	__shared__ __half q_tile[ROWS][LADDER_D], k_tile[KEYS][LADDER_D + 2];
	__shared__ __half v_tile[KEYS][LADDER_D];
	__shared__ float s[ROWS][KEYS + 1], keep[ROWS], sum[ROWS];
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, lane = me % 32, warp = me / 32, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	const int column = me % LADDER_D, row = me / LADDER_D; /* of O: this and every second on */
	float own[OWN] = {0.0f};
	float row_max[ROWS / WARPS], row_sum[ROWS / WARPS]; /* of rows warp, warp + WARPS, ... */

	load_tile(q_tile, q, first, a.Sq, a.D, me, THREADS);
#pragma unroll
	for (int n = 0; n < ROWS / WARPS; n++) {
		row_max[n] = -INFINITY;
		row_sum[n] = 0.0f;
	}

	for (int j0 = keys_begin(a, first); j0 < keys_end(a, last); j0 += KEYS) {
		load_tile(k_tile, k, j0, a.Sk, a.D, me, THREADS);
		load_tile(v_tile, v, j0, a.Sk, a.Dv, me, THREADS);
		__syncthreads();

		for (int e = me; e < ROWS * KEYS; e += THREADS) {
			const int r = e / KEYS, c = e % KEYS, i = first + r, j = j0 + c;
			float x = 0.0f;

#pragma unroll 8
			for (int d = 0; d < LADDER_D; d++)
				x += __half2float(q_tile[r][d]) * __half2float(k_tile[c][d]);
			s[r][c] = j >= keys_begin(a, i) && j < keys_end(a, i) ? a.spec.scale * x
									      : -INFINITY;
		}
		__syncthreads();

#pragma unroll
		for (int n = 0; n < ROWS / WARPS; n++) {
			const int r = warp + WARPS * n;
			float x = s[r][lane];
			const float factor = softmax_step(x, row_max[n], row_sum[n]);

			s[r][lane] = x;
			if (lane == 0)
				keep[r] = factor;
		}
		__syncthreads();

#pragma unroll
		for (int n = 0; n < OWN; n++) {
			const int r = row + THREADS / LADDER_D * n;

			own[n] *= keep[r];
			for (int c = 0; c < KEYS; c++)
				own[n] += s[r][c] * __half2float(v_tile[c][column]);
		}
		__syncthreads();
	}

	if (lane == 0)
#pragma unroll
		for (int n = 0; n < ROWS / WARPS; n++)
			sum[warp + WARPS * n] = row_sum[n];
	__syncthreads();
#pragma unroll
	for (int n = 0; n < OWN; n++) {
		const int r = row + THREADS / LADDER_D * n;

		if (first + r < a.Sq && column < a.Dv)
			store(o, first + r, column, own[n] * row_factor(a, sum[r]));
	}
}
LADDER_STEP(03_warp_reductions, ROWS, THREADS, 0)

} /* namespace step03 */
