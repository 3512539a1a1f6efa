/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequence of ONNX Runtime's contributed attention operator, unfused: alpha is the scale, keys
 * and values lie in buffers longer than what is used, an fp16 bias and causality enter in the
 * softmax, which goes from one scratch to another, and the output is written over Q.
 */
#include "engine.h"

enum { LONGEST = 640 };

static const long long LONG = (long long)LONGEST * D;
static __half *q, *k, *v, *scratch, *scratch2, *bias;

__global__ void softmax_with_bias(const __half *from, const __half *add, __half *to, int columns)
{
	long long row = blockIdx.x;
	int end = (int)(row % S) + 1;
	const __half *x = from + row * columns, *b = add + row % ((long long)H * S) * columns;
	__half *y = to + row * columns;

	softmax_row(
		end, 0, [=](int j) { return __half2float(x[j]) + __half2float(b[j]); },
		[=](int j, float value) { y[j] = __float2half(value); });
	for (int j = end + (int)threadIdx.x; j < columns; j += THREADS)
		y[j] = __float2half(0);
}

static void open_engine(struct engine *e)
{
	q = halves(B * H * THIN);
	k = halves(B * H * LONG);
	v = halves(B * H * LONG);
	scratch = halves(B * H * WIDE);
	scratch2 = halves(B * H * WIDE);
	bias = halves(H * WIDE);
	draw(e, bias, H * WIDE, 77);
}

static void chain(struct engine *e, unsigned seed)
{
	struct product first = scores_of(q, k, scratch, SCALE);
	struct product second = values_of(scratch2, v, q);

	first.sa = LONG;
	second.sa = LONG;
	draw(e, q, B * H * THIN, seed);
	draw(e, k, B * H * LONG, seed + 1);
	draw(e, v, B * H * LONG, seed + 2);
	multiply(e, &first);
	softmax_with_bias<<<B * H * S, THREADS, 0, e->stream>>>(scratch, bias, scratch2, S);
	CHECK(cudaGetLastError());
	multiply(e, &second);
	save(e, "o", q, B * H * THIN);
}
