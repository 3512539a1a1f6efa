/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 4: eight warps, two barriers a tile.
 *
 * Adds: a warp has four query rows for itself, from scores to O, and shares nothing with the
 *       others but the tile of K and V. Two barriers are left: the tile is there; the tile may go.
 * Why:  each barrier makes all warps wait for the slowest. Six against two were 14 % of the time.
 * How:  a lane has one key for all four scores: K is read once from shared memory and used four
 *       times from a register. For O a lane has two columns of the four rows, and needs the
 *       weights of all 32 keys: these pass through shared memory within the warp, which a
 *       __syncwarp orders.
 * L4:   1029 us, with more care 839 to 870. The counters then said: tensor cores 0 %, memory 0.31
 *       %. It is the multiplications themselves that take the time, and no better use of memory
 *       will change that.
 * H200: 92 us, from 147. The counters say the same: tensor cores 0 %, memory 0 %. Twice the warps
 *       issue in 34 % of the cycles instead of 27, and a fifth of the instructions is gone.
 */
#include "kernels/ladder/ladder.cuh"

namespace step04
{

constexpr int ROWS = 32, KEYS = 32, WARPS = 8, THREADS = 32 * WARPS;
constexpr int OWN = ROWS / WARPS; /* rows of a warp */

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_04_light_barriers(const __grid_constant__ struct attn_args a)
{
	__shared__ __half q_tile[ROWS][LADDER_D], k_tile[KEYS][LADDER_D + 2];
	__shared__ __half v_tile[KEYS][LADDER_D];
	__shared__ __align__(16) float p[WARPS][KEYS][OWN]; /* four rows: one load */
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, lane = me % 32, warp = me / 32, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	float max[OWN], sum[OWN], own[OWN][2]; /* O: columns lane and lane + 32 */

	load_tile(q_tile, q, first, a.Sq, a.D, me, THREADS);
#pragma unroll
	for (int r = 0; r < OWN; r++) {
		max[r] = -INFINITY;
		sum[r] = own[r][0] = own[r][1] = 0.0f;
	}

	for (int j0 = keys_begin(a, first); j0 < keys_end(a, last); j0 += KEYS) {
		float x[OWN] = {0.0f};

		load_tile(k_tile, k, j0, a.Sk, a.D, me, THREADS);
		load_tile(v_tile, v, j0, a.Sk, a.Dv, me, THREADS);
		__syncthreads(); /* the tile is there */

		/* this lane's key with the warp's rows */
#pragma unroll 8
		for (int d = 0; d < LADDER_D; d++) {
			const float element = __half2float(k_tile[lane][d]);

#pragma unroll
			for (int r = 0; r < OWN; r++)
				x[r] += __half2float(q_tile[OWN * warp + r][d]) * element;
		}

#pragma unroll
		for (int r = 0; r < OWN; r++) {
			const int i = first + OWN * warp + r, j = j0 + lane;
			const bool seen = j >= keys_begin(a, i) && j < keys_end(a, i);
			const float score = seen ? a.spec.scale * x[r] : -INFINITY;
			const float largest = fmaxf(max[r], warp_max(score));
			/* -inf - -inf is no number: until a key was seen, there is nothing to keep
			 */
			const float keep = max[r] == -INFINITY ? 0.0f : __expf(max[r] - largest);
			const float weight = seen ? __expf(score - largest) : 0.0f;

			max[r] = largest;
			sum[r] = sum[r] * keep + warp_sum(weight);
			own[r][0] *= keep;
			own[r][1] *= keep;
			p[warp][lane][r] = weight;
		}
		__syncwarp(); /* the weights are there */

#pragma unroll 4
		for (int c = 0; c < KEYS; c++) {
			const float low = __half2float(v_tile[c][lane]);
			const float high = __half2float(v_tile[c][lane + 32]);

#pragma unroll
			for (int r = 0; r < OWN; r++) {
				own[r][0] += p[warp][c][r] * low;
				own[r][1] += p[warp][c][r] * high;
			}
		}
		__syncthreads(); /* the tile may go */
	}

#pragma unroll
	for (int r = 0; r < OWN; r++) {
		const int i = first + OWN * warp + r;
		const float factor = row_factor(a, sum[r]);

		if (i < a.Sq && lane < a.Dv)
			store(o, i, lane, own[r][0] * factor);
		if (i < a.Sq && lane + 32 < a.Dv)
			store(o, i, lane + 32, own[r][1] * factor);
	}
}
LADDER_STEP(04_light_barriers, ROWS, THREADS, 0)

} /* namespace step04 */
