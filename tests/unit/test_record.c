/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorded program, played again: addresses come back as addresses, whatever else a kernel is
 * told as it is, also numbers that could pass for small addresses.
 */
#include "tests/unit/core.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "shim/op/memory.h"
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
	memory_remove(CORE_ARENA, 0);
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

/* ---- what stands in the way ------------------------------------------------------------------ */

static char trace_path[256], beside_path[300];

/* Runs `body` with FASHIM_RECORD at a new path. */
static void record_at_new_path(void (*body)(void *), void *argument, struct child *child)
{
	static int count;
	char variable[sizeof(trace_path) + sizeof("FASHIM_RECORD=")];
	const char *const environment[] = {variable, "FASHIM_OUT=none", NULL};

	snprintf(trace_path, sizeof(trace_path), "%s/t%d.trace", child_folder(), count++);
	snprintf(beside_path, sizeof(beside_path), "%s.other", trace_path);
	snprintf(variable, sizeof(variable), "FASHIM_RECORD=%s", trace_path);
	core_begin();
	child_run(child, environment, body, argument);
}

static void write_file(const char *path)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	CHECK(fd >= 0 && write(fd, "precious", 8) == 8 && close(fd) == 0);
}

static void check_precious(const char *path)
{
	char *text = child_file(path);

	assert_non_null(text);
	assert_string_equal(text, "precious");
	free(text);
}

static void closed_by_host(void *argument)
{
	struct stat trace, status;
	int other, taken = 0;

	(void)argument;
	core_send(core_scores());
	CHECK(stat(trace_path, &trace) == 0);
	other = open(beside_path, O_RDWR | O_CREAT | O_EXCL, 0600);
	for (int fd = 3; fd < 1024; fd++)
		if (fstat(fd, &status) == 0 && status.st_ino == trace.st_ino) {
			CHECK(fd >= 100);
			CHECK(dup2(other, fd) == fd);
			taken++;
		}
	CHECK(taken == 1);
	exit(0);
}

/* A program that closes all descriptors gets none of our text into its own files. */
static void test_closed_by_host(void **state)
{
	static struct child child;
	char *text;

	record_at_new_path(closed_by_host, NULL, &child);
	assert_true(child_passed(&child));
	text = child_file(beside_path);
	assert_string_equal(text, "");
	free(text);
	text = child_file(trace_path);
	assert_non_null(strstr(text, "\nG "));
	free(text);
}

enum obstacle { EXISTING, LINK, FIFO };

static void beside(void *argument)
{
	const enum obstacle obstacle = *(enum obstacle *)argument;

	alarm(CHILD_HANGS);
	if (obstacle == EXISTING)
		write_file(trace_path);
	write_file(beside_path);
	if (obstacle == LINK)
		CHECK(symlink(beside_path, trace_path) == 0);
	if (obstacle == FIFO)
		CHECK(mkfifo(trace_path, 0600) == 0);
	core_send(core_scores());
	exit(0);
}

/* What has the name already is left alone, and the trace gets another one. */
static void test_beside_another_file(void **state)
{
	static struct child child;
	char numbered[300], *text;

	for (enum obstacle obstacle = EXISTING; obstacle <= FIFO; obstacle++) {
		record_at_new_path(beside, &obstacle, &child);
		assert_true(child_passed(&child));
		check_precious(beside_path);
		if (obstacle == EXISTING)
			check_precious(trace_path);
		snprintf(numbered, sizeof(numbered), "%.*s.1.trace", (int)strlen(trace_path) - 6,
			 trace_path);
		text = child_file(numbered);
		assert_non_null(text);
		assert_non_null(strstr(text, "\nG "));
		free(text);
	}
}

static void without_room(void *argument)
{
	const struct rlimit limit = {100, RLIM_INFINITY};

	(void)argument;
	signal(SIGXFSZ, SIG_DFL);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	for (int i = 0; i < 1000; i++)
		core_send(core_scores());
	exit(0);
}

static void test_without_room(void **state)
{
	static struct child child;

	record_at_new_path(without_room, NULL, &child);
	assert_true(child_passed(&child));
	assert_non_null(strstr(child.errors, "cannot write the trace"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_play_again),
		cmocka_unit_test(test_closed_by_host),
		cmocka_unit_test(test_beside_another_file),
		cmocka_unit_test(test_without_room),
	};

	return CORE_MAIN("record", tests);
}
