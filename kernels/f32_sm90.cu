/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention for fp32 operands on Hopper's warpgroup matrix instructions (sm_90a), as exact
 * as fp32 products: f32.cu at several times its speed, for the operands that allow it.
 *
 * Each operand is scaled by a power of 2 and written as the sum of two f16 numbers, a = a' + a''
 * with a'' what a' left, and a b = a' b' + a' b'' + a'' b'. A block has GROUPS warpgroups with 64
 * rows of queries each, and one more that reads tiles of K and V, splits them and leaves the parts
 * in shared memory, in the layout that the matrix instructions read. P is split in registers.
 *
 * Which split, by arithmetic (D = 64..128, error of one product, rate against f16's):
 *     bf16, 3 products   2^-16  1/3   too coarse: fp32 has 2^-24
 *     bf16, 6 products   2^-24  1/6
 *     TF32, 3 products   2^-22  1/6   and V transposed: that type has no transposed operands
 *     f16,  3 products   2^-22  1/3   as long as no part leaves f16's range
 * So f16, and the range is seen to. Scaled so that the largest of its kind is 2^13 to 2^14, a
 * number keeps all of its 22 digits down to 2^-14 of that largest, and an absolute error of 2^-39
 * of it below. For rows of Q and K their kind is the row: the scale of a row of Q goes into the
 * exponent, that of K is a factor per column of S. V's is the tile, P's is 2^15.
 *
 * Why so, in the order in which it was decided:
 *   1. Split inside the kernel, not before it: one launch, no memory of its own. It is done again
 *      for every tile of rows, hence tiles of 128 and 192 rows; about 6 instructions per number
 *      against 3 * 2 * 192 multiplications and additions.
 *   2. Smaller products first: matrix instructions truncate when they add, so the sum must be small
 *      while most additions are done.
 *   3. P V of a tile has accumulators of its own and is added to O by an ordinary addition: else O
 *      would lose half a unit in its last place per instruction, always towards 0. As O must be
 *      rescaled anyway, this costs registers, not instructions.
 *   4. A warpgroup waits for its own products; the others fill the gap. 330 TFLOP/s would be the
 *      end of the tensor cores, the aim is 120 (D64) and 150 (D128).
 *
 * To try next, when measured: S of the next tile started before P V of this one is waited for
 * (costs 32 registers); two warpgroups sharing the keys of 64 rows where blocks are few; bias read
 * ahead; no rescaling where no maximum grew.
 *
 * What parts cannot say is computed by fp32 multiply-adds, a tile at a time, and looked for where
 * operands are split, so that tiles without pay nothing in the products:
 *   - An infinity has no second part. S of a tile with one in K, or of a warp with one in Q, is
 *     made from memory again; V with one is read from there.
 *   - One scale for a tile of V would lose its small rows against the large ones, even where P
 *     hides those (what was never written, behind a mask). So a tile is read from memory if its
 *     rows' largest numbers lie further apart than 2^V_RANGE, rows of zeros aside.
 * Groups therefore wait for V before they split P, not after. The rest is as in wmma.cu. Measured
 * (H200), before that: 128 to 130 TFLOP/s at D 64, 135 to 140 at D 128.
 *
 * Which calls can come here, select.c knows: D = Dv = WIDTH, unit column stride, rows on 16 bytes.
 */
#include "kernels/f32_variants.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kernels/f32.cuh"
#include "kernels/hopper.cuh"
#include "kernels/tma.cuh"

namespace f32
{

/* ---- splitting ------------------------------------------------------------------------------ */

/* How far apart, in powers of 2, the largest numbers of V's rows may lie: the smallest row is then
 * as exact as a product is. */
#define V_RANGE 14

/* The parts of P are of 2^P_MORE times what f32.cuh has, so that fp16 holds the tail of a row. */
#define P_MORE 512.0f

/* Powers of 2: `to` makes of `largest` a number from 2^13 on, less than 2^14; `back` undoes it.
 * What is below 2^-113, or infinite, is scaled as far as floats go. */
struct scaling {
	float to, back;

	__device__ __forceinline__ explicit scaling(float largest)
	{
		const uint32_t exponent = max(__float_as_uint(largest) >> 23 & 255, 14u);
		to = __uint_as_float((127 + 13 + 127 - exponent) << 23);
		back = __uint_as_float((exponent - 13) << 23);
	}
};

/* Two numbers as two parts each. */
static __device__ __forceinline__ void split(float x, float y, uint32_t &high, uint32_t &low)
{
	const __half2 h = __floats2half2_rn(x, y);
	const float2 f = __half22float2(h);

	high = *reinterpret_cast<const uint32_t *>(&h);
	low = pack2<__half>(x - f.x, y - f.y);
}

/* A thread's share of LINES lines of WIDTH numbers, among the 128 of a warpgroup: 8 numbers of
 * every STEP-th line. */
template <int WIDTH, int LINES> struct share {
	static constexpr int PIECES = WIDTH / 8, STEP = 128 / PIECES, COUNT = LINES / STEP;
	static_assert(LINES % STEP == 0, "whole lines per step");
	float x[COUNT][8];

	static __device__ __forceinline__ int line(void)
	{
		return threadIdx.x % 128 / PIECES;
	}
	static __device__ __forceinline__ int piece(void)
	{
		return threadIdx.x % PIECES;
	}
	/* Reads from line `first` on of those at `at`, of which there are `lines`; zeros beyond. */
	__device__ __forceinline__ void load(const float *at, int64_t stride, int first, int lines)
	{
		const float *from = at + (first + line()) * stride + 8 * piece();
#pragma unroll
		for (int n = 0; n < COUNT; n++, from += STEP * stride) {
			float4 low = make_float4(0.0f, 0.0f, 0.0f, 0.0f), high = low;
			if (first + line() + n * STEP < lines) {
				low = *(const float4 *)from;
				high = *(const float4 *)(from + 4);
			}
			const float eight[8] = {low.x,	low.y,	low.z,	low.w,
						high.x, high.y, high.z, high.w};
#pragma unroll
			for (int e = 0; e < 8; e++)
				x[n][e] = eight[e];
		}
	}
	/* The largest of the thread's numbers in its n-th line, and in all. */
	__device__ __forceinline__ float largest(int n) const
	{
		float most = fabsf(x[n][0]);
#pragma unroll
		for (int e = 1; e < 8; e++)
			most = fmaxf(most, fabsf(x[n][e]));
		return most;
	}
	/* Of a warp's lines the largest number, and one less than what is the largest in the line
	 * where that is smallest, lines of zeros aside: the leading 16 bits of each, without sign.
	 */
	__device__ __forceinline__ void extremes(uint32_t &most, uint32_t &least) const
	{
		static_assert(COUNT % 2 == 0, "pairs of lines");
		most = 0;
		least = ~0u;
#pragma unroll
		for (int n = 0; n < COUNT; n += 2) {
			uint32_t two = __byte_perm(__float_as_uint(largest(n)),
						   __float_as_uint(largest(n + 1)), 0x7632);
#pragma unroll
			for (int lanes = 1; lanes < PIECES; lanes *= 2)
				two = larger<__nv_bfloat16>(two,
							    __shfl_xor_sync(WARP_ALL, two, lanes));
			most = max(most, max(two & 0xffff, two >> 16));
			least = min(least, min((two & 0xffff) - 1, (two >> 16) - 1));
		}
		most = __reduce_max_sync(WARP_ALL, most);
		least = __reduce_min_sync(WARP_ALL, least);
	}
	/* Writes the n-th line, scaled and split, into slabs of `lines` lines at `to`; the second
	 * parts `apart` bytes further on. */
	__device__ __forceinline__ void put(int n, float scale, unsigned char *to, int lines,
					    int apart) const
	{
		unsigned char *const at = to + slab_at(line() + n * STEP, piece(), lines);
		uint32_t high[4], low[4];
#pragma unroll
		for (int e = 0; e < 4; e++)
			split(x[n][2 * e] * scale, x[n][2 * e + 1] * scale, high[e], low[e]);
		*(uint4 *)at = make_uint4(high[0], high[1], high[2], high[3]);
		*(uint4 *)(at + apart) = make_uint4(low[0], low[1], low[2], low[3]);
	}
	/* All lines, each by its own scale, which goes to back[line], negative where the line has
	 * an infinity. Returns whether any of the thread's has. */
	__device__ __forceinline__ bool put_by_line(unsigned char *to, int lines, int apart,
						    float *back) const
	{
		bool odd = false;

#pragma unroll
		for (int n = 0; n < COUNT; n++) {
			float most = largest(n);
#pragma unroll
			for (int lanes = 1; lanes < PIECES; lanes *= 2)
				most = fmaxf(most, __shfl_xor_sync(WARP_ALL, most, lanes));
			const struct scaling s(most);
			const bool infinite = most == INFINITY;
			put(n, s.to, to, lines, apart);
			if (piece() == 0)
				back[line() + n * STEP] = infinite ? -s.back : s.back;
			odd = odd || infinite;
		}
		return odd;
	}
};

/* ---- shared memory -------------------------------------------------------------------------- */

/* After Q, and K and V twice. Barriers say of each stage that K, or V, is there or may go. */
enum { K_THERE, K_GONE, V_THERE, V_GONE, BARRIERS };
template <int KEYS, int ROWS> struct control {
	uint64_t barrier[BARRIERS][2];
	uint4 most[2], least[2]; /* of V, by warp */
	uint4 k_odd[2];		 /* by warp: has K an infinity? */
	float v_back[2];	 /* negative: parts of V will not do */
	float k_back[2][KEYS], q_back[ROWS];
};

/* The stage of the n-th tile, and the parity of the phase in which its buffers are filled. */
static __device__ __forceinline__ int stage_of(int n)
{
	return n & 1;
}
static __device__ __forceinline__ int parity_of(int n)
{
	return n >> 1 & 1;
}

#define COPIERS_BARRIER 8 /* named barriers: of those that copy; from 1 on, of each group */

/* The warp's part of such four. */
static __device__ __forceinline__ uint32_t &own_of(uint4 &four)
{
	return reinterpret_cast<uint32_t *>(&four)[threadIdx.x / 32 % 4];
}

/* ---- the group that copies ------------------------------------------------------------------ */

template <int WIDTH, int KEYS, bool AHEAD, class C>
static __device__ __forceinline__ void copy_tiles(const struct attn_args &a, const struct view &w,
						  unsigned char *stages, C &shared, int begin,
						  int end)
{
	constexpr int TILE = KEYS * WIDTH * 2; /* bytes of one part of K, or of V */
	const float *const k_at = (const float *)tensor_at(a.k, w.b, w.h, a.H);
	const float *const v_at = (const float *)tensor_at(a.v, w.b, w.h, a.H);
	const int64_t k_stride = a.k.stride[2], v_stride = a.v.stride[2];
	const uint32_t barriers = shared_address(shared.barrier);
	struct share<WIDTH, KEYS> k, v;

	k.load(k_at, k_stride, begin * KEYS, a.Sk);
#pragma unroll 1
	for (int n = 0; n < end - begin; n++) {
		const int stage = stage_of(n), j0 = (begin + n) * KEYS;
		unsigned char *const k_to = stages + stage * 4 * TILE, *const v_to =
									       k_to + 2 * TILE;

		if (AHEAD)
			v.load(v_at, v_stride, j0, a.Sk);
		barrier_wait(barriers + 16 * K_GONE + 8 * stage, parity_of(n) ^ 1);
		const bool odd =
			__any_sync(WARP_ALL, k.put_by_line(k_to, KEYS, TILE, shared.k_back[stage]));
		if (threadIdx.x % 32 == 0)
			own_of(shared.k_odd[stage]) = odd;
		shared_for_wgmma();
		barrier_arrive(barriers + 16 * K_THERE + 8 * stage);

		if (AHEAD)
			k.load(k_at, k_stride, j0 + KEYS, a.Sk);
		else
			v.load(v_at, v_stride, j0, a.Sk);
		uint32_t most, least;
		v.extremes(most, least);
		if (threadIdx.x % 32 == 0) {
			own_of(shared.most[stage]) = most;
			own_of(shared.least[stage]) = least;
		}
		part_sync(COPIERS_BARRIER, 128);
		const uint4 mosts = shared.most[stage], leasts = shared.least[stage];
		most = max(max(mosts.x, mosts.y), max(mosts.z, mosts.w));
		least = min(min(leasts.x, leasts.y), min(leasts.z, leasts.w)) + 1;
		const struct scaling s(__uint_as_float(most << 16));
		/* 7 bits of them are below the exponent */
		const bool odd_v = most >= 0x7f80 || (most >> 7) - (least >> 7) > V_RANGE;
		barrier_wait(barriers + 16 * V_GONE + 8 * stage, parity_of(n) ^ 1);
#pragma unroll
		for (int m = 0; m < v.COUNT; m++)
			v.put(m, s.to, v_to, KEYS, TILE);
		if (threadIdx.x % 128 == 0)
			shared.v_back[stage] = odd_v ? -1.0f : s.back / P_MORE;
		shared_for_wgmma();
		barrier_arrive(barriers + 16 * V_THERE + 8 * stage);
		if (!AHEAD)
			k.load(k_at, k_stride, j0 + KEYS, a.Sk);
	}
}

/* ---- the groups that compute ---------------------------------------------------------------- */

/* d = a' b'' + a'' b' + a' b', a and b in shared memory, over WIDTH terms: S from Q and K. Second
 * parts lie q_apart and k_apart bytes after the first ones. */
template <int WIDTH, int KEYS, int ROWS>
static __device__ __forceinline__ void start_scores(float (&s)[KEYS / 2], uint64_t q, int q_apart,
						    uint64_t k, int k_apart)
{
	settle(s);
	wgmma_begin();
#pragma unroll
	for (int term = 0; term < 3; term++)
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++)
			wgmma_shared<__half, false>::run(
				s,
				operand_moved(q, (term == 1) * q_apart + d / 4 * (ROWS * 128) +
							 d % 4 * 32),
				operand_moved(k, (term == 0) * k_apart + d / 4 * (KEYS * 128) +
							 d % 4 * 32),
				term + d > 0);
	wgmma_commit();
}

/* d = p'' v' + p' v'' + p' v': P from registers, V `v_apart` bytes between its parts. */
template <int WIDTH, int KEYS>
static __device__ __forceinline__ void
start_values(float (&d)[WIDTH / 2], const uint32_t (&high)[KEYS / 16][4],
	     const uint32_t (&low)[KEYS / 16][4], uint64_t v, int v_apart)
{
	settle(d);
	wgmma_begin();
#pragma unroll
	for (int m = 0; m < KEYS / 16; m++)
		wgmma_registers<__half, true>::run(d, low[m], operand_moved(v, m * 2048), m > 0);
#pragma unroll
	for (int m = 0; m < KEYS / 16; m++)
		wgmma_registers<__half, true>::run(d, high[m],
						   operand_moved(v, v_apart + m * 2048));
#pragma unroll
	for (int m = 0; m < KEYS / 16; m++)
		wgmma_registers<__half, true>::run(d, high[m], operand_moved(v, m * 2048));
	wgmma_commit();
}

/* S again, by multiply-adds from memory: for rows i and i+8, keys j, j+1, j+8, ..., times `unit`.
 */
template <int WIDTH, int N>
static __device__ __forceinline__ void plain_scores(float (&x)[2][N], const struct attn_args &a,
						    const struct view &w, int i, int j,
						    const float (&unit)[2])
{
	const float *const q = (const float *)tensor_at(a.q, w.b, w.h, a.H);
	const float *const k = (const float *)tensor_at(a.k, w.b, w.h, a.H);
	const float4 *const q0 = (const float4 *)(q + min(i, a.Sq - 1) * a.q.stride[2]);
	const float4 *const q1 = (const float4 *)(q + min(i + 8, a.Sq - 1) * a.q.stride[2]);

#pragma unroll
	for (int n = 0; n < N; n++) {
		const float4 *const at =
			(const float4 *)(k + min(j + key_of(n), a.Sk - 1) * a.k.stride[2]);
		float low = 0.0f, high = 0.0f;
#pragma unroll 1
		for (int d = 0; d < WIDTH / 4; d++) {
			const float4 y = at[d], x0 = q0[d], x1 = q1[d];
			low = fmaf(x0.w, y.w,
				   fmaf(x0.z, y.z, fmaf(x0.y, y.y, fmaf(x0.x, y.x, low))));
			high = fmaf(x1.w, y.w,
				    fmaf(x1.z, y.z, fmaf(x1.y, y.y, fmaf(x1.x, y.x, high))));
		}
		x[0][n] = low * unit[0];
		x[1][n] = high * unit[1];
	}
}

/* O += P V, by multiply-adds, V from memory: of keys from j0 on. */
template <int WIDTH, int N>
static __device__ __forceinline__ void plain_values(float (&o)[WIDTH / 2], const float (&p)[2][N],
						    const struct attn_args &a, const struct view &w,
						    int j0)
{
	const int lane = threadIdx.x % 32;
	const float *const v = (const float *)tensor_at(a.v, w.b, w.h, a.H) + 2 * (lane % 4);

#pragma unroll 1
	for (int t = 0; t < 4; t++)
#pragma unroll
		for (int n = 0; n < N; n++) {
			const float p0 = __shfl_sync(WARP_ALL, p[0][n], lane / 4 * 4 + t);
			const float p1 = __shfl_sync(WARP_ALL, p[1][n], lane / 4 * 4 + t);
			const int j = j0 + 2 * t + key_of(n);

			if (j >= a.Sk)
				continue;
			const float *const at = v + j * a.v.stride[2];
#pragma unroll
			for (int c = 0; c < WIDTH / 8; c++) {
				const float2 two = *(const float2 *)(at + 8 * c);
				o[4 * c] = fmaf(p0, two.x, o[4 * c]);
				o[4 * c + 1] = fmaf(p0, two.y, o[4 * c + 1]);
				o[4 * c + 2] = fmaf(p1, two.x, o[4 * c + 2]);
				o[4 * c + 3] = fmaf(p1, two.y, o[4 * c + 3]);
			}
		}
}

/* This warp no longer needs what the barrier stands for. */
static __device__ __forceinline__ void let_go(uint32_t barrier)
{
	__syncwarp();
	if (threadIdx.x % 32 == 0)
		barrier_arrive(barrier);
}

template <int WIDTH, int KEYS, int GROUPS, bool PLAIN, class C>
static __device__ __forceinline__ void
compute_tiles(const struct attn_args &a, const struct view &w, unsigned char *q_tile,
	      unsigned char *stages, C &shared, int begin, int end)
{
	constexpr int ROWS = 64 * GROUPS, TILE = KEYS * WIDTH * 2, N = KEYS / 4;
	constexpr int Q_PART = ROWS * WIDTH * 2;
	const int group = threadIdx.x / 128, lane = threadIdx.x % 32, t = lane % 4;
	const int row0 = threadIdx.x / 32 * 16, first = w.first + row0, i = first + lane / 4;
	const uint32_t barriers = shared_address(shared.barrier);
	const bool plain = PLAIN || w.plain;

	{
		const float *const q_at = (const float *)tensor_at(a.q, w.b, w.h, a.H);
		struct share<WIDTH, 64> q;
		q.load(q_at, a.q.stride[2], w.first + 64 * group, a.Sq);
		q.put_by_line(q_tile + group * (64 * 128), ROWS, Q_PART,
			      shared.q_back + 64 * group);
		shared_for_wgmma();
		part_sync(1 + group, 128);
	}
	float back[2], exponent[2];
	bool odd_q = false;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const float signed_back = shared.q_back[row0 + lane / 4 + 8 * r];
		back[r] = fabsf(signed_back);
		odd_q = odd_q || signed_back < 0.0f;
		exponent[r] = plain ? w.exponent * back[r] : w.exponent;
	}
	odd_q = __any_sync(WARP_ALL, odd_q);
	/* the tiles that this group's own rows can see */
	int own_begin, own_end;
	key_tiles(a, a.Sk, w.first + 64 * group, min(w.first + 64 * group + 64, a.Sq) - 1, KEYS,
		  &own_begin, &own_end);

	float o[WIDTH / 2], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.0f, 0.0f};
