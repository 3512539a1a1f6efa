/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a launch's accesses where its kernel's code tells what it touches
 * (shim/ask/extent.h). The code is that of tests/unit/threads_bodies.h.
 */
#include "core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code_fixture.h"
#include "shim/ask/extent.h"
#include "shim/code/kernel_code_parts.h"
#include "shim/code/threads.h"
#include "shim/gpu/ledger.h"
#include "shim/op/memory.h"

static int asked;		      /* how often for code */
static uint64_t affords = UINT64_MAX; /* ns */

int __wrap_kernel_code_text(CUfunction handle, const char *name, struct code_text *text);

/* In place of the image that the program loaded. */
int __wrap_kernel_code_text(CUfunction handle, const char *name, struct code_text *text)
{
	struct file file = code_file("threads_90a.cubin");
	struct code_table table = {.wanted = name, .text = text};

	(void)handle;
	asked++;
	memset(text, 0, sizeof(*text));
	assert_int_equal(code_read_cubin(file.at, file.bytes, &table), 0);
	code_table_free(&table);
	free(file.at);
	return text->code ? 0 : -ENOENT;
}

static unsigned char params[40];
static struct function function;
static struct access_list list;
static struct op op;

static struct sight launch_of(const char *name, uint64_t o, uint64_t x, uint64_t y, int n)
{
	static const uint64_t none;
	const uint64_t pointer[3] = {o, x, y};
	static uint32_t id;
	static char kept[64];

	/* One function for each name in a row. */
	id += strcmp(kept, name) != 0;
	snprintf(kept, sizeof(kept), "%s", name);
	function = (struct function){.name = kept,
				     .id = 1000 + id,
				     .bytes = sizeof(params),
				     .readable = true,
				     .param_count = 6,
				     .param_offset = {0, 8, 16, 24, 28, 32},
				     .param_size = {8, 8, 8, 4, 4, 8}};
	memcpy(params, pointer, sizeof(pointer));
	memcpy(params + 24, &n, 4);
	memcpy(params + 28, &n, 4);
	memcpy(params + 32, &none, 8);
	op = (struct op){.kind = OP_LAUNCH, .launch = {.grid = {4, 1, 1}, .block = {64, 1, 1}}};
	list = (struct access_list){.count = 0};
	for (int i = 0; i < 3; i++)
		if (pointer[i])
			access_add(&list, (struct access){.pointer = pointer[i],
							  .begin = CORE_ARENA,
							  .end = CORE_ARENA + CORE_ROOM,
							  .sure_end = CORE_ARENA,
							  .mode = ACCESS_UNKNOWN,
							  .grade = GRADE_UNKNOWN,
							  .where = 8 * i});
	return (struct sight){.op = &op, .list = &list, .function = &function, .params = params};
}

static void assert_access(int i, enum access_mode mode, uint64_t begin, uint64_t end, bool sure)
{
	const struct access *access = &list.item[i];

	assert_int_equal(access->grade, GRADE_RULED);
	assert_true(access->bounded);
	assert_int_equal(access->mode, mode);
	assert_int_equal(access->begin, begin);
	assert_int_equal(access->end, end);
	assert_int_equal(access->sure_end, sure ? end : begin);
}

#define O (CORE_ARENA + 0x10000)
#define X (CORE_ARENA + 0x20000)
#define Y (CORE_ARENA + 0x30000)

static void test_reads_and_writes(void **state)
{
	struct sight sight;

	(void)state;
	core_begin();
	sight = launch_of("linear", O, X, Y, 200);
	list.far = list.unsettled = true;
	assert_true(extent_refine(&sight, false, false));
	assert_int_equal(list.count, 3);
	assert_access(0, ACCESS_WRITE, O, O + 800, true);
	assert_access(1, ACCESS_READ, X, X + 800, false);
	assert_access(2, ACCESS_READ, Y, Y, false); /* it is not touched */
	assert_false(list.far || list.unsettled);

	sight = launch_of("before", O, X, Y, 50); /* from below the pointer on */
	assert_true(extent_refine(&sight, false, false));
	assert_access(0, ACCESS_WRITE, O - 77 * 4, O + 50 * 4, true);
	sight = launch_of("in_place", O, X, Y, 100);
	assert_true(extent_refine(&sight, false, false));
	assert_access(0, ACCESS_UNKNOWN, O, O + 400, false);
	sight = launch_of("gaps", O, X, Y, 0);
	assert_true(extent_refine(&sight, false, false));
	assert_access(0, ACCESS_WRITE, O, O + 1024, false);
}

