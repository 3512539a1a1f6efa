/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 14: warps with different work.
 *
 * Adds: a fifth warp that does nothing but bring K and V, a tile ahead of the four that compute.
 *       Shared memory has room for two tiles of keys: while one is in use, the other is filled.
 * Why:  until now all warps loaded, then all computed, so the tensor cores stood still for the
 *       whole way to memory and back, once a tile.
 * How:  two named barriers per stage. FULL: the producer arrives when the stage is filled, and the
 *       consumers wait. EMPTY: the consumers arrive when they are done with it, and the producer
 *       waits. To arrive (bar.arrive) is not to wait (bar.sync), but counts like it, up to all 160
 *       threads. Between S, P and O the consumers have a barrier of their own: __syncthreads would
 *       wait for the producer too.
 * Price: what the producer loads still passes through its registers, 16 loads of 16 bytes a lane,
 *       and one warp alone has to issue them all. The next step gets rid of both.
 * L4:   planned only; about 80 us was hoped for, after 117.
 * H200: 38 us, after 54. The wait for memory is gone but for a trace (0.2), and shared memory stays
 *       (2.5).
 *
 * Every arrival is met by a wait: a barrier that is half full at the end of one round would let the
 * next one through too early. So consumers do not announce a stage that nobody will fill again.
 */
#include "kernels/ladder/pieces.cuh"

namespace step14
{

constexpr int ROWS = 32, KEYS = 32, STAGES = 2, WARPS = 4;
constexpr int CONSUMERS = 32 * WARPS, THREADS = CONSUMERS + 32;
typedef struct tiles<ROWS, KEYS, STAGES> block;

/* Numbers of barriers; 0 is __syncthreads. */
enum { FULL = 1, EMPTY = FULL + STAGES, BETWEEN = EMPTY + STAGES };

/* Counts as `count` threads of barrier `id` would, without waiting for the others. */
static __device__ __forceinline__ void barrier_arrive(int id, int count)
{
#ifdef __CUDACC__
	asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory");
#else
	sim_barrier_arrive(id, count);
#endif
}

/* The warp that loads: tiles of keys from `j` to `end`. */
static __device__ void produce(const struct attn_args &a, block &t, int j, int end)
{
	const struct matrix k = matrix_of(a.k, blockIdx.z, blockIdx.y, a.H);
	const struct matrix v = matrix_of(a.v, blockIdx.z, blockIdx.y, a.H);
	const int lane = threadIdx.x % 32;

	for (int n = 0; j < end; n++, j += KEYS) {
		const int stage = n % STAGES;

		if (n >= STAGES)
			barrier(EMPTY + stage, THREADS);
		load_pieces<KEYS, 32>(t.k[stage], k, j, a.Sk, lane);
		load_pieces<KEYS, 32>(t.v[stage], v, j, a.Sk, lane);
		barrier_arrive(FULL + stage, THREADS);
	}
}

/* The warps that compute. */
static __device__ void consume(const struct attn_args &a, block &t, int first, int j, int end)
{
	const struct matrix q = matrix_of(a.q, blockIdx.z, blockIdx.y, a.H);
	const struct matrix o = matrix_of(a.o, blockIdx.z, blockIdx.y, a.H);
	const int me = threadIdx.x, warp = me / 32;
	struct warp_rows<ROWS / WARPS> rows;

	load_pieces<ROWS, CONSUMERS>(t.q, q, first, a.Sq, me);
	clear_sums<CONSUMERS>(t, me);
	barrier(BETWEEN, CONSUMERS);
	for (int n = 0; j < end; n++, j += KEYS) {
		const int stage = n % STAGES;

		barrier(FULL + stage, THREADS);
		multiply_scores<WARPS>(t, stage, warp);
		barrier(BETWEEN, CONSUMERS); /* S is there, and nobody needs the last P any more */
		softmax_rows(a, t, rows, warp, first, j);
		barrier(BETWEEN, CONSUMERS); /* P is there */
		multiply_values<WARPS>(t, stage, warp);
		if (j + STAGES * KEYS < end)
			barrier_arrive(EMPTY + stage, THREADS);
	}
	barrier(BETWEEN, CONSUMERS);
	store_pieces(a, t, rows, o, warp, first);
}

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_14_warp_specialised(const __grid_constant__ struct attn_args a)
{
	__shared__ block t;
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int j = keys_begin(a, first) / KEYS * KEYS, end = keys_end(a, last);

	if (threadIdx.x < CONSUMERS)
		consume(a, t, first, j, end);
	else
		produce(a, t, j, end);
}
LADDER_STEP(14_warp_specialised, ROWS, THREADS, 0)

} /* namespace step14 */
