/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention for few queries: one token against a long cache, where all there is to do is to
 * read K and V once, as fast as memory gives them. sm_80 and later.
 *
 * What: one query row per block (or per cluster of PARTS blocks, each with its share of the keys).
 * A warp takes 8 keys per group of lanes at a time; a group is as many lanes as a row of WIDTH
 * elements has pieces of 16 bytes. Scores and sums are fp32, the online softmax is per warp, and
 * warps, then blocks, add up at the end. K and V come through shared memory, copied by the lane that
 * takes them from there: the next ones are asked for as soon as the present ones are in registers,
 * so that each thread has some 8 to 16 pieces under way at any time, and no register waits for one.
 *
 *   - A lane holds 8 keys x 8 columns, as 8 pieces of 16 bytes (of fp32, half as much: struct
 *     held). Along which dimension a piece lies does not matter: with K or V transposed, a piece is
 *     8 keys of one column, and the products read it the other way round.
 *   - The products of 8 keys are summed over the lanes by halving: 7 shuffles, after which lane u
 *     of every eight holds the score of key u alone. Bias, mask, window and exponential are then
 *     computed once per key and read in whole sectors.
 *   - fp32 operands are multiplied in fp32, and what has many terms is added up in double: memory
 *     leaves the time for it. Sums in fp32 alone, as well ordered, are twice as far off (1.5e-7 to
 *     4.6e-7 instead of 0.8e-7 to 1.4e-7 of O in test_kernels_decode), and a program's products of
 *     vectors are off by 1.3e-7. The exponential is that of libm, of the whole difference (exp_of):
 *     2^(x log2 e) is off by 1e-6 where x is -20.
 *   - Blocks of a cluster leave their sums in the shared memory of the first one, which writes O.
 *     Without clusters (before sm_90, or in the host build) the first block takes all the keys and
 *     the others return at once: right, but slow; the selector does not choose it.
 *   - The maximum is subtracted before the scale of the exponent is applied, so that fills of
 *     -3.4e38 stay finite.
 *
 * As in wmma.cu, keys outside the window, or past a row's length, are skipped if the value there is
 * -inf, and O may be Q's own memory with Q's own strides. P is not rounded.
 *
 * Notebook, f16, one query, inputs out of cache, best number of parts; `before`: K and V loaded into
 * registers; `reading`: a kernel that only reads as many bytes; `peer`: the fastest of PyTorch's.
 *
 *     B  H   keys     D    parts  us, H100  GB/s  before  reading  peer    (other parts)
 *     1  32  4096     128  4      25.7      2608  28.7    22.8     28.6    (3: 27.4, 7: 27.1, 8: 28.8)
 *     1  32  32768    128  4      177.0     3033  198     171.8    182     (3: 192, 7: 184, 8: 189)
 *     16 8   2048     64   1      25.0      2689  28.0    22.7     26.1    (4: 27.4)
 *     1  8   4096     64   8      6.57      1278  8.18    4.1              (4: 7.2)
 *     1  16  1024     64   4      5.22      803   5.88    2.9              (8: 5.9)
 *
 * On an H200, not yet balanced (below), in the same order, and before: 21.1 (24.1), 141 (156), 18.9
 * (23.4), 6.2 (7.9), 5.2 (5.8).
 *
 *   - Blocks have to be alike. 32 clusters of 4 take 120 of 132 multiprocessors and 8 of these twice,
 *     which then end last; told to balance (attn_launch_policy), the GPU uses 124, and 4 of them
 *     twice: 25.7 instead of 27.8 us, 177 instead of 195.
 *   - Whole lines for the second-level cache (ask_piece): without, on the H200, 22.0 instead of 18.9
 *     in the third line, and 167 instead of 141 in the second. Twice as much at a time: 20.2, 151.
 *
 * fp32, H100, B1 H12 D64, heads that share K and V, which the cache has: 1024 keys 6.6 us in 8 parts
 * (1: 11.8, 2: 8.9, 4: 7.3; f32_sm90.cu's tile of many queries 31.4), 64 keys 5.0 in one (6.3).
 *
 * Two parts, which there were until four had been tried beside them: where one makes 64 blocks, four
 * are faster, and where it makes 128, one is. H200, f16, inputs in the second-level cache, us in 1, 2
 * and 4 parts: B1 H32, two queries, 1024 keys, D 128 -, 12.2, 8.1; B2 H32, one query, the same -,
 * 11.1, 7.7; B2 H32, two queries, 2048 keys, D 64 11.1, 18.7, 14.3.
 *
 * With a factor for each score, as GPT-2 was written first (H200, us; the program's three kernels;
 * before, by kernels with tiles of 32 or 64 rows): fp32, B1 H36, 321 keys, D 64 8.2 (12.6; 128.5),
 * B4 H12, 1021 keys 8.7 (21.5; 332.6); f16, B1 H36, 321 keys 7.8 (13.9; 35.6).
 *
 * Tried and dropped, the first three lines: more under way, by a third slot (H100: 26.7, 186, 25.3),
 * by 512 threads (128 KB a block: clusters wait for a second round; third line 25.0) or by 128 threads
 * with 4 slots (26.2, 179; 5.4 in the last line); less, by 128 threads with 3 (H100, not balanced:
 * 27.8, 194, 25.8); Hopper's copy engine, a tile at a time (H200: 22.2 in 8 parts, 138, 19.2, where
 * the same without was 21.3, 138, 18.9); for each warp keys that follow one another, and heads that
 * start at different keys (no better); the arguments asked for at once at the start (nothing). Of the
 * kernel before: loads that leave no trace in the first-level cache (24.6 instead of 21.2 us in the
 * first line, H200); the matrix instructions, rows padded to 16 (few.cu: 38.9 us there, at best).
 */
