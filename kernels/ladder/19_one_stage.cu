/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 19: one tile of K and one of V, each on its way while the other is worked on.
 *
 * Adds: V of a tile is copied while its Q K^T is computed, K of the next one while P V is; there is
 *       no second stage. Two barriers a tile instead of one.
 * Why:  half of the shared memory for the same tile, so that twice as many blocks fit a
 *       multiprocessor, and each copy still has half a tile's work to hide behind. It is what the
 *       portable kernel that ships did first (wmma.cu), which has all layouts, masks and biases on
 *       top.
 * Price: what computes Q K^T waits for V, and the other way round: a warp cannot be ahead of the
 *       others by more than half a tile.
 * L4:   not planned.
 * H200: to be measured.
 */
#include "kernels/ladder/swizzle.cuh"

namespace step19
{

constexpr int ROWS = 16, KEYS = 128, GROUPS = 4, OWN_KEYS = KEYS / GROUPS;
constexpr int GROUP_THREADS = 2 * ROWS, THREADS = GROUPS * GROUP_THREADS;
typedef struct swizzled<ROWS, KEYS, 1, 1> block;
static_assert(sizeof(block::k) + sizeof(block::v) >=
		      (GROUPS - 1) * GROUP_THREADS * (LADDER_D / 2 + 4) * sizeof(float),
	      "the groups' sums fit where K and V were");

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_19_one_stage(const __grid_constant__ struct attn_args a)
{
	__shared__ block t;
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int group = threadIdx.x / GROUP_THREADS, key = group * OWN_KEYS;
	const int h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	const int begin = keys_begin(a, first) / KEYS * KEYS, end = keys_end(a, last);
	struct warp_sums w;

	start_copies<ROWS, THREADS>(t.q[0], q, first, a.Sq);
	if (begin < end)
		start_copies<KEYS, THREADS>(t.k[0], k, begin, a.Sk);
	copy_commit();
	copy_wait();
	__syncthreads();
	begin_rows(w, t.q[0], 0);
	for (int j = begin; j < end; j += KEYS) {
		float x[2][OWN_KEYS / 4];

		start_copies<KEYS, THREADS>(t.v[0], v, j, a.Sk);
		copy_commit();
		weigh_keys<OWN_KEYS>(a, w, x, t.k[0], key, first, j + key);
		copy_wait();
		__syncthreads(); /* V is there, and nobody needs K any more */
		if (j + KEYS < end)
			start_copies<KEYS, THREADS>(t.k[0], k, j + KEYS, a.Sk);
		copy_commit();
		add_values<OWN_KEYS>(w, x, t.v[0], key);
		copy_wait();
		__syncthreads(); /* the next K is there, and nobody needs V any more */
	}
	merge_groups<GROUPS, GROUP_THREADS>(w, (float *)t.k, group, a.spec.scale * LOG2E);
	if (group == 0)
		end_rows(a, w, o, t.q[0], first);
}
LADDER_STEP(19_one_stage, ROWS, THREADS, 0)

} /* namespace step19 */
