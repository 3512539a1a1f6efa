/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention among dense layers: Q, K and V come out of products that could each begin a chain, are
 * worked on by kernels that could be steps of it, and are read where attention's own products are;
 * behind O come two more products with something element-wise between them.
 */
#include "hazards.h"

#include <math.h>

struct layers {
	CUdeviceptr x, weights, hidden, out; /* [H*S,D], [D,D], [H*S,D], [H*S,D] */
};

static struct layers layers_open(struct bench *b)
{
	struct layers l;

	bench_open(b, TOGETHER);
	l.weights = app_alloc(b->n * 2);
	l.hidden = app_alloc(b->n * 2);
	l.out = app_alloc(b->n * 2);
	l.x = b->raw;
	app_upload_random(l.weights, (size_t)b->shape.depth * b->shape.depth, 4711);
	return l;
}

/* to = from W / sqrt(D) */
static void dense(struct bench *b, const struct layers *l, CUdeviceptr to, CUdeviceptr from)
{
	const int depth = b->shape.depth, rows = b->shape.heads * b->shape.rows;
	const float alpha = 1 / sqrtf((float)depth), zero = 0;

	CHECK(b->app.call.gemm(b->app.blas, CUBLAS_OP_T, CUBLAS_OP_N, depth, rows, depth, &alpha,
			       (void *)l->weights, CUDA_R_16F, depth, 0, (void *)from, CUDA_R_16F,
			       depth, 0, &zero, (void *)to, CUDA_R_16F, depth, 0, 1,
			       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/* `late_on` comes between the softmax and P V. */
static void layer(void (*late_on)(struct bench *b, const struct layers *l))
{
	struct bench b;
	const struct layers l = layers_open(&b);

	for (int r = 0; r < REPETITIONS; r++) {
		app_upload_random(l.x, b.n, 31 * (uint64_t)r + 5);
		dense(&b, &l, b.t.q, l.x);
		app_scale(&b.app, b.t.q, b.t.q, 1.5f, b.n);
		dense(&b, &l, b.t.k, b.t.q);
		dense(&b, &l, b.t.v, l.x);
		chain_open(&b, &b.t);
		chain_middle(&b, &b.t);
		if (late(r) && late_on)
			late_on(&b, &l);
		chain_close(&b, &b.t);
		dense(&b, &l, l.hidden, b.t.o);
		app_scale(&b.app, l.hidden, l.hidden, 0.5f, b.n);
		dense(&b, &l, l.out, l.hidden);
		observe_o(&b, &b.t, r);
		app_observe(&b.report, "O projected", r, l.out, b.n);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* V is another one by now. */
static void again(struct bench *b, const struct layers *l)
{
	dense(b, l, b->t.v, b->t.k);
}

/* P is one of the operands of a dense layer. */
static void of_p(struct bench *b, const struct layers *l)
{
	dense(b, l, b->t.v, b->t.p);
}

CASE(projected, layer(NULL))
CASE(projected_again, layer(again))
CASE(projected_from_p, layer(of_p))

const struct hazard hazards_dense[] = {
	ONCE(projected, "Q, K and V come from dense layers, O goes to others"),
	ONCE(projected_again, "the same, and V is projected anew before P.V"),
	ONCE(projected_from_p, "the same, and V is made of P"),
	{0},
};