#pragma unroll
	for (int n = 0; n < WIDTH / 2; n++)
		o[n] = 0.0f;
	const uint64_t q = operand_at(shared_address(q_tile) + group * (64 * 128), 16);
	const uint64_t k = operand_at(shared_address(stages), 16);
	const uint64_t v = operand_at(shared_address(stages) + 2 * TILE, KEYS * 128);

#pragma unroll 1
	for (int n = 0; n < end - begin; n++) {
		const int stage = stage_of(n), parity = parity_of(n), j0 = (begin + n) * KEYS;
		float s[KEYS / 2], x[2][N], factor[2];

		barrier_wait(barriers + 16 * K_THERE + 8 * stage, parity);
		if (begin + n < own_begin || begin + n >= own_end) {
			let_go(barriers + 16 * K_GONE + 8 * stage);
			barrier_wait(barriers + 16 * V_THERE + 8 * stage, parity);
			let_go(barriers + 16 * V_GONE + 8 * stage);
			continue;
		}
		start_scores<WIDTH, KEYS, ROWS>(s, q, Q_PART, operand_moved(k, stage * 4 * TILE),
						TILE);
		wgmma_wait<0>();
		settle(s);
		if (!plain) {
			/* before K's scale: the product of both could leave fp32's range */
#pragma unroll
			for (int m = 0; m < KEYS / 2; m++)
				s[m] *= back[m / 2 % 2];
		}
#pragma unroll
		for (int m = 0; m < KEYS / 8; m++) {
			const float2 scale = *(const float2 *)&shared.k_back[stage][8 * m + 2 * t];
#pragma unroll
			for (int r = 0; r < 2; r++) {
				x[r][2 * m] = s[4 * m + 2 * r] * scale.x;
				x[r][2 * m + 1] = s[4 * m + 2 * r + 1] * scale.y;
			}
		}
		const uint4 odd_k = shared.k_odd[stage];
		let_go(barriers + 16 * K_GONE + 8 * stage);
		if ((odd_k.x | odd_k.y | odd_k.z | odd_k.w) || odd_q) {
			const float unit[2] = {plain ? 1.0f / back[0] : 1.0f,
					       plain ? 1.0f / back[1] : 1.0f};
			plain_scores<WIDTH>(x, a, w, i, j0 + 2 * t, unit);
		}
		if (!plain)
#pragma unroll
			for (int r = 0; r < 2; r++)
				modify<false>(x[r], a, w, i + 8 * r, j0 + 2 * t);
		limit<KEYS, false>(x, a, w, first, j0);
		softmax(x, row_max, row_sum, factor, exponent);
		barrier_wait(barriers + 16 * V_THERE + 8 * stage, parity);
		const float scale = shared.v_back[stage];
		if (scale < 0.0f) {
			let_go(barriers + 16 * V_GONE + 8 * stage);
#pragma unroll
			for (int m = 0; m < WIDTH / 2; m++)
				o[m] *= factor[m / 2 % 2];
			plain_values<WIDTH>(o, x, a, w, j0);
			continue;
		}
		uint32_t high[KEYS / 16][4], low[KEYS / 16][4];
#pragma unroll
		for (int m = 0; m < KEYS / 16; m++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				split(x[e % 2][4 * m + e / 2 * 2] * P_MORE,
				      x[e % 2][4 * m + e / 2 * 2 + 1] * P_MORE, high[m][e],
				      low[m][e]);

		float d[WIDTH / 2];
		start_values<WIDTH, KEYS>(d, high, low, operand_moved(v, stage * 4 * TILE), TILE);
		wgmma_wait<0>();
		settle(d);
		let_go(barriers + 16 * V_GONE + 8 * stage);
#pragma unroll
		for (int m = 0; m < WIDTH / 2; m++)
			o[m] = fmaf(d[m], scale, o[m] * factor[m / 2 % 2]);
	}
	finish<WIDTH, false>(o, row_sum, row_max, a, w, i);
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* REGISTERS: per thread, of what a block has as it starts. */
template <int WIDTH, int KEYS, int GROUPS, bool PLAIN, bool AHEAD, int FEW, int MANY, int REGISTERS>
static __device__ __forceinline__ void attention_sm90(const struct attn_args &a)
{
	constexpr int ROWS = 64 * GROUPS;
	extern __shared__ __align__(1024) unsigned char f32_shared[];
	unsigned char *const stages = f32_shared + ROWS * WIDTH * 4;
	typedef struct control<KEYS, ROWS> control;
	control &shared = *(control *)(stages + 2 * 4 * KEYS * WIDTH * 2);
	static_assert(ROWS * WIDTH * 4 + 16 * KEYS * WIDTH + sizeof(control) <=
			      F32_SM90_SHARED(WIDTH, KEYS, GROUPS),
		      "it all fits");
	static_assert(FEW + GROUPS * MANY <= (GROUPS + 1) * REGISTERS, "and so do registers");
	const struct view w = view_of(a, ROWS);
	const int group = threadIdx.x / 128, groups = min(GROUPS, (a.Sq - w.first + 63) / 64);
	int begin, end;

	key_tiles(a, a.Sk, w.first, min(w.first + ROWS, a.Sq) - 1, KEYS, &begin, &end);
	if (threadIdx.x == 0) {
		const uint32_t barriers = shared_address(shared.barrier);
		for (int stage = 0; stage < 2; stage++) {
			barrier_init(barriers + 16 * K_THERE + 8 * stage, 128);
			barrier_init(barriers + 16 * V_THERE + 8 * stage, 128);
			barrier_init(barriers + 16 * K_GONE + 8 * stage, 4 * groups);
			barrier_init(barriers + 16 * V_GONE + 8 * stage, 4 * groups);
		}
		barriers_ready();
	}
	__syncthreads();
	if (group == GROUPS) {
		give_registers<FEW>();
		copy_tiles<WIDTH, KEYS, AHEAD>(a, w, stages, shared, begin, end);
	} else {
		take_registers<MANY>();
		if (group < groups)
			compute_tiles<WIDTH, KEYS, GROUPS, PLAIN>(a, w, f32_shared, stages, shared,
								  begin, end);
	}
}

} // namespace f32

#define F32_SM90_KERNEL(name, width, keys, groups, per_sm, plain, ahead, few, many)                \
	extern "C" __global__ void __launch_bounds__(128 * (groups + 1), per_sm)                   \
		fashim_sm90_f32_##name(const __grid_constant__ struct attn_args args)              \
	{                                                                                          \
		f32::attention_sm90<width, keys, groups, plain, ahead, few, many,                  \
				    65536 / (128 * (groups + 1) * per_sm) / 8 * 8>(args);          \
	}
F32_SM90_VARIANTS(F32_SM90_KERNEL)

#endif
