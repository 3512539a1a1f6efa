/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequence of DeepSpeed's injected inference kernels: keys are kept transposed and values
 * plain, both in a workspace for more tokens than are used (batch stride = longest * D), alpha
 * carries the norm factor, the softmax works in place and hides later keys with -10000.
 */
#include "engine.h"

enum { LONGEST = 768 };

static const long long LONG = (long long)LONGEST * D;
static __half *q, *k, *v, *o, *s;

__global__ void triangular_softmax(__half *x, int columns)
{
	long long row = blockIdx.x;
	int query = (int)(row % S);
	__half *y = x + row * columns;

	softmax_row(
		columns, 0, [=](int j) { return j > query ? -10000.0f : __half2float(y[j]); },
		[=](int j, float value) { y[j] = __float2half(value); });
}

static void open_engine(struct engine *e)
{
	(void)e;
	q = halves(B * H * THIN);
	k = halves(B * H * LONG);
	v = halves(B * H * LONG);
	o = halves(B * H * THIN);
	s = halves(B * H * WIDE);
}

static void chain(struct engine *e, unsigned seed)
{
	struct product first = scores_of(q, k, s, SCALE), second = values_of(s, v, o);

	first.ta = CUBLAS_OP_N; /* K^T [D,LONGEST] */
	first.lda = LONGEST;
	first.sa = second.sa = LONG;
	draw(e, q, B * H * THIN, seed);
	draw(e, k, B * H * LONG, seed + 1);
	draw(e, v, B * H * LONG, seed + 2);
	multiply(e, &first);
	triangular_softmax<<<B * H * S, THREADS, 0, e->stream>>>(s, S);
	CHECK(cudaGetLastError());
	multiply(e, &second);
	save(e, "o", o, B * H * THIN);
}