/* Four rows, each of which is written as a whole, and what lies between is not. */
static void test_runs(void **state)
{
	struct sight sight;

	(void)state;
	core_begin();
	sight = launch_of("rows_apart", O, X, Y, 0);
	assert_true(extent_refine(&sight, false, false));
	assert_int_equal(list.count, 3);
	assert_access(0, ACCESS_WRITE, O, O + 3 * 288 + 256, false);
	sight = launch_of("rows_apart", O, X, Y, 0);
	assert_true(extent_refine(&sight, false, true));
	assert_int_equal(list.count, 6);
	assert_access(0, ACCESS_WRITE, O, O + 256, true);
	assert_access(1, ACCESS_READ, X, X + 1024, false);
	for (int n = 1; n < 4; n++) {
		assert_access(2 + n, ACCESS_WRITE, O + (uint64_t)n * 288,
			      O + (uint64_t)n * 288 + 256, true);
		assert_true(list.item[2 + n].pointer == list.item[2 + n].begin);
	}
	sight = launch_of("gaps", O, X, Y, 0); /* more than it is worth to tell of */
	assert_true(extent_refine(&sight, false, true));
	assert_int_equal(list.count, 3);
	assert_access(0, ACCESS_WRITE, O, O + 1024, false);
}

/* Somewhere in the allocation, which is read alone, or perhaps written. */
static void assert_strays(int i, enum access_mode mode)
{
	const struct access *access = &list.item[i];

	assert_int_equal(access->grade, GRADE_RULED);
	assert_false(access->bounded);
	assert_int_equal(access->mode, mode);
	assert_int_equal(access->begin, CORE_ARENA);
	assert_int_equal(access->end, CORE_ARENA + CORE_ROOM);
	assert_int_equal(access->sure_end, CORE_ARENA);
}

/* What may be launched again although its code has what else keeps kernels from that. */
static void test_contained(void **state)
{
	static const struct {
		const char *name;
		bool contained;
	} kernels[] = {
		{"linear", true},	    {"asserted_of_numbers", true}, {"asserted", false},
		{"stopped_by_data", false}, {"gathered_from_own", false},  {"by_shared", false},
	};

	(void)state;
	core_begin();
	for (unsigned i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
		const struct sight sight = launch_of(kernels[i].name, O, X, Y, 200);

		if (extent_contained(&function, op.launch.grid, op.launch.block, sight.params) !=
		    kernels[i].contained)
			fail_msg("%s", kernels[i].name);
	}
}

static void test_strays(void **state)
{
	struct sight sight;

	(void)state;
	core_begin();
	sight = launch_of("gathered", O, X, Y, 100);
	list.far = list.unsettled = true;
	assert_true(extent_refine(&sight, false, false));
	assert_access(0, ACCESS_WRITE, O, O + 1024, true);
	assert_strays(1, ACCESS_READ);
	assert_access(2, ACCESS_READ, Y, Y + 1024, false);
	assert_false(list.far || list.unsettled);

	sight = launch_of("scattered", O, X, Y, 100);
	assert_true(extent_refine(&sight, false, false));
	assert_strays(0, ACCESS_UNKNOWN);
	assert_access(1, ACCESS_READ, X, X + 1024, false);
	/* As far from the pointer as another allocation may be. */
	sight = launch_of("gathered_behind", O, X, Y, CORE_ROOM / 8);
	assert_true(extent_refine(&sight, false, false));
	assert_strays(1, ACCESS_READ);
	sight = launch_of("gathered_behind", O, X, Y, CORE_ROOM / 4);
	assert_false(extent_refine(&sight, false, false));
	assert_int_equal(list.item[1].grade, GRADE_UNKNOWN);
	sight = launch_of("gathered_behind", O, X, Y, -(1 << 20));
	assert_false(extent_refine(&sight, false, false));
	/* One that is read anywhere, and surely written in places. */
	sight = launch_of("gathered_from_own", O, X, Y, 100);
	assert_true(extent_refine(&sight, false, false));
	assert_strays(0, ACCESS_UNKNOWN);
}

/* A kernel that strays is no step of a chain that is told by its code; one that only writes where
 * the scores are does not read them. */
static void test_strays_as_step(void **state)
{
	struct sight sight;

	(void)state;
	core_begin();
	core_send(core_scores());
	sight = launch_of("gathered", O, X, core.s, 100);
	assert_false(extent_refine(&sight, true, false));
	assert_int_equal(list.item[1].grade, GRADE_UNKNOWN);
	sight = launch_of("gathered", O, core.s, Y, 100);
	assert_false(extent_refine(&sight, true, false));
	assert_true(extent_refine(&sight, false, false));
	sight = launch_of("gathered", core.s, X, Y, 100);
	assert_true(extent_refine(&sight, true, false));
	assert_strays(1, ACCESS_READ);
	sight = launch_of("linear", O, core.s, Y, 90);
	assert_true(extent_refine(&sight, true, false));
}

static int told; /* launches that were run through */

