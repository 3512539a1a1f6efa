/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 1: one thread a row, scalar.
 *
 * What: the formula as it stands. A thread has one query row: it walks over the keys, takes q.k,
 * keeps the largest score so far and the sum of exponentials relative to it, and adds exp(x - max)
 * v to its row of O. When the maximum grows, what was added so far is scaled down ("online
 * softmax"): the scores of a row are never kept, so no memory of size Sq x Sk is needed. That idea
 * stays to the last step; all others are about doing it faster.
 *
 * Why: something that is obviously right, to compare with. Each thread reads every K and V by
 * itself, an element at a time; q and the sum for O are 128 numbers, as many registers.
 *
 * L4: 2870 us. 4096 threads in all, on a GPU with room for 89000.
 * H200: 3484 us. An element of K or V costs 18 instructions, mostly for its address; half of the
 * 132 multiprocessors have no block, the others two warps, each of which issues every sixth cycle.
 * A larger GPU does not help a single thread.
 */
#include "kernels/ladder/ladder.cuh"

namespace step01
{

constexpr int THREADS = 64;

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_01_minimal(const __grid_constant__ struct attn_args a)
{
	const int i = blockIdx.x * THREADS + threadIdx.x, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H); /* (Sq, D) */
	const struct matrix k = matrix_of(a.k, b, h, a.H); /* (Sk, D) */
	const struct matrix v = matrix_of(a.v, b, h, a.H); /* (Sk, Dv) */
	const struct matrix o = matrix_of(a.o, b, h, a.H); /* (Sq, Dv) */
	float q_row[LADDER_D], o_row[LADDER_D], max = -INFINITY, sum = 0.0f;

	if (i >= a.Sq)
		return;
#pragma unroll
	for (int d = 0; d < LADDER_D; d++) {
		q_row[d] = d < a.D ? load(q, i, d) : 0.0f;
		o_row[d] = 0.0f;
	}

	for (int j = keys_begin(a, i); j < keys_end(a, i); j++) {
		float x = 0.0f, largest, keep, p;

#pragma unroll
		for (int d = 0; d < LADDER_D; d++)
			if (d < a.D)
				x += q_row[d] * load(k, j, d);
		x *= a.spec.scale;

		largest = fmaxf(max, x);
		keep = __expf(max - largest); /* 0 at the first key: max is -inf */
		p = __expf(x - largest);
		max = largest;
		sum = sum * keep + p;
#pragma unroll
		for (int d = 0; d < LADDER_D; d++)
			if (d < a.Dv)
				o_row[d] = o_row[d] * keep + p * load(v, j, d);
	}

#pragma unroll
	for (int d = 0; d < LADDER_D; d++)
		if (d < a.Dv)
			store(o, i, d, o_row[d] * row_factor(a, sum));
}
LADDER_STEP(01_minimal, THREADS, THREADS, 0)

} /* namespace step01 */
