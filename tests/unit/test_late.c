/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that runs later than the program believes: whoever touches what it touches is ordered behind
 * it, on every stream, and where no order can be had the host waits or the program is told.
 */
#include "tests/unit/core.h"

#include "shim/hazard/held.h"
#include "shim/gpu/late.h"
#include "shim/op/memory.h"

#define FIRST  ((CUstream)0x777)
#define SECOND ((CUstream)0x888)

static struct op on(CUstream stream, struct op op)
{
	op.stream = stream;
	return op;
}

/* Nothing of earlier tests is left. */
static void begin(void)
{
	late_forget(NULL, NULL);
	core_replaced();
	late_forget(NULL, NULL);
	below_reset();
	below.unfinished = true;
}

/* An event tells two streams that P is there. It is made when the first of them reads it; the
 * second is ordered behind that as well. */
static void test_second_reader(void **state)
{
	begin();
	assert_false(core_send(on(FIRST, core_copy(core.p, CORE_APART, 64))));
	assert_string_equal(core_acts(), CORE_FORWARD "O");
	assert_ptr_equal(core_act(ACT_ORDER, 0)->stream, FIRST);
	assert_false(core_send(on(SECOND, core_copy(core.p + 64, CORE_APART + 4096, 64))));
	assert_string_equal(core_acts(), CORE_FORWARD "OO");
	assert_ptr_equal(core_act(ACT_ORDER, 1)->stream, SECOND);
	/* once for each piece of work */
	assert_false(core_send(on(SECOND, core_copy(core.p, CORE_APART, 64))));
	assert_false(core_send(on(FIRST, core_copy(core.p, CORE_APART, 64))));
	assert_string_equal(core_acts(), CORE_FORWARD "OO");
}

/* Somebody who overwrites P, or what P was made of, comes after the making, too. */
static void test_later_writers(void **state)
{
	begin();
	assert_false(core_send(core_to_host(core.p, 2)));
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_false(core_send(on(FIRST, core_memset(core.q, 2))));
	assert_string_equal(core_acts(), CORE_FORWARD "O");
	assert_false(core_send(on(SECOND, core_memset(core.p + 2, 2))));
	assert_string_equal(core_acts(), CORE_FORWARD "OO");
}

/* Q may be read at the same time. */
static void test_later_readers(void **state)
{
	begin();
	assert_false(core_send(core_to_host(core.p, 2)));
	assert_false(core_send(on(FIRST, core_copy(core.q, CORE_APART, 64))));
	assert_string_equal(core_acts(), CORE_FORWARD);
}

/* The program's first product read Q and K long before the fused kernel does. */
static void test_inputs_of_fused(void **state)
{
	begin();
	assert_int_equal(core_chain(), 5);
	core_send(core_memset(core.s, core.score_bytes));
	core_send(core_memset(core.x, core.score_bytes));
	core_send(core_memset(core.p, core.score_bytes));
	assert_int_equal(chain_live, 0);
	assert_true(flow_watching());
	below_reset();
	below.unfinished = true;
	assert_false(core_send(on(FIRST, core_memset(core.k, 2))));
	assert_string_equal(core_acts(), "O");
	/* V and O belong to the product in whose place it runs */
	assert_false(core_send(on(SECOND, core_memset(core.v, 2))));
	assert_false(core_send(on(SECOND, core_copy(core.o, CORE_APART, 2))));
	assert_string_equal(core_acts(), "O");
}

/* The fused kernel reads V and writes O in the closing product's place: behind whoever makes V late
 * on another stream, and behind who still reads what lies where O goes. */
static void test_before_fused(void **state)
{
	const struct queue other = {BELOW_CONTEXT, FIRST};

	begin();
	core_window();
	below_reset();
	below.unfinished = true;
	late_writes(other, core.v, core.v + 64);
	assert_true(core_send(core_context()));
	assert_string_equal(core_acts(), "OF");
	core_window();
	below_reset();
	below.unfinished = true;
	late_reads(other, core.o, core.o + 64);
	assert_true(core_send(core_context()));
	assert_string_equal(core_acts(), "OF");
}

/* What is done needs no watching any more. */
static void test_done(void **state)
{
	begin();
	core_send(core_free(CORE_ARENA));
	core_allocate(CORE_ARENA, CORE_ROOM, MEMORY_DEVICE);
	late_writes((struct queue){BELOW_CONTEXT, core.stream}, CORE_APART, CORE_APART + 64);
	core_send(core_event(OP_SYNC, "cuCtxSynchronize"));
	assert_true(flow_watching());
	below.unfinished = false;
	core_send(core_event(OP_SYNC, "cuCtxSynchronize"));
	assert_false(flow_watching());
	assert_false(core_send(on(FIRST, core_memset(CORE_APART, 2))));
	assert_string_equal(core_acts(), "");
}

/* More than are remembered: from then on any op may meet the oldest. */
static void test_many(void **state)
{
	begin();
	for (int i = 0; i < 64; i++)
		late_writes((struct queue){BELOW_CONTEXT, core.stream}, 0x1000, 0x2000);
	assert_false(core_send(on(FIRST, core_memset(CORE_APART, 2))));
	assert_string_equal(core_acts(), "");
	late_writes((struct queue){BELOW_CONTEXT, core.stream}, 0x1000, 0x2000);
	assert_false(core_send(on(FIRST, core_memset(CORE_APART, 2))));
	assert_string_equal(core_acts(), "O");
	assert_false(core_send(on(FIRST, core_memset(CORE_APART, 2))));
	assert_string_equal(core_acts(), "O");
}

