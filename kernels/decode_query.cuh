/* SPDX-License-Identifier: Apache-2.0
 *
 * One query of decode.cu and rounded_decode.cu, as a lane sees it: what is added to its scores, how
 * a product becomes a score, and its products with pieces of K and V.
 */
#ifndef FASHIM_DECODE_QUERY_CUH
#define FASHIM_DECODE_QUERY_CUH

#include "kernels/decode_operands.cuh"

namespace decode
{

/* What one score is multiplied by, what is added or put in its place, as it came from memory. */
struct extras {
	uint32_t bias[ATTN_MAX_BIAS], scale;
	bool masked;
};

/* The parts of row i of biases, scales and mask: set up once, the same for the whole block. Before
 * Hopper ptxas spills registers of two blocks (28 bytes) unless these lie in shared memory. */
struct extra_rows {
	const char *bias[ATTN_MAX_BIAS], *scales; /* NULL: none */
	const unsigned char *mask;
};
#if FASHIM_CLUSTERS
#define EACH_BLOCK /* in registers */
#else
#define EACH_BLOCK __shared__
#endif

/* Row i of a tensor of numbers. */
static __device__ __forceinline__ const char *row_of(const attn_tensor &t, const attn_args &a,
						     int b, int h, int i)
{
	return t.base ? tensor_at(t, b, h, a.H) + i * t.stride[2] * attn_dtype_size(t.dtype) : NULL;
}

static __device__ __forceinline__ extra_rows find_extras(const attn_args &a, int b, int h, int i)
{
	extra_rows rows;

#pragma unroll
	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		rows.bias[n] = row_of(a.spec.bias[n], a, b, h, i);
	rows.scales = row_of(a.spec.scales, a, b, h, i);
	rows.mask = NULL;
	if (a.spec.mask.base)
		rows.mask = (const unsigned char *)tensor_at(a.spec.mask, b, h, a.H) +
			    i * a.spec.mask.stride[2];
	return rows;
}

/* The bits of its element j. */
static __device__ __forceinline__ uint32_t bits_of(const char *row, const attn_tensor &t, int j)
{
	const int64_t at = j * t.stride[3];

	return t.dtype == ATTN_F32 ? ((const uint32_t *)row)[at] : ((const uint16_t *)row)[at];
}

/* ROUNDS, here and below: for rounded_decode.cu, which takes no scales. */
template <bool ROUNDS>
static __device__ __forceinline__ void load_extras(extras &e, const extra_rows &rows,
						   const attn_spec &s, int j, int keys)
{
	e.masked = false;
	e.scale = 0;
#pragma unroll
	for (int n = 0; n < ATTN_MAX_BIAS; n++) {
		e.bias[n] = 0;
		if (rows.bias[n] && j < keys)
			e.bias[n] = bits_of(rows.bias[n], s.bias[n], j);
	}
	if (!ROUNDS && rows.scales && j < keys)
		e.scale = bits_of(rows.scales, s.scales, j);
	if (rows.mask && j < keys)
		e.masked = (rows.mask[j * s.mask.stride[3]] != 0) != (s.mask_keeps != 0);
}

static __device__ __forceinline__ float number_of(uint32_t bits, int dtype)
{
	if (dtype == ATTN_F16)
		return __half2float(__ushort_as_half((unsigned short)bits));
	return __uint_as_float(dtype == ATTN_BF16 ? bits << 16 : bits);
}

/* find_extras() for all of the block. */
static __device__ __forceinline__ void share_extras(extra_rows &rows, const attn_args &a, int b,
						    int h, int i)
{
	if (FASHIM_CLUSTERS || threadIdx.x == 0)
		rows = find_extras(a, b, h, i);
	if (!FASHIM_CLUSTERS)
		__syncthreads();
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

/* cap * tanh(x / cap), of which each step is stored, as cap_all() of rounded_scores.cuh has it. */
template <typename T> static __device__ __forceinline__ float cap_rounded(float x, float cap)
{
	auto stored = [](float y) { return unpack2<T>(pack2<T>(y, y)).x; };

	return stored(cap * stored(tanhf(stored(x * (1.0f / cap)))));
}

/* From q.k to x for key j of row i. SIMPLE, here and below: there is neither bias, mask nor scale,
 * and K and V lie ACROSS. ROUNDS: the softcap's steps are rounded, too, where `round_s` says so. */
template <typename T, bool SIMPLE, bool ROUNDS>
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
	if (!SIMPLE && !ROUNDS && rows.scales)
		x *= factor_of(s, number_of(e.scale, s.scales.dtype));
	bool capped = s.softcap == 0.0f;
	if constexpr (ROUNDS)
		if (s.round_s & ATTN_ROUND_CAPPED) {
			x = cap_rounded<T>(x, s.softcap);
			capped = true;
		}
	if (!capped)
		x = IS_F32<T> ? s.softcap * tanhf(x / s.softcap) : cap_score(x, s.softcap);
#pragma unroll
	for (int n = 0; n <= ATTN_MAX_BIAS && !SIMPLE; n++) {
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

/* What sums under the maximum `mine` count under the maximum `common`. */
template <typename T> static __device__ __forceinline__ float share(float mine, float common)
{
	if (mine == -INFINITY)
		return 1.0f; /* they are 0 or NaN */
	return exp_of<T>(mine, common);
}

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
	const extra_rows &rows;
	int begin, end; /* the keys it may see */
	int column;	/* first of the lane's columns */
	int first;	/* of the group's keys within a tile */
	int own;	/* the one whose score is this lane's */
	uint4 q[ACROSS_LINE];

	number o[COLUMNS], sum; /* `sum` over the lane's own keys */
	float max;

	__device__ __forceinline__ explicit query(const extra_rows &of_block) : rows(of_block)
	{
	}

	/* Row i of head h of batch b; without sums yet. */
	__device__ __forceinline__ void init(const attn_args &a, int b, int h, int i);

	/* A warp's tiles of keys, of which `share` is the first: from which on, and up to which. */
	__device__ __forceinline__ void range(const attn_args &a, int share, int &tile,
					      int &tiles) const;

	/* Do lanes so far apart have different keys, of a tile? */
	static __device__ __forceinline__ constexpr bool have_others(int lanes)
	{
		return lanes < KEYS || lanes >= LANES;
	}

	/* The lane's share of q.k for the group's keys. */
	template <bool SIMPLE>
	__device__ __forceinline__ void multiply(float (&p)[KEYS], const uint4 (&piece)[PIECES]);

	/* x of the lane's own key, of those from j on, from such shares. */
	template <bool SIMPLE, bool ROUNDS>
	__device__ __forceinline__ float x_of(const float (&p)[KEYS], const extras &e,
					      const attn_args &a, int j) const;

	/* The weighted sum of V. */
	template <bool SIMPLE>
	__device__ __forceinline__ void add_values(const float (&p)[KEYS],
						   const uint4 (&piece)[PIECES]);

	/* The warp's sum of it, WIDTH floats. */
	__device__ __forceinline__ void put_values(float *line);
};

template <typename T, int WIDTH>
__device__ __forceinline__ void query<T, WIDTH>::init(const attn_args &a, int b, int h, int i)
{
	const int lane = threadIdx.x % 32;

	k = head_of<T>(a.k, b, h, a.H);
	v = head_of<T>(a.v, b, h, a.H);
	k_how = arrangement_of(a.k, k, a.D);
	v_how = arrangement_of(a.v, v, a.Dv);
	begin = window_begin(a, i);
	end = min(window_end(a, i), length_of(a, b, h, i));
	column = lane % LANES * COLUMNS;
	first = lane / LANES * KEYS;
	own = first + lane % KEYS;
#pragma unroll
	for (int n = 0; n < ACROSS_LINE; n++)
		q[n] = load_query(head_of<T>(a.q, b, h, a.H), a.q, i, column + n * PIECE, a.D);
	max = -INFINITY;
	sum = 0;
#pragma unroll
	for (int n = 0; n < COLUMNS; n++)
		o[n] = 0;
}

template <typename T, int WIDTH>
__device__ __forceinline__ void query<T, WIDTH>::range(const attn_args &a, int share, int &tile,
						       int &tiles) const
{
	tile = share;
	tiles = (a.Sk - 1) / TILE + 1;
	if (a.spec.window_value == -INFINITY) {
		tile += begin / TILE;
		tiles = end ? (end - 1) / TILE + 1 : 0;
	}
}

template <typename T, int WIDTH>
template <bool SIMPLE, bool ROUNDS>
__device__ __forceinline__ float query<T, WIDTH>::x_of(const float (&p)[KEYS], const extras &e,
						       const attn_args &a, int j) const
{
	j += own;
	const float x = score<T, SIMPLE, ROUNDS>(sum_by_halves<T, LANES>(p), e, rows, a.spec, j,
						 begin, end);
	return j < a.Sk ? x : -INFINITY;
}

template <typename T, int WIDTH>
template <bool SIMPLE>
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
	if (!SIMPLE && k_how == DOWN)
		add_products<T, DOWN_LINE, true>(p, x, piece);
	else
		add_products<T, ACROSS_LINE, false>(p, x, piece);
}

template <typename T, int WIDTH>
template <bool SIMPLE>
__device__ __forceinline__ void query<T, WIDTH>::add_values(const float (&p)[KEYS],
							    const uint4 (&piece)[PIECES])
{
	auto add = [&](float(&to)[COLUMNS]) {
		if (SIMPLE || v_how != DOWN)
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

template <typename T, int WIDTH>
__device__ __forceinline__ void query<T, WIDTH>::put_values(float *line)
{
#pragma unroll
	for (int lanes = LANES; lanes < 32; lanes *= 2)
#pragma unroll
		for (int n = 0; n < COLUMNS; n++)
			o[n] += __shfl_xor_sync(WARP_ALL, o[n], lanes);
	if (threadIdx.x % 32 < LANES)
#pragma unroll
		for (int n = 0; n < COLUMNS; n += 4)
			*(float4 *)&line[column + n] =
				make_float4((float)o[n], (float)o[n + 1], (float)o[n + 2],
					    (float)o[n + 3]);
}

/* Column c of row i of O: `out`, or, where every x is -inf, what such a row has. v: of the head. */
template <typename T>
static __device__ __forceinline__ void store_column(const attn_args &a, const T *v, int b, int h,
						    int i, int c, float out, bool empty)
{
	const attn_spec &s = a.spec;

	if (empty) {
		out = s.empty_row == ATTN_EMPTY_NAN ? NAN : 0.0f;
		if (s.empty_row == ATTN_EMPTY_MEAN)
			out = s.out_scale *
			      mean_of<T>(v + c * a.v.stride[3], a.v.stride[2], a.Sk);
	}
	store_to(matrix_at(a.o, b, h, a.H), i * a.o.stride[2] + c * a.o.stride[3], a.o.dtype, out);
}

} /* namespace decode */

#endif
