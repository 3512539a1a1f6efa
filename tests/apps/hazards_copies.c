/* SPDX-License-Identifier: Apache-2.0
 *
 * Q, K and V made contiguous from where they lie, [S,H,D], as a batched product wants them. A shim
 * may leave such copies out, as long as nobody looks; here somebody does: at a copy, at a part of
 * it, at what it was made of, or by a product that has nothing to do with attention.
 */
#include "hazards.h"

struct originals {
	CUdeviceptr q, k, v;
};

static struct originals originals_open(struct bench *b)
{
	size_t bytes;

	bench_open(b, TOGETHER);
	bytes = b->n * 2;
	return (struct originals){app_alloc(bytes), app_alloc(bytes), app_alloc(bytes)};
}

static void upload(struct bench *b, const struct originals *from, int r)
{
	app_upload_random(from->q, b->n, 3 * (uint64_t)r + 1);
	app_upload_random(from->k, b->n, 3 * (uint64_t)r + 2);
	app_upload_random(from->v, b->n, 3 * (uint64_t)r + 3);
}

static void make_contiguous(struct bench *b, CUdeviceptr to, CUdeviceptr from)
{
	app_split_heads(&b->app, to, from, b->shape.rows, b->shape.heads, b->shape.depth);
}

/* One attention with its three copies, V's between softmax and product, as frameworks make them. */
static void attend(struct bench *b, const struct originals *from)
{
	make_contiguous(b, b->t.q, from->q);
	make_contiguous(b, b->t.k, from->k);
	chain_open(b, &b->t);
	chain_middle(b, &b->t);
	make_contiguous(b, b->t.v, from->v);
	chain_close(b, &b->t);
}

/* In the late repetitions `look` does what the case is about. */
static void looking(void (*look)(struct bench *b, const struct originals *from, int r))
{
	struct bench b;
	const struct originals from = originals_open(&b);

	for (int r = 0; r < REPETITIONS; r++) {
		upload(&b, &from, r);
		attend(&b, &from);
		if (late(r))
			look(&b, &from, r);
		observe_o(&b, &b.t, r);
	}
	bench_close(&b);
}

static void nothing(struct bench *b, const struct originals *from, int r)
{
	(void)b;
	(void)from;
	(void)r;
}

static void at_copies(struct bench *b, const struct originals *from, int r)
{
	(void)from;
	app_observe(&b->report, "Q", r, b->t.q, b->n);
	app_observe(&b->report, "K", r, b->t.k, b->n);
	app_observe(&b->report, "V", r, b->t.v, b->n);
}

/* The originals are overwritten first. */
static void at_copies_after(struct bench *b, const struct originals *from, int r)
{
	CHECK(cuMemsetD16(from->q, 0x3c00, b->n));
	app_fill(&b->app, from->k, 2.0f, b->n);
	app_upload_random(from->v, b->n / 2, 999);
	at_copies(b, from, r);
}

static void at_parts(struct bench *b, const struct originals *from, int r)
{
	CHECK(cuMemsetD16(b->t.q + 512, 0, 256));
	app_scale(&b->app, b->t.k, b->t.k, 0.5f, b->n / 3);
	at_copies(b, from, r);
}

/* P after Q and K are gone: it has to be computed anew from the originals' copies. */
static void at_p(struct bench *b, const struct originals *from, int r)
{
	CHECK(cuMemsetD16(from->q, 0, b->n));
	CHECK(cuMemsetD16(b->t.k, 0, b->n));
	observe_p(b, &b->t, r);
	app_observe(&b->report, "Q", r, b->t.q, b->n);
}

/* K's copy in a product that is not attention's. */
static void by_product(struct bench *b, const struct originals *from, int r)
{
	const struct app_shape one_head = {1, b->shape.rows, b->shape.rows, b->shape.depth};

	(void)from;
	app_upload_random(b->raw, b->n, 77);
	app_context(&b->app, one_head, b->raw, b->t.k, b->spare);
	app_observe(&b->report, "X K", r, b->spare, b->n / (size_t)b->shape.heads);
}

