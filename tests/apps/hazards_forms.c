/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention said in other words: a bias that lies in S before QK^T is added to it, tensors with
 * channels first, constants that live in device memory.
 */
#include "app_aten.h"
#include "hazards.h"

#include <assert.h>
#include <math.h>

/* S = alpha QK^T + beta S */
static void scores_onto(struct bench *b, const struct tensors *t, float alpha, float beta)
{
	const struct app_shape z = b->shape;

	CHECK(b->app.call.gemm(b->app.blas, CUBLAS_OP_T, CUBLAS_OP_N, z.columns, z.rows, z.depth,
			       &alpha, (void *)t->k, CUDA_R_16F, z.depth,
			       (long long)z.columns * z.depth, (void *)t->q, CUDA_R_16F, z.depth,
			       (long long)z.rows * z.depth, &beta, (void *)t->s, CUDA_R_16F,
			       z.columns, (long long)z.rows * z.columns, z.heads,
			       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/* baddbmm: the bias is copied into S, then QK^T is added to it. `meddle` runs before P V. */
static void preloaded(void (*meddle)(struct bench *, int),
		      CUdeviceptr (*softmax_into)(struct bench *))
{
	struct bench b;

	bench_open(&b, TOGETHER);
	if (softmax_into)
		b.t.p = softmax_into(&b);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		app_upload_random(b.spare, b.scores, 900 + (uint64_t)r);
		app_copy(&b.app, b.t.s, b.spare, b.scores);
		scores_onto(&b, &b.t, 1 / sqrtf((float)b.shape.depth), 1.5f);
		app_softmax(&b.app, b.t.p, b.t.s, (size_t)b.shape.heads * b.shape.rows,
			    b.shape.columns);
		if (meddle)
			meddle(&b, r);
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* The same, of a bias that all heads share and a copy repeats for each, which a shim may leave out.
 * In the late repetitions `before` runs before QK^T and `after` behind P V; then P is read. */
static void spread(void (*before)(struct bench *, int), void (*after)(struct bench *, int))
{
	struct bench b;

	bench_open(&b, TOGETHER);
	const struct app_shape z = b.shape;
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		app_upload_random(b.spare, (size_t)z.rows * z.columns, 900 + (uint64_t)r);
		app_repeat_head(&b.app, b.t.s, b.spare, z.rows, z.heads, z.columns);
		if (late(r) && before)
			before(&b, r);
		scores_onto(&b, &b.t, 1 / sqrtf((float)z.depth), 1.5f);
		app_softmax(&b.app, b.t.p, b.t.s, (size_t)z.heads * z.rows, z.columns);
		chain_close(&b, &b.t);
		if (late(r) && after)
			after(&b, r);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

static void look_at_s(struct bench *b, int r)
{
	app_observe(&b->report, "S", r, b->t.s, b->scores);
}

static void edit_s(struct bench *b, int r)
{
	(void)r;
	CHECK(cuMemsetD16Async(b->t.s + 2 * (b->scores / 3), 0x3c00, 512, b->app.stream));
}

/* P is made of it, if it is made. */
static void change_bias(struct bench *b, int r)
{
	(void)r;
	app_fill(&b->app, b->spare, 2.0f, b->scores / 2);
}

/* The same, of a bias that lies with its keys apart: what it was copied to is read, not it. */
static void turned_bias(struct bench *b, int r)
{
	const struct app_shape z = b->shape;

	bench_inputs(b, r);
	app_upload_random(b->spare, b->scores, 900 + (uint64_t)r);
	app_split_heads(&b->app, b->t.s, b->spare, z.columns, z.heads * z.rows, 1);
	scores_onto(b, &b->t, 1 / sqrtf((float)z.depth), 1.5f);
	app_softmax(&b->app, b->t.p, b->t.s, (size_t)z.heads * z.rows, z.columns);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
	if (late(r))
		observe_p(b, &b->t, r);
}

static CUdeviceptr in_s(struct bench *b)
{
	return b->t.s;
}

static void clear_s(struct bench *b, int r)
{
	(void)r;
	CHECK(cuMemsetD16Async(b->t.s, 0x3c00, b->scores, b->app.stream));
}

/* All of Q, K, V and O as [H,D,S]: O^T = V^T P^T, P being the first operand. */
static void channels_first(void)
{
	const float one = 1, zero = 0;
	struct bench b;

	bench_open(&b, TOGETHER);
	struct app_shape z = b.shape;
	const long long n = (long long)z.rows * z.depth, s = (long long)z.rows * z.columns;
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		CHECK(b.app.call.gemm(b.app.blas, CUBLAS_OP_N, CUBLAS_OP_T, z.columns, z.rows,
				      z.depth, &one, (void *)b.t.k, CUDA_R_16F, z.columns, n,
				      (void *)b.t.q, CUDA_R_16F, z.rows, n, &zero, (void *)b.t.s,
				      CUDA_R_16F, z.columns, s, z.heads, CUBLAS_COMPUTE_32F,
				      CUBLAS_GEMM_DEFAULT));
		app_scale(&b.app, b.t.x, b.t.s, 0.25f, b.scores);
		app_softmax(&b.app, b.t.p, b.t.x, (size_t)z.heads * z.rows, z.columns);
		CHECK(b.app.call.gemm(b.app.blas, CUBLAS_OP_T, CUBLAS_OP_N, z.rows, z.depth,
				      z.columns, &one, (void *)b.t.p, CUDA_R_16F, z.columns, s,
				      (void *)b.t.v, CUDA_R_16F, z.columns, n, &zero, (void *)b.t.o,
				      CUDA_R_16F, z.rows, n, z.heads, CUBLAS_COMPUTE_32F,
				      CUBLAS_GEMM_DEFAULT));
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* einsum: P's entries, of two times so many heads, are counted in another order than S's, which a
 * copy of P puts them in. */
static void turned(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	b.shape.heads *= 2;
	b.shape.rows /= 2;
	b.shape.columns /= 2;
	b.scores /= 2;
	const struct app_shape z = b.shape;
	const CUdeviceptr weights = app_alloc(2 * b.scores);

	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain_open(&b, &b.t);
		app_scale(&b.app, b.t.x, b.t.s, 0.25f, b.scores);
		app_softmax(&b.app, weights, b.t.x, (size_t)z.heads * z.rows, z.columns);
		app_split_heads(&b.app, b.t.p, weights, 2, z.heads / 2, z.rows * z.columns);
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* A kernel nobody knows leaves more behind than P, and somebody looks at that. */
static void second_output(struct bench *b, int r)
{
	const unsigned rows = (unsigned)(b->shape.heads * b->shape.rows);

	bench_inputs(b, r);
	chain_open(b, &b->t);
	app_scale(&b->app, b->t.x, b->t.s, 0.25f, b->scores);
	app_launch(&b->app, b->app.softmax_sums, rows, 32,
		   (void *[]){&b->t.p, &b->t.x, &b->spare, &b->shape.columns});
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
	app_observe(&b->report, "sums", r, b->spare, 2 * rows);
}

/* Padding, other in each head, and then what comes after a query: one fill after the other. From
 * the eighth repetition on the padding is another; all of one head is padding unless that is -inf.
 */
static void filled_twice(float first, float second)
{
	unsigned char padding[8192], after[8192];
	CUdeviceptr hidden, later;
	struct bench b;

	bench_open(&b, TOGETHER);
	const struct app_shape z = b.shape;
	const unsigned size[3] = {(unsigned)z.heads, (unsigned)z.rows, (unsigned)z.columns};

	assert(z.heads * z.columns <= 8192 && z.rows * z.columns <= 8192);
	hidden = app_alloc(sizeof(padding));
	later = app_alloc(sizeof(after));
	for (int n = 0; n < z.rows * z.columns; n++)
		after[n] = n % z.columns > n / z.columns;
	CHECK(cuMemcpyHtoD(later, after, sizeof(after)));
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		for (int n = 0; n < z.heads * z.columns; n++)
			padding[n] =
				(n % z.columns) % 5 > 2 + r / 8 || (n < z.columns && !isinf(first));
		if (r % 8 == 0)
			CHECK(cuMemcpyHtoD(hidden, padding, sizeof(padding)));
		chain_open(&b, &b.t);
		app_scale(&b.app, b.t.x, b.t.s, 0.25f, b.scores);
		aten_masked_fill(&b.app, b.t.x, hidden, size, (unsigned[]){size[2], 0}, first);
		aten_masked_fill(&b.app, b.t.x, later, size, (unsigned[]){0, size[2]}, second);
		app_softmax(&b.app, b.t.p, b.t.x, (size_t)z.heads * z.rows, z.columns);
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* Scores so large that O hangs on how fp16 rounds them: once as QK^T, once when they are scaled.
 * Where kernels without a rule round is not known: they get small ones. */
static void large_scores(void)
{
	struct bench b;
	float scale;

	bench_open(&b, TOGETHER);
	scale = b.app.aten.used ? 10.37f : 0.37f;
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain_open(&b, &b.t);
		app_scale(&b.app, b.t.x, b.t.s, scale, b.scores);
		app_softmax(&b.app, b.t.p, b.t.x, (size_t)b.shape.heads * b.shape.rows,
			    b.shape.columns);
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* O hangs on how large scores are rounded, as above, and their queries are what an attention of
 * small scores made: by whatever that is moved, more of them are rounded otherwise. */
static void steep_after_flat(struct bench *b, int r)
{
	const size_t rows = (size_t)b->shape.heads * b->shape.rows;
	const bool ruled = b->app.aten.used;
	struct tensors steep = b->t;
	struct bench half = *b; /* of the keys: another site */

	half.shape.columns /= 2;
	steep.q = b->t.o;
	steep.o = b->raw;
	bench_inputs(b, r);
	chain_open(b, &b->t);
	app_scale(&b->app, b->t.x, b->t.s, ruled ? 2.1f : 0.1f, b->scores);
	app_softmax(&b->app, b->t.p, b->t.x, rows, b->shape.columns);
	chain_close(b, &b->t);
	chain_open(&half, &steep);
	app_scale(&b->app, steep.x, steep.s, ruled ? 40.37f : 0.37f, b->scores / 2);
	app_softmax(&b->app, steep.p, steep.x, rows, half.shape.columns);
	chain_close(&half, &steep);
	observe_o(b, &steep, r);
}

/* Whole rows of the second are masked, by a bias of which fp16 leaves multiples of 32. */
static void rows_decided(struct bench *b, int r)
{
	const size_t row = (size_t)b->shape.columns / 2, mask = (size_t)b->shape.rows * row;
	const bool ruled = b->app.aten.used;
	struct tensors masked = b->t;
	struct bench half = *b;

	half.shape.columns /= 2;
	half.scores /= 2;
	masked.q = b->t.o;
	masked.o = b->raw;
	bench_inputs(b, r);
	app_fill(&b->app, b->spare, 0, mask);
	app_fill(&b->app, b->spare + mask / 2 * 2, -60000, mask / 2);
	chain(b, &b->t);
	chain_open(&half, &masked);
	app_scale(&b->app, masked.x, masked.s, ruled ? 400.f : 0.37f, half.scores);
	app_add_mask(&b->app, masked.m, masked.x, b->spare, half.scores, mask);
	app_softmax(&b->app, masked.p, masked.m, half.scores / row, half.shape.columns);
	chain_close(&half, &masked);
	observe_o(b, &masked, r);
}

CASE(filled_twice_lowest, filled_twice(-65504, -65504))
CASE(filled_twice_infinite, filled_twice(-INFINITY, -INFINITY))
CASE(filled_twice_otherwise, filled_twice(-65504, -30000))
CASE(bias_in_s, preloaded(NULL, NULL))
CASE(bias_in_p, preloaded(NULL, in_s))
CASE(bias_overwritten, preloaded(clear_s, NULL))
CASE(bias_spread, spread(NULL, NULL))
CASE(bias_spread_read, spread(look_at_s, look_at_s))
CASE(bias_spread_edited, spread(edit_s, NULL))
CASE(bias_spread_gone, spread(NULL, change_bias))
CASE(bias_spread_changed, spread(change_bias, NULL))

const struct hazard hazards_forms[] = {
	ONCE(bias_in_s, "QK^T is added to a bias that lies in S"),
	ONCE(bias_in_p, "the same, and softmax is in place"),
	ONCE(bias_overwritten, "the same, and S is cleared before P.V"),
	ONCE(bias_spread, "QK^T is added to a bias of one head, copied into S for all"),
	ONCE(bias_spread_read, "… and the copy is read before, and S behind"),
	ONCE(bias_spread_edited, "… and the copy is changed in part"),
	ONCE(bias_spread_gone, "… and the bias is overwritten before P is read"),
	ONCE(bias_spread_changed, "… and the bias is overwritten once it was copied"),
	EACH(turned_bias, "… and the bias lies with its keys apart"),
	EACH(second_output, "softmax writes the sums of its rows too"),
	ONCE(filled_twice_lowest, "two masks one after the other, of the lowest number"),
	ONCE(filled_twice_infinite, "the same of -inf"),
	ONCE(filled_twice_otherwise, "the same of two numbers"),
	ONCE(large_scores, "O hangs on how the scores are rounded"),
	EACH(steep_after_flat, "the same, of queries that were replaced"),
	EACH(rows_decided, "… of rows that are masked as a whole"),
	ONCE(channels_first, "Q, K, V and O as [H,D,S]"),
	ONCE(turned, "P is copied into another order of entries"),
	{0},
};
