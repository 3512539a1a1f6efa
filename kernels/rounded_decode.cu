/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention for a few queries that rounds where the program rounds: what rounded.cu does,
 * as decode.cu does it. sm_80 and later, 16-bit types.
 *
 * What: one query row per block, or per cluster of PARTS blocks, each with its share of the keys.
 * First K alone: x of each key, rounded as the program's, stays in shared memory, and each lane has
 * the maximum and the sum of its own. Once all know both, V: P = exp(x - maximum) / sum as it is
 * stored, times V. K and V come as they do in decode.cu, two tiles of a warp under way; the first of
 * V are asked for before warps and blocks tell each other what they found.
 *
 *   - x takes 4 bytes a key: ROUNDED_DECODE_KEYS of them, in one block as in several; beyond these
 *     it is rounded.cu's.
 *   - Rows of a tile of 16 are empty but for one in rounded.cu, and a warp waits for its products
 *     there; here a lane multiplies what it has asked for.
 *
 * Notebook: tests/gpu/rounded.py --only decode, one H200, bf16, us of a graph of 20. `rounded`: the
 * better of rounded.cu's; `decode`: without P's rounding; `chain`: matmul, softmax, matmul in PyTorch.
 *
 *     B  H   queries  keys  D         parts  us    rounded  decode  chain
 *     8  32  1        2048  128       1      63.2  71.1     64.3    81.9
 *     1  32  1        2048  128       4      12.2  24.1     10.3    21.9
 *     1  32  1        8192  128       4      36.9  65.1     35.8    47.7
 *     1  24  1        228   128       4      5.4   12.7     4.9     8.7
 *     2  4   1        64    128       1      4.0   8.5      3.7     7.6
 *     5  8   1        384   96, bias  4      7.5   18.8     6.6     13.4
 *     4  32  1        512   128, bias 1      10.4  34.5     9.2     17.0
 *     4  12  1        1024  64, bias  4      8.0   18.3     6.9     17.4
 *     2  8   1        1024  256       4      9.4   39.4     7.0     13.8
 *     1  32  2        1024  128       4      9.1   17.6     12.2    14.5
 *     1  32  4        1024  128       1      11.9  17.7             15.0
 *
 * O is within 7e-5 to 3.4e-4 of the chain's, root mean square; decode.cu moves it by 2e-3 to 1.7e-2.
 */
#include "kernels/cluster.cuh"
#include "kernels/decode_query.cuh"

namespace decode
{

constexpr int X_OF_WARP = ROUNDED_DECODE_KEYS / WARPS;

/* Maximum and sum of some keys' weights. */
struct found {
	float max, sum;

