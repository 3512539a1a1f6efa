/* SPDX-License-Identifier: Apache-2.0
 *
 * What other threads may do to a chain between the two halves of a call that it waits for: while
 * the program's own call runs nobody has the lock.
 */
#include "tests/unit/core.h"

#include "shim/hazard/held.h"
#include "shim/op/memory.h"
#include "shim/real/driver.h"

#define OTHER_CONTEXT ((CUcontext)0x2000)
#define OTHER_MEMORY  0x50000000ull /* that context's, where CORE_ARENA is the first's */

static bool elsewhere; /* what is sent now is the other context's */

static CUresult current(CUcontext *context)
{
	*context = elsewhere ? OTHER_CONTEXT : BELOW_CONTEXT;
	return CUDA_SUCCESS;
}

static uint64_t at(uint64_t address)
{
	return elsewhere ? address - CORE_ARENA + OTHER_MEMORY : address;
}

static struct op here(struct op op)
{
	if (elsewhere)
		op.context = OTHER_CONTEXT;
	return op;
}

static struct op product(void)
{
	struct op op = core_context();

	op.gemm.a = at(op.gemm.a), op.gemm.b = at(op.gemm.b), op.gemm.c = at(op.gemm.c);
	return here(op);
}

/* An attention up to its softmax; nothing of it is kept. */
static struct chain *window(void)
{
	struct op scores = core_scores();

	scores.gemm.a = at(scores.gemm.a), scores.gemm.b = at(scores.gemm.b);
	scores.gemm.c = at(scores.gemm.c);
	assert_false(core_send(here(scores)));
	assert_false(core_send(here(core_scale(at(core.x), at(core.s), core.scale))));
	assert_false(core_send(here(core_add_mask(at(core.m), at(core.x), at(core.mask)))));
	assert_false(core_send(here(core_softmax(at(core.p), at(core.m)))));
	return core_only_chain();
}

static void forget_all(void)
{
	while (chain_live)
		held_drop(chain_list[0]);
}

/* The first half of a second product that will be compared, as the other context's next will. */
static struct chain *begin(struct op *op)
{
	struct chain *chain;

	core_begin();
	driver_resolve();
	driver.cuCtxGetCurrent = current;
	memory_remove(OTHER_MEMORY, 0);
	memory_add(OTHER_MEMORY, CORE_ROOM, MEMORY_DEVICE, OTHER_CONTEXT);
	for (int context = 0; context < 2; context++) {
		elsewhere = context;
		window();
		assert_false(core_send(product()));
		forget_all();
	}
	elsewhere = false;
	chain = window();
	below_reset();
	*op = product();
	assert_int_equal(flow_before(op), FLOW_PASS);
	assert_ptr_equal(op->watcher, chain);
	return chain;
}

static void test_nobody_between(void **state)
{
	struct op op;

	begin(&op);
	flow_after(&op);
	assert_int_equal(below.verdicts, 1);
}

static void test_ended(void **state)
{
	struct op op;

	begin(&op);
	assert_false(core_send(core_memset(core.p, core.score_bytes)));
	assert_false(core_send(core_memset(core.s, core.score_bytes)));
	forget_all();
	below_reset();
	flow_after(&op);
	assert_int_equal(below.verdicts, 0);
	assert_int_equal(below.marks, 0);
}

/* Another chain has its place: in another context, whose default stream has the same handle, or
 * another thread's on the same stream; and is as far as its softmax, or as its second product. */
static void test_place_taken(void **state)
{
	struct op first, second;

	for (int context = 0; context < 2; context++)
		for (int closing = 0; closing < 2; closing++) {
			struct chain *chain = begin(&first);

			forget_all();
			elsewhere = context;
			assert_ptr_equal(window(), chain);
			second = product();
			assert_ptr_equal(chain->context, second.context);
			if (closing)
				assert_int_equal(flow_before(&second), FLOW_PASS);
			below_reset();
			flow_after(&first);
			assert_int_equal(below.verdicts, 0);
			assert_int_equal(below.marks, 0);
			assert_true(chain->used && !chain->closed);
			if (!closing)
				assert_int_equal(flow_before(&second), FLOW_PASS);
			flow_after(&second);
			assert_int_equal(below.verdicts, 1);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_nobody_between),
					   cmocka_unit_test(test_ended),
					   cmocka_unit_test(test_place_taken)};
	return CORE_MAIN("halves", tests);
}
