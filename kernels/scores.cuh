/* SPDX-License-Identifier: Apache-2.0
 *
 * From q.k to the weights of a row: scale, softcap, biases, mask, window, lengths, sinks, online
 * softmax, as the formula of attention.h has them. ANY: with lengths, sinks and late biases, which
 * take registers; kernels without are not asked for them (ATTN_NEEDS_USUAL). All on registers in
 * the layout of an accumulator (device.cuh), of which each thread holds N scores of each of its
 * rows.
 */
#ifndef FASHIM_SCORES_CUH
#define FASHIM_SCORES_CUH

#include "kernels/device.cuh"

/* A call seen from one block: set up once, mostly the same for all its threads. */
struct view {
	int b, h;
	int first;  /* row of the block's first query */
	bool plain; /* is_plain() */
	bool window;
	float exponent; /* of 2, per unit of what stands for x in registers */
};

/* Is x just scale * q.k, or -inf outside the window? */
static __device__ __forceinline__ bool is_plain(const struct attn_spec &s)
{
	return !s.bias[0].base && !s.bias[1].base && !s.mask.base && s.softcap == 0.0f &&
	       !s.scales.base && s.scale > 0.0f && !s.lengths.base && !s.sinks.base && !s.round_s &&
	       (s.window_value == -INFINITY ||
		(s.window_left == ATTN_NO_WINDOW && s.window_right == ATTN_NO_WINDOW));
}

