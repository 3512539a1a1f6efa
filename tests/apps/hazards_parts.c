/* SPDX-License-Identifier: Apache-2.0
 *
 * A head a product: QK^T for each, one softmax over all of them, and PV for each. Whoever takes
 * these for one call of attention holds back products of which something may be looked at, or
 * changed, before the last of them came.
 */
#include "hazards.h"

#include <math.h>

static struct app_shape one_head(const struct bench *b)
{
	struct app_shape z = b->shape;

	z.heads = 1;
	return z;
}

/* Of `base`, what belongs to a head; per: elements. */
static CUdeviceptr of_head(CUdeviceptr base, int head, size_t per)
{
	return base + (CUdeviceptr)head * per * 2;
}

static size_t rows_of(const struct bench *b)
{
	return b->n / (size_t)b->shape.heads;
}

static size_t scores_of(const struct bench *b)
{
	return b->scores / (size_t)b->shape.heads;
}

static void open_head(struct bench *b, int head)
{
	app_scores(&b->app, one_head(b), of_head(b->t.q, head, rows_of(b)),
		   of_head(b->t.k, head, rows_of(b)), of_head(b->t.s, head, scores_of(b)));
}

static void close_into(struct bench *b, int head, CUdeviceptr o)
{
	app_context(&b->app, one_head(b), of_head(b->t.p, head, scores_of(b)),
		    of_head(b->t.v, head, rows_of(b)), o);
}

static void close_head(struct bench *b, int head)
{
	close_into(b, head, of_head(b->t.o, head, rows_of(b)));
}

static void open_heads(struct bench *b, int r)
{
	bench_inputs(b, r);
	for (int h = 0; h < b->shape.heads; h++)
		open_head(b, h);
}

static void observe(struct bench *b, int r)
{
	observe_o(b, &b->t, r);
	if (late(r))
		observe_p(b, &b->t, r);
}

/* `meddle` comes after each PV, in late repetitions. */
static void parts(struct bench *b, int r, void (*meddle)(struct bench *, int r, int head))
{
	open_heads(b, r);
	chain_middle(b, &b->t);
	for (int h = 0; h < b->shape.heads; h++) {
		close_head(b, h);
		if (meddle && late(r))
			meddle(b, r, h);
	}
	observe(b, r);
}

static void parts_plain(struct bench *b, int r)
{
	parts(b, r, NULL);
}

static void look(struct bench *b, int r, int head)
{
	app_observe(&b->report, "part of O", 10 * r + head, of_head(b->t.o, head, rows_of(b)),
		    rows_of(b));
}

static void parts_looked_at(struct bench *b, int r)
{
	parts(b, r, look);
}

static void look_at_p(struct bench *b, int r, int head)
{
	if (head == 1)
		observe_p(b, &b->t, 10 * r);
}

static void parts_p_looked_at(struct bench *b, int r)
{
	parts(b, r, look_at_p);
}

/* V of this head and of the next. */
static void change_v(struct bench *b, int r, int head)
{
	app_upload_random(of_head(b->t.v, head, rows_of(b)),
			  head + 1 < b->shape.heads ? 2 * rows_of(b) : rows_of(b),
			  700 + (uint64_t)(10 * r + head));
}

static void parts_v_changed(struct bench *b, int r)
{
	parts(b, r, change_v);
}

static void clear_v(struct bench *b, int r, int head)
{
	(void)r;
	CHECK(cuMemsetD16Async(of_head(b->t.v, head, rows_of(b)), 0x3c00, rows_of(b),
			       b->app.stream));
}

static void parts_v_cleared(struct bench *b, int r)
{
	parts(b, r, clear_v);
}

static void double_p(struct bench *b, int r, int head)
{
	(void)r;
	if (head == 0)
		app_scale(&b->app, b->t.p, b->t.p, 2, b->scores);
}

static void parts_p_changed(struct bench *b, int r)
{
	parts(b, r, double_p);
}

/* Another stream waits for the first part, and copies it. */
static void copy_beside(struct bench *b, int r, int head)
{
	CUstream other;
	CUevent event;

	if (head)
		return;
	CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventRecord(event, b->app.stream));
	CHECK(cuStreamWaitEvent(other, event, 0));
	CHECK(cuMemcpyDtoDAsync(b->spare, b->t.o, rows_of(b) * 2, other));
	CHECK(cuStreamSynchronize(other));
	app_observe(&b->report, "beside", r, b->spare, rows_of(b));
	CHECK(cuEventDestroy(event));
	CHECK(cuStreamDestroy(other));
}

static void parts_beside(struct bench *b, int r)
{
	parts(b, r, copy_beside);
}

static void parts_backwards(struct bench *b, int r)
{
	open_heads(b, r);
	chain_middle(b, &b->t);
	for (int h = b->shape.heads; h-- > 0;)
		close_head(b, h);
	observe(b, r);
}

/* The last head's is multiplied after somebody looked at the others. */
static void parts_missing(struct bench *b, int r)
{
	open_heads(b, r);
	chain_middle(b, &b->t);
	for (int h = 0; h + 1 < b->shape.heads; h++)
		close_head(b, h);
	if (late(r))
		observe(b, 10 * r);
	close_head(b, b->shape.heads - 1);
	observe(b, r);
}

/* One of them goes elsewhere, where nobody expects it. */
static void parts_astray(struct bench *b, int r)
{
	const CUdeviceptr astray = of_head(b->spare, 5, rows_of(b));

	open_heads(b, r);
	chain_middle(b, &b->t);
	for (int h = 0; h < b->shape.heads; h++)
		if (late(r) && h == 2)
			close_into(b, h, astray);
		else
			close_head(b, h);
	observe(b, r);
	if (late(r))
		app_observe(&b->report, "astray", r, astray, rows_of(b));
}

