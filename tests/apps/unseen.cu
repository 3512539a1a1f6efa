/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs put between the two products of an attention when nobody has a rule for it: kernels
 * with names that say nothing, one row of scores a block of 32 threads. `m` is what each of them
 * reads besides: a mask, a bias, lengths.
 */
#include "tests/apps/kernels.cuh"
#include "tests/apps/warp.cuh"

#define BOTH_WAYS(name) SIM_KERNEL(name) SIM_NEAR(name)

static __device__ float wide(float x)
{
	return x;
}

static __device__ float wide(__half x)
{
	return __half2float(x);
}

static __device__ void put(float *y, float x)
{
	*y = x;
}

static __device__ void put(__half *y, float x)
{
	*y = __float2half_rn(x);
}

/* y = softmax of score(j) for j < end, zero beyond. */
template <typename E, typename Score>
static __device__ void softmax_row(E *y, int end, int columns, float more, Score score)
{
	float most = -INFINITY, sum = 0;

	for (int j = threadIdx.x; j < end; j += 32)
		most = fmaxf(most, score(j));
	most = most_of_warp(most);
	for (int j = threadIdx.x; j < end; j += 32)
		sum += expf(score(j) - most);
	sum = sum_of_warp(sum) + more;
	for (int j = threadIdx.x; j < columns; j += 32)
		put(&y[j], j < end ? expf(score(j) - most) / sum : 0.0f);
}

/* ---- a scale, a softcap, in fp32 between two conversions ------------------------------------- */

extern "C" __global__ void to_wide(const __half *in, float *out, long long n)
{
	if (INDEX < n)
		out[INDEX] = __half2float(in[INDEX]);
}
BOTH_WAYS(to_wide)

extern "C" __global__ void to_half(const float *in, __half *out, long long n)
{
	if (INDEX < n)
		out[INDEX] = __float2half_rn(in[INDEX]);
}
BOTH_WAYS(to_half)

extern "C" __global__ void bend(const float *in, float *out, long long n, double s, double c)
{
	if (INDEX < n)
		out[INDEX] = tanhf(in[INDEX] * (float)s / (float)c) * (float)c;
}
BOTH_WAYS(bend)

extern "C" __global__ void rows16(const __half *x, __half *y, int columns, float factor)
{
	const __half *from = x + (long long)blockIdx.x * columns;

	softmax_row(y + (long long)blockIdx.x * columns, columns, columns, 0,
		    [=](int j) { return factor * __half2float(from[j]); });
}
BOTH_WAYS(rows16)

/* ---- a softmax in three -----------------------------------------------------------------------
 */

extern "C" __global__ void k0(float scale, int columns, float *to, const __half *x)
{
	float most = -INFINITY;

	x += (long long)blockIdx.x * columns;
	for (int j = threadIdx.x; j < columns; j += 32)
		most = fmaxf(most, scale * __half2float(x[j]));
	most = most_of_warp(most);
	if (!threadIdx.x)
		to[blockIdx.x] = most;
}
BOTH_WAYS(k0)

extern "C" __global__ void k1(const float *most, float scale, const __half *x, float *to,
			      int columns)
{
	float sum = 0;

	x += (long long)blockIdx.x * columns;
	for (int j = threadIdx.x; j < columns; j += 32)
		sum += expf(scale * __half2float(x[j]) - most[blockIdx.x]);
	sum = sum_of_warp(sum);
	if (!threadIdx.x)
		to[blockIdx.x] = sum;
}
BOTH_WAYS(k1)

extern "C" __global__ void k2(int columns, const float *sum, __half *y, const float *most,
			      const __half *x, float scale)
{
	x += (long long)blockIdx.x * columns;
	y += (long long)blockIdx.x * columns;
	for (int j = threadIdx.x; j < columns; j += 32)
		y[j] = __float2half_rn(expf(scale * __half2float(x[j]) - most[blockIdx.x]) /
				       sum[blockIdx.x]);
}
BOTH_WAYS(k2)

/* ---- a mask in half precision first, a softmax then ------------------------------------------ */