/* Streams that cannot be ordered: the host waits, without the lock. */
static void test_no_order(void **state)
{
	begin();
	below.no_order = true;
	assert_false(core_send(on(FIRST, core_copy(core.p, CORE_APART, 64))));
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(below.waits, 1);
	below.no_order = false;
}

/* Nothing can be ordered behind what is outside of a capture, nor behind what no stream is known
 * of. */
static void test_host_waits(void **state)
{
	begin();
	core_send(core_event(OP_CAPTURE_BEGIN, "cuStreamBeginCapture_v2"));
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(below.waits, 1);
	core_send(core_event(OP_CAPTURE_END, "cuStreamEndCapture"));
	begin();
	flow_flush("cuSomethingNew");
	assert_int_equal(below.waits, 1);
	begin();
	core_send(core_event(OP_TEARDOWN, "cuModuleUnload"));
	assert_int_equal(below.waits, 1);
}

/* Who waits does so for what was made, not for what the program has enqueued behind it. */
static void test_fence(void **state)
{
	int marks;

	begin();
	assert_false(core_send(core_to_host(core.p, 2)));
	marks = below.marks;
	assert_int_equal(marks, 1);
	assert_false(core_send(core_memset(CORE_APART, 2)));
	assert_false(core_send(on(FIRST, core_memset(core.q, 2))));
	flow_flush("cuSomethingNew");
	assert_string_equal(core_acts(), CORE_FORWARD "O");
	assert_int_equal(below.waits, 1);
	assert_int_equal(below.marks, marks);
}

/* A range that goes at once, whatever the streams still do, with all that is mapped into it: what
 * is saved of it is waited for. */
static void test_unmapped(void **state)
{
	struct op op = core_free(CORE_ARENA);

	begin();
	memory_remove(CORE_ARENA, 0);
	memory_add(CORE_ARENA, 0x20000, MEMORY_MAPPED, BELOW_CONTEXT);
	memory_add(CORE_ARENA + 0x20000, 0x10000, MEMORY_MAPPED, BELOW_CONTEXT);
	memory_add(CORE_ARENA + 0x30000, CORE_ROOM - 0x30000, MEMORY_MAPPED, BELOW_CONTEXT);
	op.alloc.range.bytes = 0x30000;
	op.alloc.kind = MEMORY_MAPPED;
	op.alloc.at_once = true;
	assert_false(core_send(op));
	assert_int_equal(below.count[ACT_COPY], 2);
	assert_int_equal(below.waits, 1);
	assert_null(memory_find(core.q));
	assert_null(memory_find(core.k));
	assert_non_null(memory_find(core.v));
	/* in the order of the stream nobody waits */
	begin();
	op.alloc.at_once = false;
	assert_false(core_send(op));
	assert_int_equal(below.waits, 0);
}

/* What cannot be made: the call that wants it fails. */
static void test_lost(void **state)
{
	struct op op;

	begin();
	below.no_rerun = true;
	op = core_to_host(core.p, core.score_bytes);
	assert_int_equal(flow_before(&op), FLOW_FAILED);
	assert_int_not_equal(op.error, CUDA_SUCCESS);
	assert_int_equal(below.count[ACT_GEMM], 2); /* tried again once */
	below.no_rerun = false;
	assert_int_equal(held_count, 0);
	assert_int_equal(flow_before(&op), FLOW_PASS);
}

/* Where no call of the program's can say so, its next one does. */
static void test_lost_in_flush(void **state)
{
	struct op op = core_memset(CORE_APART, 2);

	begin();
	below.no_rerun = true;
	flow_flush("cuSomethingNew");
	below.no_rerun = false;
	assert_int_equal(held_count, 0);
	assert_true(flow_watching());
	assert_int_equal(flow_before(&op), FLOW_FAILED);
	assert_int_not_equal(op.error, CUDA_SUCCESS);
	assert_int_equal(flow_before(&op), FLOW_PASS);
}

/* The driver did not say in which context a call runs: it may touch anything, and no chain has to
 * do with it. */
static void test_no_context(void **state)
{
	struct op op;

	begin();
	op = core_memset(CORE_APART, 2);
	op.context = NULL;
	assert_int_equal(flow_before(&op), FLOW_PASS);
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(below.waits, 1);
	assert_int_equal(held_count, 0);
	op = core_scores();
	op.context = NULL;
	assert_int_equal(flow_before(&op), FLOW_PASS);
	assert_int_equal(chain_live, 0);
}

/* A part of X is overwritten before the softmax reads all of it: the program's own ops run. */
static void test_partly_overwritten_in_window(void **state)
{
	core_begin();
	core_learn();
	late_forget(NULL, NULL);
	below_reset();
	assert_true(core_send(core_scores()));
	assert_true(core_send(core_scale(core.x, core.s, core.scale)));
	assert_false(core_send(core_memset(core.x + 2048, 512)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(core_add_mask(core.m, core.x, core.mask)));
	assert_memory_equal(core_acts(), "GL", 2);
	assert_false(core_send(core_softmax(core.p, core.m)));
	assert_false(core_send(core_context()));
	assert_int_equal(below.count[ACT_FUSED], 0);
	assert_int_equal(held_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_second_reader),
		cmocka_unit_test(test_later_writers),
		cmocka_unit_test(test_later_readers),
		cmocka_unit_test(test_inputs_of_fused),
		cmocka_unit_test(test_before_fused),
		cmocka_unit_test(test_done),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_no_order),
		cmocka_unit_test(test_host_waits),
		cmocka_unit_test(test_fence),
		cmocka_unit_test(test_unmapped),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_lost_in_flush),
		cmocka_unit_test(test_no_context),
		cmocka_unit_test(test_partly_overwritten_in_window),
	};

	return CORE_MAIN("late", tests);
}
