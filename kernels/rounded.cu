/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention that rounds where the program rounds: O as the unfused chain would have it, up to
 * the order of its fp32 sums.
 *
 * What: a program in 16 bits stores S = Q K^T, S times the scale, S plus its bias, and P divided by
 * its sum, each in 16 bits. Fused kernels keep all of them in fp32, which is closer to the exact O
 * and yet another O: in bf16 by 0.6 to 1.5 % root mean square where scores are large, which some
 * models make visible. This kernel repeats every such step (`round_s` of attention.h, with
 * ATTN_ROUND_WEIGHTS), at the price of walking over the keys twice.
 *
 * How: first K alone, for the maximum and the sum of each row, which each lane keeps for its own
 * columns, so that no shuffle stands in the loop; then K again and V, with P = exp(x - maximum) /
 * sum as it is stored. Both walks compute x by the same instructions, so that no exponent is ever
 * positive and the weights of a row add up to one. In the order in which it was decided:
 *   1. Tiles lie in slabs (slabs.cuh), which both ldmatrix and Hopper's matrix instructions read:
 *      one source, of which a warpgroup's 64 rows are multiplied at once where that can be.
 *   2. A group's tiles come in one ring, K of the first walk, then K and V by turns: copies go on
 *      from the first walk to the second.
 *   3. Where keys are few (_short), x stays in registers: in 16 bits, which are all it has once it
 *      was stored, so that K is read and multiplied once. Which calls have such an x, select.c
 *      knows.
 *      Of at most 64 keys (_window) there is one tile, and nothing to deal out to groups: blocks of
 *      one group, four a multiprocessor. 512 times 4 windows of 49 keys, D 32, with a bias: 46.3 us
 *      instead of 159.0 (H100; mma.cu without P's roundings 38.2). Of 128 (_k128) one group has two
 *      tiles, of 256 (_k256) two have: 64 times 8 heads of 96 keys, D 32, 30.1 us instead of 67.8;
 *      8 times 32 of 200, D 16, 48.7 instead of 77.0; 32 times 12 of 128, D 64, with a padding,
 *      31.3 instead of 64.5 (H200; twice.cu, where it can be had, 29.9, 40.7, 23.6).
 *   4. Few queries, where rounded_decode.cu does not take them: 16 rows, a warp a tile, x in shared
 *      memory as far as it fits; blocks of a cluster share the keys (_p4), whose maxima, sums and O
 *      they tell each other. Few tiles of 64 rows, many keys: the same (_p8). Each block adds up its
 *      share of the columns of O, for the first one, which has no room for what all others have of
 *      it. Four numbers a store, and the maxima of all before the sums, [2,512,512,64] took 25.8 us
 *      instead of 28.7 (_p8; _p4 19.7 and 21.1; bf16, H200).
 *   5. The exponent is one multiply-add: the maximum times log2(e) is rounded once for a row, and
 *      what that is off by is in its sum and its weights alike (rounded_scores.cuh). A warp that
 *      did so for one row and not for another gave weights of 1.001.
 *   6. A mask that comes as a bias is looked at once for all heads (prepare.cu): tiles of keys that it
 *      hides are left out, and where it is 0, or what the rows' spans say, it is not read, only the
 *      rounding of x + 0 is done. Llama-1B's four layers of 4096 keys: 13.6 to 7.6 ms in all.
 *   7. A program that takes the largest off its scores and stores that, too (gpt-oss, beside sinks),
 *      has one more walk before the first, for the largest alone: the same loop, run twice.
 *   8. What is the same for a block waits in shared memory: two blocks of 256 threads leave 128
 *      registers, and all that is live between the walks counts.
 *
 * Tried and dropped: O of one tile under way while the next is scored: ptxas serialises all matrix
 * instructions then (C7515), as O is live across branches. P V waits for itself now.
 *
 * Measured (H100, bf16, us of a graph of 20; the fastest kernel that does not round, and the
 * program's chain of matmul, softmax, matmul in PyTorch: tests/gpu/rounded.py):
 *                                              rounded   fastest     chain
 *     B4 H16 S197 D64                             17.4  tma  7.4      29.6
 *     B1 H8 S4096 D40                              266  tma 96.4       787
 *     B4 H8 S512 D64, bias of heads               32.5  tma 12.4      49.9
 *     B4 H12 S1024 D64 causal                     61.0  tma 24.6       398
 *     B8 H32 Sq1 Sk2048 D128                      92.5  decode 92.0    110
 *     B1 H32 Sq1 Sk2048 D128                      45.0  decode 11.7   22.4   (one block a head)
 *     B2 H8 S1024 D256                             106  tma 27.5     100.3   (64 rows)
 *     B1 H32 S4096 D64, causal as a bias           569  tma  175      4972
 *     B1 H32 S2048 D128, the same                  286  tma 84.5      1128
 *     B1 H8 S2048 D256, the same                   198  tma 59.5       310
 * O is within 2e-5 to 1.4e-4 of the chain's, root mean square, where the others move it by 7e-3 to
 * 1.6e-2. Of the 266 us in the second line exponentials need 75, matrix instructions 54 and issue
 * slots some 120, as counted, not measured: they hardly overlap. Four blocks a head (_p4) take 23.2
 * us in the sixth line. 128 rows of D 256 were slower than 64: 115 and 228 us. On sm_80 nothing was
 * timed.
 */
#include "kernels/cluster.cuh"
#include "kernels/groups.cuh"
#include "kernels/mma_work.cuh"
#include "kernels/rounded_products.cuh"
#include "kernels/rounded_scores.cuh"
#include "kernels/rounded_variants.h"

namespace rounded
{

/* What is the same for all of a block, and is looked up rather than held in registers. */
struct common {
	struct view w;
	struct rounding how;
	const void *operand[2]; /* K and V of the head */
	int pieces[2];
	struct attn_range range; /* of tiles of keys; if somebody looked at the bias */
	bool ranged, spanned;	 /* did somebody; and is it all in the spans of rows? */
};
static_assert(sizeof(struct common) <= ROUNDED_COMMON, "room in shared memory");

/* Waits for the block, or for all blocks of the cluster, and for what they stored. */
template <int SHARES> static __device__ __forceinline__ void meet_all(void)
{
	if (SHARES == 1) {
		__syncthreads();
	} else {
		cluster_arrive();
		cluster_wait();
	}
}

/* O, plus what COUNT others left of it from `at` on. */
template <int COUNT, int THREADS, int N>
static __device__ __forceinline__ void add_others(float (&o)[N], const float *at)
{
#pragma unroll
	for (int other = 0; other < COUNT; other++)
#pragma unroll
		for (int n = 0; n < N; n++)
			o[n] += at[(other * N + n) * THREADS];
}

/* What the block is to do; of PARTS of a cluster all the same. */
template <int PARTS>
static __device__ __forceinline__ struct view own_view(const struct attn_mapped &m, int rows)
{
	const struct attn_args &a = m.attn;

	if (PARTS == 1)
		return view_in_order(a, rows,
				     a.spec.window_right != ATTN_NO_WINDOW || m.range_step[1] > 0);
	struct view w = view_of(a, rows);

	w.first = blockIdx.x / PARTS * rows;
	return w;
}

/* ROW_WARPS warps of 16 rows each, in each of GROUPS, in each of PARTS blocks; D, Dv <= WIDTH. */
template <typename T, int WIDTH, int KEYS, int ROW_WARPS, int GROUPS, int STAGES, int KEPT,
	  bool HELD, int PARTS, bool ANY>
static __device__ __forceinline__ void attention(const struct attn_mapped &m)
{
	const struct attn_args &a = m.attn;
	constexpr int ROWS = 16 * ROW_WARPS, THREADS = 32 * ROW_WARPS, AHEAD = STAGES - 1;
	constexpr int TILE = KEYS * WIDTH * 2, OWN = 16 * (WIDTH + PAD);
	constexpr bool GROUPED = ROUNDED_HOPPER && ROW_WARPS % 4 == 0;
	constexpr int SHARES = FASHIM_CLUSTERS ? PARTS : 1, WORKERS = GROUPS * SHARES;
	/* O's of other groups, or of the cluster, then a share of each block's */
	constexpr int OTHERS = GROUPS > 1 || PARTS == 1 ? GROUPS - 1 : 1;
	static_assert(ROWS * (WIDTH + PAD) * 2 + (OTHERS + (PARTS > 1)) *
							 GROUP_NUMBERS<1, WIDTH, 0> * THREADS * 4 <=
			      ROWS * WIDTH * 2 + ROUNDED_TILES(WIDTH, KEYS, GROUPS, STAGES),
		      "O and what others have of it fit where Q, K and V were");

	static_assert(PARTS == 1 || GROUPS > 1, "blocks meet before one stores where another's K was");

	SLABS_SHARED(shared);
	const int group = GROUPS > 1 ? threadIdx.x / THREADS : 0;
	const int thread = threadIdx.x - group * THREADS;
	const int row_warp = thread / 32, lane = threadIdx.x % 32;
	const int part = PARTS > 1 ? blockIdx.x % PARTS : 0, worker = part * GROUPS + group;

	if (part >= SHARES)
		return;
	if (SHARES > 1)
		cluster_here();
	unsigned char *const all_tiles = shared + ROWS * WIDTH * 2;
	unsigned char *const tiles = all_tiles + group * STAGES * TILE;
	float2 *const notes = (float2 *)(all_tiles + GROUPS * STAGES * TILE);
	int2 *const spans = (int2 *)(notes + PARTS * GROUPS * ROWS);
	struct common &common = *(struct common *)(spans + ROWS);

	if (threadIdx.x == 0) {
		const struct view w = own_view<PARTS>(m, ROWS);

		common.w = w;
		common.how = rounding_of(a, w);
		common.operand[0] = tensor_at(a.k, w.b, w.h, a.H);
		common.operand[1] = tensor_at(a.v, w.b, w.h, a.H);
		common.pieces[0] = pieces_of(a.k, common.operand[0]);
		common.pieces[1] = pieces_of(a.v, common.operand[1]);
		common.ranged = ROWS > ROUNDED_FEW_ROWS && m.ranges;
		common.spanned = false;
		if (common.ranged) {
			const struct attn_range range =
				((const struct attn_range *)m.ranges)[w.b * m.range_step[0] +
								      w.first / ROWS *
									      m.range_step[1]];

			common.range = range;
			common.spanned =
				range.clear_end - range.clear_begin == range.end - range.begin;
		}
	}
	__syncthreads();
	const struct view &w = common.w;
	if (common.spanned)
		for (int r = threadIdx.x; r < ROWS; r += THREADS * GROUPS) {
			const struct attn_span span =
				((const struct attn_span *)
					 m.spans)[w.b * m.span_step[0] +
						  min(w.first + r, a.Sq - 1) * m.span_step[1]];

			spans[r] = make_int2(span.first, span.last);
		}
	const int first = w.first + 16 * row_warp;
	{
		const T *const q = (const T *)tensor_at(a.q, w.b, w.h, a.H);

		load_slabs<T, ROWS, WIDTH, THREADS * GROUPS>(shared, q, a.q.stride[2],
							     a.q.stride[3], pieces_of(a.q, q),
							     w.first, a.Sq, a.D, threadIdx.x);
		copy_commit();
	}

	/* the group's tiles of keys, and which of them rows that are multiplied at a time see */
	typedef typename products_of<GROUPED, T, WIDTH, KEYS, ROWS, HELD>::type products_type;
	constexpr int AT_ONCE = products_type::THREADS / 2;
	const int first_here = w.first + 16 * row_warp / AT_ONCE * AT_ONCE;
	int begin, end, seen = 0, seen_end = 0;
	key_tiles(a, ANY ? shared_length(a, w, w.first) : a.Sk, w.first,
		  min(w.first + ROWS, a.Sq) - 1, KEYS, &begin, &end);
	if (common.ranged) {
		begin = common.range.begin;
		end = common.range.end;
	}
	if (first_here < a.Sq)
		key_tiles(a, a.Sk, first_here, min(first_here + AT_ONCE, a.Sq) - 1, KEYS, &seen,
			  &seen_end);
	const int count = max(0, (end - begin - worker + WORKERS - 1) / WORKERS);
	auto tile_of = [&](int n) { return begin + worker + n * WORKERS; };
	auto is_seen = [&](int n) { return tile_of(n) >= seen && tile_of(n) < seen_end; };

	struct keeper<T, KEYS, KEPT> kept;
	bool keeps = KEPT > 0;
	if constexpr (KEPT < 0) {
		const int rows = min(a.Sq - w.first, ROWS);

		kept.line = (end - begin + WORKERS - 1) / WORKERS * GROUPS * KEYS;
		keeps = (int64_t)rows * kept.line <= ROUNDED_X(KEPT);
		kept.group_step = GROUPS * KEYS;
		kept.at = (float *)((char *)&common + ROUNDED_COMMON) + lane / 4 * kept.line +
			  group * KEYS + 2 * (lane % 4);
		kept.there[0] = lane / 4 < rows;
		kept.there[1] = lane / 4 + 8 < rows;
	}

	/* step n of the group: what it reads, to be there when the group meets next but AHEAD - 1;
	 * before the first walk there may be one more for the maxima alone */
	const bool less = ANY && KEPT <= 0 && common.how.less;
	const int early = less ? count : 0, steps = early + count * (keeps ? 2 : 3);
	auto load = [&](int n) {
		const int second = n - early - count, which = keeps ? second : second / 2;
		const bool value = second >= 0 && (keeps || second % 2);
		unsigned char *const to = tiles + n % STAGES * TILE;
		const int j0 = tile_of(second >= 0 ? which : n < early ? n : n - early) * KEYS;

		if (n < steps)
			load_slabs<T, KEYS, WIDTH, THREADS>(to, (const T *)common.operand[value],
							    value ? a.v.stride[2] : a.k.stride[2],
							    value ? a.v.stride[3] : a.k.stride[3],
							    common.pieces[value], j0, a.Sk,
							    value ? a.Dv : a.D, thread);
		copy_commit();
	};
	products_type products;
	auto meet = [&](int n) -> const unsigned char * {
		copy_wait_but<AHEAD - 1>();
		products.ready();
		if (THREADS == 32)
			__syncwarp();
		else
			group_barrier<GROUPS>(group, THREADS);
		load(n + AHEAD);
		return tiles + n % STAGES * TILE;
	};

	const float exponent = common.how.unit * LOG2E;
#pragma unroll 1
	for (int n = 0; n < AHEAD; n++)
		load(n);
	copy_wait_but<AHEAD>();
	products.ready();
	__syncthreads();
	products.init(shared, 16 * row_warp);

	struct counts counts;
	float s[KEYS / 2], o[WIDTH / 2], x[2][KEYS / 4];
	float largest[2] = {0.0f, 0.0f};
#pragma unroll
	for (int n = 0; n < WIDTH / 2; n++)
		o[n] = 0.0f;

	auto score = [&](int n, const unsigned char *keys) {
		products.scores(s, keys);
		const int tile = tile_of(n);

		scores_to_x<ANY, T, KEYS>(x, s, common.how, a, w, first, tile * KEYS,
					  common.ranged && tile >= common.range.clear_begin &&
						  tile < common.range.clear_end,
					  common.spanned ? spans + 16 * row_warp : nullptr);
	};

	/* the rows' maxima and sums, of what all have found; waits: until the others run */
	auto gather = [&](bool waits) {
		counts.over_lanes(exponent);
		if (WORKERS == 1)
			return;
		const int row = 16 * row_warp + lane / 4;

		if (SHARES > 1 && waits)
			cluster_wait();
		if (lane % 4 < SHARES)
#pragma unroll
			for (int to = lane % 4; to < SHARES; to += 4)
#pragma unroll
				for (int r = 0; r < 2; r++) {
					float2 *const note = notes + worker * ROWS + row + 8 * r;

					if (SHARES == 1) {
						*note = make_float2(counts.most[r], counts.sum[r]);
						continue;
					}
					store_in_block(&note->x, to, counts.most[r]);
					store_in_block(&note->y, to, counts.sum[r]);
				}
		meet_all<SHARES>();
		counts.init();
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const float2 *const note = notes + row + 8 * r;

#pragma unroll
			for (int other = 0; other < WORKERS; other++)
				counts.most[r] = fmaxf(counts.most[r], note[other * ROWS].x);
#pragma unroll
			for (int other = 0; other < WORKERS; other++)
				counts.sum[r] += note[other * ROWS].y * share(note[other * ROWS].x,
									      counts.most[r], exponent);
		}
	};

	/* the first walk; with one before it, whose sums nobody needs */
#pragma unroll 1
	for (int walk = less ? 0 : 1; walk < 2; walk++) {
		counts.init();
#pragma unroll 1
		for (int n = 0; n < count; n++) {
			const unsigned char *const keys = meet(walk * early + n);

			if (is_seen(n)) {
				score(n, keys);
				if (less && walk)
					take_off<T>(x, largest);
				if (keeps)
					kept.put(n, x);
				counts.add(x, exponent);
			}
		}
		gather(!less || !walk);
		if (walk)
			break;
#pragma unroll
		for (int r = 0; r < 2; r++)
			largest[r] = fmaxf(counts.most[r],
					   sink_of(a, w.b, w.h, first + 8 * r + lane / 4));
		if (WORKERS > 1)
			meet_all<SHARES>(); /* all have read the notes */
	}
	float share[2]; /* what a row's weights are multiplied by; below 0: it has no key */
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float sink = ANY ? sink_of(a, w.b, w.h, first + 8 * r + lane / 4) : -INFINITY;

		if (less)
			sink = round_to(sink - base_of(largest[r]), a.q.dtype);
		share[r] = count_score(counts.sum[r], counts.most[r], sink, 1.0f);
		/* 0 is what is left beside a sink that lies far above */
		share[r] = counts.sum[r] == 0.0f ? -1.0f : share[r] / counts.sum[r];
	}

	/* the second walk */
	if constexpr (KEPT > 0) {
#pragma unroll
		for (int n = 0; n < KEPT; n++)
			if (n < count) {
				const unsigned char *const values = meet(count + n);

				if (is_seen(n)) {
					uint32_t p[KEYS / 16][4];

					kept.get(n, x);
					x_to_weights<T, KEYS>(p, x, counts.most, share, exponent);
					products.values(o, p, values);
				}
			}
	} else {
#pragma unroll 1
		for (int n = 0; n < count; n++) {
			uint32_t p[KEYS / 16][4];
			const unsigned char *const keys =
				keeps ? nullptr : meet(early + count + 2 * n);

			if (is_seen(n)) {
				if (keeps)
					kept.get(n, x);
				else
					score(n, keys);
				if (less && !keeps)
					take_off<T>(x, largest);
				x_to_weights<T, KEYS>(p, x, counts.most, share, exponent);
			}
			const unsigned char *const values =
				meet(early + count + (keeps ? n : 2 * n + 1));

			if (is_seen(n))
				products.values(o, p, values);
		}
	}

	/* what groups, then blocks, have of O; the room of Q, K and V is free */
	constexpr int NUMBERS = WIDTH / 2 * THREADS;
	float *const room = (float *)(shared + ROWS * (WIDTH + PAD) * 2) + thread;
	__syncthreads();
	if (GROUPS > 1) {
		if (group > 0)
#pragma unroll
			for (int n = 0; n < WIDTH / 2; n++)
				room[(group - 1) * NUMBERS + n * THREADS] = o[n];
		meet_all<SHARES>();
		if (group > 0 && SHARES == 1)
			return;
		if (group == 0)
			add_others<GROUPS - 1, THREADS>(o, room);
	}
	if (SHARES > 1) { /* each block adds up its share of O, for the first */
		constexpr int FOURS = WIDTH / 8, SHARE = FOURS / SHARES;
		float4 *const whole = (float4 *)(shared + ROWS * (WIDTH + PAD) * 2) + thread;
		float4 *const theirs = whole + OTHERS * FOURS * THREADS;

		if (group == 0)
#pragma unroll
			for (int n = 0; n < FOURS; n++)
				store_in_block(theirs + (part * SHARE + n % SHARE) * THREADS,
					       n / SHARE,
					       make_float4(o[4 * n], o[4 * n + 1], o[4 * n + 2],
							   o[4 * n + 3]));
		meet_all<SHARES>();
		if (group == 0)
#pragma unroll
			for (int n = 0; n < SHARE; n++) {
				float4 sum = theirs[n * THREADS];

#pragma unroll
				for (int other = 1; other < SHARES; other++) {
					const float4 x = theirs[(other * SHARE + n) * THREADS];

					sum = make_float4(sum.x + x.x, sum.y + x.y, sum.z + x.z,
							  sum.w + x.w);
				}
				store_in_block(whole + (part * SHARE + n) * THREADS, 0, sum);
			}
		meet_all<SHARES>();
		if (group > 0 || part > 0)
			return;
#pragma unroll
		for (int n = 0; n < FOURS; n++) {
			const float4 x = whole[n * THREADS];

			o[4 * n] = x.x;
			o[4 * n + 1] = x.y;
			o[4 * n + 2] = x.z;
			o[4 * n + 3] = x.w;
		}
	}
	if (first >= a.Sq)
		return;
	float(&rows)[1][WIDTH / 8][4] = *(float(*)[1][WIDTH / 8][4]) o;
	T *const own = (T *)shared + row_warp * OWN;
	const float sums[1][2] = {{share[0] < 0.0f ? 0.0f : 1.0f, share[1] < 0.0f ? 0.0f : 1.0f}};
	const float out[1][2] = {{a.spec.out_scale, a.spec.out_scale}};
	divide_rows<T, 1, WIDTH>(rows, sums, out, own, a, w);
	store_rows<T, 1, WIDTH>(rows, own, a, w, first);
}

} // namespace rounded

