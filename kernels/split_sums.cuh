/* SPDX-License-Identifier: Apache-2.0
 *
 * How split.cu adds up what warpgroups, and blocks of a cluster, have found for the same rows: each
 * of them sends the others the columns that these own, and a note of its maxima and sums of P.
 *
 * Blocks store their sums for others right into the others' shared memory, and these wait for
 * bytes, not for a barrier of the whole cluster. Only the columns that the other one owns travel,
 * and only after the warpgroups of a block have added up: the way between multiprocessors is
 * narrow.
 */
#ifndef FASHIM_SPLIT_SUMS_CUH
#define FASHIM_SPLIT_SUMS_CUH

#include "kernels/cluster.cuh"
#include "kernels/split_weights.cuh"
#include "kernels/tma.cuh"

namespace split
{

/* What sums under the reference `mine` count under `common`, which is not smaller. */
static __device__ __forceinline__ float share(float mine, float common, float exponent)
{
	return common == -INFINITY ? 0.0f : exp2_fast((mine - common) * exponent);
}

/* The common maximum and sum of COUNT notes, and what the sums of each count. */
template <int COUNT>
static __device__ __forceinline__ void agree(totals &t, float (&weight)[COUNT][2],
					     const float4 (&note)[COUNT], float exponent)
{
	t.max[0] = note[0].x;
	t.max[1] = note[0].y;
#pragma unroll
	for (int n = 1; n < COUNT; n++) {
		t.max[0] = fmaxf(t.max[0], note[n].x);
		t.max[1] = fmaxf(t.max[1], note[n].y);
	}
	t.sum[0] = t.sum[1] = 0.0f;
#pragma unroll
	for (int n = 0; n < COUNT; n++) {
		weight[n][0] = share(note[n].x, t.max[0], exponent);
		weight[n][1] = share(note[n].y, t.max[1], exponent);
		t.sum[0] += weight[n][0] * note[n].z;
		t.sum[1] += weight[n][1] * note[n].w;
	}
}

static __device__ __forceinline__ void add_weighted(float *sum, const float4 &x,
						    const float (&weight)[2])
{
	sum[0] = fmaf(weight[0], x.x, sum[0]);
	sum[1] = fmaf(weight[0], x.y, sum[1]);
	sum[2] = fmaf(weight[1], x.z, sum[2]);
	sum[3] = fmaf(weight[1], x.w, sum[3]);
}

/* Chunk `which` of o, times the weights of its rows. */
template <int COUNT, int CHUNK>
static __device__ __forceinline__ void own_chunk(float (&mine)[CHUNK],
						 const float (&o)[COUNT * CHUNK], int which,
						 const float (&weight)[2])
{
#pragma unroll
	for (int n = 0; n < CHUNK; n++) {
		float x = o[n];
#pragma unroll
		for (int q = 1; q < COUNT; q++)
			x = which == q ? o[q * CHUNK + n] : x;
		mine[n] = x * weight[n / 2 % 2];
	}
}

/* Among the warpgroups of a block: of o, group q gets chunk q. `sums` has room for COUNT-1 chunks
 * per group, `notes` for 32 per group. */
template <int COUNT, int CHUNK>
static __device__ __forceinline__ void
add_groups(float (&mine)[CHUNK], const float (&o)[COUNT * CHUNK], totals &t, float4 *sums,
	   float4 *notes, int group, float exponent)
{
	const int thread = threadIdx.x % 128, quad = thread / 4;
	float weight[COUNT][2];
	float4 note[COUNT];

#pragma unroll
	for (int q = 0; q < COUNT; q++)
		if (q != group) {
			float4 *const to =
				sums + (q * (COUNT - 1) + group - (group > q)) * (CHUNK / 4) * 128;
#pragma unroll
			for (int n = 0; n < CHUNK; n += 4) {
				const float *x = o + q * CHUNK + n;
				to[n / 4 * 128 + thread] = make_float4(x[0], x[1], x[2], x[3]);
			}
		}
	if (thread % 4 == 0)
		notes[group * 32 + quad] = make_float4(t.max[0], t.max[1], t.sum[0], t.sum[1]);
	__syncthreads();
#pragma unroll
	for (int q = 0; q < COUNT; q++)
		note[q] = notes[q * 32 + quad];
	agree(t, weight, note, exponent);

	float own[2] = {weight[0][0], weight[0][1]};
#pragma unroll
	for (int q = 1; q < COUNT; q++) {
		own[0] = group == q ? weight[q][0] : own[0];
		own[1] = group == q ? weight[q][1] : own[1];
	}
	own_chunk<COUNT, CHUNK>(mine, o, group, own);
#pragma unroll
	for (int q = 0; q < COUNT; q++)
		if (q != group) {
			const float4 *const from =
				sums + (group * (COUNT - 1) + q - (q > group)) * (CHUNK / 4) * 128;
#pragma unroll
			for (int n = 0; n < CHUNK; n += 4)
				add_weighted(mine + n, from[n / 4 * 128 + thread], weight[q]);
		}
}

/* Among the blocks of a cluster: of o, block q gets chunk q, from each warpgroup the one of the
 * same number. `sums` and `notes` have room for what COUNT-1 others send to this group, which
 * `barrier` was told of. */
template <int COUNT, int CHUNK>
static __device__ __forceinline__ void
add_blocks(float (&mine)[CHUNK], const float (&o)[COUNT * CHUNK], totals &t, float4 *sums,
	   float4 *notes, uint32_t barrier, int part, float exponent)
{
	const int thread = threadIdx.x % 128, quad = thread / 4;
	float weight[COUNT][2];
	float4 note[COUNT];

#pragma unroll
	for (int q = 0; q < COUNT; q++)
		if (q != part) {
			const int slot = part - (part > q);
			const uint32_t there = address_in(barrier, q);
			const uint32_t to =
				address_in(shared_address(sums + slot * (CHUNK / 4) * 128), q);

			if (thread % 4 == 0)
				store_in(address_in(shared_address(notes + slot * 32 + quad), q),
					 t.max[0], t.max[1], t.sum[0], t.sum[1], there);
#pragma unroll
			for (int n = 0; n < CHUNK; n += 4) {
				const float *x = o + q * CHUNK + n;
				store_in(to + (n / 4 * 128 + thread) * 16, x[0], x[1], x[2], x[3],
					 there);
			}
		}
	note[0] = make_float4(t.max[0], t.max[1], t.sum[0], t.sum[1]);
	barrier_wait(barrier, 0);
#pragma unroll
	for (int n = 1; n < COUNT; n++)
		note[n] = notes[(n - 1) * 32 + quad];
	agree(t, weight, note, exponent);
	own_chunk<COUNT, CHUNK>(mine, o, part, weight[0]);
#pragma unroll
	for (int n = 1; n < COUNT; n++)
#pragma unroll
		for (int k = 0; k < CHUNK; k += 4)
			add_weighted(mine + k, sums[((n - 1) * (CHUNK / 4) + k / 4) * 128 + thread],
				     weight[n]);
}

} // namespace split

#endif
