/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorded program, played again: addresses come back as addresses, whatever else a kernel is
 * told as it is, also numbers that could pass for small addresses.
 */
#include "tests/unit/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/memory.h"
#include "tests/unit/child.h"
#include "tools/replay/trace.h"

struct block {
	uint64_t pointer;
	int numbers[2];
};

static int numbers[2]; /* 512, and the number of the arena's allocation << 8 */

static struct op library_call(void)
{
	static struct op_library library = {.call = "cudnnSetTensor", .count = OPERANDS_MAX};
	struct op op = core_event(OP_LIBRARY, "cudnnSetTensor");

	for (int i = 0; i < OPERANDS_MAX; i++)
		library.operand[i] = (struct op_operand){core.k + 64 * i, core.k + 64 * i + 32,
							 i % 2, i % 3 == 0, i == 6};
	op.library = &library;
	return op;
}

static void record(void *argument)
{
	const struct block block = {core.q + 64, {numbers[0], numbers[1]}};
	struct op op = core_event(OP_ALLOC, "cuMemAlloc_v2");

	(void)argument;
	memory_remove(CORE_ARENA);
	op.alloc.range = (struct op_range){CORE_ARENA, CORE_ROOM};
	core_send(op);
	CHECK(memory_find(CORE_ARENA)->id == (uint32_t)numbers[1] >> 8);
	core_send(core_scores());
	core_send(library_call());
	core_send(core_launch("numbers_and_block", 4, (size_t[]){4, 4, 8, sizeof(block)},
			      (const void *[]){numbers, numbers + 1, &core.s, &block}));
	exit(0);
}

static struct op_range allocations[8];
static int allocation_count, gemms, launches, calls;
static uint64_t q;

static bool allocated(uint64_t address)
{
	for (int i = 0; i < allocation_count; i++)
		if (address >= allocations[i].base &&
		    address < allocations[i].base + allocations[i].bytes)
			return true;
	return false;
}

static void look(struct op *op, void *argument)
{
	struct block block;
	uint64_t pointer;

	(void)argument;
	if (op->kind == OP_ALLOC) {
		assert_true(allocation_count < 8);
		allocations[allocation_count++] = op->alloc.range;
	} else if (op->kind == OP_GEMM) {
		gemms++;
		q = op->gemm.b;
		assert_true(allocated(q));
		assert_int_equal(q - op->gemm.a, core.q - core.k);
	} else if (op->kind == OP_LIBRARY) {
		calls++;
		assert_string_equal(op->library->call, "cudnnSetTensor");
		assert_int_equal(op->library->count, OPERANDS_MAX);
		for (int i = 0; i < OPERANDS_MAX; i++) {
			const struct op_operand *o = &op->library->operand[i];

			assert_int_equal(q - o->begin, core.q - core.k - 64 * (uint64_t)i);
			assert_int_equal(o->end - o->begin, 32);
			assert_int_equal(o->read, i % 2);
			assert_int_equal(o->written, i % 3 == 0);
			assert_int_equal(o->whole, i == 6);
		}
	} else if (op->kind == OP_LAUNCH) {
		launches++;
		assert_int_equal(*(int *)op->launch.params[0], numbers[0]);
		assert_int_equal(*(int *)op->launch.params[1], numbers[1]);
		memcpy(&pointer, op->launch.params[2], 8);
		assert_int_equal(q - pointer, core.q - core.s);
		memcpy(&block, op->launch.params[3], sizeof(block));
		assert_int_equal(block.pointer, q + 64);
		memcpy(&pointer, block.numbers, 8);
		assert_memory_equal(block.numbers, numbers, sizeof(numbers));
		assert_false(allocated(pointer));
	}
}

static void test_play_again(void **state)
{
	static struct child child;
	char path[256], variable[sizeof(path) + sizeof("FASHIM_RECORD=")];
	const char *const environment[] = {variable, "FASHIM_OUT=none", NULL};

	(void)state;
	snprintf(path, sizeof(path), "%s/trace", child_folder());
	snprintf(variable, sizeof(variable), "FASHIM_RECORD=%s", path);
	core_begin();
	numbers[0] = 512;
	numbers[1] = (int)(memory_find(CORE_APART)->id + 1) << 8;
	child_run(&child, environment, record, NULL);
	assert_true(child_passed(&child));
	assert_true(trace_play(path, look, NULL) > 0);
	assert_int_equal(gemms, 1);
	assert_int_equal(launches, 1);
	assert_int_equal(calls, 1);
	assert_int_equal(allocation_count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_play_again),
	};

	return CORE_MAIN("record", tests);
}
