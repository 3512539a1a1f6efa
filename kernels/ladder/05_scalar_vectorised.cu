/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 5: 16 bytes at a time, everything in registers. A step back.
 *
 * Adds: loads of eight halves instead of one, from memory and from shared memory; and a row of Q, a
 *       row of O and its scores of a whole tile in the registers of one thread, so that a row needs
 *       no other thread: neither shuffles nor weights in shared memory.
 * Why:  fewer, wider loads and no exchange looked like the cure for a kernel that is bound by its
 *       instructions.
 * How:  64 threads of 128 have a row; the others help with loading and are idle otherwise. The
 *       block is promised to fit four times into a multiprocessor, to keep the occupancy of step 4:
 *       that leaves 128 registers to a thread, and 64 + 64 + 32 numbers do not fit. The compiler
 *       moves what does not fit to memory and back, in the innermost loop.
 * L4:   1844 us, then 1776, after 839. Kept as a lesson: registers are the scarcest memory of all,
 *       and a thread that waits for another is cheaper than one that has nothing to do.
 * H200: 543 us, after 92. Blocks of 64 rows fill 64 of 132 multiprocessors; of what is resident,
 *       two warps have rows and two wait at the barrier for them (5.7 warps for each that issues),
 *       and the loops, unrolled, do not fit the instruction cache (3.1). Fewer instructions it has,
 *       22 million after 34; it issues them in 4 % of the cycles.
 */
#include "kernels/ladder/ladder.cuh"

namespace step05
{

constexpr int ROWS = 64, KEYS = 32, THREADS = 128, PER_MULTIPROCESSOR = 4;
constexpr int PIECE = 8, PIECES = LADDER_D / PIECE; /* halves in 16 bytes; pieces in a row */

/* Eight halves, loaded as one. */
struct alignas(16) piece {
	__half element[PIECE];
};

static __device__ __forceinline__ void load_rows(struct piece (&tile)[KEYS][PIECES],
						 const struct matrix &m, int first, int rows,
						 int thread)
{
	for (int e = thread; e < KEYS * PIECES; e += THREADS) {
		const int r = e / PIECES, c = e % PIECES;
		struct piece zero = {};

		tile[r][c] =
			first + r < rows
				? *(const struct piece *)(m.at + (first + r) * m.row + PIECE * c)
				: zero;
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, PER_MULTIPROCESSOR)
	fashim_ladder_05_scalar_vectorised(const __grid_constant__ struct attn_args a)
{
	__shared__ struct piece k_tile[KEYS][PIECES], v_tile[KEYS][PIECES];
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, i = first + me, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	const bool works = me < ROWS && i < a.Sq;
	float q_row[LADDER_D], o_row[LADDER_D], max = -INFINITY, sum = 0.0f;

#pragma unroll
	for (int d = 0; d < LADDER_D; d++) {
		q_row[d] = works ? a.spec.scale * load(q, i, d) : 0.0f;
		o_row[d] = 0.0f;
	}

	for (int j0 = keys_begin(a, first); j0 < keys_end(a, last); j0 += KEYS) {
		float x[KEYS], largest = max, base, keep;

		__syncthreads();
		load_rows(k_tile, k, j0, a.Sk, me);
		load_rows(v_tile, v, j0, a.Sk, me);
		__syncthreads();
		if (!works)
			continue; /* the other half of the block, in every tile */

#pragma unroll
		for (int c = 0; c < KEYS; c++) {
			const bool seen = j0 + c >= keys_begin(a, i) && j0 + c < keys_end(a, i);

			x[c] = 0.0f;
#pragma unroll
			for (int n = 0; n < PIECES; n++) {
				const struct piece eight = k_tile[c][n];

#pragma unroll
				for (int e = 0; e < PIECE; e++)
					x[c] += q_row[PIECE * n + e] *
						__half2float(eight.element[e]);
			}
			x[c] = seen ? x[c] : -INFINITY;
			largest = fmaxf(largest, x[c]);
		}

		base = largest == -INFINITY ? 0.0f : largest; /* -inf - -inf is no number */
		keep = __expf(max - base);
		max = largest;
		sum *= keep;
#pragma unroll
		for (int d = 0; d < LADDER_D; d++)
			o_row[d] *= keep;
#pragma unroll
		for (int c = 0; c < KEYS; c++) {
			const float weight = __expf(x[c] - base);

			sum += weight;
#pragma unroll
			for (int n = 0; n < PIECES; n++) {
				const struct piece eight = v_tile[c][n];

#pragma unroll
				for (int e = 0; e < PIECE; e++)
					o_row[PIECE * n + e] +=
						weight * __half2float(eight.element[e]);
			}
		}
	}

	if (!works)
		return;
#pragma unroll
	for (int n = 0; n < PIECES; n++) {
		struct piece eight;

#pragma unroll
		for (int e = 0; e < PIECE; e++)
			eight.element[e] =
				__float2half_rn(o_row[PIECE * n + e] * row_factor(a, sum));
		*(struct piece *)(o.at + i * o.row + PIECE * n) = eight;
	}
}
LADDER_STEP(05_scalar_vectorised, ROWS, THREADS, 0)

} /* namespace step05 */
