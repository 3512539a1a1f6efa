/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 11: a warp per row in the softmax.
 *
 * Adds: maximum and sum of a row by shuffles, all else as in step 10. The code is in
 *       warp_rows.cuh, as the next steps go on with it.
 * Why:  step 10 had one thread a row: 32 threads out of 128 at work, each with 32 exponentials and
 *       64 columns of O one after another, its neighbours' rows in the same banks. A tile of 32
 *       keys is as wide as a warp: now a lane has one score of a row and two columns of O, all
 *       lanes read neighbouring words, and all four warps have eight rows each.
 * Price: ten shuffles a row, which is little against what is no longer waited for.
 * L4:   131 us after 221.
 * H200: 84 us, after 79. The wait at the barrier is gone (1.4 to nothing), but the shuffles are
 *       waited for instead (short scoreboard 1.3 after 0.6), there are a quarter more instructions,
 *       and a thread has 166 registers. One block a multiprocessor has little to hide either
 *       behind.
 *
 * The lesson of the scalar steps, again: first nobody idle, then everything else.
 */
#include "kernels/ladder/warp_rows.cuh"

namespace step11
{

constexpr int ROWS = 32, KEYS = 32, WARPS = 4, THREADS = 32 * WARPS;

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_11_warp_softmax(const __grid_constant__ struct attn_args a)
{
	__shared__ struct tiles<ROWS, KEYS, 1> t;

	attend_by_warps<WARPS>(a, t);
}
LADDER_STEP(11_warp_softmax, ROWS, THREADS, 0)

} /* namespace step11 */
