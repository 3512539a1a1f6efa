/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors that share memory with one another inside a chain, or with a tensor made after it.
 */
#include "hazards.h"

/* Uploads X as [S,H,D] and makes it contiguous at `to`, as a permute and a copy do. */
static void contiguous(struct bench *b, CUdeviceptr to, uint64_t seed)
{
	app_upload_random(b->raw, b->n, seed);
	app_split_heads(&b->app, to, b->raw, b->shape.rows, b->shape.heads, b->shape.depth);
}

/* A chain whose V is made contiguous when the scores are done. */
static void chain_late_v(struct bench *b, const struct tensors *t, uint64_t seed, int r)
{
	app_upload_random(b->raw, b->n, seed);
	chain_open(b, t);
	chain_middle(b, t);
	app_split_heads(&b->app, t->v, b->raw, b->shape.rows, b->shape.heads, b->shape.depth);
	chain_close(b, t);
	observe_o(b, t, r);
}

static void v_into_q(struct bench *b, int r)
{
	struct tensors t = b->t;

	t.v = t.q;
	contiguous(b, t.q, 3 * (uint64_t)r + 1);
	contiguous(b, t.k, 3 * (uint64_t)r + 2);
	chain_late_v(b, &t, 3 * (uint64_t)r + 3, r);
}

static void v_into_s(struct bench *b, int r)
{
	struct tensors t = b->t;

	t.v = t.s;
	bench_inputs(b, r);
	chain_late_v(b, &t, 100 + (uint64_t)r, r);
}

static void middle_into_q(struct bench *b, int r)
{
	struct tensors t = b->t;

	t.x = t.q;
	bench_inputs(b, r);
	chain(b, &t);
	observe_o(b, &t, r);
}

/* The scale writes where Q was, the mask where S was, softmax where Q was, V's copy where S was. */
static void bert(struct bench *b, int r)
{
	struct tensors t = b->t;

	t.x = t.p = t.q;
	t.m = t.v = t.s;
	bench_inputs(b, r);
	chain_late_v(b, &t, 100 + (uint64_t)r, r);
}

static void output_at(struct bench *b, struct tensors t)
{
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(b, r);
		chain(b, &t);
		observe_o(b, &t, r);
	}
	bench_close(b);
}

static void o_into_q(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	b.t.o = b.t.q;
	output_at(&b, b.t);
}

static void o_into_s(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	b.t.o = b.t.s;
	output_at(&b, b.t);
}

static void o_into_k(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	b.t.o = b.t.k;
	output_at(&b, b.t);
}

static void softmax_in_place(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	b.t.x = b.t.m = b.t.p = b.t.s;
	output_at(&b, b.t);
}

/* P's place changes from repetition to repetition, as in a warm-up. */
static void alias_changes(struct bench *b, int r)
{
	struct tensors t = b->t;

	bench_inputs(b, r);
	t.p = r % 3 == 0 ? b->t.s : r % 3 == 1 ? b->t.x : b->t.p;
	t.x = r % 2 ? b->t.x : b->t.s;
	chain(b, &t);
	observe_o(b, &t, r);
	if (late(r))
		observe_p(b, &t, r);
}

/* The next layer's K is made where this layer's P was: the usual, harmless end of a P. */
static void k_into_old_p(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	struct tensors t = b.t;
	CUdeviceptr places[] = {b.t.p, b.spare};
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		t.k = places[(r + 1) % 2];
		t.p = places[r % 2];
		contiguous(&b, t.k, 200 + (uint64_t)r);
		chain(&b, &t);
		observe_o(&b, &t, r);
	}
	observe_p(&b, &t, REPETITIONS);
	bench_close(&b);
}

/* The same in a program with one place for both: P lands on K, the next K on P. Late, something
 * else that is made of P is put there. */
static void k_and_p_share(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	struct tensors t = b.t;
	t.k = t.p;
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		bench_inputs(&b, r);
		contiguous(&b, t.k, 200 + (uint64_t)r);
		chain(&b, &t);
		observe_o(&b, &t, r);
		if (r == REPETITIONS + 7)
			app_scale(&b.app, t.p, t.p, 0.5f, b.scores / 3);
		if (r == REPETITIONS + 7 || r == REPETITIONS + 11)
			observe_p(&b, &t, r);
	}
	bench_close(&b);
}

/* A tensor that begins `before` bytes below `at` and ends `beyond` elements above it. */
static void write_over(struct bench *b, CUdeviceptr at, size_t before, size_t beyond, int r)
{
	app_ramp(&b->app, at - before, 0.25f * (float)r, 0.125f, before / 2 + beyond);
}

static void merged_over_p(bool always)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (!always && !late(r))
			continue;
		write_over(&b, b.t.p, 2048, b.scores, r);
		/* a view of it, inside what was P */
		app_copy(&b.app, b.spare, b.t.p + 512, b.scores - 256);
		app_observe(&b.report, "view", r, b.spare, b.scores - 256);
		if (late(r))
			app_observe(&b.report, "T", r, b.t.p - 2048, b.scores + 1024);
	}
	bench_close(&b);
}

/* Only the first half of P is overwritten so, up to a multiple of 512 bytes, which is where an
 * allocator lets the next tensor begin; the second half is still P and is looked at. */
static void merged_half_p(struct bench *b, int r)
{
	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	if (!late(r))
		return;
	write_over(b, b->t.p, 2048, b->scores / 512 * 256, r);
	app_copy(&b->app, b->spare, b->t.p, b->scores);
	app_observe(&b->report, "view", r, b->spare, b->scores);
	observe_p(b, &b->t, r);
}

static void merged_over(struct bench *b, CUdeviceptr input)
{
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(b, r);
		chain_open(b, &b->t);
		chain_middle(b, &b->t);
		if (late(r) || r == 1)
			write_over(b, input, 2048, b->n, r);
		chain_close(b, &b->t);
		observe_o(b, &b->t, r);
		if (late(r))
			app_observe(&b->report, "T", r, input - 2048, b->n + 1024);
	}
	bench_close(b);
}

static void merged_below_q(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	merged_over(&b, b.t.q);
}

static void merged_below_k(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	merged_over(&b, b.t.k);
}

CASE(merged_below_p, merged_over_p(false))
CASE(merged_always_p, merged_over_p(true))

const struct hazard hazards_alias[] = {
	EACH(v_into_q, "V is made contiguous in the buffer that held Q"),
	EACH(v_into_s, "V's copy lands in S"),
	EACH(middle_into_q, "the scaled scores are written over Q"),
	EACH(bert, "scale and softmax into Q, mask and V's copy into S"),
	ONCE(o_into_q, "O is written over Q"),
	ONCE(o_into_k, "O is written over K"),
	ONCE(o_into_s, "O is written over S"),
	ONCE(softmax_in_place, "scale, mask and softmax in place"),
	EACH(alias_changes, "P and X change places from call to call"),
	ONCE(k_into_old_p, "the next K is made where the last P was"),
	ONCE(k_and_p_share, "K and P have one place in turn"),
	ONCE(merged_below_p, "a tensor that starts below P overwrites it"),
	ONCE(merged_always_p, "the same every time"),
	EACH(merged_half_p, "late, half of P is so overwritten, half stays and is read"),
	ONCE(merged_below_q, "between the GEMMs one starts below Q"),
	ONCE(merged_below_k, "between the GEMMs one starts below K"),
	{0},
};
