/* SPDX-License-Identifier: Apache-2.0
 *
 * O written where the program would have copied it to: which launches wait for the copy, what makes
 * them go without it, and who gets O itself made after all.
 */
#include "tests/unit/core.h"

#include <stdlib.h>

#include "shim/hazard/held.h"
#include "shim/act/replace.h"
#include "tests/apps/aten.h"

#define MERGED CORE_OTHER /* [Sq,H,D] */

/* O, [H,Sq,D], made [Sq,H,D]. */
static struct op merge(uint64_t to)
{
	const unsigned size[3] = {(unsigned)core.D, (unsigned)core.Sq, (unsigned)core.H};
	const unsigned D = 2 * (unsigned)core.D, Sq = (unsigned)core.Sq, H = (unsigned)core.H;
	const unsigned strides[3][2] = {{2, 2}, {D * H, D}, {D, D * Sq}};
	const unsigned char nothing = 0;

	return core_strided(TEXT(ATEN_COPY_STRIDED), 2, 3, size, &strides[0][0],
			    (uint64_t[]){to, core.o}, &nothing, 1);
}

/* Some forwards with the copy, then one up to the second product, whose launch waits. */
static void begin_waiting(void)
{
	core_begin();
	for (int i = 0; i < 6; i++) {
		core_chain();
		core_send(merge(MERGED));
	}
	core_send(core_memset(core.o, core.o_bytes));
	core_window();
	below_reset();
	assert_true(core_send(core_context()));
	assert_string_equal(core_acts(), "");
	assert_true(replace_waits());
}

static void begin_delivered(void)
{
	begin_waiting();
	assert_true(core_send(merge(MERGED)));
	assert_string_equal(core_acts(), "F");
	below_reset();
}

static void test_delivered(void **state)
{
	begin_waiting();
	assert_true(core_send(merge(MERGED)));
	assert_string_equal(core_acts(), "F");
	assert_int_equal(below.args.o.base, MERGED);
	assert_int_equal(below.args.o.stride[1], core.D);
	assert_int_equal(below.args.o.stride[2], core.H * core.D);
	assert_int_equal(below.args.o.stride[3], 1);
	assert_false(replace_waits());
}

/* Anything else comes first: the kernel writes O, and the op sees it. */
static void test_another_op(void **state)
{
	struct op wait = core_event(OP_SYNC, "cuEventRecord");
	struct op merged;

	for (int what = 0; what < 6; what++) {
		begin_waiting();
		merged = merge(MERGED);
		switch (what) {
		case 0:
			core_send(wait);
			break;
		case 1:
			assert_false(core_send(core_to_host(core.o, core.o_bytes)));
			break;
		case 2: /* the copy, but on another stream */
			merged.stream = (CUstream)&merged;
			assert_false(core_send(merged));
			break;
		case 3: /* another copy */
			assert_false(core_send(core_kernel_copy(MERGED, core.o, core.Sq)));
			break;
		case 4:
			flow_flush("cuLaunchHostFunc");
			break;
		case 5:
			assert_false(core_send(core_memset(core.v, core.v_bytes)));
			break;
		}
		assert_false(replace_waits());
		assert_int_equal(core_acts()[0], 'F');
		assert_int_equal(below.args.o.base, core.o);
		assert_int_equal(below.args.o.stride[2], core.D);
	}
}

/* The second product is another library's, in which ours would have to be run after all. */
static void test_another_library(void **state)
{
	static const char library;
	struct op product;

	for (int ready = 0; ready < 2; ready++) {
		begin_waiting();
		core_send(merge(MERGED));
		core_send(core_memset(core.o, core.o_bytes));
		core_window();
		below_reset();
		below.no_handle = ready ? NULL : (const struct library *)&library;
		product = core_context();
		product.gemm.library = (const struct library *)&library;
		assert_true(core_send(product));
		assert_string_equal(core_acts(), ready ? "" : "F");
		assert_int_equal(replace_waits(), ready);
		core_send(core_event(OP_SYNC, "cuEventRecord"));
	}
}

/* A program that never comes with the copy again is not waited for. */
static void test_no_copy_any_more(void **state)
{
	int waited = 0;

	begin_delivered();
	for (int i = 0; i < 20; i++) {
		core_chain();
		waited += replace_waits();
		core_send(core_memset(core.o, core.o_bytes));
	}
	assert_in_range(waited, 1, 10);
}

