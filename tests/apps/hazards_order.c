/* SPDX-License-Identifier: Apache-2.0
 *
 * Things that happen between the two products, chains that do not end, memory that comes and goes,
 * others that wait for an event.
 */
#include "hazards.h"

#include <stdlib.h>
#include <string.h>

/* A loop in which `meddle` runs between softmax and P.V of each late repetition. */
static void meddling(void (*meddle)(struct bench *, int))
{
	struct bench b;

	bench_open(&b, TOGETHER);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain_open(&b, &b.t);
		chain_middle(&b, &b.t);
		if (late(r))
			meddle(&b, r);
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
	}
	bench_close(&b);
}

static void new_k(struct bench *b, int r)
{
	app_upload_random(b->t.k, b->n, 500 + (uint64_t)r);
}

static void fill_k(struct bench *b, int r)
{
	app_fill(&b->app, b->t.k, (float)r, b->n);
}

static void clear_q(struct bench *b, int r)
{
	(void)r;
	CHECK(cuMemsetD16Async(b->t.q + 64, 0x3c00, b->n / 2, b->app.stream));
}

static void copy_over_q(struct bench *b, int r)
{
	(void)r;
	CHECK(cuMemcpyDtoDAsync(b->t.q, b->t.v, b->n * 2, b->app.stream));
}

static void new_mask(struct bench *b, int r)
{
	app_fill(&b->app, b->mask, (float)r, (size_t)b->shape.rows * b->shape.columns);
}

static void mask_after_use(struct bench *b, int r)
{
	bench_inputs(b, r);
	chain_open(b, &b->t);
	chain_middle(b, &b->t);
	if (late(r))
		new_mask(b, r);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
	app_upload_causal(b->mask, b->shape.rows, b->shape.columns);
}

/* The mask of this call is written after Q.K was issued: the old one must not be used. */
static void mask_before_use(struct bench *b, int r)
{
	bench_inputs(b, r);
	chain_open(b, &b->t);
	app_ramp(&b->app, b->mask, -0.5f * (float)r, 0.0625f,
		 (size_t)b->shape.rows * b->shape.columns);
	chain_middle(b, &b->t);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
}

static void v_late(struct bench *b, int r)
{
	bench_inputs(b, r);
	chain_open(b, &b->t);
	chain_middle(b, &b->t);
	app_upload_random(b->t.v, b->n, 700 + (uint64_t)r);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
}

static void edit_p(struct bench *b, int r)
{
	(void)r;
	app_scale(&b->app, b->t.p, b->t.p, 0.75f, b->scores);
}

/* The second third of the scaled scores is overwritten before the mask is added. */
static void partly_overwritten_between_steps(struct bench *b, int r)
{
	const size_t columns = (size_t)b->shape.columns, rows = b->scores / columns;

	bench_inputs(b, r);
	chain_open(b, &b->t);
	app_scale(&b->app, b->t.x, b->t.s, 0.25f, b->scores);
	if (late(r))
		CHECK(cuMemsetD16Async(b->t.x + b->scores / 3 * 2, 0x3c00, b->scores / 3,
				       b->app.stream));
	app_add_mask(&b->app, b->t.m, b->t.x, b->mask, b->scores, (size_t)b->shape.rows * columns);
	app_softmax(&b->app, b->t.p, b->t.m, rows, b->shape.columns);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
}

static void synchronise(struct bench *b, int r)
{
	(void)r;
	CHECK(cuStreamSynchronize(b->app.stream));
	CHECK(cuCtxSynchronize());
}

static void look_inside(struct bench *b, int r)
{
	app_observe(&b->report, "few of P", r, b->t.p + 2 * 777, 5);
}

static void allocate_inside(struct bench *b, int r)
{
	CUdeviceptr p = app_alloc(100000);

	CHECK(cuMemsetD8(p, r, 100000));
	app_observe(&b->report, "other", r, p, 16);
	CHECK(cuMemFree(p));
}

