/* SPDX-License-Identifier: Apache-2.0
 *
 * The hazard table: what must happen before an op that would notice that scores were never written.
 * Each test has one chain replaced (or deferred up to its last product) and sends one such op. Ops
 * that take away what the scores are made of: test_held_inputs.c.
 */
#include "tests/unit/core.h"

#include <string.h>

#include "shim/hazard/held.h"
#include "shim/log/log.h"
#include "shim/site/site.h"
#include "tests/unit/child.h"

static uint64_t materialised(void)
{
	return sites[0].live->materialised;
}

/* ---- nothing of ours
 * ------------------------------------------------------------------------------- */

static void test_elsewhere(void **state)
{
	core_replaced();
	assert_false(core_send(core_memset(CORE_OTHER, 4096)));
	assert_false(core_send(core_to_host(core.o, core.o_bytes)));
	assert_false(core_send(core_unknown(CORE_APART, CORE_APART + 4096, 1)));
	assert_false(core_send(core_fill(CORE_OTHER, 1000)));
	assert_false(core_send(core_copy(CORE_OTHER, CORE_APART, 4096)));
	assert_false(core_send(core_to_host(core.k, core.k_bytes))); /* inputs may be read */
	assert_string_equal(core_acts(), "");
	assert_true(held_virtual(core_only_chain()));
}

/* ---- overwritten without being read
 * ---------------------------------------------------------------- */

static void overwrite(struct op p, struct op x, struct op s)
{
	core_replaced();
	assert_false(core_send(p));
	assert_false(core_send(x));
	assert_true(held_virtual(core_only_chain()));
	assert_false(core_send(s));
	assert_string_equal(core_acts(), "");
	assert_int_equal(chain_live, 0);
	assert_int_equal(held_count, 0);
	assert_int_equal(materialised(), 0);
}

static void test_overwritten_by_memset(void **state)
{
	core_begin();
	overwrite(core_memset(core.p, core.score_bytes), core_memset(core.x, core.score_bytes),
		  core_memset(core.s, core.score_bytes));
}

static void test_overwritten_by_copy(void **state)
{
	core_begin();
	overwrite(core_from_host(core.p, core.score_bytes),
		  core_copy(CORE_OTHER, core.x, core.score_bytes),
		  core_copy(CORE_OTHER, core.s - 512, core.score_bytes + 1024));
}

static void test_overwritten_by_kernel(void **state)
{
	core_begin();
	overwrite(core_fill(core.p, core.H * core.Sq * core.Sk),
		  core_fill(core.x, core.H * core.Sq * core.Sk),
		  core_kernel_copy(core.s, CORE_OTHER, core.H * core.Sq * core.Sk));
}

/* A GEMM with beta = 0 writes all of C. */
static void test_overwritten_by_gemm(void **state)
{
	struct op gemm;

	core_replaced();
	gemm = core_product(0, 0, core.Sk, core.H * core.Sq, 4096, CORE_OTHER, core.Sk, 0,
			    CORE_OTHER, 4096, 0, core.p, core.Sk, 0, 1);
	assert_false(core_send(gemm));
	assert_string_equal(core_acts(), "");
	for_each_chain(chain) for (int i = 0; i < chain->value_count; i++) assert_false(
		range_set_touches(&chain->values[i].live, core.p, core.p + core.score_bytes));
	gemm.gemm.c = core.x;
	gemm.gemm.beta = 1; /* this one reads X first */
	assert_false(core_send(gemm));
	assert_memory_equal(core_acts(), CORE_FORWARD, 4);
}

/* P copied inside the window, by a step that the chain does without: the copy is as virtual as P.
 */
static void test_copy_for_nobody(void **state)
{
	const uint64_t copy = CORE_OTHER;
	int taken = 0;

	core_begin();
	for (int i = 0; i < 4; i++) {
		below_reset();
		taken = core_window();
		taken += core_send(core_kernel_copy(copy, core.p, core.H * core.Sq * core.Sk));
		taken += core_send(core_context());
		assert_int_equal(taken, i < 3 ? 0 : 6);
		if (i < 3) /* where nobody but its next owner comes */
			assert_false(core_send(core_memset(copy, core.score_bytes)));
	}
	assert_string_equal(core_acts(), "F");
	assert_false(core_send(core_to_host(copy, 2)));
	assert_memory_equal(core_acts(), "FGLLLL", 6);
	assert_int_equal(materialised(), 1);
}

