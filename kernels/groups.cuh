/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of warps that work on the same rows, each with keys of its own, and add up at the end: the
 * other groups leave what they have in shared memory, each thread for its counterpart in group 0.
 */
#ifndef FASHIM_GROUPS_CUH
#define FASHIM_GROUPS_CUH

#include "kernels/device.cuh"

/* How many numbers a thread leaves, with EACH of a row besides its share of O. */
template <int BLOCKS, int WIDTH, int EACH>
constexpr int GROUP_NUMBERS = BLOCKS *(WIDTH / 2 + 2 * EACH);

/* Barrier 0 is __syncthreads, at which other groups may wait already. */
template <int GROUPS> static __device__ __forceinline__ void group_barrier(int group, int threads)
{
	if (GROUPS == 1)
		__syncthreads();
	else
		barrier(1 + group, threads);
}

/* Leaves the numbers of each row and O from `to` on, which is the thread's own, at every THREADS.
 */
template <int THREADS, int BLOCKS, int WIDTH8, int EACH>
static __device__ __forceinline__ void leave_sums(float *to, const float (&each)[BLOCKS][2][EACH],
						  const float (&o)[BLOCKS][WIDTH8][4])
{
#pragma unroll
	for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
		for (int r = 0; r < 2; r++, to += EACH * THREADS)
#pragma unroll
			for (int n = 0; n < EACH; n++)
				to[n * THREADS] = each[m][r][n];
#pragma unroll
		for (int n = 0; n < 4 * WIDTH8; n++, to += THREADS)
			*to = o[m][n / 4][n % 4];
	}
}

/* O of two blocks of eight rows, weighed, plus what another thread left, weighed. */
template <int THREADS, int WIDTH8>
static __device__ __forceinline__ void add_left(float (&o)[WIDTH8][4], const float *&from,
						const float (&ours)[2], const float (&theirs)[2])
{
#pragma unroll
	for (int n = 0; n < 4 * WIDTH8; n++, from += THREADS)
		o[n / 4][n % 4] = o[n / 4][n % 4] * ours[n / 2 % 2] + *from * theirs[n / 2 % 2];
}

#endif