/* Something throws between the products; the next repetition goes on as if nothing were. */
static void never_closed(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain_open(&b, &b.t);
		if (r == 7)
			continue;
		chain_middle(&b, &b.t);
		if (r == 6)
			continue;
		if (r == 9) {
			observe_p(&b, &b.t, r);
			continue;
		}
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
	}
	chain_open(&b, &b.t);
	chain_middle(&b, &b.t);
	observe_p(&b, &b.t, REPETITIONS);
	bench_close(&b);
}

/* The program ends, and unloads what it had, in the middle of a chain. */
static void ends_open(void)
{
	struct bench b;

	bench_open(&b, APART);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
	}
	chain_open(&b, &b.t);
	chain_middle(&b, &b.t);
	bench_close(&b);
	CHECK(cuMemFree(b.t.p));
	CHECK(cuDevicePrimaryCtxRelease(0));
}

static void free_and_again(struct bench *b, int r)
{
	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	CUdeviceptr was = b->t.p;
	CHECK(cuMemFree(b->t.p));
	CUdeviceptr now = app_alloc(b->scores * 2);
	app_ramp(&b->app, now, (float)r, 0.5f, b->scores / 2);
	app_observe(&b->report, now == was ? "same place" : "other place", r, now, b->scores / 2);
	CHECK(cuMemFree(now));
	b->t.p = app_alloc(b->scores * 2);
}

static void new_each_time(struct bench *b, int r)
{
	struct tensors t = b->t;

	bench_inputs(b, r);
	t.s = app_alloc(b->scores * 2);
	t.x = app_alloc(b->scores * 2);
	t.m = t.s;
	t.p = app_alloc(b->scores * 2);
	chain(b, &t);
	if (late(r))
		observe_p(b, &t, r);
	CHECK(cuMemFree(t.s));
	CHECK(cuMemFree(t.x));
	CHECK(cuMemFree(t.p));
	observe_o(b, &t, r);
}

static void pool(struct bench *b, int r)
{
	struct tensors t = b->t;

	bench_inputs(b, r);
	CHECK(cuMemAllocAsync(&t.s, b->scores * 2, b->app.stream));
	CHECK(cuMemAllocAsync(&t.x, b->scores * 2, b->app.stream));
	CHECK(cuMemAllocAsync(&t.p, b->scores * 2, b->app.stream));
	t.m = t.s;
	chain(b, &t);
	if (late(r))
		observe_p(b, &t, r);
	CHECK(cuMemFreeAsync(t.s, b->app.stream));
	CHECK(cuMemFreeAsync(t.x, b->app.stream));
	CHECK(cuMemFreeAsync(t.p, b->app.stream));
	observe_o(b, &t, r);
}

/* Decoding: one query, a key more each time, in buffers made for the longest. */
static void growing(bool biased)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	if (biased)
		app_upload_random(b.mask, (size_t)b.shape.rows * b.shape.columns, 4711);
	else
		app_fill(&b.app, b.mask, 0, (size_t)b.shape.rows * b.shape.columns);
	b.shape.rows = 1;
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		b.shape.columns = 41 + r;
		b.n = (size_t)b.shape.heads * b.shape.columns * b.shape.depth;
		b.scores = (size_t)b.shape.heads * b.shape.columns;
		bench_inputs(&b, r);
		chain(&b, &b.t);
		app_observe(&b.report, "O", r, b.t.o, (size_t)b.shape.heads * b.shape.depth);
		if (late(r) && r > REPETITIONS)
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* Sentences of another length each time, in buffers made for the longest. */
static void lengths(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	app_upload_random(b.mask, (size_t)b.shape.rows * b.shape.columns, 4711);
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		b.shape.rows = b.shape.columns = 17 + r * 7 % 16;
		b.n = (size_t)b.shape.heads * b.shape.columns * b.shape.depth;
		b.scores = (size_t)b.shape.heads * b.shape.rows * b.shape.columns;
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r) && r > REPETITIONS)
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* How much memory there is does not depend on who watches: the program takes all of it, in ever
 * smaller pieces, and gives it back. A real GPU is shared with others: there it takes none. */