/* The addresses that lanes of a warp read from by themselves take registers: 128 do not do. */
#define PER_SM_HERE(rows, per_sm) (ROUNDED_HOPPER || (rows) < 128 ? (per_sm) : 1)

#define VARIANT(symbol, T, rows, width, keys, groups, stages, kept, held, parts, any, per_sm)      \
	extern "C" __global__ void CLUSTER_OF(parts)                                               \
		__launch_bounds__(2 * (rows) * (groups), PER_SM_HERE(rows, per_sm))                \
			symbol(const __grid_constant__ struct attn_mapped args)                    \
	{                                                                                          \
		rounded::attention<T, width, keys, (rows) / 16, groups, stages, kept, held, parts, \
				   any>(args);                                                     \
	}                                                                                          \
	SIM_KERNEL(symbol)

#define ROUNDED_F16(rows, kind, width, ...)                                                        \
	VARIANT(fashim_rounded_f16_d##width##_r##rows##kind, __half, rows, width, __VA_ARGS__)
#define ROUNDED_BF16(rows, kind, width, ...)                                                       \
	VARIANT(fashim_rounded_bf16_d##width##_r##rows##kind, __nv_bfloat16, rows, width,          \
		__VA_ARGS__)
EXPAND_TYPES(ROUNDED_VARIANTS, ROUNDED_F16, ROUNDED_BF16)
