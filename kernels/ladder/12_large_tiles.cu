/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 12: tiles of 64 rows and 64 keys, in dynamic shared memory. Slower, and kept for that.
 *
 * Adds: four times the scores per tile, with the same four warps. A tile of K and V, once loaded,
 *       serves 64 rows instead of 32, so half as much is read; barriers are a quarter per score.
 * Why:  larger tiles are what every text on matrix products recommends.
 * Cost: 70 KB of shared memory (82 KB then), more than the 48 KB that may be declared: it has to be
 *       asked for at launch. Of the L4's 100 KB per multiprocessor that leaves room for one block
 *       instead of three. And 512 rows of 8 heads are 64 such tiles, not 128.
 * L4:   146 us after 131.
 * H200: 94 us after 84, although four instructions of ten are gone: more than half of the GPU has
 *       no block, as foretold (46 % of the multiprocessors' time is filled, 91 before).
 *
 * Two effects add up. A block meets four barriers a tile; while it waits there, only other blocks
 * on the multiprocessor can go on, and now there are none. And with 64 blocks of 4 warps some
 * multiprocessors of a GPU with 58 have two blocks to do one after another, the others one; a GPU
 * with 132 leaves more than half of them without any work at all.
 * Reuse was never the bottleneck: K and V of a head, 128 KB, come from the second-level cache.
 */
#include "kernels/ladder/warp_rows.cuh"

namespace step12
{

constexpr int ROWS = 64, KEYS = 64, WARPS = 4, THREADS = 32 * WARPS;
typedef struct tiles<ROWS, KEYS, 1> block;

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_12_large_tiles(const __grid_constant__ struct attn_args a)
{
	DYNAMIC_SHARED(block, shared);

	attend_by_warps<WARPS>(a, *shared);
}
LADDER_STEP(12_large_tiles, ROWS, THREADS, (int)sizeof(block))

} /* namespace step12 */
