/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention for fp32 operands on Hopper's warpgroup matrix instructions (sm_90a), as exact
 * as fp32 products: f32.cu at several times its speed.
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
 * "As exact as fp32 products" is so of sums of many: where a few products make a score, because the
 * numbers of a row lie powers of 2 apart, 2^-22 shows beside 2^-24. Of 24 sets of such numbers in
 * six shapes O was in the median 0.6 to 1.3 times as far off as a program's, and 13 times at most,
 * where two scores nearly met (f32_check, `uneven`).
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
 *   5. What does not lie in rows on 16 bytes takes another way into the same tiles, by variants of
 *      their own: the registers that hold numbers under way, and the shared memory, are not both
 *      there.
 *   6. Few blocks: the keys are dealt out to a cluster, and its first block adds up.
 *
 * Notebook (f32_check, one Hopper GPU): us, and how many times as fast as the chain of a program,
 * SGEMM, softmax and SGEMM, which see nothing of biases but in the softmax:
 *
 *     B4 H16 S2048 D64             544  4.8      B512 H3 S49 D32, bias      32  4.9
 *     B8 H20 S1500 D64, K [D,Sk]   820  4.6      B128 H4 S256 D36          100  5.1
 *     B32 H12 S197 D64              78  4.1      B2 H8 4096x77 D40          30  5.0
 *     the same, odd rows           112  2.9      B8 H16 S512 D80           152  3.7
 *     B16 H16 S577 D64, odd rows   336  3.7      B4 H8 S1024 D160          522  1.4
 *     B2 H16 S2048 D128            527  3.8      B2 H8 S1024 D256          278  1.7
 *     B1 H20 1x1500 D64             17  1.1      B4 H12 16x512 D64          14  2.1
 *
 * Few heads of 256 columns, us on an H200: one block with all the keys, four of a cluster,
 * and the program's: B1 H2 S1024 138, 91, 74; S256 40, 25, 19; B1 H1 S4096 498, 397, 468. The
 * first takes as long as if 32 clusters of four did not fit the GPU at once; three blocks each were
 * not tried.
 *
 * Biases of an image's rows and columns (any_d64_image, any_d128_image), us on an H200 beside f32.cu:
 * B2 H12 S1024 D64 399, 464; B2 H16 S1024 D80 455, 856; B300 S196 D64 265, 391.
 *
 * To try next: at D 128 the group that copies is what the others wait for (tiles of 96 columns took
 * as long as those of 128), so two of them, or loads of half a tile ahead; S of the next tile
 * started before P V of this one is waited for (costs 32 registers); bias read ahead; no rescaling
 * where no maximum grew.
 *
 * What parts cannot say is computed by fp32 multiply-adds (f32_plain.cuh), a tile at a time, and
 * looked for where operands are split, so that tiles without pay nothing in the products. Groups
 * therefore wait for V before they split P, not after. The rest is as in wmma.cu.
 *
 * Any layout and any D, Dv <= WIDTH: variants read rows that lie on 16 bytes, or anything by way of
 * shared memory (f32_parts.cuh); tiles are zeros past D. One wider than 128 columns has P V in two
 * halves, as O and P V of all columns are more registers than there are.
 */
#include "kernels/f32_variants.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDACC__)
#include "kernels/f32.cuh"
#include "kernels/f32_parts.cuh"
#include "kernels/f32_plain.cuh"
#include "kernels/f32_sums.cuh"
#include "kernels/tma.cuh"

