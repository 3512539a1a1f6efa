/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 16: swizzled tiles, and the registers unsealed.
 *
 * Adds: tiles without padding whose pieces are permuted by XOR (swizzle.cuh says how), read by
 *       ldmatrix and multiplied by mma.sync, the instructions beneath WMMA.
 * Why:  padding costs an eighth of every tile and cures conflicts only for loads that go down the
 *       rows as WMMA's do; floats of S and halves of P, written and read in other patterns, still
 *       met in their banks. Swizzling costs an XOR per address and no byte.
 * Then: WMMA cannot read such a tile, as it takes an address and one distance between rows. But
 *       mma.sync takes registers of a documented layout, and with that S need not leave them at
 *       all: a warp takes 16 whole rows, does their softmax with two shuffles among four lanes,
 *       and has P where the next product wants it. O stays in registers too. What was left of the
 *       traffic through shared memory is Q once, K and V; of three barriers a tile one is left.
 * Price: a warp per 16 rows, so two for this tile instead of four.
 * L4:   planned only, without a figure of its own; 30 to 40 us was the target of the last steps.
 * H200: 12.3 us, after 42: a fifth of the instructions (1.4 million), no wait for shared memory to
 *       speak of (0.3 after 1.8). It is the first step that beats the chain of cuBLAS; the tensor
 *       cores are busy for 7 % of the time, and two warps a multiprocessor are too few to keep them
 *       so.
 */
#include "kernels/ladder/swizzle.cuh"

namespace step16
{

constexpr int ROWS = 32, KEYS = 32, STAGES = 2, THREADS = 32 * ROWS / 16;

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_16_swizzle(const __grid_constant__ struct attn_args a)
{
	__shared__ struct swizzled<ROWS, KEYS, 1, STAGES> t;
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int row = threadIdx.x / 32 * 16, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	const int begin = keys_begin(a, first) / KEYS * KEYS, end = keys_end(a, last);
	struct warp_sums w;

	start_copies<ROWS, THREADS>(t.q[0], q, first, a.Sq);
	copy_commit();
	copy_wait();
	__syncthreads();
	begin_rows(w, t.q[0], row);
	if (begin < end) {
		start_copies<KEYS, THREADS>(t.k[0], k, begin, a.Sk);
		start_copies<KEYS, THREADS>(t.v[0], v, begin, a.Sk);
		copy_commit();
	}
	for (int j = begin, stage = 0; j < end; j += KEYS, stage ^= 1) {
		copy_wait();
		__syncthreads(); /* this tile is there, and nobody needs the last one any more */
		if (j + KEYS < end) {
			start_copies<KEYS, THREADS>(t.k[stage ^ 1], k, j + KEYS, a.Sk);
			start_copies<KEYS, THREADS>(t.v[stage ^ 1], v, j + KEYS, a.Sk);
			copy_commit();
		}
		attend<KEYS>(a, w, t.k[stage], t.v[stage], 0, first + row, j);
	}
	end_rows(a, w, o, t.q[0] + row, first + row);
}
LADDER_STEP(16_swizzle, ROWS, THREADS, 0)

} /* namespace step16 */
