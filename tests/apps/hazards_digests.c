/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs make something of P besides O, as nn.MultiheadAttention does of its weights, and throw
 * it away most of the time; here somebody looks at it, or at P, after all, whatever became of
 * memory in between.
 */
#include "hazards.h"

/* Half of P, halved. */
static void digest(struct bench *b, CUdeviceptr out)
{
	app_scale(&b->app, out, b->t.p + 64, 0.5f, b->scores / 2);
}

static void observe_digest(struct bench *b, CUdeviceptr out, int r)
{
	app_observe(&b->report, "digest", r, out, b->scores / 2);
}

static void make_one(struct bench *b, int r, CUdeviceptr out)
{
	bench_inputs(b, r);
	chain(b, &b->t);
	digest(b, out);
}

static void digest_always(struct bench *b, int r)
{
	make_one(b, r, b->spare);
	observe_digest(b, b->spare, r);
	observe_o(b, &b->t, r);
}

/* `look` runs in late repetitions, with a digest that nobody has seen yet. */
static void unseen(void (*look)(struct bench *b, int r), CUdeviceptr (*place)(struct bench *b))
{
	struct bench b;

	bench_open(&b, TOGETHER);
	for (int r = 0; r < REPETITIONS; r++) {
		make_one(&b, r, place(&b));
		observe_o(&b, &b.t, r);
		if (late(r))
			look(&b, r);
	}
	bench_close(&b);
}

static CUdeviceptr apart(struct bench *b)
{
	return b->spare;
}

/* Where S was, which nobody will want any more. */
static CUdeviceptr over_s(struct bench *b)
{
	return b->t.s + 128;
}

static CUdeviceptr over_q(struct bench *b)
{
	return b->t.q;
}

static void nobody(struct bench *b, int r)
{
	(void)b, (void)r;
}

static void at_it(struct bench *b, int r)
{
	observe_digest(b, b->spare, r);
}

static void at_it_over_s(struct bench *b, int r)
{
	observe_digest(b, over_s(b), r);
	observe_p(b, &b->t, r);
}

static void at_it_over_q(struct bench *b, int r)
{
	observe_digest(b, over_q(b), r);
	app_observe(&b->report, "q", r, b->t.q, b->n);
}

static void at_p(struct bench *b, int r)
{
	observe_p(b, &b->t, r);
	observe_digest(b, b->spare, r);
}

/* All that it was made of has been written over since. */
static void after_next(struct bench *b, int r)
{
	bench_inputs(b, r + 100);
	chain(b, &b->t);
	observe_digest(b, b->spare, r);
	observe_o(b, &b->t, r + 100);
}

static void after_p(struct bench *b, int r)
{
	CHECK(cuMemsetD8(b->t.p, 7, 2 * b->scores));
	observe_digest(b, b->spare, r);
	observe_p(b, &b->t, r);
}

/* What lies in P's memory by then is another tensor, of all that is read, or of a part. */
static void after_other(struct bench *b, int r)
{
	app_scale(&b->app, b->t.p, b->t.q, 2, r == 9 ? b->scores / 4 : b->n);
	app_scale(&b->app, b->spare, b->t.p, 0.5f, b->n);
	app_observe(&b->report, "of another", r, b->spare, b->n);
	observe_p(b, &b->t, r);
}

/* Every other number of it is somebody else's by then. */
static void after_half(struct bench *b, int r)
{
	app_interleave(&b->app, b->t.p + 128, b->t.q, b->n / 2);
	app_scale(&b->app, b->t.x, b->t.p + 128, 0.5f, b->n);
	app_observe(&b->report, "of halves", r, b->t.x, b->n);
	observe_digest(b, b->spare, r);
}

/* Its middle is somebody else's. */
static void after_part(struct bench *b, int r)
{
	CHECK(cuMemsetD8(b->spare + 1000, 0, b->scores / 4));
	observe_digest(b, b->spare, r);
	observe_p(b, &b->t, r);
}

static void edited(struct bench *b, int r)
{
	app_scale(&b->app, b->t.p, b->t.p, 3, b->scores / 3);
	observe_digest(b, b->spare, r);
	observe_p(b, &b->t, r);
}

/* Another of another part, over the first in part. */
static void twice(struct bench *b, int r)
{
	app_scale(&b->app, b->spare + 512, b->t.p + 2 * 77, 0.25f, b->scores / 3);
	observe_digest(b, b->spare, r);
}

/* It is read by a product. */
static void multiplied(struct bench *b, int r)
{
	app_context(&b->app, b->shape, b->spare, b->t.v, b->t.x);
	app_observe(&b->report, "product", r, b->t.x, b->n);
}

static void read_by_kernel(struct bench *b, int r)
{
	app_copy(&b->app, b->t.x, b->spare, 500);
	app_observe(&b->report, "copy", r, b->t.x, 500);
}

static void freed(struct bench *b, int r)
{
	CUdeviceptr room = app_alloc(b->scores);

	digest(b, room);
	observe_o(b, &b->t, r);
	CHECK(cuMemFree(room));
}

CASE(digest_thrown, unseen(nobody, apart))
CASE(digest_seen, unseen(at_it, apart))
CASE(digest_over_s, unseen(at_it_over_s, over_s))
CASE(digest_over_q, unseen(at_it_over_q, over_q))
CASE(digest_and_p, unseen(at_p, apart))
CASE(digest_after_next, unseen(after_next, apart))
CASE(digest_after_p, unseen(after_p, apart))
CASE(digest_after_other, unseen(after_other, apart))
CASE(digest_after_half, unseen(after_half, apart))
CASE(digest_after_part, unseen(after_part, apart))
CASE(digest_after_edit, unseen(edited, apart))
CASE(digest_twice, unseen(twice, apart))
CASE(digest_multiplied, unseen(multiplied, apart))
CASE(digest_read, unseen(read_by_kernel, apart))
CASE(digest_freed, unseen(freed, apart))

const struct hazard hazards_digests[] = {
	EACH(digest_always, "half of P is read, and what is made of it"),
	ONCE(digest_thrown, "half of P is read, and nobody looks at what is made of it"),
	ONCE(digest_seen, "… but now and then"),
	ONCE(digest_over_s, "… which lies where S was"),
	ONCE(digest_over_q, "… which lies where Q was"),
	ONCE(digest_and_p, "… and at P"),
	ONCE(digest_after_next, "… after the next attention, of other inputs"),
	ONCE(digest_after_p, "… after a memset over P"),
	ONCE(digest_after_other, "… after another tensor was put in P's place"),
	ONCE(digest_after_half, "… after every other number of P was overwritten"),
	ONCE(digest_after_part, "… after a memset over its middle"),
	ONCE(digest_after_edit, "… after P was edited"),
	ONCE(digest_twice, "… after another was made over a part of it"),
	ONCE(digest_multiplied, "a product reads it"),
	ONCE(digest_read, "a kernel reads some of it"),
	ONCE(digest_freed, "its memory is freed"),
	{0},
};