	__device__ __forceinline__ void init(void)
	{
		max = -INFINITY;
		sum = 0.0f;
	}
	/* A key whose score is x. */
	__device__ __forceinline__ void add(float x)
	{
		const float most = fmaxf(max, x); /* passes NaN by; the sum has it */

		sum = sum * share<__half>(max, most) + exp_of<__half>(x, most == -INFINITY ? 0.0f : most);
		max = most;
	}
	__device__ __forceinline__ void join(float other_max, float other_sum)
	{
		const float most = fmaxf(max, other_max);

		sum = sum * share<__half>(max, most) + other_sum * share<__half>(other_max, most);
		max = most;
	}
};

/* K or V of the head, tile by tile, as a warp has it. SIMPLE: it lies ACROSS. */
template <typename T, int WIDTH, bool SIMPLE> struct walk {
	const query<T, WIDTH> &w;
	const attn_tensor &t;
	const T *at;
	arrangement how;
	int columns, rows, step;
	unsigned char *slots; /* two, the lane's places in them */
	int tile, tiles, whole;

	__device__ __forceinline__ void ask(int n, int turn)
	{
		if (n < whole)
			ask_pieces<WIDTH, SIMPLE>(slots + turn % 2 * DECODE_SLOT, at, t, how,
						  n * w.TILE + w.first, rows, w.column, columns);
		copy_commit();
	}

	__device__ __forceinline__ void begin(void)
	{
		whole = SIMPLE || how == ACROSS ? tiles
			: how == DOWN		? min(tiles, rows / w.TILE)
						: 0;
		ask(tile, 0);
		ask(tile + step, 1);
	}

	/* use(n, key, piece): the warp's tile n, from key `key` on. */
	template <typename F> __device__ __forceinline__ void run(const F &use)
	{
		uint4 piece[PIECES];
		int n = 0, at_tile = tile;

#pragma unroll 1
		for (; at_tile < whole; at_tile += step, n++) {
			copy_wait_but<1>();
			take_pieces(piece, slots + n % 2 * DECODE_SLOT);
			use(n, at_tile * w.TILE, piece);
			ask(at_tile + 2 * step, n);
		}
		if (SIMPLE)
			return;
#pragma unroll 1
		for (; at_tile < tiles; at_tile += step, n++) {
			const int j = at_tile * w.TILE;

			load_any<WIDTH>(piece, at, t, how, j + w.first, rows, w.column, columns);
			use(n, j, piece);
		}
	}
};

/* From Q, K and V to the warp's sum of O, and whether the row is empty. */
template <bool SIMPLE, int SHARES, typename T, int WIDTH>
static __device__ __forceinline__ bool attend(query<T, WIDTH> &w, const attn_args &a,
					      unsigned char *slots, float *kept, int part, int b,
					      int h, int i)
{
	__shared__ float2 of_warps[WARPS];
	[[maybe_unused]] __shared__ float2 of_blocks[SHARES];
	const int warp = threadIdx.x / 32;
	walk<T, WIDTH, SIMPLE> keys = {w,	a.k, w.k, w.k_how, a.D, a.Sk, SHARES * WARPS,
				       slots, 0,   0,	  0};
	walk<T, WIDTH, SIMPLE> values = {w,	  a.v, w.v, w.v_how, a.Dv, a.Sk, SHARES * WARPS,
					 slots, 0,   0,	    0};
	struct found found;
	extras next;

	w.range(a, part * WARPS + warp, keys.tile, keys.tiles);
	values.tile = keys.tile;
	values.tiles = keys.tiles;
	keys.begin();
	if (!SIMPLE)
		load_extras<true>(next, w.rows, a.spec, keys.tile * w.TILE + w.own, a.Sk);
	found.init();
	keys.run([&](int n, int j, const uint4(&piece)[PIECES]) {
		const extras now = next;
		float p[w.KEYS];

		if (!SIMPLE)
			load_extras<true>(next, w.rows, a.spec, j + keys.step * w.TILE + w.own, a.Sk);
		w.template multiply<SIMPLE>(p, piece);
		const float x = w.template x_of<SIMPLE, true>(p, now, a, j);

		kept[n * w.TILE + w.own] = x;
		found.add(x);
	});
	values.begin();

	/* lanes, warps, blocks */
#pragma unroll
	for (int lanes = 1; lanes < 32; lanes *= 2)
		if (w.have_others(lanes))
			found.join(__shfl_xor_sync(WARP_ALL, found.max, lanes),
				   __shfl_xor_sync(WARP_ALL, found.sum, lanes));
	if (threadIdx.x % 32 == 0)
		of_warps[warp] = make_float2(found.max, found.sum);
	__syncthreads();
	found.init();
#pragma unroll
	for (int n = 0; n < WARPS; n++)
		found.join(of_warps[n].x, of_warps[n].y);
	if (SHARES > 1) {
		cluster_wait();
		if (threadIdx.x < SHARES) {
			store_in_block(&of_blocks[part].x, threadIdx.x, found.max);
			store_in_block(&of_blocks[part].y, threadIdx.x, found.sum);
		}
		cluster_arrive();
		cluster_wait();
		found.init();
#pragma unroll
		for (int n = 0; n < SHARES; n++)
			found.join(of_blocks[n].x, of_blocks[n].y);
	}
	float factor = count_sink(found.sum, found.max, a, b, h, i, 1.0f);
	const float base = found.max == -INFINITY ? 0.0f : found.max;
	const bool empty = found.sum == 0.0f;

	factor = empty ? 0.0f : factor / found.sum;
	values.run([&](int n, int, const uint4(&piece)[PIECES]) {
		const float own = round_to(exp_of<T>(kept[n * w.TILE + w.own], base) * factor,
					   IS_F16<T> ? ATTN_F16 : ATTN_BF16);
		float p[w.KEYS];

#pragma unroll
		for (int k = 0; k < w.KEYS; k++)
			p[k] = __shfl_sync(WARP_ALL, own, k, w.KEYS);
		w.template add_values<SIMPLE>(p, piece);
	});
	return empty;
}

template <typename T, int WIDTH, int PARTS>
static __device__ __forceinline__ void rounded_attention(const attn_args &a)
{
	constexpr int SHARES = FASHIM_CLUSTERS ? PARTS : 1;
	[[maybe_unused]] __shared__ float of_blocks[SHARES][WIDTH];

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

	DYNAMIC_SHARED(unsigned char, shared);
	float *const line = (float *)(shared + warp * 2 * DECODE_SLOT);
	float *const kept = (float *)(shared + DECODE_SHARED) + warp * X_OF_WARP;
	unsigned char *const slots = shared + warp * 2 * DECODE_SLOT + lane * 16;
	const bool simple = w.k_how == ACROSS && w.v_how == ACROSS && !s.bias[0].base &&
			    !s.bias[1].base && !s.mask.base;
	bool empty;

	if (simple) {
		empty = attend<true, SHARES>(w, a, slots, kept, part, b, h, i);
	} else {
		share_extras(rows, a, b, h, i);
		empty = attend<false, SHARES>(w, a, slots, kept, part, b, h, i);
	}

	__syncwarp(); /* nobody reads the slots any more */
	w.put_values(line);
	__syncthreads();

	const int c = threadIdx.x;
	float out = 0.0f;
	if (c < WIDTH)
#pragma unroll
		for (int n = 0; n < WARPS; n++)
			out += ((const float *)(shared + n * 2 * DECODE_SLOT))[c];
	if (SHARES > 1) {
		if (c < WIDTH)
			store_in_block(&of_blocks[part][c], 0, out);
		cluster_arrive();
		if (part > 0)
			return;
		cluster_wait();
		out = 0.0f;
		if (c < WIDTH)
#pragma unroll
			for (int n = 0; n < SHARES; n++)
				out += of_blocks[n][c];
	}
	if (c < a.Dv)
		store_column(a, w.v, b, h, i, c, s.out_scale * out, empty);
}

} /* namespace decode */

/* ---- the variants: the same rows as in variants.c ------------------------------------------- */

#define ROUNDED_DECODE_KERNEL(symbol, T, width, parts)                                             \
	extern "C" __global__ void CLUSTER_OF(parts) __launch_bounds__(DECODE_THREADS, 2)          \
		symbol(const __grid_constant__ struct attn_args args)                              \
	{                                                                                          \
		decode::rounded_attention<T, width, parts>(args);                                  \
	}                                                                                          \
	SIM_KERNEL(symbol)

#define ROUNDED_DECODE_F16(width, parts)                                                           \
	ROUNDED_DECODE_KERNEL(fashim_rounded_decode_f16_d##width##_p##parts, __half, width, parts)
#define ROUNDED_DECODE_BF16(width, parts)                                                          \
	ROUNDED_DECODE_KERNEL(fashim_rounded_decode_bf16_d##width##_p##parts, __nv_bfloat16,       \
			      width, parts)
EXPAND_TYPES(ROUNDED_DECODE_VARIANTS, ROUNDED_DECODE_F16, ROUNDED_DECODE_BF16)
