/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention for any layout on the warp matrix instructions: f16 from sm_75, bf16 from sm_80.
 *
 * What: O = softmax(scale Q K^T, biases, masks) V for one [b,h] and a tile of query rows per block,
 * without S or P ever leaving the chip. A warp owns 16 or 32 rows. It walks over tiles of keys:
 * S = Q K^T in registers, the row maximum and sum kept up to date and the sum so far rescaled when
 * the maximum grows ("online softmax"), P rounded to 16 bits in the very registers in which S
 * arose (device.cuh shows why they fit), O += P V.
 *
 * Why so, in the order in which it was decided:
 *   1. mma.sync with a documented layout, not nvcuda::wmma: no trip of S and P through shared
 *      memory, and sm_75 needs no second algorithm.
 *   2. One buffer for K and one for V: V_j arrives while S is computed, K_j+1 while P V is; half
 *      the shared memory of two full stages, so twice the blocks per multiprocessor.
 *   3. Rows padded by 16 bytes: ldmatrix then meets no bank twice.
 *   4. Where blocks are few GROUPS of warps may take every GROUPS-th key tile of the same rows and
 *      add up at the end. No variant has more than one since mma.cu is chosen in their place.
 *   5. Calls without bias, mask and softcap fold the scale into the exponent: one FFMA and one exp2
 *      per score. scores.cuh says when that would be wrong and what is done then.
 *
 * Rules worth knowing:
 *   - Finite fills are numbers like any other: a fully masked row comes out uniform.
 *   - Key tiles wholly outside the window are skipped if the value there is -inf. A NaN in V at
 *     such a key then stays out of O, where 0 * NaN of the unfused form would let it in.
 *   - A length ends a row as a window with -inf does. A sink is counted at the end: it shares the
 *     row's maximum and sum, and meets no V.
 *   - O may be Q's own memory with Q's own strides: a block reads its rows of Q first. O may not
 *     overlap K, V, a bias or a mask.
 *   - Any strides, any alignment: tile.cuh picks the fastest way that is right.
 *
 * Measured (H200, random data, kernel alone):
 *   to be filled in
 */
#include "kernels/groups.cuh"
#include "kernels/products.cuh"
#include "kernels/rows_out.cuh"

/* What one warp adds up: rows 16m+g and 16m+8+g of its own in [m][..][0..1] and [m][..][2..3], and
 * their maxima and sums (the latter over this lane's columns only) in [m][0] and [m][1]. */
template <int BLOCKS, int WIDTH> struct sums {
	float o[BLOCKS][WIDTH / 8][4];
	float max[BLOCKS][2], sum[BLOCKS][2];
};

/* ---- a tile of scores ------------------------------------------------------------------------ */

/* Scores of a warp's rows against the keys from j0 on become P; the sums so far are rescaled. */
template <typename T, int KEYS, bool ANY, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void
softmax_tile(float (&s)[BLOCKS][KEYS / 8][4], struct sums<BLOCKS, WIDTH> &sums,
	     const struct attn_args &a, const struct view &w, int first, int j0)
{
	constexpr int ROWS = 2 * BLOCKS, N = KEYS / 4;
	const int i = first + threadIdx.x % 32 / 4, j = j0 + 2 * (threadIdx.x % 4);
	float x[ROWS][N], factor[ROWS];

#pragma unroll
	for (int r = 0; r < ROWS; r++)
#pragma unroll
		for (int k = 0; k < N; k++)
			x[r][k] = s[r / 2][k / 2][r % 2 * 2 + k % 2];
	if (!w.plain)
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			modify<ANY, T>(x[r], a, w, i + 8 * r, j);
	hide_tile<ANY, KEYS>(x, a, w, first, j0);
	softmax_step(x, &sums.max[0][0], &sums.sum[0][0], factor, w.exponent);
#pragma unroll
	for (int r = 0; r < ROWS; r++) {
#pragma unroll
		for (int n = 0; n < WIDTH / 8; n++) {
			sums.o[r / 2][n][r % 2 * 2] *= factor[r];
			sums.o[r / 2][n][r % 2 * 2 + 1] *= factor[r];
		}
#pragma unroll
		for (int k = 0; k < N; k++)
			s[r / 2][k / 2][r % 2 * 2 + k % 2] = x[r][k];
	}
}

/* ---- the end -------------------------------------------------------------------------------- */

