/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 13: loads and stores of 16 bytes.
 *
 * Adds: Q, K, V and O move in pieces of eight halves (pieces.cuh). The tiles are step 11's again,
 *       32 rows and 32 keys: occupancy was worth more than reuse.
 * Why:  an element at a time, a tile of K and V is 32 loads, 32 stores and their address arithmetic
 *       for each thread: more instructions than both products have. In pieces it is four of each.
 *       A request of a warp then covers 512 bytes instead of 64, and the four loads are all under
 *       way before the first is needed.
 * Needs: rows of exactly 64 elements that start on 16 bytes; step 11 took any layout.
 * L4:   117 us after step 11's 131; largest error 2.4e-4.
 * H200: 54 us, after step 11's 84: 6.5 million instructions instead of 14.1, and the wait for
 *       memory is a third of what it was (0.4 after 1.2). Now warps wait for shared memory (2.8).
 *
 * The same idea made the scalar kernel of step 5 slower. There it cost registers that spilled; here
 * the numbers pass through registers on their way to shared memory and are forgotten.
 */
#include "kernels/ladder/pieces.cuh"

namespace step13
{

constexpr int ROWS = 32, KEYS = 32, WARPS = 4, THREADS = 32 * WARPS;

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_13_vector_io(const __grid_constant__ struct attn_args a)
{
	__shared__ struct tiles<ROWS, KEYS, 1> t;
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, warp = me / 32, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	struct warp_rows<ROWS / WARPS> rows;

	load_pieces<ROWS, THREADS>(t.q, q, first, a.Sq, me);
	clear_sums<THREADS>(t, me);
	for (int j = keys_begin(a, first) / KEYS * KEYS; j < keys_end(a, last); j += KEYS) {
		__syncthreads(); /* nobody needs the last tile any more */
		load_pieces<KEYS, THREADS>(t.k[0], k, j, a.Sk, me);
		load_pieces<KEYS, THREADS>(t.v[0], v, j, a.Sk, me);
		__syncthreads(); /* K and V are there */
		multiply_scores<WARPS>(t, 0, warp);
		__syncthreads(); /* S is there */
		softmax_rows(a, t, rows, warp, first, j);
		__syncthreads(); /* P is there */
		multiply_values<WARPS>(t, 0, warp);
	}
	__syncthreads();
	store_pieces(a, t, rows, o, warp, first);
}
LADDER_STEP(13_vector_io, ROWS, THREADS, 0)

} /* namespace step13 */