/* What the block is to do: its `rows` of the grid's, for one head. */
static __device__ __forceinline__ struct view view_of(const struct attn_args &a, int rows)
{
	const bool causal = a.spec.window_right != ATTN_NO_WINDOW;
	struct view w;

	w.b = blockIdx.z;
	w.h = blockIdx.y;
	/* causal: the last rows have the most to do, so they start first */
	w.first = (causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * rows;
	w.window = causal || a.spec.window_left != ATTN_NO_WINDOW;
	w.plain = is_plain(a.spec);
	w.exponent = w.plain ? a.spec.scale * LOG2E : LOG2E;
	return w;
}

/* A thread holds N scores of one row: as an accumulator has them, keys j, j+1, j+8, j+9, ... */
static __device__ __forceinline__ int key_of(int k)
{
	return k / 2 * 8 + k % 2;
}

/* Two neighbours as one piece of memory. */
template <typename E> struct alignas(2 * sizeof(E)) pair {
	E low, high;
};

/* Has `what` do something to each x with its number; `at` is that of the thread's first key, from
 * which `left` keys remain. */
template <typename E, int N, typename F>
static __device__ __forceinline__ void with_row(float (&x)[N], const E *at, int64_t stride,
						int left, const F &what)
{
	if (key_of(N - 1) < left && stride == 1 && (uint64_t)at % sizeof(pair<E>) == 0) {
#pragma unroll
		for (int k = 0; k < N; k += 2) {
			const pair<E> two = *(const pair<E> *)(at + key_of(k));
			what(x[k], to_float<E>(two.low));
			what(x[k + 1], to_float<E>(two.high));
		}
		return;
	}
	const E *even = at, *odd = at + stride;
#pragma unroll
	for (int k = 0; k < N; k += 2, even += 8 * stride, odd += 8 * stride) {
		if (key_of(k) < left)
			what(x[k], to_float<E>(*even));
		if (key_of(k + 1) < left)
			what(x[k + 1], to_float<E>(*odd));
	}
}

/* The same of numbers of any type. */
template <int N, typename F>
static __device__ __forceinline__ void with_numbers_of(float (&x)[N], const char *at,
						       const struct attn_tensor &t, int left,
						       const F &what)
{
	if (t.dtype == ATTN_F16)
		with_row(x, (const __half *)at, t.stride[3], left, what);
	else if (t.dtype == ATTN_BF16)
		with_row(x, (const __nv_bfloat16 *)at, t.stride[3], left, what);
	else
		with_row(x, (const float *)at, t.stride[3], left, what);
}

/* x += weight * bias. */
template <typename E, int N>
static __device__ __forceinline__ void add_bias(float (&x)[N], const E *at, int64_t stride,
						float weight, int left)
{
	with_row(x, at, stride, left, [&](float &score, float bias) { score += weight * bias; });
}

/* x = value where the mask says so; otherwise as with_row(). */
template <int N>
static __device__ __forceinline__ void apply_mask(float (&x)[N], const unsigned char *at,
						  int64_t stride, bool keeps, float value, int left)
{
	if (key_of(N - 1) < left && stride == 1 && (uint64_t)at % 2 == 0) {
#pragma unroll
		for (int k = 0; k < N; k += 2) {
			const pair<unsigned char> two =
				*(const pair<unsigned char> *)(at + key_of(k));
			x[k] = (two.low != 0) == keeps ? x[k] : value;
			x[k + 1] = (two.high != 0) == keeps ? x[k + 1] : value;
		}
		return;
	}
	const unsigned char *even = at, *odd = at + stride;
#pragma unroll
	for (int k = 0; k < N; k += 2, even += 8 * stride, odd += 8 * stride) {
		if (key_of(k) < left && (*even != 0) != keeps)
			x[k] = value;
		if (key_of(k + 1) < left && (*odd != 0) != keeps)
			x[k + 1] = value;
	}
}

/* softcap * tanh(x / softcap), tanh(y) being 1 - 2 / (1 + e^2y): exact enough, as what counts is
 * softcap times it */
static __device__ __forceinline__ float cap_score(float x, float softcap)
{
	return softcap - __fdividef(2.0f * softcap, 1.0f + exp2_fast(x * (2.0f * LOG2E / softcap)));
}

/* Where the program stores S in fp16, q.k that this cannot hold becomes infinite. */
template <typename T>
static __device__ __forceinline__ float overflow_score(const struct attn_spec &s, float x)
{
	return IS_F16<T> && s.overflow != 0.0f && fabsf(x) > s.overflow ? copysignf(INFINITY, x)
									: x;
}

/* The same for x(n) of N that a lane has, all of a warp together. There is hardly ever one, which a
 * sum of squares tells. */
template <typename T, int N, typename F>
static __device__ __forceinline__ void overflow_scores(const struct attn_spec &s, const F &x)
{
	const float limit = s.overflow;
	float even = 0.0f, odd = 0.0f;

	if (!IS_F16<T> || limit == 0.0f)
		return;
#pragma unroll
	for (int n = 0; n < N; n += 2) {
		even = fmaf(x(n), x(n), even);
		odd = fmaf(x(n + 1), x(n + 1), odd);
	}
	if (!__any_sync(WARP_ALL, !(even + odd <= limit * limit)))
		return;
#pragma unroll
	for (int n = 0; n < N; n++)
		x(n) = overflow_score<T>(s, x(n));
}

/* The same of a row whose x is no more than q.k, times `unit`, or -inf: it is NaN. `reference` is a
 * score of the row, about its largest, or what such begin with, which is 0 or below. */
template <typename T>
static __device__ __forceinline__ bool row_overflows(const struct attn_spec &s, float reference,
						     float unit)
{
	return IS_F16<T> && s.overflow != 0.0f && reference > s.overflow * unit;
}

/* Where `round_s` says so: q.k times scale, as a program has it that stores it in T. */
template <typename T, int N, typename F>
static __device__ __forceinline__ void store_scores(const struct attn_spec &s, float scale,
						    const F &x)
{
	const bool product = s.round_s & ATTN_ROUND_PRODUCT, scaled = s.round_s & ATTN_ROUND_SCALED;
	const float after = __fdividef(scale, s.alpha);

#pragma unroll
	for (int n = 0; n < N; n += 2) { /* all of it for two: less is in registers */
		float2 two = make_float2(s.alpha * x(n), s.alpha * x(n + 1));

		if (product)
			two = unpack2<T>(pack2<T>(two.x, two.y));
		two.x *= after;
		two.y *= after;
		if (scaled)
			two = unpack2<T>(pack2<T>(two.x, two.y));
		x(n) = two.x;
		x(n + 1) = two.y;
	}
}

/* What q.k is multiplied by for one of the scales. */
static __device__ __forceinline__ float factor_of(const struct attn_spec &s, float own)
{
	return s.scales_divide ? __fdividef(1.0f, own) : own;
}

/* The same with `scale`, for all of a head. */
static __device__ __forceinline__ float scale_of(const struct attn_args &a, int b, int h)
{
	const struct attn_spec &s = a.spec;

	if (!s.scales.base || attn_scales_each(&s))
		return s.scale;
	const float own = load_float(tensor_at(s.scales, b, h, a.H), 0, s.scales.dtype);
	return s.scale * factor_of(s, own);
}

/* Has `what` do something to each x whose key is there, with its element of t in row i: wherever
 * these lie. */
template <int N, typename F>
static __device__ __forceinline__ void
each_element(float (&x)[N], const struct attn_args &a, const struct view &w,
	     const struct attn_tensor &t, int i, int j, const F &what)
{
	const char *const row =
		tensor_at(t, w.b, w.h, a.H) + i * t.stride[2] * attn_dtype_size(t.dtype);
	const struct places places = places_by(t.columns);
#pragma unroll
	for (int k = 0; k < N; k++)
		if (j + key_of(k) < a.Sk)
			what(x[k], load_float(row, place_of(places, j + key_of(k)) * t.stride[3],
					      t.dtype));
}

/* From scaled and capped scores to x for keys j, j+1, j+8, ... of row i: all but the window and the
 * row's length. */
template <bool ANY, int N>
static __device__ __forceinline__ void modify_capped(float (&x)[N], const struct attn_args &a,
						     const struct view &w, int i, int j)
{
	const struct attn_spec &s = a.spec;
	const int left = a.Sk - j;
	auto hide = [&] {
		if (s.mask.base)
			apply_mask(x,
				   (const unsigned char *)tensor_at(s.mask, w.b, w.h, a.H) +
					   i * s.mask.stride[2] + j * s.mask.stride[3],
				   s.mask.stride[3], s.mask_keeps != 0, s.mask_value, left);
	};

	i = min(i, a.Sq - 1);
#pragma unroll 1
	for (int n = 0; n < ATTN_MAX_BIAS; n++) {
		if (ANY && n == ATTN_MAX_BIAS - s.late_biases)
			hide();
		const struct attn_tensor &t = s.bias[n];
		if (!t.base)
			continue;
		const float weight = s.bias_scale[n];
		const char *at = tensor_at(t, w.b, w.h, a.H) +
				 (i * t.stride[2] + j * t.stride[3]) * attn_dtype_size(t.dtype);
		auto add = [&](float &score, float bias) { score += weight * bias; };
		if (ANY && t.columns)
			each_element(x, a, w, t, i, j, add);
		else
			with_numbers_of(x, at, t, left, add);
		round_all_to<true>(x, s.round_x);
	}
	if (!ANY || s.late_biases == 0)
		hide();
}

/* The same from q.k, of operands of type T. */
template <bool ANY, typename T, int N>
static __device__ __forceinline__ void modify(float (&x)[N], const struct attn_args &a,
					      const struct view &w, int i, int j)
{
	const struct attn_spec &s = a.spec;
	const float scale = scale_of(a, w.b, w.h);
	bool stored = false;

	if constexpr (!IS_F32<T>) {
		stored = s.round_s;
		if (stored)
			store_scores<T, N>(s, scale, [&](int k) -> float & { return x[k]; });
	}
	if (!stored) {
		overflow_scores<T, N>(s, [&](int k) -> float & { return x[k]; });
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] *= scale;
	}
	if (ANY && attn_scales_each(&s)) {
		const struct attn_tensor &t = s.scales;
		const char *at =
			tensor_at(t, w.b, w.h, a.H) +
			(min(i, a.Sq - 1) * t.stride[2] + j * t.stride[3]) * attn_dtype_size(t.dtype);
		auto multiply = [&](float &score, float own) { score *= factor_of(s, own); };
		if (t.columns)
			each_element(x, a, w, t, min(i, a.Sq - 1), j, multiply);
		else
			with_numbers_of(x, at, t, a.Sk - j, multiply);
	}
	if (s.softcap != 0.0f) {
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] = cap_score(x[k], s.softcap);
	}
	modify_capped<ANY>(x, a, w, i, j);
}