uint64_t __wrap_ledger_left(void);

/* Asked for before each of them. */
uint64_t __wrap_ledger_left(void)
{
	return affords;
}

int __wrap_threads_run(const struct threads_launch *launch, struct threads_extent *extent);
int __real_threads_run(const struct threads_launch *launch, struct threads_extent *extent);

int __wrap_threads_run(const struct threads_launch *launch, struct threads_extent *extent)
{
	told++;
	return __real_threads_run(launch, extent);
}

/* Wherever pointers lead the answer is the same, and so for another function of the same code;
 * other numbers, or another grid, have their own. */
static void test_asks_once(void **state)
{
	struct sight sight;

	(void)state;
	core_begin();
	extent_forget();
	asked = told = 0;
	sight = launch_of("linear", O, X, Y, 100);
	assert_true(extent_refine(&sight, false, false));
	sight = launch_of("linear", Y, O, X, 100);
	assert_true(extent_refine(&sight, false, false));
	assert_access(0, ACCESS_WRITE, Y, Y + 400, true);
	assert_int_equal(told, 1);
	sight = launch_of("linear", O, X, Y, 60);
	assert_true(extent_refine(&sight, false, false));
	assert_access(1, ACCESS_READ, X, X + 240, false);
	assert_int_equal(told, 2);
	assert_int_equal(asked, 1);
	extent_forget();
	sight = launch_of("linear", O, X, Y, 60);
	function.id = 77;
	assert_true(extent_refine(&sight, false, false));
	assert_access(1, ACCESS_READ, X, X + 240, false);
	assert_int_equal(asked, 2);
	assert_int_equal(told, 2);
}

/* What can't be afforded waits, and a step that had to stays unknown as one until there is more
 * than a site takes; then it is known for good. */
static void test_later(void **state)
{
	struct sight sight;

	(void)state;
	core_begin();
	affords = 100000;
	sight = launch_of("strided", O, X, Y, 250);
	assert_false(extent_refine(&sight, false, false));
	assert_int_equal(list.item[0].grade, GRADE_UNKNOWN);
	sight = launch_of("strided", O, X, Y, 250);
	assert_false(extent_refine(&sight, true, false));
	assert_true(extent_step_unknown(sight.function));
	affords = 50000000; /* enough, for another */
	sight = launch_of("strided", O, X, Y, 250);
	assert_false(extent_refine(&sight, true, false));
	assert_true(extent_refine(&sight, false, false));
	assert_access(0, ACCESS_WRITE, O, O + 1000, true);
	affords = UINT64_MAX;
	sight = launch_of("strided", O, X, Y, 250);
	assert_true(extent_refine(&sight, true, false));
	assert_false(extent_step_unknown(sight.function));
	affords = 0;
	sight = launch_of("strided", O, X, Y, 250);
	assert_true(extent_refine(&sight, true, false));
}

/* What does not follow from the parameters stays unknown, all of it. */
static void test_no_answer(void **state)
{
	struct sight sight;

	(void)state;
	core_begin();
	sight = launch_of("by_shared", O, X, Y, 100);
	assert_false(extent_refine(&sight, false, false));
	assert_int_equal(list.item[0].grade, GRADE_UNKNOWN);
	sight = launch_of("nobody_has_that_name", O, X, Y, 100);
	assert_false(extent_refine(&sight, false, false));
	/* A pointer to memory that nobody knows is a number: no address may be made of it. */
	sight = launch_of("linear", O, 0, Y, 100);
	assert_false(extent_refine(&sight, false, false));
	sight = launch_of("linear", O, X, Y, 100);
	op.launch.peculiar = true;
	assert_false(extent_refine(&sight, false, false));
	sight = launch_of("linear", O, X, Y, 100);
	list.opaque = true;
	assert_false(extent_refine(&sight, false, false));
}

/* More than is ever run through. */
static void test_too_much(void **state)
{
	struct sight sight;

	(void)state;
	core_begin();
	sight = launch_of("own_row", O, X, Y, 1 << 28);
	op.launch.grid[0] = 1 << 24;
	assert_false(extent_refine(&sight, true, false));
	/* That was for good, and does not make the kernel a step that stays unknown. */
	sight = launch_of("own_row", O, X, Y, 10);
	assert_true(extent_refine(&sight, true, false));
	/* Blocks that go the same way are not. */
	sight = launch_of("linear", O, X, Y, 1 << 20);
	op.launch.grid[0] = 1 << 24;
	assert_true(extent_refine(&sight, true, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_and_writes),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_contained),
		cmocka_unit_test(test_strays),
		cmocka_unit_test(test_strays_as_step),
		cmocka_unit_test(test_asks_once),
		cmocka_unit_test(test_no_answer),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_later),
	};

	return CORE_MAIN("extent", tests);
}
