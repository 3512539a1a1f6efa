/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of unseen.cu in which flags say which keys are seen: bytes, words, numbers. It is
 * compiled there.
 */

/* [B,1,1,Sk] bytes choose between the score and a number. */
extern "C" __global__ void where_keys(__half *x, const unsigned char *m, int columns, int heads,
				      int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const unsigned char *b = m + blockIdx.x / (heads * rows) * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return b[j] ? 0.25f * __half2float(y[j]) : -1e9f; });
}
BOTH_WAYS(where_keys)

/* A number that scores get to. */
extern "C" __global__ void where_near(__half *x, const unsigned char *m, int columns, int heads,
				      int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const unsigned char *b = m + blockIdx.x / (heads * rows) * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return b[j] ? 0.25f * __half2float(y[j]) : -300.0f; });
}
BOTH_WAYS(where_near)

/* [B,1,1,Sk] bytes hide. */
extern "C" __global__ void hide_keys(__half *x, const unsigned char *m, int columns, int heads,
				     int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const unsigned char *b = m + blockIdx.x / (heads * rows) * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return b[j] ? -INFINITY : 0.25f * __half2float(y[j]); });
}
BOTH_WAYS(hide_keys)

static __device__ void hide_by_ones(__half *y, const unsigned char *b, int columns, float hidden)
{
	float seen = 0;

	for (int j = threadIdx.x; j < columns; j += 32)
		seen += b[j] != 1;
	seen = sum_of_warp(seen);
	softmax_row(y, seen > 0 ? columns : 0, columns, 0,
		    [=](int j) { return b[j] == 1 ? hidden : 0.25f * __half2float(y[j]); });
}

/* The same by 1 alone; rows of which all is hidden are 0, as Megatron has them. */
extern "C" __global__ void hide_ones(__half *x, const unsigned char *m, int columns, int heads,
				     int rows)
{
	hide_by_ones(x + (long long)blockIdx.x * columns,
		     m + blockIdx.x / (heads * rows) * columns, columns, -10000);
}
BOTH_WAYS(hide_ones)

/* A number that scores get to. */
extern "C" __global__ void hide_near(__half *x, const unsigned char *m, int columns, int heads,
				     int rows)
{
	hide_by_ones(x + (long long)blockIdx.x * columns,
		     m + blockIdx.x / (heads * rows) * columns, columns, -500);
}
BOTH_WAYS(hide_near)

/* Signed ones show, where they are above 0. */
extern "C" __global__ void where_above(__half *x, const signed char *m, int columns, int heads,
				       int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const signed char *b = m + blockIdx.x / (heads * rows) * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return b[j] > 0 ? 0.25f * __half2float(y[j]) : -INFINITY; });
}
BOTH_WAYS(where_above)

/* [1,1,Sq,Sk] bytes hide. */
extern "C" __global__ void hide_pairs(__half *x, const unsigned char *m, int columns, int heads,
				      int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const unsigned char *b = m + blockIdx.x % rows * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return b[j] ? -INFINITY : 0.25f * __half2float(y[j]); });
	(void)heads;
}
BOTH_WAYS(hide_pairs)

/* [B,1,1,Sk] long words: what is hidden is made small, and stays a number among others. */
extern "C" __global__ void add_words(__half *x, const long long *m, int columns, int heads,
				     int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const long long *b = m + blockIdx.x / (heads * rows) * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return 0.25f * __half2float(y[j]) + (b[j] ? 0.0f : -65504.0f); });
}
BOTH_WAYS(add_words)

static __device__ void hide_triangle(__half *x, const long long *m, int columns, int heads,
				     int rows, float hidden)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const long long *b = m + blockIdx.x / (heads * rows) * columns;
	const int i = blockIdx.x % rows;

	softmax_row(y, columns, columns, 0, [=](int j) {
		return 0.25f * __half2float(y[j]) + (b[j] && j <= i ? 0.0f : hidden);
	});
}

/* The same, and so are keys beyond the query; then by the lowest number that there is. */
extern "C" __global__ void add_triangle(__half *x, const long long *m, int columns, int heads,
					int rows)
{
	hide_triangle(x, m, columns, heads, rows, -65504.0f);
}
BOTH_WAYS(add_triangle)