/* First and last key that row i may see, as far as int holds them. */
static __device__ __forceinline__ int first_key(const struct attn_spec &s, int i)
{
	if (s.window_left == ATTN_NO_WINDOW)
		return 0;
	return (int)min(max((int64_t)i + s.window_shift - s.window_left, (int64_t)0),
			(int64_t)INT32_MAX);
}
static __device__ __forceinline__ int last_key(const struct attn_spec &s, int i)
{
	if (s.window_right == ATTN_NO_WINDOW)
		return INT32_MAX;
	return (int)min(max((int64_t)i + s.window_shift + s.window_right, (int64_t)-1),
			(int64_t)INT32_MAX);
}

/* How many keys row i has. */
static __device__ __forceinline__ int length_of(const struct attn_args &a, int b, int h, int i)
{
	const struct attn_tensor &t = a.spec.lengths;

	if (!t.base)
		return a.Sk;
	const int length = ((const int32_t *)tensor_at(t, b, h, a.H))[i * t.stride[2]];
	return max(0, min(length, a.Sk));
}

/* x = -inf past the length of row i, for keys j, j+1, j+8, ... */
template <int N>
static __device__ __forceinline__ void cut_row(float (&x)[N], const struct attn_args &a,
					       const struct view &w, int i, int j)
{
	const int left = length_of(a, w.b, w.h, min(i, a.Sq - 1)) - j;
#pragma unroll
	for (int k = 0; k < N; k++)
		if (key_of(k) >= left)
			x[k] = -INFINITY;
}

/* How many keys the rows from `first` on have, as far as they share that. */
static __device__ __forceinline__ int shared_length(const struct attn_args &a, const struct view &w,
						    int first)
{
	return a.spec.lengths.stride[2] ? a.Sk : length_of(a, w.b, w.h, first);
}

