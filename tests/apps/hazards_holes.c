/* SPDX-License-Identifier: Apache-2.0
 *
 * A softmax that nobody knows writes P up to the diagonal; the zeros beyond are the program's, put
 * there once, or something else is by then.
 */
#include "hazards.h"

enum { LAYERS = 3 };

static CUfunction lower;

static void open_lower(struct bench *b)
{
	bench_open(b, TOGETHER);
	CHECK(cuModuleGetFunction(&lower, b->app.module, "app_softmax_lower_f16"));
}

static void make_p(struct bench *b, CUdeviceptr p)
{
	chain_open(b, &b->t);
	app_scale(&b->app, b->t.x, b->t.s, 0.25f, b->scores);
	app_launch(&b->app, lower, (unsigned)(b->shape.heads * b->shape.rows), 32,
		   (void *[]){&p, &b->t.x, &b->shape.rows, &b->shape.columns});
}

static void nothing(struct bench *b, int r)
{
	(void)b, (void)r;
}

/* `before` the attention, before its product with V (`midst`), and `after` it, three
 * times. */
static void with(void (*before)(struct bench *b, int r), void (*midst)(struct bench *b, int r),
		 void (*after)(struct bench *b, int r))
{
	struct bench b;

	open_lower(&b);
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		const bool worst = r > REPETITIONS && r % 4 == 1;

		bench_inputs(&b, r);
		if (worst)
			before(&b, r);
		make_p(&b, b.t.p);
		if (worst)
			midst(&b, r);
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (worst)
			after(&b, r);
	}
	bench_close(&b);
}

static void fill(struct bench *b, int r)
{
	CHECK(cuMemsetD16(b->t.p, r % 8 == 5 ? 0x3c00 : 0, b->scores));
}

/* One number of the last head, above its diagonal. */
static void fill_one(struct bench *b, int r)
{
	const size_t last = b->scores - (size_t)b->shape.rows * b->shape.columns;

	CHECK(cuMemsetD16(b->t.p + 2 * (last + 9), r % 8 == 5 ? 0x4400 : 0, 1));
}

static void look(struct bench *b, int r)
{
	observe_p(b, &b->t, r);
}

static void look_at_part(struct bench *b, int r)
{
	app_observe(&b->report, "some of P", r, b->t.p + 2 * 70, b->scores / 3);
}

/* Of what it was made of nothing is left. */
static void look_later(struct bench *b, int r)
{
	bench_inputs(b, r + 100);
	CHECK(cuMemsetD16(b->t.s, 0, b->scores));
	observe_p(b, &b->t, r);
}

/* A part of it is somebody else's by then. */
static void look_at_rest(struct bench *b, int r)
{
	CHECK(cuMemsetD16(b->t.p + 2 * 333, 0x3800, b->scores / 4));
	observe_p(b, &b->t, r);
	CHECK(cuMemsetD16(b->t.p, 0, b->scores));
}

static void digest(struct bench *b, int r)
{
	app_scale(&b->app, b->spare, b->t.p, 0.5f, b->scores / 2);
	CHECK(cuMemsetD16(b->t.p, 0, b->scores));
	app_observe(&b->report, "half", r, b->spare, b->scores / 2);
}

/* Another attention, whose P has no holes, in the same memory; then zeros again, or not. */
static void other_there(struct bench *b, int r)
{
	chain(b, &b->t);
	observe_o(b, &b->t, r + 200);
	if (r % 8 == 5)
		CHECK(cuMemsetD16(b->t.p, 0, b->scores));
}

static void add_to_it(struct bench *b, int r)
{
	app_scale(&b->app, b->t.p, b->t.p, 2, b->scores);
	(void)r;
}

/* A kernel without a rule writes beside them, to the memory that they share. */
static void make_beside(struct bench *b, CUdeviceptr beside)
{
	app_launch(&b->app, lower, (unsigned)(b->shape.heads * b->shape.rows), 32,
		   (void *[]){&beside, &b->spare, &b->shape.rows, &b->shape.columns});
}

/* `among`: it does so behind each of them. */
static void layers(bool among)
{
	CUdeviceptr room = 0, p;
	struct bench b;

	open_lower(&b);
	room = app_alloc((LAYERS + 1) * 2 * b.scores);
	CHECK(cuMemsetD16(room, 0, LAYERS * b.scores));
	for (int r = 0; r < REPETITIONS; r++)
		for (int n = 0; n < LAYERS; n++) {
			p = room + (CUdeviceptr)n * 2 * b.scores;
			bench_inputs(&b, 10 * r + n);
			make_p(&b, p);
			app_context(&b.app, b.shape, p, b.t.v, b.t.o);
			observe_o(&b, &b.t, 10 * r + n);
			if (among)
				make_beside(&b, room + (CUdeviceptr)LAYERS * 2 * b.scores);
			if (late(r) && n == 1)
				app_observe(&b.report, "P", r, p, b.scores);
		}
	bench_close(&b);
}

/* What lies beyond is ones, always. */
static void ones(void)
{
	struct bench b;

	open_lower(&b);
	CHECK(cuMemsetD16(b.t.p, 0x3c00, b.scores));
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		make_p(&b, b.t.p);
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
	}
	bench_close(&b);
}

CASE(lower_triangle, with(nothing, nothing, look))
CASE(lower_unseen, with(nothing, nothing, nothing))
CASE(lower_filled, with(fill, nothing, nothing))
CASE(lower_filled_one, with(fill_one, nothing, look))
CASE(lower_filled_behind, with(nothing, nothing, fill))
CASE(lower_filled_midst, with(nothing, fill_one, nothing))
CASE(lower_part, with(nothing, nothing, look_at_part))
CASE(lower_later, with(nothing, nothing, look_later))
CASE(lower_rest, with(nothing, nothing, look_at_rest))
CASE(lower_digest, with(nothing, nothing, digest))
CASE(lower_other, with(other_there, nothing, nothing))
CASE(lower_other_behind, with(nothing, nothing, other_there))
CASE(lower_edited, with(nothing, add_to_it, look))
CASE(lower_layers, layers(false))
CASE(lower_among, layers(true))
CASE(lower_ones, ones())

const struct hazard hazards_holes[] = {
	ONCE(lower_triangle,
	     "softmax writes P up to the diagonal alone, which is read now and then"),
	ONCE(lower_unseen, "… and nobody reads it"),
	ONCE(lower_filled, "… and all of it is filled before"),
	ONCE(lower_filled_one, "… and one number above the diagonal is"),
	ONCE(lower_filled_behind, "… and it is filled behind O"),
	ONCE(lower_filled_midst, "… and one number is filled before the product"),
	ONCE(lower_part, "… and some of it is read"),
	ONCE(lower_later, "… and it is read when Q, K and S are gone"),
	ONCE(lower_rest, "… and it is read when a part is somebody else's"),
	ONCE(lower_digest, "… and what was made of half of it is"),
	ONCE(lower_other, "… and P of another attention was there before"),
	ONCE(lower_other_behind, "… and is put there behind it"),
	ONCE(lower_edited, "… and it is doubled before the product"),
	ONCE(lower_layers, "… in as many places as there are layers"),
	ONCE(lower_among, "… and a kernel nobody knows writes to the memory that they share"),
	ONCE(lower_ones, "… and beyond are ones"),
	{0},
};