static void test_o_is_read(void **state)
{
	begin_delivered();
	assert_false(core_send(core_to_host(core.o + 64, 2)));
	assert_string_equal(core_acts(), "T");
	assert_int_equal(core_act(ACT_LAY_OUT, 0)->a, MERGED);
	assert_int_equal(core_act(ACT_LAY_OUT, 0)->b, core.o);
	assert_false(core_send(core_to_host(core.o, core.o_bytes)));
	assert_string_equal(core_acts(), "T");
}

/* Its copy goes first. */
static void test_copy_goes(void **state)
{
	begin_delivered();
	assert_false(core_send(core_to_host(MERGED, core.o_bytes)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(core_memset(MERGED + 2, 2)));
	assert_string_equal(core_acts(), "T");
}

static void test_o_goes(void **state)
{
	begin_delivered();
	assert_false(core_send(core_memset(core.o, core.o_bytes)));
	assert_false(core_send(core_memset(MERGED, core.o_bytes)));
	assert_false(core_send(core_to_host(core.o, core.o_bytes)));
	assert_string_equal(core_acts(), "");
}

/* O is an operand of the next product. */
static void test_o_is_multiplied(void **state)
{
	begin_delivered();
	core_send(core_product(0, 0, 8, 8, 8, core.o, 8, 64, core.v, 8, 64, core.x, 8, 64, 1));
	assert_int_equal(below.count[ACT_LAY_OUT], 1);
}

/* The copy lies over V: V is saved, and the kernel reads what was saved. */
static void test_copy_over_v(void **state)
{
	begin_waiting();
	assert_true(core_send(merge(core.v)));
	assert_string_equal(core_acts(), "CF");
	assert_int_equal(core_act(ACT_COPY, 0)->a, core.v);
	assert_int_equal(below.args.v.base, core_act(ACT_COPY, 0)->b);
	assert_int_equal(below.args.o.base, core.v);
}

/* Host memory may be read by somebody whom nobody sees. */
static void test_copy_in_host_memory(void **state)
{
	begin_waiting();
	core_allocate(CORE_APART, 1 << 20, MEMORY_HOST);
	assert_false(core_send(merge(CORE_APART)));
	assert_string_equal(core_acts(), "F");
	assert_int_equal(below.args.o.base, core.o);
}

/* The kernel does not start: the program's own ops run, the product too. */
static void test_launch_fails(void **state)
{
	begin_waiting();
	below.no_fused = true;
	assert_false(core_send(merge(MERGED)));
	assert_string_equal(core_acts(), CORE_FORWARD "G");
	assert_int_equal(core_act(ACT_GEMM, 1)->c, core.o);
	assert_false(replace_waits());
	assert_int_equal(held_count, 0);
}

/* Nor does the product, which the program was told has run: the call that found out fails. */
static void test_nothing_runs(void **state)
{
	struct op op = merge(MERGED);

	begin_waiting();
	below.no_fused = true;
	below.no_rerun = true;
	assert_int_equal(flow_before(&op), FLOW_FAILED);
	assert_int_not_equal(op.error, CUDA_SUCCESS);
	assert_false(replace_waits());
	assert_int_equal(held_count, 0);
}

/* P is still computed from what it was made of. */
static void test_p_is_read(void **state)
{
	begin_delivered();
	assert_false(core_send(core_to_host(core.p, core.score_bytes)));
	assert_string_equal(core_acts(), CORE_FORWARD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delivered),	cmocka_unit_test(test_another_op),
		cmocka_unit_test(test_another_library), cmocka_unit_test(test_no_copy_any_more),
		cmocka_unit_test(test_o_is_read),	cmocka_unit_test(test_copy_goes),
		cmocka_unit_test(test_o_goes),		cmocka_unit_test(test_o_is_multiplied),
		cmocka_unit_test(test_copy_over_v),	cmocka_unit_test(test_copy_in_host_memory),
		cmocka_unit_test(test_launch_fails),	cmocka_unit_test(test_p_is_read),
		cmocka_unit_test(test_nothing_runs),
	};

	return CORE_MAIN("delivery", tests);
}