/* The copies are made on one stream and read on another, after an event. */
static void copies_other_stream(void)
{
	CUstream compute, other;
	CUevent ready;
	struct bench b;
	const struct originals from = originals_open(&b);

	CHECK(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
	for (int r = 0; r < REPETITIONS; r++) {
		upload(&b, &from, r);
		app_set_stream(&b.app, compute);
		attend(&b, &from);
		CHECK(cuEventRecord(ready, compute));
		CHECK(cuStreamWaitEvent(other, ready, 0));
		if (late(r)) {
			app_set_stream(&b.app, other);
			app_copy(&b.app, b.spare, b.t.q, b.n);
		}
		CHECK(cuStreamSynchronize(other));
		if (late(r))
			app_observe(&b.report, "Q", r, b.spare, b.n);
		CHECK(cuStreamSynchronize(compute));
		observe_o(&b, &b.t, r);
	}
	bench_close(&b);
}

/* One copy of K serves two attentions in turn. */
static void copies_shared(void)
{
	struct bench b;
	const struct originals from = originals_open(&b);

	for (int r = 0; r < REPETITIONS; r++) {
		upload(&b, &from, r);
		attend(&b, &from);
		observe_o(&b, &b.t, r);
		make_contiguous(&b, b.t.q, from.v);
		chain(&b, &b.t);
		app_observe(&b.report, "O2", r, b.t.o, b.n);
	}
	bench_close(&b);
}

/* At times one head's K serves all heads, and P is read when neither it nor the copies stand. */
static void copies_repeated(struct bench *b, int r)
{
	bench_inputs(b, r);
	if (late(r)) {
		app_upload_random(b->raw, b->n, 600 + (uint64_t)r);
		app_repeat_head(&b->app, b->t.k, b->raw, b->shape.rows, b->shape.heads,
				b->shape.depth);
	}
	chain(b, &b->t);
	if (late(r)) {
		app_fill(&b->app, b->t.k, 1.0f, b->n);
		app_fill(&b->app, b->raw, 2.0f, b->n);
		observe_p(b, &b->t, r);
	}
	observe_o(b, &b->t, r);
}

/* One head's V is copied for all into the memory that Q has left, and P is read when both are gone.
 */
static void copies_over_q(struct bench *b, int r)
{
	struct tensors t = b->t;

	bench_inputs(b, r);
	app_upload_random(b->raw, b->n, 700 + (uint64_t)r);
	chain_open(b, &t);
	chain_middle(b, &t);
	t.v = t.q;
	app_repeat_head(&b->app, t.v, b->raw, b->shape.rows, b->shape.heads, b->shape.depth);
	chain_close(b, &t);
	if (late(r)) {
		app_fill(&b->app, b->raw, 2.0f, b->n);
		observe_p(b, &t, r);
	}
	observe_o(b, &t, r);
}

/* In the late repetitions O is not P V, but added to a copy of the kind that V's is. */
static void onto_copy(struct bench *b, const struct originals *from)
{
	const struct app_shape z = b->shape;
	const float one = 1;

	make_contiguous(b, b->t.q, from->q);
	make_contiguous(b, b->t.k, from->k);
	chain_open(b, &b->t);
	chain_middle(b, &b->t);
	make_contiguous(b, b->t.v, from->v);
	make_contiguous(b, b->t.o, from->q);
	CHECK(b->app.call.gemm(b->app.blas, CUBLAS_OP_N, CUBLAS_OP_N, z.depth, z.rows, z.columns,
			       &one, (void *)b->t.v, CUDA_R_16F, z.depth,
			       (long long)z.columns * z.depth, (void *)b->t.p, CUDA_R_16F,
			       z.columns, (long long)z.rows * z.columns, &one, (void *)b->t.o,
			       CUDA_R_16F, z.depth, (long long)z.rows * z.depth, z.heads,
			       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void copies_added_to(void)
{
	struct bench b;
	const struct originals from = originals_open(&b);

	upload(&b, &from, 0); /* once, or copies would not pay */
	for (int r = 0; r < REPETITIONS; r++) {
		if (late(r))
			onto_copy(&b, &from);
		else
			attend(&b, &from);
		observe_o(&b, &b.t, r);
	}
	bench_close(&b);
}

CASE(copies, looking(nothing))
CASE(copies_read, looking(at_copies))
CASE(copies_outlive, looking(at_copies_after))
CASE(copies_edited, looking(at_parts))
CASE(copies_and_p, looking(at_p))
CASE(copies_multiplied, looking(by_product))

const struct hazard hazards_copies[] = {
	ONCE(copies, "Q, K and V made contiguous, and nothing else"),
	ONCE(copies_read, "the contiguous Q, K and V are read"),
	ONCE(copies_outlive, "… after the originals were overwritten"),
	ONCE(copies_edited, "… after parts were overwritten, and edited in place"),
	ONCE(copies_and_p, "P is read when Q's original and K's copy are gone"),
	ONCE(copies_multiplied, "K's copy in another product"),
	ONCE(copies_other_stream, "Q's copy is read on another stream"),
	ONCE(copies_added_to, "P V is added to a copy of the kind that V's is"),
	ONCE(copies_shared, "K's copy serves two attentions"),
	EACH(copies_repeated, "one head's K was copied for all, and is overwritten"),
	EACH(copies_over_q, "one head's V is copied for all to where Q lay, and P is read"),
	{0},
};
