/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 6: guards, and what they must guard.
 *
 * Adds: nothing to speed: step 4 with the numerical question answered in one place.
 * Why:  on the L4 this step was a layer of guards over a kernel that gave wrong numbers: exponents
 *       clamped, non-finite values replaced by 0, an epsilon added to every sum. It compiled and
 *       was off by 0.445. The clamp gave weight to keys that were masked; the epsilon changed every
 *       row a little; the replacement made an error look like a result.
 * How:  ask what can go wrong, and nothing else.
 *       1. -inf - -inf, where a row has seen no key yet: its maximum begins at the lowest finite
 *          number. exp(lowest - max) is 0 then, exp(-inf - lowest) is 0, and no case is left.
 *       2. 0 / 0, where a row sees no key at all: the call says what it wants (row_factor), and
 *          the comparison is with 0 exactly; a sum of weights that has a maximum is at least 1.
 *       3. Overflow: x - max is never positive, so no exponential exceeds 1 and no sum exceeds Sk.
 *          Products of halves stay below 2^39, far inside the range of float.
 *       NaN in an operand comes out as NaN: a program that divides by zero wants to see it.
 * L4:   no time; it was never right.
 * H200: 65 us, against step 4's 92, though not for the guards: a lane sums the weights of its own
 *       keys and they are added up at the end, which spares five of ten shuffles a row and tile
 *       (0.5 warps wait for these and shared memory, 1.2 before).
 */
#include "kernels/ladder/ladder.cuh"

#include <float.h>

namespace step06
{

constexpr int ROWS = 32, KEYS = 32, WARPS = 8, THREADS = 32 * WARPS;
constexpr int OWN = ROWS / WARPS; /* rows of a warp */

/* What a row has so far; the sum of weights is that of a lane's own keys. */
struct row {
	float max, sum, o[2]; /* O: columns lane and lane + 32 */
};

/* A lane's score of the row, -inf if masked, becomes its weight. */
static __device__ __forceinline__ float weigh(struct row &row, float score)
{
	const float largest = fmaxf(row.max, warp_max(score));
	const float keep = __expf(row.max - largest), weight = __expf(score - largest);

	row.max = largest;
	row.sum = row.sum * keep + weight;
	row.o[0] *= keep;
	row.o[1] *= keep;
	return weight;
}

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_06_guarded(const __grid_constant__ struct attn_args a)
{
	__shared__ __half q_tile[ROWS][LADDER_D], k_tile[KEYS][LADDER_D + 2];
	__shared__ __half v_tile[KEYS][LADDER_D];
	__shared__ __align__(16) float p[WARPS][KEYS][OWN]; /* four rows: one load */
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, lane = me % 32, warp = me / 32, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	struct row own[OWN];

	load_tile(q_tile, q, first, a.Sq, a.D, me, THREADS);
#pragma unroll
	for (int r = 0; r < OWN; r++)
		own[r] = {-FLT_MAX, 0.0f, {0.0f, 0.0f}};

	for (int j0 = keys_begin(a, first); j0 < keys_end(a, last); j0 += KEYS) {
		float x[OWN] = {0.0f};

		load_tile(k_tile, k, j0, a.Sk, a.D, me, THREADS);
		load_tile(v_tile, v, j0, a.Sk, a.Dv, me, THREADS);
		__syncthreads(); /* the tile is there */

#pragma unroll 8
		for (int d = 0; d < LADDER_D; d++)
#pragma unroll
			for (int r = 0; r < OWN; r++)
				x[r] += __half2float(q_tile[OWN * warp + r][d]) *
					__half2float(k_tile[lane][d]);

#pragma unroll
		for (int r = 0; r < OWN; r++) {
			const int i = first + OWN * warp + r, j = j0 + lane;
			const bool seen = j >= keys_begin(a, i) && j < keys_end(a, i);

			p[warp][lane][r] = weigh(own[r], seen ? a.spec.scale * x[r] : -INFINITY);
		}
		__syncwarp(); /* the weights are there */

#pragma unroll 4
		for (int c = 0; c < KEYS; c++)
#pragma unroll
			for (int r = 0; r < OWN; r++) {
				own[r].o[0] += p[warp][c][r] * __half2float(v_tile[c][lane]);
				own[r].o[1] += p[warp][c][r] * __half2float(v_tile[c][lane + 32]);
			}
		__syncthreads(); /* the tile may go */
	}

#pragma unroll
	for (int r = 0; r < OWN; r++) {
		const int i = first + OWN * warp + r;
		const float factor = row_factor(a, warp_sum(own[r].sum));

		for (int n = 0; n < 2; n++)
			if (i < a.Sq && lane + 32 * n < a.Dv)
				store(o, i, lane + 32 * n, own[r].o[n] * factor);
	}
}
LADDER_STEP(06_guarded, ROWS, THREADS, 0)

} /* namespace step06 */
