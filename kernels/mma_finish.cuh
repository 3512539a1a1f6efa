/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a tile of rows in mma.cu: what groups of warps add up, sinks, O.
 */
#ifndef FASHIM_MMA_FINISH_CUH
#define FASHIM_MMA_FINISH_CUH

#include "kernels/again.cuh"
#include "kernels/groups.cuh"
#include "kernels/mma_softmax.cuh"

/* Each thread of the other groups leaves its sums in `room`, for its counterpart in group 0. The
 * row's offset and reference say what they are relative to. */
template <typename T, int KEYS, int BLOCKS, int WIDTH, int GROUPS, int THREADS>
static __device__ __forceinline__ void merge_groups(struct work<BLOCKS, WIDTH, KEYS> &u, T *own,
						    float *room, int group, int thread, bool slow,
						    float exponent)
{
	constexpr int NUMBERS = GROUP_NUMBERS<BLOCKS, WIDTH, 3>;
	const int g = threadIdx.x % 32 / 4;
	float offset[BLOCKS][2], each[BLOCKS][2][3];

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			offset[m][r] =
				slow ? *offset_of<T, WIDTH>(own, 16 * m + 8 * r + g, group) : 0.0f;
			each[m][r][0] = u.reference[m][r];
			each[m][r][1] = offset[m][r];
			each[m][r][2] = u.sum[m][2 * r];
		}
	__syncthreads();
	if (group > 0)
		leave_sums<THREADS>(room + (group - 1) * NUMBERS * THREADS + thread, each, u.o);
	__syncthreads();
	if (group > 0)
		return;
#pragma unroll 1
	for (int other = 1; other < GROUPS; other++) {
		const float *from = room + (other - 1) * NUMBERS * THREADS + thread;
#pragma unroll
		for (int m = 0; m < BLOCKS; m++) {
			float ours[2], theirs[2];
#pragma unroll
			for (int r = 0; r < 2; r++, from += 3 * THREADS) {
				/* by how many powers of two their reference is above ours */
				const float above = fmaf(from[THREADS] - offset[m][r], exponent,
							 from[0] - u.reference[m][r]);
				const bool take = from[0] != FRESH &&
						  (u.reference[m][r] == FRESH || above > 0.0f);
				ours[r] = take ? fminf(exp2_fast(-above), 1.0f) : 1.0f;
				theirs[r] = take ? 1.0f : fminf(exp2_fast(above), 1.0f);
				if (take) {
					u.reference[m][r] = from[0];
					offset[m][r] = from[THREADS];
				}
				u.sum[m][2 * r] =
					u.sum[m][2 * r] * ours[r] + from[2 * THREADS] * theirs[r];
			}
			add_left<THREADS>(u.o[m], from, ours, theirs);
		}
	}
#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int r = 0; r < 2; r++)
			*offset_of<T, WIDTH>(own, 16 * m + 8 * r + g, 0) = offset[m][r];
	__syncwarp();
}

/* Counts the sink of row i, as one more score, into the sum of the row. Returns what the row's O is
 * to be multiplied by for it. */
static __device__ __forceinline__ float add_sink(float &sum, float reference, float offset,
						 const struct attn_args &a, const struct view &w,
						 int i)
{
	const struct attn_tensor &t = a.spec.sinks;
	const float sink =
		load_float(tensor_at(t, w.b, w.h, a.H), min(i, a.Sq - 1) * t.stride[2], t.dtype);
	const float above = fmaf(sink - offset, w.exponent, -reference);

	if (!(above > 0.0f)) {
		sum += exp2_fast(above);
		return 1.0f;
	}
	const float factor = exp2_fast(-above);
	sum = sum * factor + exp2_fast(sink - sink); /* 1, or NaN */
	return factor;
}

/* The same of what the mask hides in row i. */
static __device__ __forceinline__ void add_again(float &sum, float reference, float offset,
						 const struct attn_args &a, const struct view &w,
						 int i)
{
	count_hidden(sum, fmaf(a.spec.hidden_value - offset, w.exponent, -reference), a, w.b, w.h,
		     i);
}

template <bool SIMPLE, typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void finish(struct work<BLOCKS, WIDTH, KEYS> &u, T *own,
					      const struct attn_args &a, const struct view &w,
					      bool slow, int first)
{
	const int g = threadIdx.x % 32 / 4;
	float sum[BLOCKS][2], weight[BLOCKS][2];

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const int row = 16 * m + 8 * r + g;

			sum[m][r] = u.sum[m][2 * r];
			weight[m][r] = a.spec.out_scale;
			if (!SIMPLE && a.spec.sinks.base)
				weight[m][r] *=
					add_sink(sum[m][r], u.reference[m][r],
						 slow ? *offset_of<T, WIDTH>(own, row, 0) : 0.0f, a,
						 w, first + row);
			if (!SIMPLE && a.spec.empty_row == ATTN_EMPTY_AGAIN)
				add_again(sum[m][r], u.reference[m][r],
					  slow ? *offset_of<T, WIDTH>(own, row, 0) : 0.0f, a, w,
					  first + row);
		}
	__syncwarp();
	divide_rows<T, BLOCKS, WIDTH>(u.o, sum, weight, own, a, w);
	store_rows<T, BLOCKS, WIDTH>(u.o, own, a, w, first);
}

#endif