static void test_freed(void **state)
{
	core_replaced();
	assert_false(core_send(core_free(CORE_ARENA)));
	assert_string_equal(core_acts(), "");
	assert_int_equal(chain_live, 0);
	assert_int_equal(held_count, 0);
	assert_int_equal(below.scratch, 0);
}

/* Part of P is set: the rest, and only the rest, is written back when somebody reads. */
static void test_partly_overwritten(void **state)
{
	const uint64_t cut = 1001 * 2, bytes = 333 * 2;
	struct range_set p;
	int copies = 0;

	core_replaced();
	assert_false(core_send(core_memset(core.p + cut, bytes)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(core_to_host(core.p, core.score_bytes)));
	assert_memory_equal(core_acts(), CORE_FORWARD "S", 5);
	assert_int_equal(core_act(ACT_GEMM, 0)->c, core.s); /* in whose place nobody is */
	assert_true(core_act(ACT_LAUNCH, 2)->a >= BELOW_SCRATCH);
	range_set_one(&p, core.p, core.p + core.score_bytes);
	range_set_cut(&p, core.p + cut, core.p + cut + bytes);
	for (int i = 0; i < below.acts; i++) {
		const struct act *act = &below.act[i];

		if (act->kind != ACT_WRITE_BACK || act->b < core.p ||
		    act->b >= core.p + core.score_bytes)
			continue;
		copies++;
		assert_true(range_set_covers(&p, act->b, act->b + act->bytes));
		range_set_cut(&p, act->b, act->b + act->bytes);
	}
	assert_int_equal(copies, 2);
	assert_int_equal(p.count, 0);
	assert_int_equal(chain_live, 0);
	assert_int_equal(below.scratch, 0);
}

/* Of the steps' values only the last is left, in parts: no more than two exist at a time. */
static void test_room_for_two(void **state)
{
	core_replaced();
	assert_false(core_send(core_memset(core.s, core.score_bytes)));
	assert_false(core_send(core_memset(core.x, core.score_bytes)));
	assert_false(core_send(core_memset(core.p + 64, 2)));
	assert_string_equal(core_acts(), "");
	below.scratch_most = 0;
	assert_false(core_send(core_to_host(core.p, 2)));
	assert_memory_equal(core_acts(), CORE_FORWARD "SS", 6);
	assert_int_equal(below.scratch_most, 2);
	assert_int_equal(below.scratch, 0);
}

/* ---- read
 * ------------------------------------------------------------------------------------------ */

/* Everything is where the program wrote it: no scratch, the ops in their order, in place. */
static void read_in_place(struct op op)
{
	const struct act *gemm;

	core_replaced();
	assert_false(core_send(op));
	assert_string_equal(core_acts(), CORE_FORWARD);
	gemm = core_act(ACT_GEMM, 0);
	assert_int_equal(gemm->a, core.k);
	assert_int_equal(gemm->b, core.q);
	assert_int_equal(gemm->c, core.s);
	assert_int_equal(core_act(ACT_LAUNCH, 2)->a, core.p);
	assert_int_equal(core_act(ACT_LAUNCH, 2)->b, core.m);
	assert_int_equal(materialised(), 1);
	assert_int_equal(held_count, 0);
	for_each_chain(chain) /* a product that reads P may open a chain of its own */
		assert_false(chain->closed);
}

static void test_read_by_copy(void **state)
{
	core_begin();
	read_in_place(core_to_host(core.p, core.score_bytes));
	read_in_place(core_to_host(core.p + 100, 2));
	read_in_place(core_to_host(core.x + 100, 2));
	read_in_place(core_copy(core.p, CORE_OTHER, 64));
	read_in_place(core_copy(core.s - 64, CORE_OTHER, 65));
}

static void test_read_by_kernel(void **state)
{
	const int64_t most = (int64_t)core.score_bytes / 4 + 1; /* more than half of P */

	core_begin();
	read_in_place(core_kernel_copy(CORE_OTHER, core.p, most));
	read_in_place(core_unknown(core.p + 64, CORE_OTHER, 1));
	read_in_place(core_unknown(CORE_OTHER, core.p + core.score_bytes - 2, 1));
}

/* What is made of P and is at most half as much is held back with it, and made when it is read,
 * or not at all. */
static void test_digest(void **state)
{
	const int64_t half = (int64_t)core.score_bytes / 4;

	core_begin();
	core_replaced();
	assert_true(core_send(core_kernel_copy(CORE_OTHER, core.p, half)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(core_to_host(CORE_OTHER, 2)));
	assert_string_equal(core_acts(), CORE_FORWARD "L");

	core_replaced();
	assert_true(core_send(core_kernel_copy(CORE_OTHER, core.p + 64, 100)));
	assert_false(core_send(core_memset(core.p, core.score_bytes)));
	assert_false(core_send(core_memset(CORE_OTHER, 200)));
	assert_false(core_send(core_memset(core.s, core.score_bytes)));
	assert_false(core_send(core_memset(core.x, core.score_bytes)));
	assert_false(core_send(core_memset(core.m, core.score_bytes)));
	assert_string_equal(core_acts(), "");
	assert_int_equal(chain_live, 0);
}

/* A second V for the same P, and S^T S: GEMMs that read scores otherwise. */
static void test_read_by_gemm(void **state)
{
	struct op again;

	core_begin();
	again = core_context();
	again.gemm.a = CORE_OTHER;
	again.gemm.c = CORE_OTHER + 0x10000;
	read_in_place(again);
	read_in_place(core_product(0, 1, 8, 8, 8, core.p, 8, 0, core.p, 8, 0, CORE_OTHER, 8, 0, 1));
}

/* Just beside: no read. */
static void test_read_beside(void **state)
{
	core_replaced();
	assert_false(core_send(core_to_host(core.p - 64, 64)));
	assert_false(core_send(core_to_host(core.p + core.score_bytes, 64)));
	assert_string_equal(core_acts(), "");
}

/* The reader's stream waits for the one that computes. */
static void test_read_on_other_stream(void **state)
{
	struct op op;

	core_replaced();
	op = core_copy(core.p, CORE_OTHER, 64);
	op.stream = (CUstream)0x777;
	assert_false(core_send(op));
	assert_string_equal(core_acts(), CORE_FORWARD "O");
	assert_ptr_equal(core_act(ACT_GEMM, 0)->stream, core.stream);
	assert_ptr_equal(core_act(ACT_ORDER, 0)->stream, op.stream);
}

/* Readers that come every time make the site be declined, by their name. */
static void test_reader_declines(void **state)
{
	core_replaced();
	for (int i = 0; i < 3 && sites[0].state == SITE_VERIFIED; i++) {
		assert_false(core_send(core_to_host(core.p, core.score_bytes)));
		core_chain();
	}
	assert_int_equal(sites[0].state, SITE_DECLINED);
	assert_int_equal(sites[0].reason, REASON_SCORES_READ_BY);
	assert_non_null(strstr(sites[0].detail, "cuMemcpyDtoH"));
	below_reset();
	assert_int_equal(core_chain(), 0); /* from now on nothing is held back */
}

/* Once in many is no reason to. */
static void test_rare_reader(void **state)
{
	core_replaced();
	for (int i = 0; i < 40; i++)
		assert_int_equal(core_chain(), 5);
	assert_false(core_send(core_to_host(core.p, core.score_bytes)));
	assert_int_equal(core_chain(), 5);
	assert_false(core_send(core_to_host(core.p, core.score_bytes)));
	assert_int_equal(sites[0].state, SITE_VERIFIED);
}

/* ---- where host knowledge ends
 * ---------------------------------------------------------------------- */

/* A kernel without a rule that is pointed anywhere into the allocation that holds P, below it,
 * above it or at its base, may read or write it: it is made real before. */
static void test_unknown_in_allocation(void **state)
{
	core_begin();
	read_in_place(core_unknown(core.p - 2048, 0, 1));
	read_in_place(core_unknown(core.p + core.score_bytes, 0, 1));
	read_in_place(core_unknown(CORE_ARENA, 0, 1));
}

/* One that may follow addresses in memory may read it from anywhere. */
static void test_unknown_far(void **state)
{
	core_begin();
	core_learn();
	below.far = true;
	read_in_place(core_unknown(CORE_APART, CORE_OTHER, 1));
	below.far = false;
}

/* Chains, each followed by a kernel that may follow addresses; how many were replaced. */
static int chains_before_far(int chains)
{
	int taken = 0;

	for (int i = 0; i < chains; i++) {
		taken += core_chain() > 0;
		assert_false(core_send(core_unknown(CORE_APART, CORE_OTHER, 1)));
	}
	return taken;
}

/* Where one comes each time, holding back gains nothing: not once is it tried. */
static void test_unknown_far_each_time(void **state)
{
	core_begin();
	below.far = below.unsettled = true; /* what holds until the kernel was looked at */
	assert_int_equal(chains_before_far(1), 0);
	below.unsettled = false;
	assert_int_equal(chains_before_far(8), 0);
	assert_int_equal(sites[0].state, SITE_DECLINED);
	assert_int_equal(sites[0].reason, REASON_SCORES_READ_BY);
	below.far = false;
}

/* As long as it is not settled that one does, it counts against nobody. */
static void test_unknown_unsettled(void **state)
{
	core_begin();
	below.far = below.unsettled = true;
	assert_int_equal(chains_before_far(3), 0);
	below.far = below.unsettled = false;
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	assert_int_equal(chains_before_far(8), 8);
}

/* One whose code cannot be afforded yet counts against nobody either, but where it comes each time
 * it is not worth trying again and again. */
static void test_unknown_dear(void **state)
{
	int taken = 0;

	core_replaced();
	below.dear = true;
	for (int i = 0; i < 200; i++) {
		assert_false(core_send(core_unknown(core.p - 2048, 0, 1)));
		taken += core_chain() > 0;
	}
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	assert_in_range(taken, 6, 9);
	below.dear = false;
	for (int i = 0; i < 64 && core_chain() == 0; i++)
		;
	assert_int_equal(core_chain(), 5);
	for (int i = 0; i < 40 && sites[0].state == SITE_VERIFIED; i++) {
		assert_false(core_send(core_unknown(core.p - 2048, 0, 1)));
		core_chain();
	}
	assert_int_equal(sites[0].state, SITE_DECLINED);
}

/* In another allocation no pointer reaches P. */
static void test_unknown_elsewhere(void **state)
{
	core_replaced();
	assert_false(core_send(core_unknown(CORE_APART + 64, CORE_APART, 1)));
	assert_string_equal(core_acts(), "");
}

/* Such a kernel in the window, below Q and K, and in the scores' allocation: the program's own ops
 * run before it, and the last product with them. */
static void test_unknown_in_window(void **state)
{
	core_waiting();
	assert_false(core_send(core_unknown(core.q - 4096, 0, 1)));
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(held_count, 0);
	assert_false(core_send(core_context()));
}

static void everything_is_real(void)
{
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(held_count, 0);
	assert_int_equal(chain_live, 0);
}

static void test_opaque(void **state)
{
	struct op op;

	core_replaced();
	core_send(core_event(OP_OPAQUE, "cuImportExternalMemory"));
	everything_is_real();
	core_replaced();
	core_send(core_event(OP_GRAPH_LAUNCH, "cuGraphLaunch"));
	everything_is_real();
	core_replaced();
	core_send(core_event(OP_CAPTURE_BEGIN, "cuStreamBeginCapture_v2"));
	everything_is_real();
	core_send(core_event(OP_CAPTURE_END, "cuStreamEndCapture"));
	core_replaced();
	core_send(core_event(OP_TEARDOWN, "cuModuleUnload"));
	everything_is_real();
	core_replaced();
	flow_flush("cuSomethingNew");
	everything_is_real();
	core_replaced();
	op = core_unknown(core.o, 0, 1);
	op.launch.params = NULL; /* parameters that cannot be read */
	assert_false(core_send(op));
	everything_is_real();
	core_replaced();
	op = core_context();
	op.gemm.by_array = true;
	assert_false(core_send(op));
	everything_is_real();
}

/* A sync alone shows nothing of device memory. */
static void test_sync(void **state)
{
	core_replaced();
	core_send(core_event(OP_SYNC, "cuCtxSynchronize"));
	assert_string_equal(core_acts(), "");
	assert_int_equal(held_count, 1);
}

/* Nothing is deferred into a capture. */
static void test_capture(void **state)
{
	core_begin();
	core_learn();
	core_send(core_event(OP_CAPTURE_BEGIN, "cuStreamBeginCapture_v2"));
	assert_int_equal(core_chain(), 0);
	assert_int_equal(chain_live, 0);
	core_send(core_event(OP_CAPTURE_END, "cuStreamEndCapture"));
	assert_true(log_live()->reasons[REASON_CAPTURE] > 0);
	assert_int_equal(core_chain(), 5);
}

/* ---- FASHIM_POISON
 * ------------------------------------------------------------------------------------ */

static void poison(void *argument)
{
	(void)argument;
	core_begin();
	core_learn();
	CHECK(core_chain() == 5);
	CHECK(strcmp(core_acts(), "FMMM") == 0); /* S is dead: M lies over it */
	for (int i = 0; i < 3; i++)
		CHECK(core_act(ACT_FILL, i)->bytes == core.score_bytes);
	CHECK(core_act(ACT_FILL, 0)->a + core_act(ACT_FILL, 1)->a + core_act(ACT_FILL, 2)->a ==
	      core.x + core.m + core.p);
}

static void test_poison(void **state)
{
	const char *const environment[] = {"FASHIM_OUT=none", "FASHIM_POISON=1", NULL};
	static struct child child;

	child_run(&child, environment, poison, NULL);
	assert_true(child_passed(&child));
}

/* A reader of rows somewhere behind its pointer, once every two chains, as behind the last layer of
 * a model: what it may reach is made, and the site stays. */
static void test_near_reader(void **state)
{
	static const char rows[] = "_Z16k_get_rows_floatIffEvPKT_PKiPT0_ll5uint3mmm";
	const uint64_t from = core.q + 64, index = CORE_APART, to = CORE_APART + 0x1000;
	const uint64_t number[] = {16, 1, 16, 16, 16, 64, 64, 64, 1, 1, 1};
	const uint32_t once[3] = {1, 1, 1};
	struct op op;

	core_begin();
	core_learn();
	for (int n = 0; n < 6; n++) {
		assert_int_equal(core_chain(), 5);
		if (n % 2)
			continue;
		op = core_launch(rows, 15, (size_t[]){8, 8, 8, 8, 8, 12, 8, 8, 8, 8, 8, 8, 8, 8, 8},
				 (const void *[]){&from, &index, &to, &number[0], &number[1], once,
						  &number[2], &number[3], &number[4], &number[5],
						  &number[6], &number[7], &number[8], &number[9],
						  &number[10]});
		op.launch.grid[0] = 1;
		core_send(op);
	}
	assert_int_equal(sites[0].live->replaced, 6);
	assert_int_equal(sites[0].live->materialised, 3);
	assert_int_equal(sites[0].state, SITE_VERIFIED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_poison), /* first: configuration is read once */
		cmocka_unit_test(test_elsewhere),
		cmocka_unit_test(test_overwritten_by_memset),
		cmocka_unit_test(test_overwritten_by_copy),
		cmocka_unit_test(test_overwritten_by_kernel),
		cmocka_unit_test(test_overwritten_by_gemm),
		cmocka_unit_test(test_copy_for_nobody),
		cmocka_unit_test(test_freed),
		cmocka_unit_test(test_partly_overwritten),
		cmocka_unit_test(test_room_for_two),
		cmocka_unit_test(test_read_by_copy),
		cmocka_unit_test(test_read_by_kernel),
		cmocka_unit_test(test_digest),
		cmocka_unit_test(test_read_by_gemm),
		cmocka_unit_test(test_read_beside),
		cmocka_unit_test(test_read_on_other_stream),
		cmocka_unit_test(test_reader_declines),
		cmocka_unit_test(test_rare_reader),
		cmocka_unit_test(test_unknown_in_allocation),
		cmocka_unit_test(test_unknown_far),
		cmocka_unit_test(test_unknown_far_each_time),
		cmocka_unit_test(test_unknown_unsettled),
		cmocka_unit_test(test_unknown_dear),
		cmocka_unit_test(test_unknown_elsewhere),
		cmocka_unit_test(test_unknown_in_window),
		cmocka_unit_test(test_opaque),
		cmocka_unit_test(test_sync),
		cmocka_unit_test(test_capture),
		cmocka_unit_test(test_near_reader),
	};

	return CORE_MAIN("held", tests);
}
