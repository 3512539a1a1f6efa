/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention for any layout on the warp matrix instructions, from sm_80 on: rolling slices.
 *
 * What: as wmma.cu, a tile of query rows per block, 16 or 32 of them per warp, and tiles of keys
 * one after the other; S and P never leave the registers. But where wmma.cu computes all of S, then
 * all of P, then P V, here a warp goes through its tile in slices of 16 or 32 keys, and for each
 *
 *     P = exp2(x * exponent - reference)    of this tile, packed to 16 bits
 *     S = Q K^T                             of the NEXT tile, into the registers that x was in
 *     O += P V                              of this tile
 *
 * all in one basic block, so that what the exponentials, the additions, the loads from shared
 * memory and the tensor cores do overlaps within one warp.
 *
 * Why so, in the order in which it was decided:
 *   1. The maximum of a tile is known before its exponentials begin: it is taken of S as it arises.
 *      It needs no exchange between lanes: a row keeps its reference as long as no lane of the
 *      warp finds a score that is 2^13 times what it stands for (one vote a tile). Only then do
 *      lanes exchange maxima, and O and the sums are scaled: refresh().
 *   2. The loop knows nothing of biases, masks, windows and ends. Where a tile has any, the scores
 *      are put right between two turns of the loop: adapt().
 *   3. Two tiles each of K and V in shared memory, K a tile ahead of V, one barrier a tile.
 *   4. Rows padded by 16 bytes rather than swizzled: ldmatrix meets no bank twice, any multiple of
 *      16 is a width, and all addresses of a slice are one register and a constant.
 *   5. A slice's exponentials go with the products of the slice before, those of a tile's first
 *      slice with the last of the tile before: they are done on trust, and anew where the
 *      reference turns out to change.
 *   6. Sums of P by the tensor cores, as a column of O that V has all ones for. They are of P as
 *      rounded, so that a row with one key that counts is that key's V exactly, although its P is
 *      no power of two.
 *   7. A warp whose rows see no more keys (causal) only helps to load.
 *   8. With a window, blocks are in the order of their work, over all heads of a section whose K
 *      and V fit the second-level cache.
 *   9. What is the same for a block or warp lies in shared memory (block_view, warp_view); plain
 *      calls of well aligned operands have kernels of their own, in which nothing else holds
 *      registers (SIMPLE).
 *  10. Most tiles of a plain call have nothing to ask for: they are whole, clean, and not the last.
 *      A loop of its own takes these. Its copies are 45 instructions instead of 131, and no limit
 *      is looked up in shared memory; Q K^T of the whole tile comes first there, so that the maxima
 *      and the next exponentials meet P V.
 *
 * Rules worth knowing: those of wmma.cu.
 *
 * What was tried, as a kernel of 60 lines without edges, H200, 32 heads, 4096 keys, of
 * FlashAttention-2's speed (300 TFLOP/s at D 64, 352 at D 128):
 *     D 64: 64 keys, two blocks                       1.08
 *           the same, exponentials a slice ahead      1.16
 *           32 keys, two blocks; the same             1.13
 *           32 keys, three blocks (168 registers)     1.01
 *           16 rows a warp, eight warps               1.01 to 1.07
 *           slices of 32 keys                         no difference
 *           slices kept apart by a branch that is never taken, so that each has its
 *           exponentials evenly among its products    1.12
 *     D 128: 32 keys, slices of 32, a quarter of Q in registers  0.97
 *           slices of 16, none of Q                   0.94
 *           slices of 32, none, or half of Q (spills) 0.92, 0.91
 *           16 rows a warp, 64 keys, all of Q         0.92
 *           kept apart as above                       0.82 to 0.92
 *           64 keys                                   0.78: spills
 * What ptxas makes of the order of instructions decides more than their number. Loading the first
 * tiles within the loop instead of before it spilled 600 bytes.
 *
 * Measured (H100, bf16, random data, kernel alone, in turn with FlashAttention-2 as PyTorch 2.11
 * launches it, 32 heads, 4096 keys), of its speed, full and causal, before 10. and with it:
 *     D 64     1.03          1.18  1.27
 *     D 96     0.95          1.14  1.09
 *     D 128    0.97  0.93    1.02  0.96
 * and with it in another order, the next exponentials with P V (those of D 160: slice by slice, 16
 * heads):
 *     D 40     1.36  1.44    1.57  1.64
 *     D 80     1.23  1.37    1.33  1.47
 *     D 160    1.05          1.18  1.48
 * That order and whose addresses registers hold decide as much as anything: of 335 ways to write
 * this, D 64 ranged from 1.02 to 1.24; D 160 in 128 rows, 32 keys and a spill of 86 bytes reached
 * 1.52 and 1.87. Cutting a turn into blocks by branches that are never taken slows it down (D 128
 * 0.88 to 0.95).
 * What is left at D 128, by leaving it out: copies 16 %, the barrier 13 %, the vote 5 %. There
 * FlashAttention-2 takes 323 million instructions that wait 1.3 cycles each for fixed latencies,
 * this 232 million that wait 2.1; tensor cores are at 56 % with both. A scheduler alone takes 6.1
 * cycles for an m16n8k16.
 * Before 10., H100, bf16, all in turn (kernel_check -t): slices of 32 keys instead of 16, D 96 702
 * -> 675 us, D 160 844 -> 710, but D 128 845 -> 964. With a bias tiles of 64 keys count: 16 rows a
 * warp and 64 keys 369 us, 32 rows and 32 keys 459, 32 rows and 64 keys 360, which spills; D 96 in
 * tiles of 32 keys was slower, 376, than D 128 in tiles of 64, 295. Windows of 64 x 64, D 32, 2048
 * of them: tiles of 64 rows 23 us, of 128 46. Rounding S (round_s) costs a call with a bias or mask
 * 8 to 11 %; a plain one leaves the fast path: 259 -> 504.
 *
 * Elements of biases and factors are asked for where their key is there. Without that condition, all
 * of a tile's at once (H200, f16, us): [4,12,512,512,64] with a bias 38.3 -> 41.2, [2,16,1024,1024,128]
 * 173 -> 200, D 96 84 -> 94, a mask [2,2,512,512,128] 34.3 -> 37.3: slower. Of an image's biases, one
 * element for several keys, faster, 349 -> 295 ([54,14,196,196,64]) and 499 -> 385
 * ([6,12,1024,1024,64]), but alone it spills 4 to 20 bytes on sm_90 in widths 32 to 64, however few
 * are asked for at once; with a barrier of the warp before each eight. As it is, with one division
 * for the places of all keys, and queries side by side, as the shim lays such biases out, SAM's
 * [12,4096,4096,64] in fp16 1447 -> 1168 (the program's own kernels 2076; H200).
 *
 * D 192 and 256, plain calls: O takes 96 and 128 registers of 16 rows, so that a warp has no 32,
 * and a multiprocessor no more than eight warps. H200, f16, B2 H8, 4096 keys, full and causal, in
 * turn with FlashAttention-2 (D 256 849 and 537 us, D 192 646 and 438) and wmma.cu in width 256
 * (1200 and 769, D 192 1158 and 754); "kept": sixteens of Q in registers:
 *     D 256: 64 rows, 16 keys, kept 16, two blocks    940  618 us  0.90  0.87 of FlashAttention-2
 *            the same, kept 12                        985  652     0.86  0.82
 *            64 rows, 32 keys, none kept, two blocks  973  643     99 KB a block: Hopper alone
 *            128 rows, 32 keys, kept 16               942  642     0.89  0.84; spills
 *            the same, kept 8, 4, none                990, 1033, 1086
 *            128 rows, 64 keys, none kept             951  650     198 KB: Hopper alone
 *            the same, slices of 32, of 64            965, 960
 *            112 rows, 16 keys, kept 12, one block   1249  772
 *            64 rows, 16 keys, kept 12, one block    1550  931
 *     D 192: 128 rows, 64 keys, kept 8                718  431     0.90  1.02
 *            the same, kept 12                        701  419     0.92  1.05; spills on sm_89
 *            slices of 64 and 32, none kept           739, 758
 *            64 rows, 32 keys, kept 12, two blocks    787  459     0.82  0.95; one block 1025
 *            112 rows, 32 keys, kept 10               865  476     0.75  0.92
 * bf16 the same within 1.5 %, but D 256 in 112 rows 1197. Which order the two products come in is
 * no difference. 112 rows are for GPUs with 99 KB of shared memory, which give one block of 64
 * rows to a multiprocessor; none of these was at hand, what is said of them is Hopper with one
 * block.
 * Each K and V is read by every warp for its 16 rows: an ldmatrix takes shared memory for 4 cycles
 * and feeds two m16n8k16, so Q in registers counts more than anything. To halve that, pairs of
 * warps shared 32 rows, each with half of a tile's keys for S and half of O's columns, P passing
 * through shared memory, K and V in single buffers: 945 and 646 in 128 rows and 64 keys, 960 and
 * 638 in two blocks of 64 rows, D 192 728 and 713. A quarter less to read, and no faster; a tile
 * has three barriers then, and no exponential is among the products of the scores.
 */
#include "kernels/mma_adapt.cuh"
#include "kernels/mma_copies.cuh"
#include "kernels/mma_finish.cuh"
#include "kernels/mma_slices.cuh"

/* Single elements of an operand that a thread has under way: registers are short. */
#define AT_ONCE 2

/* Tiles before this are steady: whole, clean, and with two behind them that the block needs as well
 * as one that the warp does. */
static __device__ __forceinline__ int steady_end(const struct attn_args &a,
						 const struct block_view &block,
						 const struct warp_view &own, int keys)
{
	if (!can_copy_whole(a.k, a.D) || !can_copy_whole(a.v, a.Dv))
		return 0;
	return min(min(own.clean_end, own.end - 1), min(block.end, a.Sk / keys) - 2);
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* SIMPLE: a plain call (is_plain), of operands whose rows start on 16 bytes. */
template <bool SIMPLE, typename T, int WIDTH, int KEYS, int SLICE, int BLOCKS, int ROW_WARPS,
	  int GROUPS, int KEPT>
static __device__ __forceinline__ void attention(const struct attn_args &a)
{
	constexpr int ROWS = 16 * BLOCKS * ROW_WARPS, LINE = WIDTH + PAD;
	constexpr int GROUP_THREADS = 32 * ROW_WARPS, THREADS = GROUP_THREADS * GROUPS;
	static_assert((GROUPS - 1) * GROUP_NUMBERS<BLOCKS, WIDTH, 3> * GROUP_THREADS * 2 <=
			      GROUPS * 4 * KEYS * LINE,
		      "the groups' sums fit where K and V were");
	static_assert(GROUPS <= 4, "a float for each group behind a row of Q");

	DYNAMIC_SHARED(T, shared);
	__shared__ struct block_view block;
	__shared__ struct warp_view views[ROW_WARPS];
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const int group = warp / ROW_WARPS, thread = threadIdx.x - group * GROUP_THREADS;
	const int row0 = warp % ROW_WARPS * 16 * BLOCKS;
	T *const own = shared + row0 * LINE;
	T *const k_tiles = shared + ROWS * LINE + group * 4 * KEYS * LINE;
	T *const v_tiles = k_tiles + 2 * KEYS * LINE;
	/* where this lane's addresses for load_matrix start: in Q and V, and in K */
	const int a_offset = (lane % 16) * LINE + lane / 16 * 8;
	const int k_offset = (lane / 16 * 8 + lane % 8) * LINE + lane / 8 % 2 * 8;

	float exponent;
	{
		const struct view w = view_in_order(a, ROWS, a.spec.window_right != ATTN_NO_WINDOW);
		const T *const q = (const T *)matrix_at(a.q, w.b, w.h, a.H);

		load_tile<T, ROWS, WIDTH, THREADS, AT_ONCE, !SIMPLE>(
			shared, q, a.q, SIMPLE ? PIECES_ACROSS : pieces_of(a.q, q, true), w.first,
			a.Sq, a.D, threadIdx.x);
		if (threadIdx.x == 0) {
			key_tiles(a, SIMPLE ? a.Sk : shared_length(a, w, w.first), w.first,
				  min(w.first + ROWS, a.Sq) - 1, KEYS, &block.begin, &block.end);
			block.w = w;
			if (!SIMPLE) {
				for (int n = 0; n < ATTN_MAX_BIAS; n++)
					block.bias[n] = beside_of(a, w, a.spec.bias[n]);
				block.mask = beside_of(a, w, a.spec.mask);
				block.scales = beside_of(a, w, a.spec.scales);
				block.scale = scale_of(a, w.b, w.h);
			}
			block.k = matrix_at(a.k, w.b, w.h, a.H);
			block.v = matrix_at(a.v, w.b, w.h, a.H);
			block.k_pieces = pieces_of(a.k, block.k, true);
			block.v_pieces = pieces_of(a.v, block.v, true);
		}
		if (thread % 32 == 0 && group == 0)
			views[warp] = warp_view_of(a, w, w.first + row0, 16 * BLOCKS, KEYS);
		exponent = w.exponent;
	}
	__syncthreads();

	struct queries<T, BLOCKS, WIDTH, KEPT> queries;
	struct work<BLOCKS, WIDTH, KEYS> u;
	struct weights<SLICE, BLOCKS> weights = {
	};
	queries.at = own + a_offset;
	bool slow = true;
	int odd = 0; /* where this tile's V lies, and the next one's K does not */
#pragma unroll
	for (int m = 0; m < BLOCKS; m++) {
#pragma unroll
		for (int n = 0; n < WIDTH / 2; n++)
			u.o[m][n / 4][n % 4] = 0.0f;
#pragma unroll
		for (int r = 0; r < 2; r++) {
			u.reference[m][r] = FRESH;
			u.sum[m][2 * r] = u.sum[m][2 * r + 1] = u.top[m][r] = 0.0f;
			*offset_of<T, WIDTH>(own, 16 * m + 8 * r + lane / 4, group) = 0.0f;
		}
	}

	auto load_v = [&](int at, int tile) {
		load_tile<T, KEYS, WIDTH, GROUP_THREADS, AT_ONCE, !SIMPLE>(
			v_tiles + at * KEYS * LINE, (const T *)block.v, a.v,
			SIMPLE ? PIECES_ACROSS : block.v_pieces, tile * KEYS, a.Sk, a.Dv, thread);
	};
	auto load_k = [&](int at, int tile) {
		load_tile<T, KEYS, WIDTH, GROUP_THREADS, AT_ONCE, !SIMPLE>(
			k_tiles + at * KEYS * LINE, (const T *)block.k, a.k,
			SIMPLE ? PIECES_ACROSS : block.k_pieces, tile * KEYS, a.Sk, a.D, thread);
	};
	const struct warp_view &view = views[warp % ROW_WARPS];
	int tile = block.begin + group;
	if (tile < block.end)
		load_k(0, tile);
	copy_commit();
	if (tile < block.end)
		load_v(0, tile);
	if (tile + GROUPS < block.end)
		load_k(1, tile + GROUPS);
	copy_commit();
	copy_wait_but<1>();
	__syncthreads(); /* Q and the first K are there */
	queries.read();
#pragma unroll
	for (int n = 0; n < KEYS / 16; n += SLICE)
#pragma unroll
		for (int d = 0; d < WIDTH / 16; d++)
			score_slice<SLICE>(u, queries, k_tiles + k_offset, n, d);
	constexpr bool STEADY = SIMPLE && GROUPS == 1;
	const int steady = STEADY && tile < block.end ? steady_end(a, block, view, KEYS) : 0;
#pragma unroll 1
	for (; tile < block.end; tile += GROUPS, odd ^= 1) {
		if (STEADY) {
#pragma unroll 1
			for (; !slow && tile >= view.clean && tile < steady; tile++, odd ^= 1) {
				const T *const next = k_tiles + (odd ^ 1) * KEYS * LINE + k_offset;
				const T *const value = v_tiles + odd * KEYS * LINE + a_offset;

				if (is_beyond(u, exponent)) {
					slow = refresh(u, own, group, slow, exponent, a.spec,
						       SIMPLE || block.w.plain);
					if (KEYS > 16 * SLICE)
						weigh_slice<SLICE, T>(weights, u, 0, exponent);
				}
				copy_wait();
				__syncthreads(); /* V and the next K are there */
				copy_whole_tile<T, KEYS, WIDTH, THREADS>(
					v_tiles + (odd ^ 1) * KEYS * LINE, block.v, a.v.stride[2],
					(tile + 1) * KEYS, a.Dv);
				copy_whole_tile<T, KEYS, WIDTH, THREADS>(
					k_tiles + odd * KEYS * LINE, block.k, a.k.stride[2],
					(tile + 2) * KEYS, a.D);
				copy_commit();
				turn<SIMPLE>(u, weights, queries, next, value, exponent);
			}
		}
		const T *const next = k_tiles + (odd ^ 1) * KEYS * LINE + k_offset;
		const T *const value = v_tiles + odd * KEYS * LINE + a_offset;

		if (tile < view.end) {
			bool anew = slow || tile < view.clean || tile >= view.clean_end;

			if (anew)
				adapt<SIMPLE, T>(u, a, block, view.first, tile * KEYS);
			if (is_beyond(u, exponent) || slow) {
				slow = refresh(u, own, group, slow, exponent, a.spec,
						       SIMPLE || block.w.plain);
				anew = true;
			}
			if (anew && KEYS > 16 * SLICE)
				weigh_slice<SLICE, T>(weights, u, 0, exponent);
		}
		copy_wait();
		group_barrier<GROUPS>(group, GROUP_THREADS); /* V and the next K are there */
		if (tile + GROUPS < block.end)
			load_v(odd ^ 1, tile + GROUPS);
		if (tile + 2 * GROUPS < block.end)
			load_k(odd, tile + 2 * GROUPS);
		copy_commit();
		if (tile + GROUPS < min(view.end, block.end))
			turn<SIMPLE>(u, weights, queries, next, value, exponent);
		else if (tile < view.end)
			last_turn(u, value, exponent);
	}

	const int first = views[warp % ROW_WARPS].first;
	if (GROUPS > 1)
		merge_groups<T, KEYS, BLOCKS, WIDTH, GROUPS, GROUP_THREADS>(
			u, own, (float *)(shared + ROWS * LINE), group, thread, slow, exponent);
	if (group > 0 || first >= a.Sq)
		return;
	finish<SIMPLE>(u, own, a, block.w, GROUPS > 1 || slow, first);
}

/* ---- the variants ---------------------------------------------------------------------------- */

#define VARIANT(symbol, T, width, rows, kind, keys, slice, blocks, groups, kept, per_sm)           \
	extern "C" __global__ void __launch_bounds__(2 * (rows) / (blocks) * (groups), per_sm)     \
		symbol(const __grid_constant__ struct attn_args args)                              \
	{                                                                                          \
		attention<MMA_IS_PLAIN(kind), T, width, keys, slice, blocks,                       \
			  (rows) / (16 * (blocks)), groups, kept>(args);                           \
	}                                                                                          \
	SIM_KERNEL(symbol)

#include "kernels/mma_variants.h"

#define MMA_F16(width, rows, kind, ...)                                                            \
	VARIANT(fashim_mma_f16_d##width##_r##rows##kind, __half, width, rows, kind, __VA_ARGS__)
#define MMA_BF16(width, rows, kind, ...)                                                           \
	VARIANT(fashim_mma_bf16_d##width##_r##rows##kind, __nv_bfloat16, width, rows, kind,        \
		__VA_ARGS__)
EXPAND_TYPES(MMA_VARIANTS, MMA_F16, MMA_BF16)