/* The tiles of `keys` keys, among the first `length`, that rows first..last can see. */
static __device__ __forceinline__ void key_tiles(const struct attn_args &a, int length, int first,
						 int last, int keys, int *begin, int *end)
{
	int low = 0, high = length - 1;

	if (a.spec.window_value == -INFINITY) {
		low = min(first_key(a.spec, first), a.Sk);
		high = min(last_key(a.spec, last), high);
	}
	*begin = low / keys;
	*end = high < low ? *begin : high / keys + 1;
}

/* The sink of row i, in the units of x (no call with sinks is plain); -INFINITY: there is none. */
static __device__ __forceinline__ float sink_of(const struct attn_args &a, int b, int h, int i)
{
	const struct attn_tensor &t = a.spec.sinks;

	return t.base ? load_float(tensor_at(t, b, h, a.H), min(i, a.Sq - 1) * t.stride[2], t.dtype)
		      : -INFINITY;
}

/* Counts a sink into the sum under the maximum `row_max`, `one` being what the maximum itself
 * counted. Returns what the row's O is to be multiplied by for it. T: as exp_of has it. */
template <typename T = __half, typename S>
static __device__ __forceinline__ float count_score(S &sum, float row_max, float sink, float one)
{
	if (sink == -INFINITY)
		return 1.0f;
	const float common =
		fmaxf(row_max, sink); /* passes NaN by; the exponential brings it back */
	const float factor = row_max == -INFINITY ? 1.0f : exp_of<T>(row_max, common);
	sum = sum * factor + one * exp_of<T>(sink, common);
	return factor;
}

/* The same of row i's own. */
template <typename T = __half, typename S>
static __device__ __forceinline__ float count_sink(S &sum, float row_max, const struct attn_args &a,
						   int b, int h, int i, float one)
{
	return count_score<T>(sum, row_max, sink_of(a, b, h, i), one);
}

/* Where the largest score of a row is moderate, exponent * (x - max) is one multiply-add with
 * exponent * max computed once: its rounding error is the same for the whole row and cancels in
 * P / sum P. Beyond this limit (in powers of 2) it would make P overflow, or vanish. */
#define FOLD_LIMIT 65536.0f

/* One step of the online softmax for ROWS rows, each shared by four lanes: x becomes P, max and sum
 * are brought up to date, factor[r] is what the sums so far are to be multiplied by. */
template <int ROWS, int N>
static __device__ __forceinline__ void softmax_step(float (&x)[ROWS][N], float *row_max,
						    float *row_sum, float (&factor)[ROWS],
						    float exponent)
{
	float base[ROWS], old[ROWS];
	bool far = false, fresh[ROWS];

#pragma unroll
	for (int r = 0; r < ROWS; r++) {
		base[r] = row_max[r];
#pragma unroll
		for (int k = 0; k < N; k++)
			base[r] = fmaxf(base[r], x[r][k]); /* passes NaN by; exp2 brings it back */
	}
#pragma unroll
	for (int lanes = 1; lanes <= 2; lanes *= 2)
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			base[r] = fmaxf(base[r], __shfl_xor_sync(WARP_ALL, base[r], lanes));
#pragma unroll
	for (int r = 0; r < ROWS; r++) {
		fresh[r] = row_max[r] == -INFINITY; /* nothing but 0 (or NaN) was summed so far */
		old[r] = row_max[r];
		row_max[r] = base[r];
		base[r] = base[r] == -INFINITY ? 0.0f : base[r];
		old[r] = fresh[r] ? base[r] : old[r];
		far = far || fabsf(base[r] * exponent) > FOLD_LIMIT ||
		      fabsf(old[r] * exponent) > FOLD_LIMIT;
	}
	if (__any_sync(WARP_ALL, far)) {
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			factor[r] = exp2_fast((old[r] - base[r]) * exponent);
#pragma unroll
			for (int k = 0; k < N; k++)
				x[r][k] = exp2_fast((x[r][k] - base[r]) * exponent);
		}
	} else {
#pragma unroll
		for (int r = 0; r < ROWS; r++) {
			const float folded = base[r] * exponent;
			factor[r] = exp2_fast(old[r] * exponent - folded);
#pragma unroll
			for (int k = 0; k < N; k++)
				x[r][k] = exp2_fast(fmaf(x[r][k], exponent, -folded));
		}
	}
#pragma unroll
	for (int r = 0; r < ROWS; r++) {
		float sum = 0.0f;
#pragma unroll
		for (int k = 0; k < N; k++)
			sum += x[r][k];
		row_sum[r] = row_sum[r] * factor[r] + sum;
	}
}

#endif