static void memory_full(void)
{
	static CUdeviceptr pieces[65536];
	char name[64] = "";
	struct bench b;
	size_t all, size;
	bool alone;
	float got;

	bench_open(&b, TOGETHER);
	CHECK(cuDeviceGetName(name, sizeof(name), 0));
	alone = !strncmp(name, "simgpu", 6);
	CHECK(cuMemGetInfo(&all, &size));
	for (int r = 0; r < REPETITIONS; r++) {
		size_t bytes = (size_t)1 << 34, count = 0, total = 0;

		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		while (late(r) && alone && bytes >= 1 << 16 && count < 65536) {
			if (cuMemAlloc(&pieces[count], bytes)) {
				bytes /= 2;
			} else {
				total += bytes;
				count++;
			}
		}
		/* but for the workspace of another cuBLAS handle */
		got = !late(r) || !alone || total + (9 << 19) >= all;
		app_observe_f32(&b.report, "got all", r, &got, 1);
		while (count)
			CHECK(cuMemFree(pieces[--count]));
	}
	bench_close(&b);
}

/* ---- others wait for an event --------------------------------------------------------------- */

/* P by a kernel or by a copy, on a stream of its own; `to` holds something else until then. */
static void read_on(struct bench *b, CUstream reader, CUdeviceptr to, bool kernel)
{
	const CUstream before = b->app.stream;

	CHECK(cuMemsetD16Async(to, 0x4000, b->scores, reader));
	b->app.stream = reader;
	if (kernel)
		app_copy(&b->app, to, b->t.p, b->scores);
	else
		CHECK(cuMemcpyDtoDAsync(to, b->t.p, b->scores * 2, reader));
	b->app.stream = before;
}

/* The readers wait for the chain, not for one another. */
static void two_readers_after_event(void)
{
	CUstream compute, reader[2];
	CUdeviceptr copy[2];
	CUevent done;
	struct bench b;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&reader[0], CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&reader[1], CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
	CHECK(cuCtxSynchronize()); /* bench_open's fills are the default stream's */
	app_set_stream(&b.app, compute);
	copy[0] = b.spare;
	copy[1] = app_alloc(b.scores * 2);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		if (late(r)) {
			CHECK(cuEventRecord(done, compute));
			for (int i = 0; i < 2; i++)
				CHECK(cuStreamWaitEvent(reader[i], done, 0));
			for (int i = 0; i < 2; i++)
				read_on(&b, reader[i], copy[i], r != 9);
			for (int i = 0; i < 2; i++)
				CHECK(cuStreamSynchronize(reader[i]));
			app_observe(&b.report, "first copy", r, copy[0], b.scores);
			app_observe(&b.report, "second copy", r, copy[1], b.scores);
		}
		CHECK(cuStreamSynchronize(compute));
		observe_o(&b, &b.t, r);
	}
	bench_close(&b);
}

/* Once Q.K is done, which an event tells, Q is free for new data. */
static void input_rewritten_after_event(void)
{
	CUstream compute, copies;
	CUevent used;
	struct bench b;
	void *pinned;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&used, CU_EVENT_DISABLE_TIMING));
	CHECK(cuMemAllocHost(&pinned, b.n * 2));
	CHECK(cuCtxSynchronize());
	app_random_f16(pinned, b.n, 4711);
	app_set_stream(&b.app, compute);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain_open(&b, &b.t);
		CHECK(cuEventRecord(used, compute));
		chain_middle(&b, &b.t);
		chain_close(&b, &b.t);
		if (late(r)) {
			CHECK(cuStreamWaitEvent(copies, used, 0));
			if (r == 9)
				CHECK(cuMemsetD16Async(b.t.q, 0x3c00, b.n, copies));
			else
				CHECK(cuMemcpyHtoDAsync(b.t.q, pinned, b.n * 2, copies));
			CHECK(cuStreamSynchronize(copies));
		}
		CHECK(cuStreamSynchronize(compute));
		observe_o(&b, &b.t, r);
		if (late(r)) {
			observe_p(&b, &b.t, r);
			app_observe(&b.report, "Q", r, b.t.q, b.n);
		}
	}
	CHECK(cuMemFreeHost(pinned));
	bench_close(&b);
}

