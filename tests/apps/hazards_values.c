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

static void zeros(void)
{
	constant_v(0, REPETITIONS);
}

static void zeros_at_first(void)
{
	constant_v(0, 8);
}

static void one_zero(void)
{
	constant_v(0, 2);
}

static void no_numbers(void)
{
	constant_v(0x7e00, 8); /* NaN */
}

const struct hazard hazards_values[] = {
	{"zeros", zeros, "V is all zeros"},
	{"zeros_at_first", zeros_at_first, "the same, in most repetitions"},
	{"one_zero", one_zero, "the same, in the first two"},
	{"no_numbers", no_numbers, "V is NaN in most repetitions"},
	{0},
};
