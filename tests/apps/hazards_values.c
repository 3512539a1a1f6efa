/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention on numbers that show nothing: V all zeros, as in a model that was never trained, or no
 * numbers at all. What a shim learned of such outputs must hold for those that follow.
 */
#include "hazards.h"

/* As bench_inputs(), but V is `bits` throughout; from repetition `until` on it is as usual. */
static void constant_v(uint16_t bits, int until)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		if (r < until)
			CHECK(cuMemsetD16(b.t.v, bits, b.n));
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

static void no_numbers(void)
{
	constant_v(0x7e00, 4); /* NaN */
}

/* Upstream something overflows, so that O is no number; then the scores themselves do, which only
 * the program keeps in fp16. */
static void overflow(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		CHECK(cuMemsetD16(b.t.q, r < 8 ? 0x7e00 : 0x5c00, b.n)); /* NaN, 256 */
		CHECK(cuMemsetD16(b.t.k, 0x5c00, b.n));
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* Of every five rows S is, at the first key, infinite in the second and 65504 in the fourth. */
static void raise_rows(const struct bench *b)
{
	const int rows = b->shape.rows, depth = b->shape.depth;

	for (int n = 0; n < b->shape.heads * rows; n++) {
		const CUdeviceptr row = (CUdeviceptr)(n * depth * 2);

		if (n % rows == 0)
			CHECK(cuMemsetD16(b->t.k + row, 0x5400, (size_t)depth)); /* 64 */
		if (n % rows % 5 == 1)
			CHECK(cuMemsetD16(b->t.q + row, 0x5400, (size_t)depth));
		if (n % rows % 5 == 3)
			CHECK(cuMemsetD16(b->t.q + row, 0x4fff, (size_t)depth)); /* 31.98 */
	}
}

/* Rows of S overflow only once the site is known, without a mask and below one. */
static void rows_overflow(struct bench *b, int r)
{
	bench_inputs(b, r);
	if (late(r))
		raise_rows(b);
	chain_open(b, &b->t);
	app_scale(&b->app, b->t.x, b->t.s, 0.5f, b->scores);
	app_softmax(&b->app, b->t.p, b->t.x, (size_t)(b->shape.heads * b->shape.rows),
		    b->shape.columns);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
	if (r == REPETITIONS - 1)
		observe_p(b, &b->t, r);
}

static void masked_rows_overflow(struct bench *b, int r)
{
	bench_inputs(b, r);
	if (late(r))
		raise_rows(b);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	if (r == REPETITIONS - 1)
		observe_p(b, &b->t, r);
}

CASE(zeros, constant_v(0, REPETITIONS))
CASE(zeros_at_first, constant_v(0, 8))
CASE(one_zero, constant_v(0, 2))

const struct hazard hazards_values[] = {
	ONCE(zeros, "V is all zeros"),
	ONCE(zeros_at_first, "the same, in most repetitions"),
	ONCE(one_zero, "the same, in the first two"),
	ONCE(no_numbers, "V is NaN in the first repetitions"),
	ONCE(overflow, "Q is NaN in most repetitions, then scores overflow"),
	EACH(rows_overflow, "scores overflow in some rows of late repetitions"),
	EACH(masked_rows_overflow, "the same, below a mask"),
	{0},
};