/* [B,1,1,Sk] is added, `per` scores to a sequence. */
extern "C" __global__ void plus_keys(const __half *x, const __half *m, __half *y, long long n,
				     int columns, long long per)
{
	const long long i = INDEX;

	if (i < n)
		y[i] = __float2half_rn(__half2float(x[i]) +
				       __half2float(m[i / per * columns + i % columns]));
}
BOTH_WAYS(plus_keys)

/* The scores, scaled, in half precision. */
extern "C" __global__ void times(const __half *x, __half *y, long long n, float factor)
{
	if (INDEX < n)
		y[INDEX] = __float2half_rn(factor * __half2float(x[INDEX]));
}
BOTH_WAYS(times)

/* ---- addresses for the products -------------------------------------------------------------- */

/* Three arrays, an address each thread; the first operand is shared by some that follow. */
extern "C" __global__ void point(const __half **to, const __half *a, const __half *b,
				 const __half *c, long long size_a, long long size_b,
				 long long size_c, int shared)
{
	const int i = threadIdx.x, all = blockDim.x;

	to[i] = a + i / shared * size_a;
	to[all + i] = b + i * size_b;
	to[2 * all + i] = c + i * size_c;
}
BOTH_WAYS(point)

/* ---- with a further input, in place -----------------------------------------------------------
 */

/* Keys from a length on are not seen; a length for each row. */
extern "C" __global__ void by_length(__half *x, const int *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;

	softmax_row(y, m[blockIdx.x], columns, 0, [=](int j) { return __half2float(y[j]); });
	(void)heads, (void)rows;
}
BOTH_WAYS(by_length)

/* A length for each sequence. */
extern "C" __global__ void by_sequence(__half *x, const int *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;

	softmax_row(y, m[blockIdx.x / (heads * rows)], columns, 0,
		    [=](int j) { return 0.25f * __half2float(y[j]); });
}
BOTH_WAYS(by_sequence)

/* [B,1,1,Sk] is added. */
extern "C" __global__ void add_keys(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const __half *b = m + blockIdx.x / (heads * rows) * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return 0.25f * __half2float(y[j]) + __half2float(b[j]); });
}
BOTH_WAYS(add_keys)

/* [1,1,Sq,Sk] is added. */
extern "C" __global__ void add_pairs(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const __half *b = m + blockIdx.x % rows * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return __half2float(y[j]) + __half2float(b[j]); });
	(void)heads;
}
BOTH_WAYS(add_pairs)

/* [1,H,Sq,Sk] is added, and no key is seen beyond the query. */
extern "C" __global__ void add_heads(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const __half *b = m + (long long)(blockIdx.x % (heads * rows)) * columns;
	const int end = blockIdx.x % rows + 1;

	softmax_row(y, end < columns ? end : columns, columns, 0,
		    [=](int j) { return __half2float(y[j]) + __half2float(b[j]); });
}
BOTH_WAYS(add_heads)

/* (1 - m) * -10000 with m [B,1,Sq,Sk]; a little more in the sum. */
template <typename E>
static __device__ void hide_rows(E *x, const E *m, int columns, int heads, int rows)
{
	E *y = x + (long long)blockIdx.x * columns;
	const long long row = blockIdx.x / (heads * rows) * rows + blockIdx.x % rows;
	const E *b = m + row * columns;

	softmax_row(y, columns, columns, 1e-6f,
		    [=](int j) { return wide(y[j]) + (1.0f - wide(b[j])) * -10000.0f; });
}

extern "C" __global__ void hide(__half *x, const __half *m, int columns, int heads, int rows)
{
	hide_rows(x, m, columns, heads, rows);
}
BOTH_WAYS(hide)

extern "C" __global__ void hide_wide(float *x, const float *m, int columns, int heads, int rows)
{
	hide_rows(x, m, columns, heads, rows);
}
BOTH_WAYS(hide_wide)

/* Slopes [H], times the distance of query and key. */
extern "C" __global__ void slope_heads(__half *x, const float *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const float slope = m[blockIdx.x / rows % heads];
	const int query = blockIdx.x % rows;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return 0.25f * __half2float(y[j]) + slope * (float)(j - query); });
}
BOTH_WAYS(slope_heads)