#include "kernels/cluster.cuh"
#include "kernels/decode_query.cuh"

namespace decode
{

/* ---- sums ----------------------------------------------------------------------------------- */

/* Sums over some of the keys. */
template <int WIDTH, int COUNT> struct partial {
	float o[COUNT][WIDTH];
	float max[COUNT], sum[COUNT];
};

/* Column c of COUNT sums, as one. */
template <typename T, int WIDTH, int COUNT, typename S>
static __device__ __forceinline__ void merge(const partial<WIDTH, COUNT> &from, int c, float &max,
					     S &sum, S &o)
{
	max = from.max[0];
#pragma unroll
	for (int n = 1; n < COUNT; n++)
		max = fmaxf(max, from.max[n]);
	sum = o = 0;
#pragma unroll
	for (int n = 0; n < COUNT; n++) {
		const S weight = share<T>(from.max[n], max);
		sum += weight * from.sum[n];
		o += weight * from.o[n][c];
	}
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* From shares of q.k to the keys' weights, for the tile from key j on. */
template <bool SIMPLE, typename T, int WIDTH>
static __device__ __forceinline__ void weigh(query<T, WIDTH> &w, float (&p)[query<T, WIDTH>::KEYS],
					     const extras &e, const attn_args &a, int j)
{
	float x = w.template x_of<SIMPLE, false>(p, e, a, j);
	float most = fmaxf(w.max, x); /* passes NaN by; the exponential brings it back */
#pragma unroll
	for (int lanes = 1; lanes < 32; lanes *= 2)
		if (w.have_others(lanes))
			most = fmaxf(most, __shfl_xor_sync(WARP_ALL, most, lanes));
	const float factor = share<T>(w.max, most);
	w.max = most;
	x = exp_of<T>(x, most == -INFINITY ? 0.0f : most);
	w.sum = w.sum * factor + x;
#pragma unroll
	for (int n = 0; n < w.KEYS; n++)
		p[n] = __shfl_sync(WARP_ALL, x, n, w.KEYS);
#pragma unroll
	for (int n = 0; n < w.COLUMNS; n++)
		w.o[n] *= factor;
}

/* Adds tiles tile, tile+step, ... that lie below `tiles` and consist of pieces; returns the first
 * one not done. What is asked for comes to the warp's two slots, one of K and one of V; a lane takes
 * from there only what it asked for itself, so that it waits for nobody. */
template <typename T, int WIDTH, bool SIMPLE>
static __device__ __forceinline__ int add_tiles(query<T, WIDTH> &w, const attn_args &a,
						unsigned char *slots, int tile, int tiles, int step)
{
	unsigned char *const k = slots + threadIdx.x % 32 * 16, *const v = k + DECODE_SLOT;
	extras e;

	auto ask_for_k = [&](int at) {
		if (at < tiles) {
			ask_pieces<WIDTH, SIMPLE>(k, w.k, a.k, w.k_how, at * w.TILE + w.first, a.Sk,
						  w.column, a.D);
			if (!SIMPLE)
				load_extras<false>(e, w.rows, a.spec, at * w.TILE + w.own, a.Sk);
		}
		copy_commit();
	};
	auto ask_for_v = [&](int at) {
		if (at < tiles)
			ask_pieces<WIDTH, SIMPLE>(v, w.v, a.v, w.v_how, at * w.TILE + w.first, a.Sk,
						  w.column, a.Dv);
		copy_commit();
	};

	ask_for_k(tile);
	ask_for_v(tile);
#pragma unroll 1
	for (; tile < tiles; tile += step) {
		const extras now = e;
		uint4 piece[PIECES];
		float p[w.KEYS];

		copy_wait_but<1>();
		take_pieces(piece, k);
		w.template multiply<SIMPLE>(p, piece);
		ask_for_k(tile + step);
		weigh<SIMPLE>(w, p, now, a, tile * w.TILE);
		copy_wait_but<1>();
		take_pieces(piece, v);
		w.template add_values<SIMPLE>(p, piece);
		ask_for_v(tile + step);
	}
	return tile;
}

/* The same for tiles of any kind, one operand at a time. */
template <typename T, int WIDTH>
static __device__ __forceinline__ void add_other_tiles(query<T, WIDTH> &w, const attn_args &a,
						       int tile, int tiles, int step)
{
#pragma unroll 1
	for (; tile < tiles; tile += step) {
		const int j = tile * w.TILE;
		uint4 piece[PIECES];
		float p[w.KEYS];
		extras e;

		load_extras<false>(e, w.rows, a.spec, j + w.own, a.Sk);
		load_any<WIDTH>(piece, w.k, a.k, w.k_how, j + w.first, a.Sk, w.column, a.D);
		w.template multiply<false>(p, piece);
		weigh<false>(w, p, e, a, j);
		load_any<WIDTH>(piece, w.v, a.v, w.v_how, j + w.first, a.Sk, w.column, a.Dv);
		w.template add_values<false>(p, piece);
	}
}

template <typename T, int WIDTH, int PARTS>
static __device__ __forceinline__ void attention(const attn_args &a)
{
	constexpr int SHARES = FASHIM_CLUSTERS ? PARTS : 1;
	static_assert(WIDTH <= DECODE_THREADS, "a thread per column");
	__shared__ partial<WIDTH, WARPS> of_warps;
	[[maybe_unused]] __shared__ partial<WIDTH, SHARES> of_blocks;

	const attn_spec &s = a.spec;
	const int part = blockIdx.x % PARTS, i = blockIdx.x / PARTS;
	const int b = blockIdx.z, h = blockIdx.y;
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

	if (part >= SHARES)
		return;
	if (SHARES > 1)
		cluster_here();

	EACH_BLOCK extra_rows rows;
	query<T, WIDTH> w(rows);
	w.init(a, b, h, i);

	int tile, tiles;
	w.range(a, part * WARPS + warp, tile, tiles);
	DYNAMIC_SHARED(unsigned char, slots);
	slots += warp * 2 * DECODE_SLOT;
	const bool across = w.k_how == ACROSS && w.v_how == ACROSS;
	if (across && !s.bias[0].base && !s.bias[1].base && !s.mask.base && !s.scales.base) {
		add_tiles<T, WIDTH, true>(w, a, slots, tile, tiles, SHARES * WARPS);
	} else {
		share_extras(rows, a, b, h, i);
		if (w.k_how != ELEMENTS && w.v_how != ELEMENTS)
			tile = add_tiles<T, WIDTH, false>(
				w, a, slots, tile, across ? tiles : min(tiles, a.Sk / w.TILE),
				SHARES * WARPS);
		add_other_tiles(w, a, tile, tiles, SHARES * WARPS);
	}

	/* lanes, warps, blocks */
#pragma unroll
	for (int lanes = 1; lanes < 32; lanes *= 2)
		if (w.have_others(lanes))
			w.sum += __shfl_xor_sync(WARP_ALL, w.sum, lanes);
	w.put_values(of_warps.o[warp]);
	if (lane == 0) {
		of_warps.max[warp] = w.max;
		of_warps.sum[warp] = (float)w.sum;
	}
	__syncthreads();

	const int c = threadIdx.x;
	float max = 0.0f;
	typename summed<T>::type sum = 0, out = 0;
	if (c < WIDTH)
		merge<T>(of_warps, c, max, sum, out);
	if (SHARES > 1) {
		cluster_wait();
		if (c < WIDTH)
			store_in_block(&of_blocks.o[part][c], 0, (float)out);
		if (c == 0) {
			store_in_block(&of_blocks.max[part], 0, max);
			store_in_block(&of_blocks.sum[part], 0, (float)sum);
		}
		cluster_arrive();
		if (part > 0)
			return;
		cluster_wait();
		if (c < WIDTH)
			merge<T>(of_blocks, c, max, sum, out);
	}
	if (c >= a.Dv)
		return;
	const float factor = count_sink<T>(sum, max, a, b, h, i, 1.0f);
	out *= s.out_scale * factor / sum;
	store_column(a, w.v, b, h, i, c, (float)out, sum == 0);
}

} /* namespace decode */

/* ---- the variants: the same rows as in select.c --------------------------------------------- */

#define DECODE_KERNEL(symbol, T, width, parts, per_sm)                                             \
	extern "C" __global__ void CLUSTER_OF(parts) __launch_bounds__(DECODE_THREADS, per_sm)     \
		symbol(const __grid_constant__ struct attn_args args)                              \
	{                                                                                          \
		decode::attention<T, width, parts>(args);                                          \
	}                                                                                          \
	SIM_KERNEL(symbol)

/* Of fp32 the widest takes more registers than two blocks leave, before Hopper any does. One block
 * has enough under way, too. */
#define DECODE_F16(width, parts)                                                                   \
	DECODE_KERNEL(fashim_decode_f16_d##width##_p##parts, __half, width, parts, 2)
#define DECODE_BF16(width, parts)                                                                  \
	DECODE_KERNEL(fashim_decode_bf16_d##width##_p##parts, __nv_bfloat16, width, parts, 2)
#define DECODE_F32(width, parts)                                                                   \
	DECODE_KERNEL(fashim_decode_f32_d##width##_p##parts, float, width, parts,                  \
		      (width) > 128 || !FASHIM_CLUSTERS ? 1 : 2)
EXPAND_ALL_TYPES(DECODE_VARIANTS, DECODE_F16, DECODE_BF16, DECODE_F32)