/* How much of a group's sums under the maximum `mine` counts under the common maximum. */
static __device__ __forceinline__ float share(float mine, float common, float exponent)
{
	if (mine == -INFINITY)
		return 1.0f; /* its sums are 0 or NaN */
	if (fmaxf(fabsf(mine * exponent), fabsf(common * exponent)) > FOLD_LIMIT)
		return exp2_fast((mine - common) * exponent);
	return exp2_fast(mine * exponent - common * exponent);
}

/* Each thread of the other groups leaves its sums in `room`, for its counterpart in group 0. */
template <int BLOCKS, int WIDTH, int GROUPS, int THREADS>
static __device__ __forceinline__ void merge_groups(struct sums<BLOCKS, WIDTH> &sums, float *room,
						    int group, int thread, float exponent)
{
	constexpr int NUMBERS = GROUP_NUMBERS<BLOCKS, WIDTH, 2>;

	__syncthreads();
	if (group > 0) {
		float each[BLOCKS][2][2];
#pragma unroll
		for (int m = 0; m < BLOCKS; m++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				each[m][e][0] = sums.max[m][e];
				each[m][e][1] = sums.sum[m][e];
			}
		leave_sums<THREADS>(room + (group - 1) * NUMBERS * THREADS + thread, each, sums.o);
	}
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
			for (int e = 0; e < 2; e++, from += 2 * THREADS) {
				const float common = fmaxf(sums.max[m][e], from[0]);
				ours[e] = share(sums.max[m][e], common, exponent);
				theirs[e] = share(from[0], common, exponent);
				sums.max[m][e] = common;
				sums.sum[m][e] =
					sums.sum[m][e] * ours[e] + from[THREADS] * theirs[e];
			}
			add_left<THREADS>(sums.o[m], from, ours, theirs);
		}
	}
}

/* O = out_scale * sums / sum of P, rows that are all -inf by their rule, written to where the
 * warp's rows start, `first`; `own` is shared memory of it alone, 16*BLOCKS lines long. */
template <bool ANY, typename T, int BLOCKS, int WIDTH>
static __device__ __forceinline__ void finish(struct sums<BLOCKS, WIDTH> &sums, T *own,
					      const struct attn_args &a, const struct view &w,
					      int first)
{
	float weight[BLOCKS][2];

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int half = 0; half < 2; half++) {
			float &sum = sums.sum[m][half];
			sum += __shfl_xor_sync(WARP_ALL, sum, 1);
			sum += __shfl_xor_sync(WARP_ALL, sum, 2);
			weight[m][half] = a.spec.out_scale;
			if (ANY)
				weight[m][half] *= count_sink(
					sum, sums.max[m][half], a, w.b, w.h,
					first + 16 * m + 8 * half + threadIdx.x % 32 / 4, 1.0f);
			if (w.plain && row_overflows<T>(a.spec, sums.max[m][half], 1.0f))
				weight[m][half] = NAN;
		}
	divide_rows<T, BLOCKS, WIDTH>(sums.o, sums.sum, weight, own, a, w);
	store_rows<T, BLOCKS, WIDTH>(sums.o, own, a, w, first);
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* ROW_WARPS warps of 16*BLOCKS rows each, GROUPS times, with tiles of KEYS keys; D, Dv <= WIDTH. */
template <typename T, int WIDTH, int KEYS, int BLOCKS, int ROW_WARPS, int GROUPS, bool ANY>
static __device__ __forceinline__ void attention(const struct attn_args &a)
{
	constexpr int ROWS = 16 * BLOCKS * ROW_WARPS, LINE = WIDTH + PAD;
	constexpr int GROUP_THREADS = 32 * ROW_WARPS, THREADS = GROUP_THREADS * GROUPS;
	static_assert((GROUPS - 1) * GROUP_NUMBERS<BLOCKS, WIDTH, 2> * GROUP_THREADS * 2 <=
			      GROUPS * 2 * KEYS * LINE,
		      "the groups' sums fit where K and V were");

	DYNAMIC_SHARED(T, shared);
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const int group = warp / ROW_WARPS, thread = threadIdx.x - group * GROUP_THREADS;
	const struct view w = view_of(a, ROWS);
	const int row0 = warp % ROW_WARPS * 16 * BLOCKS, first = w.first + row0;
	const bool idle = first >= a.Sq; /* this warp only helps to load */

	T *const own = shared + row0 * LINE;
	T *const k_tile = shared + ROWS * LINE + group * 2 * KEYS * LINE;
	T *const v_tile = k_tile + KEYS * LINE;
	/* where this lane's addresses for load_matrix start: in Q and V, and in K */
	const int a_offset = (lane % 16) * LINE + lane / 16 * 8;
	const int k_offset = (lane / 16 * 8 + lane % 8) * LINE + lane / 8 % 2 * 8;

	const T *const q = (const T *)tensor_at(a.q, w.b, w.h, a.H);
	const T *const k = (const T *)tensor_at(a.k, w.b, w.h, a.H);
	const T *const v = (const T *)tensor_at(a.v, w.b, w.h, a.H);
	const int k_pieces = pieces_of(a.k, k), v_pieces = pieces_of(a.v, v);

	int tile, tiles_end;
	key_tiles(a, ANY ? shared_length(a, w, w.first) : a.Sk, w.first,
		  min(w.first + ROWS, a.Sq) - 1, KEYS, &tile, &tiles_end);
	tile += group;

	load_tile<T, ROWS, WIDTH, THREADS>(shared, q, a.q, pieces_of(a.q, q), w.first, a.Sq, a.D,
					   threadIdx.x);
	if (tile < tiles_end)
		load_tile<T, KEYS, WIDTH, GROUP_THREADS>(k_tile, k, a.k, k_pieces, tile * KEYS,
							 a.Sk, a.D, thread);
	copy_commit();
	copy_wait();
	__syncthreads();

	struct queries<T, BLOCKS, WIDTH> queries;
	queries.init(own + a_offset);
	struct sums<BLOCKS, WIDTH> sums;
#pragma unroll
	for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
		for (int n = 0; n < WIDTH / 2; n++)
			sums.o[m][n / 4][n % 4] = 0.0f;
		sums.max[m][0] = sums.max[m][1] = -INFINITY;
		sums.sum[m][0] = sums.sum[m][1] = 0.0f;
	}

