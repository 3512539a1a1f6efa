/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 15: copies that nobody waits for.
 *
 * Adds: cp.async, from global to shared memory past the registers, and with it the same two stages
 *       as in step 14 without a warp that does only that: every thread starts copies for the tile
 *       after this one, then computes.
 * Why:  a load holds registers from the moment it is issued until it arrives, and the thread that
 *       stores its result must wait for it. cp.async needs neither: a thread starts it, and asks
 *       later whether it is done. So all warps can compute, and all share the work of issuing.
 * How:  a thread can wait for its own copies only, so a barrier follows before anybody reads what
 *       all have copied. The same barrier says that the tile before is done with: right after it
 *       its room can be filled again. That is one barrier a tile less than in step 13. Pieces
 *       beyond the last key are filled with zeros by the copy itself.
 * L4:   planned only; about 65 us was hoped for, after 80.
 * H200: 42 us, after 38. Nobody waits for memory or at a barrier any more, but there was little of
 *       that left, and the addresses of the copies are now computed by the warps that multiply: 7.2
 *       million instructions after 5.8.
 *
 * One tile ahead is enough here: K and V come from the second-level cache, and step 13 took 7 us
 * for each of its 16 tiles.
 */
#include "kernels/ladder/pieces.cuh"

namespace step15
{

constexpr int ROWS = 32, KEYS = 32, STAGES = 2, WARPS = 4, THREADS = 32 * WARPS;

/* Starts the copies of the tiles of K and V from key j on. */
static __device__ __forceinline__ void start_copies(__half (&k_tile)[KEYS][LINE],
						    __half (&v_tile)[KEYS][LINE],
						    const struct matrix &k, const struct matrix &v,
						    int j, int Sk)
{
#pragma unroll
	for (int e = threadIdx.x; e < KEYS * PIECES; e += THREADS) {
		const int r = e / PIECES, c = e % PIECES * 8, bytes = j + r < Sk ? 16 : 0;

		copy16(&k_tile[r][c], k.at + (j + r) * k.row + c, bytes);
		copy16(&v_tile[r][c], v.at + (j + r) * v.row + c, bytes);
	}
	copy_commit();
}

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_15_async_copies(const __grid_constant__ struct attn_args a)
{
	__shared__ struct tiles<ROWS, KEYS, STAGES> t;
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, warp = me / 32, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	const int begin = keys_begin(a, first) / KEYS * KEYS, end = keys_end(a, last);
	struct warp_rows<ROWS / WARPS> rows;

	if (begin < end)
		start_copies(t.k[0], t.v[0], k, v, begin, a.Sk);
	load_pieces<ROWS, THREADS>(t.q, q, first, a.Sq, me);
	clear_sums<THREADS>(t, me);
	for (int j = begin, stage = 0; j < end; j += KEYS, stage ^= 1) {
		copy_wait();
		__syncthreads(); /* this tile is there, and nobody needs the last one any more */
		if (j + KEYS < end)
			start_copies(t.k[stage ^ 1], t.v[stage ^ 1], k, v, j + KEYS, a.Sk);
		multiply_scores<WARPS>(t, stage, warp);
		__syncthreads(); /* S is there */
		softmax_rows(a, t, rows, warp, first, j);
		__syncthreads(); /* P is there */
		multiply_values<WARPS>(t, stage, warp);
	}
	__syncthreads();
	store_pieces(a, t, rows, o, warp, first);
}
LADDER_STEP(15_async_copies, ROWS, THREADS, 0)

} /* namespace step15 */
