/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 18: the same kernel in many shapes, and the best of them by measurement.
 *
 * Adds: what the steps before chose by argument becomes a parameter:
 *         rows     per block, a warp for every 16                      16, 32, 48, 64
 *         keys     per tile, of all groups together                    32 to 128
 *         stages   tiles under way or in use                           2 or 3
 *         groups   of warps that share the keys of a tile              1, 2 or 4
 * Why:  no argument settles them. Larger tiles mean fewer barriers and less to load, smaller ones
 *       more blocks; a third stage hides longer ways to memory and costs a block of occupancy.
 *       What is right depends on the GPU, and on how many rows there are at all.
 * How:  a template; each line at the end of this file is a kernel, and ladder.def lists the one
 *       that measured best first. Groups are new: each keeps sums over its share of every tile, and
 *       at the end they are added up, with the weights that their maxima demand. That way 16 rows
 *       keep four warps busy instead of one.
 * L4:   planned only; about 40 us was hoped for, after 55.
 * H200: 6.7 us for 16 x 128 with four groups, after 16.0 and 12.3; 7.1 for 32 x 128 with four, 8.3
 *       for 32 x 64 with two, 9.4 with one, 12.3 for step 16's own shape. What counts is warps: 256
 *       blocks of four put seven on a multiprocessor instead of two. A third stage gives nothing,
 *       as K and V are in the cache. FlashAttention takes 10.1, the kernel that ships (split.cu)
 *       5.3.
 *
 * Blocks do not stay as in step 17: they are placed as room allows, and a multiprocessor has room
 * for several of most shapes.
 */
#include "kernels/ladder/swizzle.cuh"

namespace step18
{

template <int ROWS, int KEYS, int STAGES, int GROUPS>
static __device__ __forceinline__ void attention(const struct attn_args &a)
{
	constexpr int GROUP_THREADS = 2 * ROWS, THREADS = GROUPS * GROUP_THREADS;
	constexpr int OWN_KEYS = KEYS / GROUPS;
	typedef struct swizzled<ROWS, KEYS, 1, STAGES> block;
	static_assert(sizeof(block::k) + sizeof(block::v) >=
			      (GROUPS - 1) * GROUP_THREADS * (LADDER_D / 2 + 4) * sizeof(float),
		      "the groups' sums fit where K and V were");
	DYNAMIC_SHARED(block, t);
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int group = threadIdx.x / GROUP_THREADS, row = threadIdx.x % GROUP_THREADS / 32 * 16;
	const int h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	const int begin = keys_begin(a, first) / KEYS * KEYS, end = keys_end(a, last);
	struct warp_sums w;

	/* one group of copies a tile, also past the last: so many later, a tile is there */
	start_copies<ROWS, THREADS>(t->q[0], q, first, a.Sq);
#pragma unroll
	for (int n = 0; n < STAGES - 1; n++) {
		if (begin + n * KEYS < end) {
			start_copies<KEYS, THREADS>(t->k[n], k, begin + n * KEYS, a.Sk);
			start_copies<KEYS, THREADS>(t->v[n], v, begin + n * KEYS, a.Sk);
		}
		copy_commit();
	}
	copy_wait_but<STAGES - 2>();
	__syncthreads();
	begin_rows(w, t->q[0], row);
	for (int j = begin, n = 0; j < end; j += KEYS, n++) {
		const int stage = n % STAGES, free = (n + STAGES - 1) % STAGES;
		const int ahead = j + (STAGES - 1) * KEYS;

		copy_wait_but<STAGES - 2>();
		__syncthreads(); /* this tile is there, and nobody needs the last one any more */
		if (ahead < end) {
			start_copies<KEYS, THREADS>(t->k[free], k, ahead, a.Sk);
			start_copies<KEYS, THREADS>(t->v[free], v, ahead, a.Sk);
		}
		copy_commit();
		attend<OWN_KEYS>(a, w, t->k[stage], t->v[stage], group * OWN_KEYS, first + row,
				 j + group * OWN_KEYS);
	}
	merge_groups<GROUPS, GROUP_THREADS>(w, (float *)t->k, group, a.spec.scale * LOG2E);
	if (group == 0)
		end_rows(a, w, o, t->q[0] + row, first + row);
}

/* A line per kernel: its label in ladder.def, rows, keys, stages, groups. */
#define TUNED(label, rows, keys, stages, groups)                                                   \
	extern "C" __global__ void __launch_bounds__(2 * rows * groups)                            \
		fashim_ladder_##label(const __grid_constant__ struct attn_args a)                  \
	{                                                                                          \
		attention<rows, keys, stages, groups>(a);                                          \
	}                                                                                          \
	LADDER_STEP(label, rows, 2 * rows * groups,                                                \
		    (int)sizeof(struct swizzled<rows, keys, 1, stages>))

TUNED(18_tuned, 16, 128, 2, 4)
TUNED(18_tuned_32x128, 32, 128, 2, 4)
TUNED(18_tuned_32x32, 32, 32, 2, 1)
TUNED(18_tuned_32x64, 32, 64, 2, 1)
TUNED(18_tuned_32x64_3, 32, 64, 3, 1)
TUNED(18_tuned_32x64_pair, 32, 64, 2, 2)
TUNED(18_tuned_48x48, 48, 48, 2, 1)
TUNED(18_tuned_64x64, 64, 64, 2, 1)
TUNED(18_tuned_64x64_3, 64, 64, 3, 1)
TUNED(18_tuned_64x128_pair, 64, 128, 2, 2)

} /* namespace step18 */