extern "C" __global__ void add_lowest(__half *x, const long long *m, int columns, int heads,
				      int rows)
{
	hide_triangle(x, m, columns, heads, rows, -3.402823466e38f);
}
BOTH_WAYS(add_lowest)

/* [B,1,1,Sk] bytes and a window of nine keys: elsewhere a score is gone. */
extern "C" __global__ void where_window(__half *x, const unsigned char *m, int columns, int heads,
					int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const unsigned char *b = m + blockIdx.x / (heads * rows) * columns;
	const int i = blockIdx.x % rows;

	softmax_row(y, columns, columns, 0, [=](int j) {
		return b[j] && j <= i && j > i - 9 ? 0.25f * __half2float(y[j]) : -3.402823466e38f;
	});
}
BOTH_WAYS(where_window)

/* Words, the lowest number that there is, and no key beyond the query. */
extern "C" __global__ void add_ints(__half *x, const int *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const int *b = m + blockIdx.x / (heads * rows) * columns, end = blockIdx.x % rows + 1;

	softmax_row(y, end < columns ? end : columns, columns, 0, [=](int j) {
		return 0.25f * __half2float(y[j]) + (b[j] ? 0.0f : -3.402823466e38f);
	});
}
BOTH_WAYS(add_ints)

/* [1,1,Sq,Sk] floats, of which zero hides; the triangle as many keep it. */
extern "C" __global__ void where_floats(__half *x, const float *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const float *b = m + blockIdx.x % rows * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return b[j] == 0 ? -INFINITY : 0.25f * __half2float(y[j]); });
	(void)heads;
}
BOTH_WAYS(where_floats)

/* The corner of a larger square. */
extern "C" __global__ void where_corner(__half *x, const __half *m, int columns, int heads,
					int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const __half *b = m + blockIdx.x % rows * (columns + 24);

	softmax_row(y, columns, columns, 0, [=](int j) {
		return __half2float(b[j]) == 0 ? -INFINITY : 0.25f * __half2float(y[j]);
	});
	(void)heads;
}
BOTH_WAYS(where_corner)

/* [B,1,1,Sk] halves, of which any but zero hides. */
extern "C" __global__ void where_halves(__half *x, const __half *m, int columns, int heads,
					int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const __half *b = m + blockIdx.x / (heads * rows) * columns;

	softmax_row(y, columns, columns, 0, [=](int j) {
		return __half2float(b[j]) != 0 ? -1e9f : 0.25f * __half2float(y[j]);
	});
}
BOTH_WAYS(where_halves)

/* [1,1,Sq,Sk] floats that look like flags, and count. */
extern "C" __global__ void count_floats(__half *x, const float *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const float *b = m + blockIdx.x % rows * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return 0.25f * __half2float(y[j]) + (1.0f - b[j]) * -65504.0f; });
	(void)heads;
}
SIM_KERNEL(count_floats)

/* The same, of which less than a half hides. */
extern "C" __global__ void half_floats(__half *x, const float *m, int columns, int heads, int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const float *b = m + blockIdx.x % rows * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return b[j] < 0.5f ? -INFINITY : 0.25f * __half2float(y[j]); });
	(void)heads;
}
SIM_KERNEL(half_floats)

/* What looks like flags, and counts: 2 is not 1. */
extern "C" __global__ void count_words(__half *x, const long long *m, int columns, int heads,
				       int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const long long *b = m + blockIdx.x / (heads * rows) * columns;

	softmax_row(y, columns, columns, 0, [=](int j) {
		return 0.25f * __half2float(y[j]) + (1.0f - (float)b[j]) * -65504.0f;
	});
}
SIM_KERNEL(count_words)

/* Flags that are weights. */
extern "C" __global__ void half_words(__half *x, const long long *m, int columns, int heads,
				      int rows)
{
	__half *y = x + (long long)blockIdx.x * columns;
	const long long *b = m + blockIdx.x / (heads * rows) * columns;

	softmax_row(y, columns, columns, 0,
		    [=](int j) { return __half2float(y[j]) * (b[j] ? 0.25f : 0.125f); });
}
BOTH_WAYS(half_words)
