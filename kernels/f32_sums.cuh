/* SPDX-License-Identifier: Apache-2.0
 *
 * How the blocks of a cluster that share the keys of f32_sm90.cu add up: each leaves its sums in
 * its own shared memory, and the first reads them there. Without clusters (the host build) the
 * first has all the keys.
 */
#ifndef FASHIM_F32_SUMS_CUH
#define FASHIM_F32_SUMS_CUH

#include "kernels/cluster.cuh"
#include "kernels/tma.cuh"

namespace f32
{

/* What each thread of a block leaves for the first of its cluster: its part of O, and in a note the
 * maxima and sums of P of its two rows. In place of K and V. */
template <class S> struct left_over {
	float4 o[S::WIDTH / 8][128], note[128];
};

#if FASHIM_CLUSTERS
static __device__ __forceinline__ float4 load_from(uint32_t address)
{
	float4 x;

	asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
		     : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
		     : "r"(address)
		     : "memory");
	return x;
}
#endif

/* In the first block of the cluster: O, maxima and sums of all blocks. Sums are still those of each
 * lane, all maxima in the same units. */
template <class S>
static __device__ __forceinline__ void add_parts(float (&o)[S::WIDTH / 2], float (&row_max)[2],
						 float (&row_sum)[2], const float (&exponent)[2],
						 unsigned char *stages, int part, bool idle)
{
#if FASHIM_CLUSTERS
	left_over<S> &own = *(left_over<S> *)stages;
	const int thread = threadIdx.x;

	part_sync(1, 128); /* other warps may still read K and V */
	if (!idle && part > 0) {
#pragma unroll
		for (int n = 0; n < S::WIDTH / 8; n++)
			own.o[n][thread] =
				make_float4(o[4 * n], o[4 * n + 1], o[4 * n + 2], o[4 * n + 3]);
		own.note[thread] = make_float4(row_max[0], row_max[1], row_sum[0], row_sum[1]);
	}
	__syncwarp();
	cluster_arrive();
	cluster_wait();
	if (!idle && part == 0) {
#pragma unroll 1
		for (int p = 1; p < S::PARTS; p++) {
			const uint32_t there = address_in(shared_address(&own.o[0][thread]), p);
			const float4 note = load_from(there + sizeof(own.o));
			const float theirs[2] = {note.x, note.y}, sums[2] = {note.z, note.w};
			float mine[2], other[2];
#pragma unroll
			for (int r = 0; r < 2; r++) {
				const float most = fmaxf(row_max[r], theirs[r]);
				const float base = most == -INFINITY ? 0.0f : most;
				/* an exponent may be 0 */
				mine[r] = row_max[r] == -INFINITY
						  ? 0.0f
						  : exp2_fast((row_max[r] - base) * exponent[r]);
				other[r] = theirs[r] == -INFINITY
						   ? 0.0f
						   : exp2_fast((theirs[r] - base) * exponent[r]);
				row_max[r] = most;
				row_sum[r] = row_sum[r] * mine[r] + sums[r] * other[r];
			}
#pragma unroll
			for (int n = 0; n < S::WIDTH / 8; n++) {
				if (n % 16 == 0) /* asked for at once, all of width 256 spill */
					__syncwarp();
				const float4 x = load_from(there + n * sizeof(own.o[0]));
				o[4 * n] = fmaf(x.x, other[0], o[4 * n] * mine[0]);
				o[4 * n + 1] = fmaf(x.y, other[0], o[4 * n + 1] * mine[0]);
				o[4 * n + 2] = fmaf(x.z, other[1], o[4 * n + 2] * mine[1]);
				o[4 * n + 3] = fmaf(x.w, other[1], o[4 * n + 3] * mine[1]);
			}
		}
	}
	__syncwarp();
#else
	(void)o, (void)row_max, (void)row_sum, (void)exponent, (void)stages, (void)part, (void)idle;
#endif
}

/* For those who have nothing to leave: all of a cluster must come by both barriers. */
static __device__ __forceinline__ void pass_by(void)
{
	__syncwarp();
	cluster_arrive();
	cluster_wait();
	cluster_arrive();
	cluster_wait();
}

} // namespace f32

#endif
