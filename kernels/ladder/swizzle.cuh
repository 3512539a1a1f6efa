/* SPDX-License-Identifier: Apache-2.0
 *
 * What steps 16 to 20 of the ladder share: tiles without padding, and a warp that keeps 16 rows of
 * S, P and O in its registers.
 *
 * A row of 64 halves is 128 bytes, eight pieces of 16, and spans all banks once. Piece c of row r
 * lies where piece c ^ r % 8 would: within a row that is a permutation, and down a column of pieces
 * eight rows meet eight different groups of banks. ldmatrix takes eight rows of a column at a time,
 * so it meets no bank twice, nor do copies, which take whole rows.
 *
 * The register layout of mma.sync is documented (device.cuh has it), unlike WMMA's. What a lane
 * holds of S, rows g and g + 8 for lane 4g + t, is just what it must hold of P as the left operand
 * of the next product: scores become weights where they are.
 */
#ifndef FASHIM_LADDER_SWIZZLE_CUH
#define FASHIM_LADDER_SWIZZLE_CUH

#include "kernels/ladder/ladder.cuh"
#include "kernels/scores.cuh"

#define ROW_PIECES (LADDER_D / 8)

/* All a block has in shared memory: room for QUERIES tiles of rows and STAGES of keys. */
template <int ROWS, int KEYS, int QUERIES, int STAGES> struct alignas(128) swizzled {
	__half q[QUERIES][ROWS][LADDER_D];
	__half k[STAGES][KEYS][LADDER_D], v[STAGES][KEYS][LADDER_D];
};

/* Where piece `piece` of line `line` lies. */
static __device__ __forceinline__ __half *piece_at(__half (*tile)[LADDER_D], int line, int piece)
{
	return &tile[line][(piece ^ line % 8) * 8];
}

/* Starts copying rows first .. first + LINES - 1 of an operand; beyond row `rows` all is 0. */
template <int LINES, int THREADS>
static __device__ __forceinline__ void start_copies(__half (*tile)[LADDER_D],
						    const struct matrix &m, int first, int rows)
{
	constexpr int STEP = THREADS / ROW_PIECES; /* rows that the threads take at a time */
	static_assert(THREADS % ROW_PIECES == 0 && LINES % STEP == 0, "whole rows, all alike");
	const int top = threadIdx.x / ROW_PIECES, c = threadIdx.x % ROW_PIECES;
	const __half *from = m.at + (first + top) * m.row + 8 * c;

#pragma unroll
	for (int r = 0; r < LINES; r += STEP, from += STEP * m.row)
		copy16(piece_at(tile, top + r, c), from, first + top + r < rows ? 16 : 0);
}

/* A warp's 16 rows. A lane has, of rows g and g + 8, columns 2t, 2t + 1 of every eight; max and sum
 * of both rows, the sum over this lane's own keys only. */
struct warp_sums {
	uint32_t q[LADDER_D / 16][4];
	float o[LADDER_D / 8][4];
	float max[2], sum[2];
};

/* Takes the warp's rows of Q from the tile, from its line `row` on; nothing is summed up yet. */
static __device__ __forceinline__ void begin_rows(struct warp_sums &w, __half (*q)[LADDER_D],
						  int row)
{
	const int lane = threadIdx.x % 32;

#pragma unroll
	for (int d = 0; d < LADDER_D / 16; d++)
		load_matrix(w.q[d], piece_at(q, row + lane % 16, 2 * d + lane / 16));
#pragma unroll
	for (int n = 0; n < LADDER_D / 2; n++)
		w.o[n / 4][n % 4] = 0.0f;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		w.max[r] = -INFINITY;
		w.sum[r] = 0.0f;
	}
}

/* x = q.k for 16 rows and the KEYS lines of K from `key` on: x[0] for row g, x[1] for row g + 8,
 * keys as key_of() numbers them. */
template <int KEYS>
static __device__ __forceinline__ void
multiply_keys(float (&x)[2][KEYS / 4], const struct warp_sums &w, __half (*k)[LADDER_D], int key)
{
	const int lane = threadIdx.x % 32;
	float s[KEYS / 8][4] = {};

#pragma unroll
	for (int d = 0; d < LADDER_D / 16; d++)
#pragma unroll
		for (int n = 0; n < KEYS / 16; n++) {
			const int line = key + 16 * n + lane / 16 * 8 + lane % 8;
			uint32_t b[4];

			load_matrix(b, piece_at(k, line, 2 * d + lane / 8 % 2));
			multiply<__half>(s[2 * n], w.q[d], b[0], b[1]);
			multiply<__half>(s[2 * n + 1], w.q[d], b[2], b[3]);
		}
#pragma unroll
	for (int n = 0; n < KEYS / 4; n++) {
		x[0][n] = s[n / 2][n % 2];
		x[1][n] = s[n / 2][n % 2 + 2];
	}
}

/* O += P V, over the KEYS lines of V from `key` on. */
template <int KEYS>
static __device__ __forceinline__ void
add_values(struct warp_sums &w, const float (&p)[2][KEYS / 4], __half (*v)[LADDER_D], int key)
{
	const int lane = threadIdx.x % 32;

#pragma unroll
	for (int j = 0; j < KEYS / 16; j++) {
		uint32_t a[4], b[4];

#pragma unroll
		for (int e = 0; e < 4; e++) {
			const int n = 4 * j + e / 2 * 2;
			a[e] = pack2<__half>(p[e % 2][n], p[e % 2][n + 1]);
		}
#pragma unroll
		for (int n = 0; n < LADDER_D / 16; n++) {
			load_matrix_transposed(
				b, piece_at(v, key + 16 * j + lane % 16, 2 * n + lane / 16));
			multiply<__half>(w.o[2 * n], a, b[0], b[1]);
			multiply<__half>(w.o[2 * n + 1], a, b[2], b[3]);
		}
	}
}