#pragma unroll 1
	for (; tile < tiles_end; tile += GROUPS) {
		const int j0 = tile * KEYS;
		float s[BLOCKS][KEYS / 8][4];

		load_tile<T, KEYS, WIDTH, GROUP_THREADS>(v_tile, v, a.v, v_pieces, j0, a.Sk, a.Dv,
							 thread);
		copy_commit();
		if (!idle)
			score_tile<T, KEYS>(s, queries, k_tile + k_offset);
		copy_wait();
		group_barrier<GROUPS>(group, GROUP_THREADS); /* V is there, K may go */

		if (tile + GROUPS < tiles_end)
			load_tile<T, KEYS, WIDTH, GROUP_THREADS>(
				k_tile, k, a.k, k_pieces, j0 + GROUPS * KEYS, a.Sk, a.D, thread);
		copy_commit();
		if (!idle) {
			softmax_tile<T, KEYS, ANY>(s, sums, a, w, first, j0);
			value_tile<T, KEYS, WIDTH>(sums.o, s, v_tile + a_offset);
		}
		copy_wait();
		group_barrier<GROUPS>(group, GROUP_THREADS); /* K is there, V may go */
	}

	if (GROUPS > 1)
		merge_groups<BLOCKS, WIDTH, GROUPS, GROUP_THREADS>(
			sums, (float *)(shared + ROWS * LINE), group, thread, w.exponent);
	if (group > 0 || idle)
		return;
	finish<ANY>(sums, own, a, w, first);
}

/* ---- the variants: the same rows as in select.c --------------------------------------------- */

#define VARIANT(symbol, T, width, keys, blocks, row_warps, groups, per_sm, any)                    \
	extern "C" __global__ void __launch_bounds__(32 * row_warps * groups, per_sm)              \
		symbol(const __grid_constant__ struct attn_args args)                              \
	{                                                                                          \
		attention<T, width, keys, blocks, row_warps, groups, any>(args);                   \
	}                                                                                          \
	SIM_KERNEL(symbol)

#include "kernels/wmma_variants.h"

#define WMMA_F16(rows, width, keys, blocks, row_warps, groups, per_sm, any)                        \
	VARIANT(fashim_wmma_f16_d##width##_r##rows, __half, width, keys, blocks, row_warps,        \
		groups, per_sm, any)
#define WMMA_BF16(rows, width, keys, blocks, row_warps, groups, per_sm, any)                       \
	VARIANT(fashim_wmma_bf16_d##width##_r##rows, __nv_bfloat16, width, keys, blocks,           \
		row_warps, groups, per_sm, any)
#define WMMA_NONE(...)
EXPAND_TYPES(WMMA_NARROW_VARIANTS, WMMA_F16, WMMA_NONE)
EXPAND_TYPES(WMMA_VARIANTS, WMMA_F16, WMMA_BF16)
