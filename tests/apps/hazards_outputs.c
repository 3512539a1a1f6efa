/* SPDX-License-Identifier: Apache-2.0
 *
 * O made [S,H,D] right after the second product, as frameworks do. A shim may let the fused kernel
 * write that, and never write O itself, as long as nobody looks; here somebody does: at O, at a
 * part of it, at O when the copy is gone; or the op after the product is another one this time.
 */
#include "hazards.h"

struct merged {
	CUdeviceptr out, raw; /* [S,H,D]: of O; of the Q that the next repetition starts from */
};

static struct merged merged_open(struct bench *b)
{
	bench_open(b, TOGETHER);
	return (struct merged){app_alloc(b->n * 2), app_alloc(b->n * 2)};
}

static void merge_heads(struct bench *b, CUdeviceptr to, CUdeviceptr from)
{
	app_split_heads(&b->app, to, from, b->shape.heads, b->shape.rows, b->shape.depth);
}

static void observe(struct bench *b, const char *what, int r, CUdeviceptr at)
{
	app_observe(&b->report, what, r, at, b->n);
}

/* In the late repetitions `between` comes after the product, and `after` at the end. */
static void merging(void (*between)(struct bench *b, const struct merged *m, int r),
		    void (*after)(struct bench *b, const struct merged *m, int r))
{
	struct bench b;
	const struct merged m = merged_open(&b);

	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		if (late(r) && between)
			between(&b, &m, r);
		merge_heads(&b, m.out, b.t.o);
		if (late(r) && after)
			after(&b, &m, r);
		observe(&b, "O", r, m.out);
		CHECK(cuMemsetD16(b.t.o, 0, b.n)); /* the next layer's */
	}
	bench_close(&b);
}

static void read_o(struct bench *b, const struct merged *m, int r)
{
	(void)m;
	observe(b, "O original", r, b->t.o);
}

static void read_o_late(struct bench *b, const struct merged *m, int r)
{
	observe(b, "O copy", r, m->out);
	CHECK(cuMemsetD16(m->out, 0x3c00, b->n));
	observe(b, "O original", r, b->t.o);
}

static void edit_o(struct bench *b, const struct merged *m, int r)
{
	CHECK(cuMemsetD16(b->t.o + 512, 0, 256));
	app_scale(&b->app, b->t.o, b->t.o, 0.5f, b->n / 3);
	observe(b, "O edited", r, b->t.o);
	app_scale(&b->app, m->out, m->out, 2.0f, b->n);
	observe(b, "O original", r, b->t.o);
}

static void overwrite_v(struct bench *b, const struct merged *m, int r)
{
	(void)m;
	(void)r;
	CHECK(cuMemsetD16(b->t.v, 0x3c00, b->n));
	CHECK(cuMemsetD16(b->t.k, 0x3c00, b->n));
}

static void wait_for_o(struct bench *b, const struct merged *m, int r)
{
	CUevent done;

	(void)m;
	(void)r;
	CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventRecord(done, b->app.stream));
	CHECK(cuEventSynchronize(done));
	CHECK(cuEventDestroy(done));
}

/* O is read on another stream that waits for an event, and only then copied. */
static void read_behind_event(struct bench *b, int r,
			      void (*record)(struct bench *b, CUevent event))
{
	CUstream here = b->app.stream, other;
	CUevent done;

	CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
	record(b, done);
	CHECK(cuStreamWaitEvent(other, done, 0));
	app_set_stream(&b->app, other);
	app_copy(&b->app, b->spare, b->t.o, b->n);
	CHECK(cuStreamSynchronize(other));
	app_set_stream(&b->app, here);
	observe(b, "O other", r, b->spare);
	CHECK(cuEventDestroy(done));
	CHECK(cuStreamDestroy(other));
}

static void of_stream(struct bench *b, CUevent event)
{
	CHECK(cuEventRecord(event, b->app.stream));
}

/* For all of the context: of the streams none is named. Older drivers have no such event. */
static void of_context(struct bench *b, CUevent event)
{
	CUresult (*record)(CUcontext context, CUevent event) = NULL;

	cuGetProcAddress("cuCtxRecordEvent", (void **)&record, 12050, 0, NULL);
	if (record)
		CHECK(record(b->app.context, event));
	else
		of_stream(b, event);
}

static void other_stream(struct bench *b, const struct merged *m, int r)
{
	(void)m;
	read_behind_event(b, r, of_stream);
}

static void all_streams(struct bench *b, const struct merged *m, int r)
{
	(void)m;
	read_behind_event(b, r, of_context);
}

/* Copied over V: no kernel that still reads V may write there. */
static void outputs_into_v(void)
{
	struct bench b;
	const struct merged m = merged_open(&b);

	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		merge_heads(&b, late(r) ? b.t.v : m.out, b.t.o);
		observe(&b, "O", r, late(r) ? b.t.v : m.out);
		observe(&b, "O original", r, b.t.o);
	}
	bench_close(&b);
}

/* The copy lies where P was, and P is wanted. */
static void outputs_into_p(void)
{
	struct bench b;

	merged_open(&b);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		merge_heads(&b, b.t.p, b.t.o);
		observe(&b, "O", r, b.t.p);
		if (late(r))
			app_observe(&b.report, "P rest", r, b.t.p + 2 * b.n, b.scores - b.n);
	}
	bench_close(&b);
}

/* The next attention's Q is this one's O, in its own order. */
static void outputs_feed(void)
{
	struct bench b;
	const struct merged m = merged_open(&b);

	for (int r = 0; r < REPETITIONS; r++) {
		struct tensors next = b.t;

		bench_inputs(&b, r);
		chain(&b, &b.t);
		merge_heads(&b, m.out, b.t.o);
		next.q = b.t.o;
		next.o = m.raw;
		chain(&b, &next);
		observe(&b, "O", r, m.out);
		observe(&b, "O2", r, m.raw);
	}
	bench_close(&b);
}

CASE(outputs, merging(NULL, NULL))
CASE(outputs_read, merging(NULL, read_o))
CASE(outputs_outlive, merging(NULL, read_o_late))
CASE(outputs_edited, merging(NULL, edit_o))
CASE(outputs_read_before, merging(read_o, NULL))
CASE(outputs_edited_before, merging(edit_o, read_o))
CASE(outputs_inputs_go, merging(overwrite_v, read_o))
CASE(outputs_awaited, merging(wait_for_o, read_o))
CASE(outputs_other_stream, merging(other_stream, NULL))
CASE(outputs_all_streams, merging(all_streams, NULL))

const struct hazard hazards_outputs[] = {
	ONCE(outputs, "O made [S,H,D], and nothing else"),
	ONCE(outputs_read, "O is read after it was copied"),
	ONCE(outputs_outlive, "… after the copy was overwritten"),
	ONCE(outputs_edited, "… after it was partly overwritten, and edited in place"),
	ONCE(outputs_read_before, "O is read before it is copied"),
	ONCE(outputs_edited_before, "O is edited before it is copied"),
	ONCE(outputs_inputs_go, "K and V are overwritten before O is copied"),
	ONCE(outputs_awaited, "the host waits between product and copy"),
	ONCE(outputs_other_stream, "another stream reads O before it is copied"),
	ONCE(outputs_all_streams, "… behind an event of the whole context"),
	ONCE(outputs_into_v, "O is copied over V"),
	ONCE(outputs_into_p, "O is copied over a part of P, whose rest is read"),
	ONCE(outputs_feed, "O is the next attention's Q too"),
	{0},
};