/* The same in half precision, for each sequence and head; no key is seen beyond the query. */
extern "C" __global__ void slope_each(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const float slope = __half2float(m[blockIdx.x / rows]);
	const int query = blockIdx.x % rows, end = query + 1;

	softmax_row(y, end < columns ? end : columns, columns, 0,
		    [=](int j) { return __half2float(y[j]) - slope * (float)(query - j); });
	(void)heads;
}
BOTH_WAYS(slope_each)

/* Slopes of the kernel's own, one progression; no key is seen beyond the query. */
extern "C" __global__ void slope_powers(__half *x, const __half *m, int columns, int heads,
					int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const int query = blockIdx.x % rows, end = query + 1, head = blockIdx.x / rows % heads;
	const float slope = exp2f(-8.0f * (float)(head + 1) / (float)heads);

	softmax_row(y, end < columns ? end : columns, columns, 0,
		    [=](int j) { return 0.25f * __half2float(y[j]) - slope * (float)(query - j); });
	(void)m;
}
BOTH_WAYS(slope_powers)

/* The usual two progressions, and [B,1,1,Sk] is added. */
extern "C" __global__ void slope_usual(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const __half *b = m + blockIdx.x / (heads * rows) * columns;
	const int head = blockIdx.x / rows % heads;
	int first = 1;

	while (2 * first <= heads)
		first *= 2;
	const float slope = head < first
				    ? powf(exp2f(-8.0f / first), (float)(head + 1))
				    : powf(exp2f(-4.0f / first), (float)(2 * (head - first) + 1));

	softmax_row(y, columns, columns, 0, [=](int j) {
		return 0.25f * __half2float(y[j]) + slope * (float)j + __half2float(b[j]);
	});
}
SIM_KERNEL(slope_usual)

/* ---- what is no such attention ----------------------------------------------------------------
 */

/* [1,H,Sk,Sq] is added: columns and rows change places. */
extern "C" __global__ void add_turned(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const __half *b = m + blockIdx.x / rows % heads * rows * columns + blockIdx.x % rows;

	softmax_row(y, columns, columns, 0, [=](int j) {
		return __half2float(y[j]) + __half2float(b[(long long)j * rows]);
	});
}
SIM_KERNEL(add_turned)

/* Slopes [H], on either side of the query: no line. */
extern "C" __global__ void slope_sides(__half *x, const float *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const float slope = m[blockIdx.x / rows % heads];
	const int query = blockIdx.x % rows;

	softmax_row(y, columns, columns, 0, [=](int j) {
		return 0.25f * __half2float(y[j]) - slope * fabsf((float)(j - query));
	});
}
BOTH_WAYS(slope_sides)

/* Slopes of the kernel's own that are of no progression. */
extern "C" __global__ void slope_odd(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const float slope = 0.5f / (float)(1 + blockIdx.x / rows % heads);

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return 0.25f * __half2float(y[j]) + slope * (float)j; });
	(void)m;
}
BOTH_WAYS(slope_odd)

/* The usual slopes, on either side of the query. */
extern "C" __global__ void slope_bent(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const int query = blockIdx.x % rows, head = blockIdx.x / rows % heads;
	const float slope = exp2f(-8.0f * (float)(head + 1) / (float)heads);

	softmax_row(y, columns, columns, 0, [=](int j) {
		return 0.25f * __half2float(y[j]) - slope * fabsf((float)(j - query));
	});
	(void)m;
}
SIM_KERNEL(slope_bent)

/* Every other key counts twice as much. */
extern "C" __global__ void every_other(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return __half2float(y[j]) * (float)(1 + j % 2); });
	(void)m, (void)heads, (void)rows;
}
BOTH_WAYS(every_other)

/* Squares. */
extern "C" __global__ void squares(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return __half2float(y[j]) * __half2float(y[j]); });
	(void)m, (void)heads, (void)rows;
}
BOTH_WAYS(squares)

/* No infinities: where S overflowed, a large number. */
extern "C" __global__ void cut(__half *x, const __half *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return fminf(0.25f * __half2float(y[j]), 16376.0f); });
	(void)m, (void)heads, (void)rows;
}
BOTH_WAYS(cut)

#include "unseen_flags.cu"
