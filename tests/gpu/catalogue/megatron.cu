/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequence of Megatron's unfused core attention: sequence-first tensors [S,B,H,D] read in place
 * (ld = B*H*D, batch stride D), scale in alpha, one kernel for triangle and softmax, bf16.
 */
#include "engine.h"

static __nv_bfloat16 *q, *k, *v, *o, *s, *p;

__global__ void upper_triangle_softmax(__nv_bfloat16 *to, const __nv_bfloat16 *from, float factor,
				       int columns)
{
	long long row = blockIdx.x;
	int end = (int)(row % S) + 1;
	const __nv_bfloat16 *x = from + row * columns;
	__nv_bfloat16 *y = to + row * columns;

	softmax_row(
		end, 0, [=](int j) { return factor * __bfloat162float(x[j]); },
		[=](int j, float value) { y[j] = __float2bfloat16(value); });
	for (int j = end + (int)threadIdx.x; j < columns; j += THREADS)
		y[j] = __float2bfloat16(0);
}

static __nv_bfloat16 *brains(long long count)
{
	return (__nv_bfloat16 *)halves(count);
}

static void open_engine(struct engine *e)
{
	(void)e;
	q = brains(B * H * THIN);
	k = brains(B * H * THIN);
	v = brains(B * H * THIN);
	o = brains(B * H * THIN);
	s = brains(B * H * WIDE);
	p = brains(B * H * WIDE);
}

static void chain(struct engine *e, unsigned seed)
{
	struct product first = scores_of(q, k, s, SCALE), second = values_of(p, v, o);

	first.type = first.c_type = second.type = second.c_type = CUDA_R_16BF;
	first.lda = first.ldb = second.lda = B * H * D;
	first.sa = first.sb = second.sa = D;
	draw(e, q, B * H * THIN, seed);
	draw(e, k, B * H * THIN, seed + 1);
	draw(e, v, B * H * THIN, seed + 2);
	multiply(e, &first);
	upper_triangle_softmax<<<B * H * S, THREADS, 0, e->stream>>>(p, s, 1.0f, S);
	CHECK(cudaGetLastError());
	multiply(e, &second);
	save(e, "o", o, B * H * THIN);
}
