/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 2: tiles in shared memory.
 *
 * Adds: a block of 128 threads has 32 query rows and walks over tiles of 32 keys. A tile of K and V
 *       is read from memory once for all 32 rows, and every array of the computation - S, the
 *       maxima, the sums - lies in shared memory, where all threads work on it together.
 * Why:  in step 1 each row read all of K and V for itself.
 * How:  six things to do for a tile, one after another, and a barrier after each of them, since
 *       the threads that read a number are not those that wrote it.
 * L4:   3652 us, slower than the 2870 before. K and V of a head are 128 KB and lay in the cache
 *       anyway, so no time was won by reading them less often; six barriers per tile were paid,
 *       and in two of the six parts three warps of four have nothing to do.
 * H200: 131 us, 27 times as fast as step 1: four times as many threads, and a quarter of the
 *       instructions, since the address of an element is computed by one thread and not by each.
 *       Barriers cost next to nothing: there is one block a multiprocessor, and 0.07 of its warps
 *       wait at one for each that issues.
 */
#include "kernels/ladder/ladder.cuh"

namespace step02
{

constexpr int ROWS = 32, KEYS = 32, THREADS = 128;
constexpr int OWN = ROWS * LADDER_D / THREADS; /* elements of O per thread, all of one column */

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_02_block_tiling(const __grid_constant__ struct attn_args a)
{
	/* two more than needed in a line of K and one in a line of S: threads that read down a
	 * column then find each element in another bank */
	__shared__ __half q_tile[ROWS][LADDER_D], k_tile[KEYS][LADDER_D + 2];
	__shared__ __half v_tile[KEYS][LADDER_D];
	__shared__ float s[ROWS][KEYS + 1], max[ROWS], keep[ROWS], sum[ROWS];
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	const int column = me % LADDER_D, row = me / LADDER_D; /* of O: this and every second on */
	float own[OWN] = {0.0f};

	load_tile(q_tile, q, first, a.Sq, a.D, me, THREADS);
	if (me < ROWS) {
		max[me] = -INFINITY;
		sum[me] = 0.0f;
	}

	for (int j0 = keys_begin(a, first); j0 < keys_end(a, last); j0 += KEYS) {
		/* 1: the tile */
		load_tile(k_tile, k, j0, a.Sk, a.D, me, THREADS);
		load_tile(v_tile, v, j0, a.Sk, a.Dv, me, THREADS);
		__syncthreads();

		/* 2: S = scale Q K^T, -inf where the row does not see the key */
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

		/* 3: the largest score so far, a thread a row */
		if (me < ROWS) {
			float largest = max[me];

			for (int c = 0; c < KEYS; c++)
				largest = fmaxf(largest, s[me][c]);
			/* -inf - -inf is no number: until a key was seen, there is nothing to keep
			 */
			keep[me] = max[me] == -INFINITY ? 0.0f : __expf(max[me] - largest);
			max[me] = largest;
		}
		__syncthreads();

		/* 4: S becomes P */
		for (int e = me; e < ROWS * KEYS; e += THREADS) {
			const int r = e / KEYS, c = e % KEYS;

			s[r][c] = s[r][c] == -INFINITY ? 0.0f : __expf(s[r][c] - max[r]);
		}
		__syncthreads();

		/* 5: the sum of the weights, a thread a row */
		if (me < ROWS) {
			float total = sum[me] * keep[me];

			for (int c = 0; c < KEYS; c++)
				total += s[me][c];
			sum[me] = total;
		}
		__syncthreads();

		/* 6: O += P V */
#pragma unroll
		for (int n = 0; n < OWN; n++) {
			const int r = row + THREADS / LADDER_D * n;

			own[n] *= keep[r];
			for (int c = 0; c < KEYS; c++)
				own[n] += s[r][c] * __half2float(v_tile[c][column]);
		}
		__syncthreads();
	}

	__syncthreads(); /* where there was no key: for `sum` */
#pragma unroll
	for (int n = 0; n < OWN; n++) {
		const int r = row + THREADS / LADDER_D * n;

		if (first + r < a.Sq && column < a.Dv)
			store(o, first + r, column, own[n] * row_factor(a, sum[r]));
	}
}
LADDER_STEP(02_block_tiling, ROWS, THREADS, 0)

} /* namespace step02 */
