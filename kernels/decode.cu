/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused attention for few queries: one token against a long cache, where all there is to do is to
 * read K and V once, as fast as memory gives them. sm_80 and later.
 *
 * What: one query row per block (or per cluster of PARTS blocks, each with its share of the keys).
 * A warp takes 8 keys per group of lanes at a time; a group is as many lanes as a row of WIDTH
 * elements has pieces of 16 bytes. Scores and sums are fp32, the online softmax is per warp, and
 * warps, then blocks, add up at the end. The next keys are asked for as soon as the registers of
 * the present ones are free, so that each thread has some 8 to 16 pieces under way at any time.
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
 * Notebook, H200, f16, one query, inputs out of cache, best number of parts:
 *
 *     B  H   keys     D    parts  us      GB/s
 *     1  32  4096     128  4      21.2    3173    (1: 39.3, 2: 24.9, 8: 24.8)
 *     1  32  32768    128  4      131.7   4078    (1: 281.9, 2: 159.8, 8: 153.4)
 *     16 8   2048     64   1      19.7    3403    (2: 19.9, 4: 27.8, 8: 28.4)
 *     1  8   4096     64   8      7.5     1115    (1: 20.4, 2: 12.3, 4: 10.7)
 *     1  16  1024     64   4      5.5     759     (1: 7.5, 2: 5.9, 8: 6.0)
 *
 * fp32, H100, B1 H12 D64, heads that share K and V, which the cache has: 1024 keys 6.6 us in 8 parts
 * (1: 11.8, 2: 8.9, 4: 7.3; f32_sm90.cu's tile of many queries 31.4), 64 keys 5.0 in one (6.3).
 *
 * Tried and dropped: loads that leave no trace in the first-level cache (24.6 instead of 21.2 us in
 * the first line); the matrix instructions, rows padded to 16 (few.cu: 38.9 us there, at best).
 */
#include "kernels/cluster.cuh"
#include "kernels/decode_operands.cuh"

namespace decode
{

/* ---- scores --------------------------------------------------------------------------------- */

/* What is added to or put in place of one score, as it came from memory. */
struct extras {
	uint32_t bias[ATTN_MAX_BIAS];
	bool masked;
};

/* The parts of row i of biases and mask: set up once. */
struct extra_rows {
	const char *bias[ATTN_MAX_BIAS]; /* NULL: none */
	const unsigned char *mask;
};

static __device__ __forceinline__ extra_rows find_extras(const attn_args &a, int b, int h, int i)
{
	extra_rows rows;

#pragma unroll
	for (int n = 0; n < ATTN_MAX_BIAS; n++) {
		const attn_tensor &t = a.spec.bias[n];
		rows.bias[n] = NULL;
		if (t.base)
			rows.bias[n] = tensor_at(t, b, h, a.H) +
				       i * t.stride[2] * attn_dtype_size(t.dtype);
	}
	rows.mask = NULL;
	if (a.spec.mask.base)
		rows.mask = (const unsigned char *)tensor_at(a.spec.mask, b, h, a.H) +
			    i * a.spec.mask.stride[2];
	return rows;
}

static __device__ __forceinline__ void load_extras(extras &e, const extra_rows &rows,
						   const attn_spec &s, int j, int keys)
{
	e.masked = false;
#pragma unroll
	for (int n = 0; n < ATTN_MAX_BIAS; n++) {
		e.bias[n] = 0;
		if (!rows.bias[n] || j >= keys)
			continue;
		const int64_t at = j * s.bias[n].stride[3];
		e.bias[n] = s.bias[n].dtype == ATTN_F32 ? ((const uint32_t *)rows.bias[n])[at]
							: ((const uint16_t *)rows.bias[n])[at];
	}
	if (rows.mask && j < keys)
		e.masked = (rows.mask[j * s.mask.stride[3]] != 0) != (s.mask_keeps != 0);
}

static __device__ __forceinline__ float number_of(uint32_t bits, int dtype)
{
	if (dtype == ATTN_F16)
		return __half2float(__ushort_as_half((unsigned short)bits));
	return __uint_as_float(dtype == ATTN_BF16 ? bits << 16 : bits);
}

/* First key of 0..Sk that row i may see, and one past the last. */
static __device__ __forceinline__ int window_begin(const attn_args &a, int i)
{
	if (a.spec.window_left == ATTN_NO_WINDOW)
		return 0;
	return (int)min(max((int64_t)i + a.spec.window_shift - a.spec.window_left, (int64_t)0),
			(int64_t)a.Sk);
}
static __device__ __forceinline__ int window_end(const attn_args &a, int i)
{
	if (a.spec.window_right == ATTN_NO_WINDOW)
		return a.Sk;
	return (int)min(max((int64_t)i + a.spec.window_shift + a.spec.window_right + 1, (int64_t)0),
			(int64_t)a.Sk);
}

/* From q.k to x for key j of row i. */
template <typename T>
static __device__ __forceinline__ float score(typename summed<T>::type product, const extras &e,
					      const extra_rows &rows, const attn_spec &s, int j,
					      int begin, int end)
{
	float x;

	if constexpr (IS_F32<T>) {
		x = (float)(product * s.scale);
	} else {
		float two[2] = {product, 0.0f};

		if (s.round_s)
			store_scores<T, 2>(s, s.scale, [&](int k) -> float & { return two[k]; });
		x = s.round_s ? two[0] : s.scale * overflow_score<T>(s, product);
	}
	if (s.softcap != 0.0f)
		x = IS_F32<T> ? s.softcap * tanhf(x / s.softcap) : cap_score(x, s.softcap);
#pragma unroll
	for (int n = 0; n <= ATTN_MAX_BIAS; n++) {
		if (e.masked && n == ATTN_MAX_BIAS - s.late_biases)
			x = s.mask_value;
		if (n < ATTN_MAX_BIAS && rows.bias[n])
			x = round_to(x + s.bias_scale[n] * number_of(e.bias[n], s.bias[n].dtype),
				     s.round_x);
	}
	return j < begin || j >= end ? s.window_value : x;
}

/* x[u] summed over the LANES lanes of a group, for u = lane % KEYS. */
template <typename T, int LANES, int KEYS>
static __device__ __forceinline__ typename summed<T>::type sum_by_halves(const float (&x)[KEYS])
{
	const int lane = threadIdx.x % 32;
	typename summed<T>::type y[KEYS / 2];

#pragma unroll
	for (int half = KEYS / 2; half; half /= 2) {
		const bool upper = lane & half;
#pragma unroll
		for (int k = 0; k < half; k++) {
			if (half == KEYS / 2) {
				const float give = upper ? x[k] : x[k + half];
				const float keep = upper ? x[k + half] : x[k];
				y[k] = keep + __shfl_xor_sync(WARP_ALL, give, half);
			} else {
				const auto give = upper ? y[k] : y[k + half];
				y[k] = upper ? y[k + half] : y[k];
				y[k] += __shfl_xor_sync(WARP_ALL, give, half);
			}
		}
	}
#pragma unroll
	for (int lanes = KEYS; lanes < LANES; lanes *= 2)
		y[0] += __shfl_xor_sync(WARP_ALL, y[0], lanes);
	return y[0];
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* What sums under the maximum `mine` count under the maximum `common`. */
template <typename T> static __device__ __forceinline__ float share(float mine, float common)
{
	if (mine == -INFINITY)
		return 1.0f; /* they are 0 or NaN */
	return exp_of<T>(mine, common);
}

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

/* One lane's view of its query row, and its sums so far. */
template <typename T, int WIDTH> struct query : held<T, WIDTH> {
	typedef typename summed<T>::type number;
	using held<T, WIDTH>::PIECE;
	using held<T, WIDTH>::COLUMNS;
	using held<T, WIDTH>::KEYS;
	using held<T, WIDTH>::ACROSS_LINE;
	using held<T, WIDTH>::DOWN_LINE;
	static constexpr int LANES = WIDTH / COLUMNS, GROUPS = 32 / LANES;
	static constexpr int TILE = GROUPS * KEYS; /* keys of a warp at a time */
	static_assert(LANES >= KEYS && LANES <= 32, "an owner of each score in each group");
	static_assert(TILE * WARPS == DECODE_KEYS(WIDTH, sizeof(T)), "what the choice goes by");

	const T *k, *v;
	arrangement k_how, v_how;
	extra_rows rows;
	int begin, end; /* the keys it may see */
	int column;	/* first of the lane's columns */
	int first;	/* of the group's keys within a tile */
	int own;	/* the one whose score is this lane's */
	uint4 q[ACROSS_LINE];

	number o[COLUMNS], sum; /* `sum` over the lane's own keys */
	float max;

	/* The lane's share of q.k for the group's keys. */
	__device__ __forceinline__ void multiply(float (&p)[KEYS], const uint4 (&piece)[PIECES]);

	/* From these to the keys' weights, for the tile from key j on. */
	__device__ __forceinline__ void weigh(float (&p)[KEYS], const extras &e, const attn_args &a,
					      int j);

	/* The weighted sum of V. */
	__device__ __forceinline__ void add_values(const float (&p)[KEYS],
						   const uint4 (&piece)[PIECES]);
};

template <typename T, int WIDTH>
__device__ __forceinline__ void query<T, WIDTH>::multiply(float (&p)[KEYS],
							  const uint4 (&piece)[PIECES])
{
	float x[COLUMNS];

#pragma unroll
	for (int n = 0; n < ACROSS_LINE; n++)
		widen<T>(x + n * PIECE, q[n]);
#pragma unroll
	for (int n = 0; n < KEYS; n++)
		p[n] = 0.0f;
	if (k_how == DOWN)
		add_products<T, DOWN_LINE, true>(p, x, piece);
	else
		add_products<T, ACROSS_LINE, false>(p, x, piece);
}

template <typename T, int WIDTH>
__device__ __forceinline__ void query<T, WIDTH>::weigh(float (&p)[KEYS], const extras &e,
						       const attn_args &a, int j)
{
	j += own;
	float x = score<T>(sum_by_halves<T, LANES>(p), e, rows, a.spec, j, begin, end);
	if (j >= a.Sk)
		x = -INFINITY;

	float most = fmaxf(max, x); /* passes NaN by; the exponential brings it back */
#pragma unroll
	for (int lanes = 1; lanes < 32; lanes *= 2)
		if (lanes < KEYS || lanes >= LANES)
			most = fmaxf(most, __shfl_xor_sync(WARP_ALL, most, lanes));
	const float factor = share<T>(max, most);
	max = most;
	x = exp_of<T>(x, most == -INFINITY ? 0.0f : most);
	sum = sum * factor + x;
#pragma unroll
	for (int n = 0; n < KEYS; n++)
		p[n] = __shfl_sync(WARP_ALL, x, n, KEYS);
#pragma unroll
	for (int n = 0; n < COLUMNS; n++)
		o[n] *= factor;
}

template <typename T, int WIDTH>
__device__ __forceinline__ void query<T, WIDTH>::add_values(const float (&p)[KEYS],
							    const uint4 (&piece)[PIECES])
{
	auto add = [&](float(&to)[COLUMNS]) {
		if (v_how != DOWN)
			add_products<T, ACROSS_LINE, true>(to, p, piece);
		else
			add_products<T, DOWN_LINE, false>(to, p, piece);
	};
	if constexpr (IS_F32<T>) {
		float some[COLUMNS] = {};

		add(some);
#pragma unroll
		for (int n = 0; n < COLUMNS; n++)
			o[n] += some[n];
	} else {
		add(o);
	}
}

/* Adds tiles tile, tile+step, ... that lie below `tiles` and consist of pieces; returns the first
 * one not done. */
template <typename T, int WIDTH>
static __device__ __forceinline__ int add_tiles(query<T, WIDTH> &w, const attn_args &a, int tile,
						int tiles, int step)
{
	uint4 k[PIECES], v[PIECES];
	extras e;

	if (tile >= tiles)
		return tile;
	const int j0 = tile * w.TILE;
	load_pieces<WIDTH>(k, w.k, a.k, w.k_how, j0 + w.first, a.Sk, w.column, a.D);
	load_extras(e, w.rows, a.spec, j0 + w.own, a.Sk);
	load_pieces<WIDTH>(v, w.v, a.v, w.v_how, j0 + w.first, a.Sk, w.column, a.Dv);
#pragma unroll 1
	for (;;) {
		const int j = tile * w.TILE, next = j + step * w.TILE;
		const extras now = e;
		float p[w.KEYS];

		tile += step;
		w.multiply(p, k);
		if (tile < tiles) {
			load_pieces<WIDTH>(k, w.k, a.k, w.k_how, next + w.first, a.Sk, w.column, a.D);
			load_extras(e, w.rows, a.spec, next + w.own, a.Sk);
		}
		w.weigh(p, now, a, j);
		w.add_values(p, v);
		if (tile >= tiles)
			return tile;
		load_pieces<WIDTH>(v, w.v, a.v, w.v_how, next + w.first, a.Sk, w.column, a.Dv);
	}
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

		load_extras(e, w.rows, a.spec, j + w.own, a.Sk);
		load_any<WIDTH>(piece, w.k, a.k, w.k_how, j + w.first, a.Sk, w.column, a.D);
		w.multiply(p, piece);
		w.weigh(p, e, a, j);
		load_any<WIDTH>(piece, w.v, a.v, w.v_how, j + w.first, a.Sk, w.column, a.Dv);
		w.add_values(p, piece);
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

	query<T, WIDTH> w;
	w.k = (const T *)tensor_at(a.k, b, h, a.H);
	w.v = (const T *)tensor_at(a.v, b, h, a.H);
	w.k_how = arrangement_of(a.k, w.k, a.D);
	w.v_how = arrangement_of(a.v, w.v, a.Dv);
	w.rows = find_extras(a, b, h, i);
	w.begin = window_begin(a, i);
	w.end = min(window_end(a, i), length_of(a, b, h, i));
	w.column = lane % w.LANES * w.COLUMNS;
	w.first = lane / w.LANES * w.KEYS;
	w.own = w.first + lane % w.KEYS;
#pragma unroll
	for (int n = 0; n < w.ACROSS_LINE; n++)
		w.q[n] = load_query((const T *)tensor_at(a.q, b, h, a.H), a.q, i,
				    w.column + n * w.PIECE, a.D);
	w.max = -INFINITY;
	w.sum = 0;
#pragma unroll
	for (int n = 0; n < w.COLUMNS; n++)
		w.o[n] = 0;

	int tile = part * WARPS + warp, tiles = (a.Sk - 1) / w.TILE + 1;
	if (s.window_value == -INFINITY) {
		tile += w.begin / w.TILE;
		tiles = w.end ? (w.end - 1) / w.TILE + 1 : 0;
	}
	if (w.k_how != ELEMENTS && w.v_how != ELEMENTS) {
		const bool across = w.k_how == ACROSS && w.v_how == ACROSS;
		tile = add_tiles(w, a, tile, across ? tiles : min(tiles, a.Sk / w.TILE),
				 SHARES * WARPS);
	}
	add_other_tiles(w, a, tile, tiles, SHARES * WARPS);

	/* lanes, warps, blocks */
#pragma unroll
	for (int lanes = 1; lanes < 32; lanes *= 2) {
		if (lanes < w.KEYS || lanes >= w.LANES)
			w.sum += __shfl_xor_sync(WARP_ALL, w.sum, lanes);
		if (lanes >= w.LANES)
#pragma unroll
			for (int n = 0; n < w.COLUMNS; n++)
				w.o[n] += __shfl_xor_sync(WARP_ALL, w.o[n], lanes);
	}
	if (lane < w.LANES)
#pragma unroll
		for (int n = 0; n < w.COLUMNS; n += 4)
			*(float4 *)&of_warps.o[warp][w.column + n] =
				make_float4((float)w.o[n], (float)w.o[n + 1], (float)w.o[n + 2],
					    (float)w.o[n + 3]);
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
	if (sum == 0) { /* every x is -inf */
		out = s.empty_row == ATTN_EMPTY_NAN ? NAN : 0.0f;
		if (s.empty_row == ATTN_EMPTY_MEAN)
			out = s.out_scale *
			      mean_of<T>(w.v + c * a.v.stride[3], a.v.stride[2], a.Sk);
	}
	store_to(tensor_at(a.o, b, h, a.H), i * a.o.stride[2] + c * a.o.stride[3], a.o.dtype,
		 (float)out);
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