/* Q of the first is another by the time that the second is multiplied. */
static void parts_q_changed(struct bench *b, int r)
{
	bench_inputs(b, r);
	for (int h = 0; h < b->shape.heads; h++) {
		open_head(b, h);
		if (late(r))
			app_upload_random(of_head(b->t.q, h, rows_of(b)), rows_of(b),
					  800 + (uint64_t)(10 * r + h));
	}
	chain_middle(b, &b->t);
	for (int h = 0; h < b->shape.heads; h++)
		close_head(b, h);
	observe(b, r);
}

/* Q of all but the first comes between the products, while the attention before, whose P is still
 * wanted, has read what lay there; then all of Q is cleared, and P is looked at. */
static void parts_saved_between(struct bench *b, int r)
{
	const CUdeviceptr p = b->t.p;

	if (r % 2)
		b->t.p = b->spare;
	if (!late(r))
		bench_inputs(b, r);
	for (int h = 0; h < b->shape.heads; h++) {
		if (h && late(r))
			app_upload_random(of_head(b->t.q, h, rows_of(b)), rows_of(b),
					  600 + (uint64_t)(10 * r + h));
		open_head(b, h);
	}
	chain_middle(b, &b->t);
	for (int h = 0; h < b->shape.heads; h++)
		close_head(b, h);
	observe_o(b, &b->t, r);
	if (late(r)) {
		CHECK(cuMemsetD16Async(b->t.q, 0, b->n, b->app.stream));
		observe_p(b, &b->t, r);
	}
	b->t.p = p;
}

/* A softmax for each: these are as many calls of attention. */
static void parts_apart(struct bench *b, int r)
{
	open_heads(b, r);
	for (int h = 0; h < b->shape.heads; h++) {
		const CUdeviceptr s = of_head(b->t.s, h, scores_of(b));

		app_scale(&b->app, s, s, 0.25f, scores_of(b));
		app_softmax(&b->app, of_head(b->t.p, h, scores_of(b)), s, (size_t)b->shape.rows,
			    b->shape.columns);
		close_head(b, h);
	}
	observe(b, r);
}

/* The softmax takes two of the three at first, and then the third. */
static void parts_two_and_one(struct bench *b, int r)
{
	const size_t rows = (size_t)b->shape.rows;

	open_heads(b, r);
	for (int h = 0; h < 3; h += 2) {
		const CUdeviceptr s = of_head(b->t.s, h, scores_of(b));
		const size_t heads = h ? 1 : 2;

		app_scale(&b->app, s, s, 0.25f, heads * scores_of(b));
		app_softmax(&b->app, of_head(b->t.p, h, scores_of(b)), s, heads * rows,
			    b->shape.columns);
	}
	for (int h = 0; h < 3; h++)
		close_head(b, h);
	observe(b, r);
}

static void over(struct bench *b, int r, CUdeviceptr o)
{
	open_heads(b, r);
	chain_middle(b, &b->t);
	for (int h = 0; h < b->shape.heads; h++)
		close_into(b, h, of_head(o, h, rows_of(b)));
	app_observe(&b->report, "O", r, o, b->n);
	if (late(r))
		observe_p(b, &b->t, r);
}

static void parts_into_q(struct bench *b, int r)
{
	over(b, r, b->t.q);
}

static void parts_into_v(struct bench *b, int r)
{
	over(b, r, b->t.v);
}

/* Where the scores of the first were. */
static void parts_into_s(struct bench *b, int r)
{
	over(b, r, b->t.s);
}

/* Where the weights of the last are until it is multiplied. */
static void parts_into_p(struct bench *b, int r)
{
	open_heads(b, r);
	chain_middle(b, &b->t);
	for (int h = 0; h < b->shape.heads; h++)
		close_into(b, h, of_head(b->t.p, h, scores_of(b)));
	for (int h = 0; h < b->shape.heads; h++)
		app_observe(&b->report, "O", 10 * r + h, of_head(b->t.p, h, scores_of(b)),
			    rows_of(b));
}

const struct hazard hazards_parts[] = {
	EACH(parts_plain, "a product for each head, one softmax"),
	EACH(parts_looked_at, "each part of O is looked at before the next"),
	EACH(parts_p_looked_at, "P is looked at between the parts of O"),
	EACH(parts_v_changed, "V of one head and the next is changed between the parts"),
	EACH(parts_v_cleared, "V of one head is cleared once it was multiplied"),
	EACH(parts_p_changed, "P is doubled after the first part"),
	EACH(parts_beside, "another stream takes the first part of O"),
	EACH(parts_backwards, "V is multiplied from the last head to the first"),
	EACH(parts_missing, "somebody looks before the last part came"),
	EACH(parts_astray, "one part of O goes elsewhere"),
	EACH(parts_q_changed, "Q of one head is changed before the next is multiplied"),
	EACH(parts_saved_between, "Q comes head by head, while the one before is to be saved"),
	EACH(parts_apart, "a softmax for each head, after all products"),
	EACH(parts_two_and_one, "a softmax for two heads, and one for the third"),
	EACH(parts_into_q, "O is written over Q"),
	EACH(parts_into_v, "O is written over V"),
	EACH(parts_into_s, "O is written over S"),
	EACH(parts_into_p, "each part of O is written over its P"),
	{0},
};