CASE(k_rewritten, meddling(new_k))
CASE(k_filled, meddling(fill_k))
CASE(q_partly_set, meddling(clear_q))
CASE(q_copied_over, meddling(copy_over_q))
CASE(p_edited_in_window, meddling(edit_p))
CASE(host_sync, meddling(synchronise))
CASE(host_looks, meddling(look_inside))
CASE(alloc_in_window, meddling(allocate_inside))
CASE(growing_keys, growing(false))
CASE(growing_bias, growing(true))

/* The chain's first kernel triggers an event, by which another stream waits for what came before.
 */
static void event_of_launch(void)
{
	CUstream compute, other;
	CUevent begun;
	struct bench b;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&begun, CU_EVENT_DISABLE_TIMING));
	app_set_stream(&b.app, compute);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		for (int i = 0; i < 30; i++)
			app_fill(&b.app, b.spare, (float)(r * i), b.scores);
		chain_open(&b, &b.t);
		b.app.mark = late(r) ? begun : NULL;
		app_scale(&b.app, b.t.x, b.t.s, 0.25f, b.scores);
		b.app.mark = NULL;
		app_softmax(&b.app, b.t.p, b.t.x, b.scores / (size_t)b.shape.columns,
			    b.shape.columns);
		chain_close(&b, &b.t);
		if (late(r)) {
			CHECK(cuStreamWaitEvent(other, begun, 0));
			b.app.stream = other;
			app_copy(&b.app, b.raw, b.spare, b.n);
			b.app.stream = compute;
			CHECK(cuStreamSynchronize(other));
			app_observe(&b.report, "copy", r, b.raw, b.n);
		}
		CHECK(cuStreamSynchronize(compute));
		observe_o(&b, &b.t, r);
	}
	bench_close(&b);
}

const struct hazard hazards_order[] = {
	ONCE(k_rewritten, "K is uploaded anew between the products"),
	ONCE(k_filled, "a kernel fills K between the products"),
	ONCE(q_partly_set, "a memset over part of Q between the products"),
	ONCE(q_copied_over, "a copy over Q between the products"),
	EACH(mask_after_use, "the mask changes after it was added, before P.V"),
	EACH(mask_before_use, "the mask is written after Q.K, before it is added"),
	EACH(v_late, "V is uploaded between the products"),
	ONCE(p_edited_in_window, "P is edited before P.V, late"),
	EACH(partly_overwritten_between_steps, "a memset over part of the scaled scores, late"),
	ONCE(host_sync, "the host synchronises between the products"),
	ONCE(host_looks, "the host copies five numbers of P between the products"),
	ONCE(alloc_in_window, "allocation and free between the products"),
	ONCE(never_closed, "chains that never reach P.V"),
	ONCE(ends_open, "the program ends in the middle of a chain"),
	EACH_APART(free_and_again, "P is freed, its address given out again"),
	EACH_APART(new_each_time, "S, X and P are allocated and freed each time"),
	EACH_APART(pool, "the same from a stream-ordered pool"),
	ONCE(memory_full, "the program takes all memory there is"),
	ONCE(growing_keys, "one query, one key more each time"),
	ONCE(growing_bias, "the same, with a bias that is not zero"),
	ONCE(lengths, "as many queries as keys, another number each time"),
	ONCE(two_readers_after_event, "P is read on two streams that wait for one event"),
	ONCE(input_rewritten_after_event, "Q is overwritten on a stream that waited for Q.K alone"),
	ONCE(event_of_launch, "a launch of the chain's triggers an event"),
	{0},
};