namespace f32
{

/* How far apart, in powers of 2, the largest numbers of V's rows may lie: the smallest row is then
 * as exact as a product is. */
#define V_RANGE 14

/* The parts of P are of 2^P_MORE times what f32.cuh has, so that fp16 holds the tail of a row. */
#define P_MORE 512.0f

/* What a variant is: f32_variants.h has the words. */
template <int WIDTH_, int KEYS_, int GROUPS_, int STAGES_, int RAWS_, int KIND_, bool AHEAD_,
	  int PARTS_>
struct shape {
	static constexpr int WIDTH = WIDTH_, KEYS = KEYS_, GROUPS = GROUPS_, STAGES = STAGES_;
	static constexpr int RAWS = RAWS_, PARTS = PARTS_, ROWS = 64 * GROUPS;
	static constexpr bool PLAIN = KIND_ == F32_PLAIN, IMAGE = KIND_ == F32_IMAGE, AHEAD = AHEAD_;
	static constexpr int SLABS = (WIDTH + 63) / 64;
	static constexpr int TILE = KEYS * SLABS * 128;	  /* bytes of one part of K, or of V */
	static constexpr int Q_PART = ROWS * SLABS * 128; /* and of Q */
	static constexpr int LINE = WIDTH + 4;		  /* of what is staged: no bank twice */
	static constexpr int RAW = RAWS * KEYS * LINE * 4;
	static constexpr int SUMS = WIDTH <= 128 ? WIDTH : 128; /* columns of P V at a time */
};

/* ---- shared memory -------------------------------------------------------------------------- */

/* After Q, and K and V twice. Barriers say of each stage that K, or V, is there or may go. */
enum { K_THERE, K_GONE, V_THERE, V_GONE, BARRIERS };
template <int KEYS, int ROWS> struct control {
	uint64_t barrier[BARRIERS][2];
	uint4 most[2], least[2]; /* of V, by warp; of even and odd tiles */
	uint4 k_odd[2];		 /* by warp: has K an infinity? */
	float v_back[2];	 /* negative: parts of V will not do */
	float k_back[2][KEYS], q_back[ROWS];
};

/* The stage of the n-th tile, and the parity of the phase in which its buffers are filled. */
template <class S> static __device__ __forceinline__ int stage_of(int n)
{
	return S::STAGES == 2 ? n & 1 : 0;
}
template <class S> static __device__ __forceinline__ int parity_of(int n)
{
	return S::STAGES == 2 ? n >> 1 & 1 : n & 1;
}

/* Named barriers: from 1 on, of each group; of those that copy; of all groups with rows. */
#define COPIERS_BARRIER 8
#define QUERIES_BARRIER 9

/* The warp's part of such four. */
static __device__ __forceinline__ uint32_t &own_of(uint4 &four)
{
	return reinterpret_cast<uint32_t *>(&four)[threadIdx.x / 32 % 4];
}

/* ---- the group that copies ------------------------------------------------------------------ */

/* What a tile of V is scaled by, from the extremes of the warps, and whether its parts will do. */
template <class S, class C>
static __device__ __forceinline__ struct scaling scale_values(const share<S::WIDTH, S::KEYS> &v,
							      C &shared, int n, bool &odd)
{
	uint32_t most, least;

	v.extremes(most, least);
	if (threadIdx.x % 32 == 0) {
		own_of(shared.most[n & 1]) = most;
		own_of(shared.least[n & 1]) = least;
	}
	part_sync(COPIERS_BARRIER, 128);
	const uint4 mosts = shared.most[n & 1], leasts = shared.least[n & 1];
	most = max(max(mosts.x, mosts.y), max(mosts.z, mosts.w));
	least = min(min(leasts.x, leasts.y), min(leasts.z, leasts.w)) + 1;
	/* 7 bits of them are below the exponent */
	odd = most >= 0x7f80 || (most >> 7) - (least >> 7) > V_RANGE;
	return scaling(__uint_as_float(most << 16));
}

template <class S, class C>
static __device__ __forceinline__ void copy_tiles(const struct attn_args &a, const struct view &w,
						  unsigned char *stages, float *raw, C &shared,
						  int begin, int end)
{
	constexpr int TILE = S::TILE, KEYS = S::KEYS, WIDTH = S::WIDTH, LINE = S::LINE;
	constexpr bool DIRECT = S::RAWS == 0;
	const float *const k_at = (const float *)matrix_at(a.k, w.b, w.h, a.H);
	const float *const v_at = (const float *)matrix_at(a.v, w.b, w.h, a.H);
	const uint32_t barriers = shared_address(shared.barrier);
	float *const raw_v = raw + (S::RAWS == 2 ? KEYS * LINE : 0);
	struct share<WIDTH, KEYS> k, v;

	auto load_k = [&](int j0) { k.load(k_at, a.k.stride[2], j0, a.Sk, a.D); };
	auto load_v = [&](int j0) { v.load(v_at, a.v.stride[2], j0, a.Sk, a.Dv); };
	auto stage_k = [&](int j0) {
		stage<WIDTH, KEYS, LINE>(raw, k_at, a.k, j0, a.Sk, a.D);
		copy_commit();
	};
	auto stage_v = [&](int j0) {
		stage<WIDTH, KEYS, LINE>(raw_v, v_at, a.v, j0, a.Sk, a.Dv);
		copy_commit();
	};
	if (DIRECT)
		load_k(begin * KEYS);
	else
		stage_k(begin * KEYS);
	if (S::RAWS == 2)
		stage_v(begin * KEYS);
#pragma unroll 1
	for (int n = 0; n < end - begin; n++) {
		const int stage = stage_of<S>(n), j0 = (begin + n) * KEYS;
		unsigned char *const k_to = stages + stage * 4 * TILE, *const v_to =
									       k_to + 2 * TILE;

		if (S::AHEAD)
			load_v(j0);
		if (!DIRECT) {
			copy_wait_but<S::RAWS == 2>();
			part_sync(COPIERS_BARRIER, 128); /* K has come */
			k.template load_staged<LINE>(raw);
		}
		if (S::RAWS == 1) {
			part_sync(COPIERS_BARRIER, 128); /* and was read */
			stage_v(j0);
		}
		barrier_wait(barriers + 16 * K_GONE + 8 * stage, parity_of<S>(n) ^ 1);
		const bool odd =
			__any_sync(WARP_ALL, k.put_by_line(k_to, KEYS, TILE, shared.k_back[stage]));
		if (threadIdx.x % 32 == 0)
			own_of(shared.k_odd[stage]) = odd;
		shared_for_wgmma();
		barrier_arrive(barriers + 16 * K_THERE + 8 * stage);

		if (S::AHEAD)
			load_k(j0 + KEYS);
		else if (DIRECT)
			load_v(j0);
		if (!DIRECT) {
			copy_wait();
			part_sync(COPIERS_BARRIER, 128); /* V has come, K was read */
			v.template load_staged<LINE>(raw_v);
		}
		if (S::RAWS == 2)
			stage_k(j0 + KEYS);
		bool odd_v;
		const struct scaling s = scale_values<S>(v, shared, n, odd_v);
		/* V was read */
		if (S::RAWS == 2)
			stage_v(j0 + KEYS);
		else if (S::RAWS == 1)
			stage_k(j0 + KEYS);
		barrier_wait(barriers + 16 * V_GONE + 8 * stage, parity_of<S>(n) ^ 1);
#pragma unroll
		for (int m = 0; m < v.COUNT; m++)
			v.put(m, s.to, v_to, KEYS, TILE);
		if (threadIdx.x % 128 == 0)
			shared.v_back[stage] = odd_v ? -1.0f : s.back / P_MORE;
		shared_for_wgmma();
		barrier_arrive(barriers + 16 * V_THERE + 8 * stage);
		if (DIRECT && !S::AHEAD)
			load_k(j0 + KEYS);
	}
	copy_wait();
}

/* ---- the groups that compute ---------------------------------------------------------------- */

/* d = a' b'' + a'' b' + a' b', a and b in shared memory, over WIDTH terms: S from Q and K. */
template <class S>
static __device__ __forceinline__ void start_scores(float (&s)[S::KEYS / 2], uint64_t q, uint64_t k)
{
	constexpr int WIDTH = S::WIDTH;
	settle(s);
	wgmma_begin();
#pragma unroll
	for (int term = 0; term < 3; term++)
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++)
			wgmma_shared<__half, false>::run(
				s,
				operand_moved(q, (term == 1) * S::Q_PART + d / 4 * (S::ROWS * 128) +
							 d % 4 * 32),
				operand_moved(k, (term == 0) * S::TILE + d / 4 * (S::KEYS * 128) +
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

/* This warp no longer needs what the barrier stands for. */
static __device__ __forceinline__ void let_go(uint32_t barrier)
{
	__syncwarp();
	if (threadIdx.x % 32 == 0)
		barrier_arrive(barrier);
}

/* Q of this group, split, into its lines of the tile. */
template <class S, class C>
static __device__ __forceinline__ void split_queries(const struct attn_args &a,
						     const struct view &w, unsigned char *q_tile,
						     C &shared, int group, int groups)
{
	const float *const at = (const float *)matrix_at(a.q, w.b, w.h, a.H);
	const int first = w.first + 64 * group;
	struct share<S::WIDTH, 64> q;

	if (S::RAWS == 0) {
		q.load(at, a.q.stride[2], first, a.Sq, a.D);
	} else {
		/* the tile itself has room for what is staged */
		float *const raw = (float *)q_tile + group * 64 * S::WIDTH;
		stage<S::WIDTH, 64, S::WIDTH>(raw, at, a.q, first, a.Sq, a.D);
		copy_commit();
		copy_wait();
		part_sync(1 + group, 128);
		q.template load_staged<S::WIDTH>(raw);
		part_sync(QUERIES_BARRIER, 128 * groups);
	}
	q.put_by_line(q_tile + group * (64 * 128), S::ROWS, S::Q_PART, shared.q_back + 64 * group);
	shared_for_wgmma();
	part_sync(1 + group, 128);
}

template <class S, class C>
static __device__ __forceinline__ void
compute_tiles(const struct attn_args &a, const struct view &w, unsigned char *q_tile,
	      unsigned char *stages, C &shared, int groups, int begin, int end, int part)
{
	constexpr int WIDTH = S::WIDTH, KEYS = S::KEYS, TILE = S::TILE, N = KEYS / 4;
	const int group = threadIdx.x / 128, lane = threadIdx.x % 32, t = lane % 4;
	const int row0 = threadIdx.x / 32 * 16, first = w.first + row0, i = first + lane / 4;
	const uint32_t barriers = shared_address(shared.barrier);
	const bool plain = S::PLAIN || w.plain;

	split_queries<S>(a, w, q_tile, shared, group, groups);
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
		const int stage = stage_of<S>(n), parity = parity_of<S>(n), j0 = (begin + n) * KEYS;
		float s[KEYS / 2], x[2][N], factor[2];

		barrier_wait(barriers + 16 * K_THERE + 8 * stage, parity);
		if (begin + n < own_begin || begin + n >= own_end) {
			let_go(barriers + 16 * K_GONE + 8 * stage);
			barrier_wait(barriers + 16 * V_THERE + 8 * stage, parity);
			let_go(barriers + 16 * V_GONE + 8 * stage);
			continue;
		}
		start_scores<S>(s, q, operand_moved(k, stage * 4 * TILE));
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
			plain_scores(x, a, w, i, j0 + 2 * t, unit);
		}
		if (!plain)
#pragma unroll
			for (int r = 0; r < 2; r++)
				modify<S::IMAGE, float>(x[r], a, w, i + 8 * r, j0 + 2 * t);
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

#pragma unroll
		for (int c = 0; c < WIDTH; c += S::SUMS) {
			float d[S::SUMS / 2];
			start_values<S::SUMS, KEYS>(
				d, high, low,
				operand_moved(v, stage * 4 * TILE + c / 64 * (KEYS * 128)), TILE);
			wgmma_wait<0>();
			settle(d);
			if (c + S::SUMS == WIDTH)
				let_go(barriers + 16 * V_GONE + 8 * stage);
#pragma unroll
			for (int m = 0; m < S::SUMS / 2; m++)
				o[c / 2 + m] = fmaf(d[m], scale, o[c / 2 + m] * factor[m / 2 % 2]);
		}
	}
	if (S::PARTS > 1)
		add_parts<S>(o, row_max, row_sum, exponent, stages, part, first >= a.Sq);
	if (part == 0)
		finish<WIDTH, false>(o, row_sum, row_max, a, w, i);
	if (S::PARTS > 1) {
		__syncwarp();
		cluster_arrive(); /* what others left was read */
		cluster_wait();
	}
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* REGISTERS: per thread, of what a block has as it starts. */
template <class S, int FEW, int MANY, int REGISTERS>
static __device__ __forceinline__ void attention_sm90(const struct attn_args &a)
{
	constexpr int ROWS = S::ROWS, GROUPS = S::GROUPS, KEYS = S::KEYS;

	SLABS_SHARED(f32_shared);
	unsigned char *const stages = f32_shared + 2 * S::Q_PART;
	unsigned char *const raw = stages + S::STAGES * 4 * S::TILE;
	typedef struct control<KEYS, ROWS> control;
	control &shared = *(control *)(raw + S::RAW);
	static_assert(2 * S::Q_PART + S::STAGES * 4 * S::TILE + S::RAW + sizeof(control) <=
			      F32_SM90_SHARED(S::WIDTH, KEYS, GROUPS, S::STAGES, S::RAWS),
		      "it all fits");
	static_assert(FEW + GROUPS * MANY <= (GROUPS + 1) * REGISTERS, "and so do registers");
	static_assert(S::PARTS == 1 ||
			      (GROUPS == 1 && sizeof(left_over<S>) <= S::STAGES * 4 * S::TILE),
		      "room for what is left to the first block");
	struct view w = view_of(a, ROWS);
	const int part = S::PARTS > 1 ? blockIdx.x % S::PARTS : 0;
	int begin, end;

	if (S::PARTS > 1) {
		const int tile = blockIdx.x / S::PARTS, tiles = gridDim.x / S::PARTS;
		w.first = (a.spec.window_right != ATTN_NO_WINDOW ? tiles - 1 - tile : tile) * ROWS;
	}
	const int group = threadIdx.x / 128, groups = min(GROUPS, (a.Sq - w.first + 63) / 64);
	key_tiles(a, a.Sk, w.first, min(w.first + ROWS, a.Sq) - 1, KEYS, &begin, &end);
	if (S::PARTS > 1 && FASHIM_CLUSTERS) {
		const int count = end - begin;
		end = begin + count * (part + 1) / S::PARTS;
		begin += count * part / S::PARTS;
	} else if (part > 0) {
		return; /* the first block has all the keys */
	}
	if (threadIdx.x == 0) {
		const uint32_t barriers = shared_address(shared.barrier);
		for (int stage = 0; stage < S::STAGES; stage++) {
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
		copy_tiles<S>(a, w, stages, (float *)raw, shared, begin, end);
		if (S::PARTS > 1)
			pass_by();
	} else {
		take_registers<MANY>();
		if (group < groups)
			compute_tiles<S>(a, w, f32_shared, stages, shared, groups, begin, end,
					 part);
	}
}

} // namespace f32

#define F32_SM90_KERNEL(name, width, keys, groups, stages, raws, parts, per_sm, kind, ahead, few,  \
			many, start, tile)                                                         \
	extern "C" __global__ void CLUSTER_OF(parts) __launch_bounds__(128 * (groups + 1), per_sm) \
		fashim_sm90_f32_##name(const __grid_constant__ struct attn_args args)              \
	{                                                                                          \
		f32::attention_sm90<                                                               \
			f32::shape<width, keys, groups, stages, raws, kind, ahead, parts>, few,    \
			many, 65536 / (128 * (groups + 1) * per_sm) / 8 * 8>(args);                \
	}                                                                                          \
	SIM_KERNEL(fashim_sm90_f32_##name)
F32_SM90_VARIANTS(F32_SM90_KERNEL)

#endif
