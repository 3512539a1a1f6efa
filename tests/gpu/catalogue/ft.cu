/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequences of FasterTransformer's unfused attention.
 *
 *     ft_inplace_minus10000  alpha is the scale; the softmax works in place, a 0/1 mask enters as
 *                            (1-m) * -10000, and 1e-6 is added to the sum
 *     ft_float_scores        fp16 operands, fp32 scores; scale and ALiBi are in the softmax, which
 *                            writes fp16 probabilities elsewhere
 */
#include "engine.h"

static __half *q, *k, *v, *o, *s, *p, *mask;
static float *wide, *slopes;

__global__ void masked_softmax(__half *x, const __half *m, int columns)
{
	long long row = blockIdx.x;
	const __half *shown = m + (row / (H * S) * S + row % S) * columns;
	__half *y = x + row * columns;

	softmax_row(
		columns, 1e-6f,
		[=](int j) {
			return __half2float(y[j]) + (1.0f - __half2float(shown[j])) * -10000.0f;
		},
		[=](int j, float value) { y[j] = __float2half(value); });
}

__global__ void alibi_softmax(__half *to, const float *from, const float *slope, int columns,
			      float scale)
{
	long long row = blockIdx.x;
	int query = (int)(row % S);
	float step = slope[row / S % H];
	const float *x = from + row * columns;
	__half *y = to + row * columns;

	softmax_row(
		columns, 0, [=](int j) { return x[j] * scale + step * (float)(j - query); },
		[=](int j, float value) { y[j] = __float2half(value); });
}

/* Keys past a length that differs between the two sequences are hidden. */
__global__ void make_mask(__half *m, long long count, int first, int second)
{
	long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		m[i] = __float2half(i % S < (i < WIDE ? first : second) ? 1.0f : 0.0f);
}

static void open_engine(struct engine *e)
{
	float host[H];

	q = halves(B * H * THIN);
	k = halves(B * H * THIN);
	v = halves(B * H * THIN);
	o = halves(B * H * THIN);
	s = halves(B * H * WIDE);
	p = halves(B * H * WIDE);
	wide = floats(B * H * WIDE);
	mask = halves(B * WIDE);
	slopes = floats(H);
	for (int h = 0; h < H; h++)
		host[h] = exp2f(-(float)(h + 1));
	CHECK(cudaMemcpyAsync(slopes, host, sizeof(host), cudaMemcpyHostToDevice, e->stream));
	CHECK(cudaStreamSynchronize(e->stream));
}

static void chain(struct engine *e, unsigned seed)
{
	bool alibi = is(e, "ft_float_scores");
	struct product first = scores_of(q, k, alibi ? (void *)wide : (void *)s, alibi ? 1 : SCALE);
	struct product second = values_of(alibi ? p : s, v, o);

	draw(e, q, B * H * THIN, seed);
	draw(e, k, B * H * THIN, seed + 1);
	draw(e, v, B * H * THIN, seed + 2);
	if (alibi)
		first.c_type = CUDA_R_32F;
	else
		make_mask<<<blocks(B * WIDE), THREADS, 0, e->stream>>>(
			mask, B * WIDE, S - (int)(seed % 7), S / 2 + (int)(seed % 60));
	multiply(e, &first);
	if (alibi)
		alibi_softmax<<<B * H * S, THREADS, 0, e->stream>>>(p, wide, slopes, S, SCALE);
	else
		masked_softmax<<<B * H * S, THREADS, 0, e->stream>>>(s, mask, S);
	CHECK(cudaGetLastError());
	multiply(e, &second);
	save(e, "o", o, B * H * THIN);
}
