/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores that are overwritten by turns: every other element, and then the others, as the halves of
 * interleaved rotary embeddings are put together; or the first columns of each row, and then the
 * others, as tensors of two layouts are concatenated. Nobody reads them, so nothing is made; unless
 * somebody comes in between, for whom all but what was written is.
 */
#include "tests/unit/core.h"

#include <string.h>

#include "shim/base/range.h"
#include "shim/hazard/held.h"
#include "shim/rules/rules.h"
#include "shim/site/site.h"

#define COPY                                                                                       \
	"_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23"      \
	"direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE8_clEvEUlN3c10"      \
	"4HalfEE_EEvS4_RKT_EUliE_EEviT1_"
#define COPY_FLOATS                                                                                \
	"_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23"      \
	"direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEv"     \
	"S4_RKT_EUliE_EEviT1_"

/* Elements of `width` bytes to every other place from `out` on. */
static struct op half_of(uint64_t out, uint64_t in, unsigned width, int64_t elements)
{
	const unsigned char empty = 0;

	return core_strided(width == 2 ? COPY : COPY_FLOATS, 2, 1, (unsigned[]){(unsigned)elements},
			    (unsigned[]){2 * width, width}, (uint64_t[]){out, in}, &empty, 1);
}

static struct op half(uint64_t out, int64_t elements)
{
	return half_of(out, CORE_OTHER, 2, elements);
}

/* `columns` of each row of `row` of them, of 2 bytes. */
static struct op strip(uint64_t out, unsigned columns, unsigned row, unsigned rows)
{
	const unsigned char empty = 0;

	return core_strided(COPY, 2, 2, (unsigned[]){columns, rows},
			    (unsigned[]){2, 2, 2 * row, 2 * columns}, (uint64_t[]){out, CORE_OTHER},
			    &empty, 1);
}

static int64_t halves(void)
{
	return core.H * core.Sq * core.Sk / 2;
}

static bool stands(uint64_t begin, uint64_t end)
{
	for_each_chain(chain) for (int i = 0; i < chain->value_count;
				   i++) if (range_set_touches(&chain->values[i].live, begin,
							      end)) return true;
	return false;
}

static uint64_t materialised(void)
{
	return sites[0].live->materialised;
}

static void test_both_halves(void **state)
{
	for (int odd = 0; odd < 2; odd++) {
		core_replaced();
		assert_false(core_send(half(core.p + 2 * (uint64_t)odd, halves())));
		assert_true(stands(core.p, core.p + core.score_bytes));
		assert_false(core_send(core_memset(CORE_OTHER, 4096))); /* elsewhere */
		assert_false(core_send(half(core.p + 2 * (uint64_t)!odd, halves())));
		assert_false(stands(core.p, core.p + core.score_bytes));
		assert_string_equal(core_acts(), "");
		assert_int_equal(materialised(), 0);
		assert_true(held_virtual(core_only_chain())); /* S is */
	}
}

/* Columns, the first or the last of them first. */
static void test_strips(void **state)
{
	for (unsigned columns = 1; columns < 32; columns += 15)
		for (int last = 0; last < 2; last++) {
			const unsigned rows = (unsigned)(core.score_bytes / 64);
			const uint64_t behind = core.p + 2 * columns;

			core_replaced();
			assert_false(core_send(last ? strip(behind, 32 - columns, 32, rows)
						    : strip(core.p, columns, 32, rows)));
			assert_true(stands(core.p, core.p + core.score_bytes));
			assert_false(core_send(last ? strip(core.p, columns, 32, rows)
						    : strip(behind, 32 - columns, 32, rows)));
			assert_false(stands(core.p, core.p + core.score_bytes));
			assert_string_equal(core_acts(), "");
			assert_int_equal(materialised(), 0);
		}
}

/* Of a part: what is before and behind it stands, and is written back. */
static void test_halves_of_a_part(void **state)
{
	const uint64_t begin = core.p + 400, end = begin + 4 * 100;

	core_replaced();
	assert_false(core_send(half(core.p + 400, 100)));
	assert_false(core_send(half(core.p + 402, 100)));
	assert_string_equal(core_acts(), "");
	assert_true(stands(core.p, core.p + 400));
	assert_false(stands(core.p + 400, core.p + 800));
	assert_true(stands(core.p + 800, core.p + core.score_bytes));
	assert_false(core_send(core_to_host(core.p, core.score_bytes)));
	assert_memory_equal(core_acts(), CORE_FORWARD "S", 5);
	for (int i = 0; i < below.acts; i++)
		assert_true(below.act[i].kind != ACT_WRITE_BACK ||
			    below.act[i].b + below.act[i].bytes <= begin || below.act[i].b >= end);
}

/* All that was written back of P, and that nothing else was: `count` pieces from `from` on are the
 * program's. */
static void check_between(uint64_t from, uint64_t width, uint64_t pitch, uint64_t count)
{
	static unsigned char back[1 << 20];
	uint64_t at;

	assert_true(core.score_bytes <= sizeof(back));
	memset(back, 0, sizeof(back));
	for (int i = 0; i < below.acts; i++) {
		const struct act *act = &below.act[i];
		const uint64_t rows = act->rows ? act->rows : 1;

		if ((act->kind != ACT_WRITE_BACK && act->kind != ACT_COPY) || act->b < core.p ||
		    act->b >= core.p + core.score_bytes)
			continue;
		for (uint64_t row = 0; row < rows; row++)
			for (uint64_t k = 0; k < act->bytes; k++)
				back[act->b - core.p + row * act->pitch + k]++;
	}
	for (at = 0; at < core.score_bytes; at++) {
		const uint64_t in = core.p + at - from;
		const bool programs =
			core.p + at >= from && in < count * pitch && in % pitch < width;

		if (back[at] != !programs)
			fail_msg("byte %llu of P is written back %d times", (unsigned long long)at,
				 back[at]);
	}
}

