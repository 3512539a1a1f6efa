/* SPDX-License-Identifier: Apache-2.0
 *
 * What steps 10 to 15 of the ladder share: a block's tiles in shared memory, and the two products
 * of attention by WMMA.
 *
 * WMMA multiplies 16x16 by 16x16 numbers, a warp at a time. A fragment, as such a square is called
 * while it lies in registers, is spread over the lanes in a way that is not documented: it can be
 * loaded, multiplied and stored, no more. Whatever is to be done to single scores is therefore done
 * in shared memory: S goes out as floats, P comes back as halves, and O has to lie there too, as
 * its rows are rescaled when their maximum grows.
 *
 * Lines are longer by 16 bytes than what they hold. Lines of 128 bytes would all start in the same
 * bank; like this, eight of them start in eight different places.
 */
#ifndef FASHIM_LADDER_TILES_CUH
#define FASHIM_LADDER_TILES_CUH

#include "kernels/ladder/ladder.cuh"

#define LINE (LADDER_D + 8) /* of Q, K and V, with the padding */

/* All a block has in shared memory. STAGES: tiles of keys that fit at a time. */
template <int ROWS, int KEYS, int STAGES> struct alignas(32) tiles {
	__half q[ROWS][LINE], k[STAGES][KEYS][LINE], v[STAGES][KEYS][LINE];
	__half p[ROWS][KEYS + 8];
	float s[ROWS][KEYS + 4], o[ROWS][LADDER_D + 4];
};

/* O = 0 */
template <int THREADS, int ROWS, int KEYS, int STAGES>
static __device__ __forceinline__ void clear_sums(struct tiles<ROWS, KEYS, STAGES> &t, int thread)
{
	for (int e = thread; e < ROWS * LADDER_D; e += THREADS)
		t.o[e / LADDER_D][e % LADDER_D] = 0.0f;
}

using namespace nvcuda;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left_fragment;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right_fragment;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> turned_fragment;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum_fragment;

/* S = Q K^T. The squares of S are dealt out to WARPS warps, of which this is number `warp`. */
template <int WARPS, int ROWS, int KEYS, int STAGES>
static __device__ __forceinline__ void multiply_scores(struct tiles<ROWS, KEYS, STAGES> &t,
						       int stage, int warp)
{
	for (int n = warp; n < ROWS / 16 * (KEYS / 16); n += WARPS) {
		const int row = n / (KEYS / 16) * 16, key = n % (KEYS / 16) * 16;
		left_fragment a;
		turned_fragment b;
		sum_fragment sum;

		wmma::fill_fragment(sum, 0.0f);
#pragma unroll
		for (int d = 0; d < LADDER_D; d += 16) {
			wmma::load_matrix_sync(a, &t.q[row][d], LINE);
			wmma::load_matrix_sync(b, &t.k[stage][key][d], LINE);
			wmma::mma_sync(sum, a, b, sum);
		}
		wmma::store_matrix_sync(&t.s[row][key], sum, KEYS + 4, wmma::mem_row_major);
	}
}

/* O += P V, likewise. */
template <int WARPS, int ROWS, int KEYS, int STAGES>
static __device__ __forceinline__ void multiply_values(struct tiles<ROWS, KEYS, STAGES> &t,
						       int stage, int warp)
{
	for (int n = warp; n < ROWS / 16 * (LADDER_D / 16); n += WARPS) {
		const int row = n / (LADDER_D / 16) * 16, column = n % (LADDER_D / 16) * 16;
		left_fragment a;
		right_fragment b;
		sum_fragment sum;

		wmma::load_matrix_sync(sum, &t.o[row][column], LADDER_D + 4, wmma::mem_row_major);
#pragma unroll
		for (int key = 0; key < KEYS; key += 16) {
			wmma::load_matrix_sync(a, &t.p[row][key], KEYS + 8);
			wmma::load_matrix_sync(b, &t.v[stage][key][column], LINE);
			wmma::mma_sync(sum, a, b, sum);
		}
		wmma::store_matrix_sync(&t.o[row][column], sum, LADDER_D + 4, wmma::mem_row_major);
	}
}

#endif