/* Hides, of scores of the 16 rows from row `first` of all on and the KEYS keys from key j of all
 * on, those of keys that a row does not see. */
template <int KEYS>
static __device__ __forceinline__ void hide_keys(const struct attn_args &a, float (&x)[2][KEYS / 4],
						 int first, int j)
{
	const int lane = threadIdx.x % 32, i = first + lane / 4, own = j + 2 * (lane % 4);

	if (keys_begin(a, first + 15) <= j && keys_end(a, first) >= j + KEYS)
		return;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int begin = keys_begin(a, i + 8 * r), end = keys_end(a, i + 8 * r);
#pragma unroll
		for (int n = 0; n < KEYS / 4; n++)
			if (own + key_of(n) < begin || own + key_of(n) >= end)
				x[r][n] = -INFINITY;
	}
}

/* P of the 16 rows from row `first` of all on, over the KEYS keys from key j of all on, which are
 * the lines from `key` on of the tile k; what was summed up so far is scaled to match. */
template <int KEYS>
static __device__ __forceinline__ void weigh_keys(const struct attn_args &a, struct warp_sums &w,
						  float (&x)[2][KEYS / 4], __half (*k)[LADDER_D],
						  int key, int first, int j)
{
	float keep[2];

	multiply_keys<KEYS>(x, w, k, key);
	hide_keys<KEYS>(a, x, first, j);
	softmax_step(x, w.max, w.sum, keep, a.spec.scale * LOG2E);
#pragma unroll
	for (int n = 0; n < LADDER_D / 2; n++)
		w.o[n / 4][n % 4] *= keep[n / 2 % 2];
}

/* One step for these rows and keys. */
template <int KEYS>
static __device__ __forceinline__ void attend(const struct attn_args &a, struct warp_sums &w,
					      __half (*k)[LADDER_D], __half (*v)[LADDER_D], int key,
					      int first, int j)
{
	float x[2][KEYS / 4];

	weigh_keys<KEYS>(a, w, x, k, key, first, j);
	add_values<KEYS>(w, x, v, key);
}

/* Each other group's sums count in those of group 0; by way of shared memory, where THREADS
 * threads of a group have a column each. */
template <int GROUPS, int THREADS>
static __device__ __forceinline__ void merge_groups(struct warp_sums &w, float *room, int group,
						    float exponent)
{
	constexpr int NUMBERS = LADDER_D / 2 + 4;
	const int column = threadIdx.x % THREADS;

	if (GROUPS == 1)
		return;
	__syncthreads(); /* nobody needs K and V any more, which were there */
	if (group > 0) {
		float *to = room + (group - 1) * NUMBERS * THREADS + column;
#pragma unroll
		for (int n = 0; n < LADDER_D / 2; n++, to += THREADS)
			*to = w.o[n / 4][n % 4];
#pragma unroll
		for (int r = 0; r < 2; r++, to += 2 * THREADS) {
			to[0] = w.max[r];
			to[THREADS] = w.sum[r];
		}
	}
	__syncthreads();
	if (group > 0)
		return;
#pragma unroll 1
	for (int other = 1; other < GROUPS; other++) {
		const float *from = room + (other - 1) * NUMBERS * THREADS + column;
		float ours[2], theirs[2];

#pragma unroll
		for (int r = 0; r < 2; r++) {
			const float *const row = from + (LADDER_D / 2 + 2 * r) * THREADS;
			const float max = fmaxf(w.max[r], row[0]);
			const float base = max == -INFINITY ? 0.0f : max;
			ours[r] = exp2_fast((w.max[r] - base) * exponent);
			theirs[r] = exp2_fast((row[0] - base) * exponent);
			w.max[r] = max;
			w.sum[r] = w.sum[r] * ours[r] + row[THREADS] * theirs[r];
		}
#pragma unroll
		for (int n = 0; n < LADDER_D / 2; n++, from += THREADS)
			w.o[n / 4][n % 4] =
				w.o[n / 4][n % 4] * ours[n / 2 % 2] + *from * theirs[n / 2 % 2];
	}
}

/* The rows, divided by their sums, go to memory by way of `own`, 16 lines of shared memory that
 * this warp alone uses, so that whole pieces can be written. */
static __device__ __forceinline__ void end_rows(const struct attn_args &a, struct warp_sums &w,
						const struct matrix &o, __half (*own)[LADDER_D],
						int first)
{
	const int lane = threadIdx.x % 32;

#pragma unroll
	for (int r = 0; r < 2; r++) {
		float sum = w.sum[r];

		sum += __shfl_xor_sync(WARP_ALL, sum, 1);
		sum += __shfl_xor_sync(WARP_ALL, sum, 2);
		const float factor = row_factor(a, sum);
#pragma unroll
		for (int n = 0; n < LADDER_D / 8; n++)
			*(uint32_t *)(piece_at(own, lane / 4 + 8 * r, n) + 2 * (lane % 4)) =
				pack2<__half>(w.o[n][2 * r] * factor, w.o[n][2 * r + 1] * factor);
	}
	__syncwarp();
#pragma unroll
	for (int e = lane; e < 16 * ROW_PIECES; e += 32) {
		const int r = e / ROW_PIECES, c = e % ROW_PIECES;

		if (first + r < a.Sq)
			*(uint4 *)(o.at + (first + r) * o.row + 8 * c) =
				*(const uint4 *)piece_at(own, r, c);
	}
}

#endif