static void interrupt_after(struct op first, struct op op)
{
	core_replaced();
	assert_false(core_send(first));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(op));
	assert_memory_equal(core_acts(), CORE_FORWARD, 4);
	assert_int_equal(materialised(), 1);
	assert_int_equal(chain_live, 0);
	assert_int_equal(below.scratch, 0);
}

static void interrupt(struct op op, uint64_t from, unsigned width, int64_t count)
{
	interrupt_after(half_of(from, CORE_OTHER, width, count), op);
	check_between(from, width, 2 * width, (uint64_t)count);
}

static void test_interrupted(void **state)
{
	core_begin();
	/* read: all of it, what was written, what was not, what lies elsewhere in P */
	interrupt(core_to_host(core.p, core.score_bytes), core.p, 2, halves());
	interrupt(core_to_host(core.p, 2), core.p, 2, halves());
	interrupt(core_to_host(core.p + 2, 2), core.p, 2, halves());
	interrupt(core_to_host(core.p, 2), core.p + 400, 2, 100);
	interrupt(core_to_host(core.p + 402, 2), core.p + 402, 2, 100);
	interrupt(core_to_host(core.p + core.score_bytes - 2, 2), core.p + 2, 2, halves());
	interrupt(core_to_host(core.p, 2), core.p + 8, 4, halves() / 4);
	/* written in part, or in part once more, or by halves of another kind */
	interrupt(core_memset(core.p + 400, 8), core.p, 2, halves());
	interrupt(half(core.p, halves()), core.p, 2, halves());
	interrupt(half(core.p + 2, halves() - 1), core.p, 2, halves());
	interrupt(half(core.p + 6, 100), core.p, 2, 100);
	interrupt(half_of(core.p + 4, CORE_OTHER, 4, halves() / 2), core.p, 2, halves());
	/* read by who writes the other half */
	interrupt(half_of(core.p + 2, core.p, 2, halves()), core.p, 2, halves());
	interrupt(core_unknown(core.p, CORE_OTHER, 1), core.p, 2, halves());
	interrupt(core_event(OP_OPAQUE, "cuSomethingNew"), core.p, 2, halves());
}

static void interrupt_strip(struct op op)
{
	const unsigned rows = (unsigned)(core.score_bytes / 64);

	interrupt_after(strip(core.p, 8, 32, rows), op);
	check_between(core.p, 16, 64, rows);
}

static void test_strips_interrupted(void **state)
{
	const unsigned rows = (unsigned)(core.score_bytes / 64);

	core_begin();
	interrupt_strip(core_to_host(core.p + 64, 2));
	interrupt_strip(strip(core.p + 16, 23, 32, rows));     /* a column is left */
	interrupt_strip(strip(core.p + 16, 24, 32, rows - 1)); /* a row is */
	interrupt_strip(strip(core.p + 16, 8, 16, 2 * rows));  /* rows of another kind */
	interrupt_strip(strip(core.p + 14, 24, 32, rows));     /* a column twice */
}

/* What overwrites all of it leaves nothing in between. */
static void test_overwritten(void **state)
{
	core_replaced();
	assert_false(core_send(half(core.p + 400, 100)));
	assert_false(core_send(core_memset(core.p, core.score_bytes)));
	assert_string_equal(core_acts(), "");
	assert_false(stands(core.p, core.p + core.score_bytes));
	assert_false(core_send(half(core.x + 2, halves()))); /* and another may begin */
	assert_false(core_send(half(core.x, halves())));
	assert_string_equal(core_acts(), "");
	assert_false(stands(core.x, core.x + core.score_bytes));
}

/* A value that ends within two elements is made at once. */
static void test_in_the_midst(void **state)
{
	core_replaced();
	assert_false(core_send(core_memset(core.p, 402)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(half(core.p, halves())));
	assert_memory_equal(core_acts(), CORE_FORWARD, 4);
}

/* Of a chain that is watched: such an owner of the memory later on is no reader. */
static void test_watched(void **state)
{
	core_begin();
	for (int i = 0; i < 4; i++) {
		const int taken = core_chain();

		assert_int_equal(taken, i < 3 ? 0 : 5);
		below_reset();
		for (int odd = 0; odd < 2; odd++)
			assert_false(core_send(half(core.p + 2 * (uint64_t)odd, halves())));
		for (int odd = 0; odd < 2; odd++)
			assert_false(core_send(half(core.x + 2 * (uint64_t)odd, halves())));
		assert_false(core_send(core_memset(core.s, core.score_bytes)));
		assert_string_equal(core_acts(), "");
	}
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	assert_int_equal(sites[0].met, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_halves),  cmocka_unit_test(test_halves_of_a_part),
		cmocka_unit_test(test_interrupted),  cmocka_unit_test(test_overwritten),
		cmocka_unit_test(test_in_the_midst), cmocka_unit_test(test_watched),
		cmocka_unit_test(test_strips),	     cmocka_unit_test(test_strips_interrupted)};

	return CORE_MAIN("comb", tests);
}
