/* SPDX-License-Identifier: Apache-2.0
 *
 * A softmax in three kernels with names that say nothing and parameters in an odd order: row
 * maxima, sums of powers, division. The scale is in the first two and the last.
 */
#include "engine.h"

static __half *q, *k, *v, *o, *s, *p;
static float *a, *b;

__global__ void k0(float scale, int columns, float *to, const __half *x)
{
	float top = -INFINITY;

	x += (long long)blockIdx.x * columns;
	for (int j = (int)threadIdx.x; j < columns; j += THREADS)
		top = fmaxf(top, scale * __half2float(x[j]));
	top = over_block(top, true);
	if (!threadIdx.x)
		to[blockIdx.x] = top;
}

__global__ void k1(const float *top, float scale, const __half *x, float *to, int columns)
{
	float sum = 0;

	x += (long long)blockIdx.x * columns;
	for (int j = (int)threadIdx.x; j < columns; j += THREADS)
		sum += expf(scale * __half2float(x[j]) - top[blockIdx.x]);
	sum = over_block(sum, false);
	if (!threadIdx.x)
		to[blockIdx.x] = sum;
}

__global__ void k2(int columns, const float *sum, __half *y, const float *top, const __half *x,
		   float scale)
{
	x += (long long)blockIdx.x * columns;
	y += (long long)blockIdx.x * columns;
	for (int j = (int)threadIdx.x; j < columns; j += THREADS)
		y[j] = __float2half(expf(scale * __half2float(x[j]) - top[blockIdx.x]) /
				    sum[blockIdx.x]);
}

static void open_engine(struct engine *e)
{
	(void)e;
	q = halves(B * H * THIN);
	k = halves(B * H * THIN);
	v = halves(B * H * THIN);
	o = halves(B * H * THIN);
	s = halves(B * H * WIDE);
	p = halves(B * H * WIDE);
	a = floats(B * H * S);
	b = floats(B * H * S);
}

static void chain(struct engine *e, unsigned seed)
{
	struct product first = scores_of(q, k, s, 1), second = values_of(p, v, o);

	draw(e, q, B * H * THIN, seed);
	draw(e, k, B * H * THIN, seed + 1);
	draw(e, v, B * H * THIN, seed + 2);
	multiply(e, &first);
	k0<<<B * H * S, THREADS, 0, e->stream>>>(SCALE, S, a, s);
	k1<<<B * H * S, THREADS, 0, e->stream>>>(a, SCALE, s, b, S);
	k2<<<B * H * S, THREADS, 0, e->stream>>>(S, b, p, a, s, SCALE);
	CHECK(cudaGetLastError());
	multiply(e, &second);
	save(e, "o", o, B * H * THIN);
}
