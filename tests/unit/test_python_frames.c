/* SPDX-License-Identifier: Apache-2.0
 *
 * Python call stacks of interpreters that are not here: a made-up process image with the layouts of
 * CPython 3.13 and 3.14, its dump, its lock; and images that lie.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/cmocka.h"
#include "shim/site/callstack.h"
#include "shim/real/resolve.h"

/* The start of _PyRuntime, as far as it matters, field by field. */
struct offsets_3_13 {
	char cookie[8];
	uint64_t version, free_threaded;
	struct {
		uint64_t size, finalizing, interpreters_head;
	} runtime_state;
	struct {
		uint64_t size, id, next, threads_head, gc, imports_modules, sysdict, builtins,
			ceval_gil, gil_runtime_state, gil_runtime_state_enabled,
			gil_runtime_state_locked, gil_runtime_state_holder;
	} interpreter_state;
	struct {
		uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id,
			datastack_chunk, status;
	} thread_state;
	struct {
		uint64_t size, previous, executable, instr_ptr, localsplus, owner;
	} interpreter_frame;
	struct {
		uint64_t size, filename, name, qualname, linetable, firstlineno, argcount,
			localsplusnames, localspluskinds, co_code_adaptive;
	} code_object;
	struct {
		uint64_t size, ob_type;
	} pyobject;
	uint64_t rest[64];
};

struct offsets_3_14 {
	char cookie[8];
	uint64_t version, free_threaded;
	struct {
		uint64_t size, finalizing, interpreters_head;
	} runtime_state;
	struct {
		uint64_t size, id, next, threads_head, threads_main, gc, imports_modules, sysdict,
			builtins, ceval_gil, gil_runtime_state, gil_runtime_state_enabled,
			gil_runtime_state_locked, gil_runtime_state_holder, code_object_generation,
			tlbc_generation;
	} interpreter_state;
	struct {
		uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id,
			datastack_chunk, status;
	} thread_state;
	struct {
		uint64_t size, previous, executable, instr_ptr, localsplus, owner, stackpointer,
			tlbc_index;
	} interpreter_frame;
	struct {
		uint64_t size, filename, name, qualname, linetable, firstlineno, argcount,
			localsplusnames, localspluskinds, co_code_adaptive, co_tlbc;
	} code_object;
	struct {
		uint64_t size, ob_type;
	} pyobject;
	uint64_t rest[64];
};

/* The made-up objects. */
struct frame {
	uint64_t other[2];
	uintptr_t executable;
	struct frame *previous;
	int line;
};

struct thread {
	uint64_t other[5];
	struct frame *frame;
};

/* An object's type lies here, so that nobody can rely on 8. */
#define TYPE_AT 40

static char code_type[8], str_type[8], none_type[8];

static struct {
	uint64_t other[5];
	const void *type;
} none = {{0}, none_type};

struct str {
	uint64_t other[5];
	const void *type;
	const uint32_t *characters;
};

static struct str path_1 = {{0}, str_type, (const uint32_t *)U"/a/model.py"};
static struct str path_2 = {{0}, str_type, (const uint32_t *)U"/\u00e9/\u20ac/\U0001f600.py"};
static struct str name_1 = {{0}, str_type, (const uint32_t *)U"forward"};
static struct str name_2 = {{0}, str_type, (const uint32_t *)U"<module>"};

static struct {
	uint64_t other[5];
	const void *type, *name, *filename;
} code_1 = {{0}, code_type, &name_1, &path_1}, code_2 = {{0}, code_type, &name_2, &path_2};

static struct frame frames[3];
static struct thread thread;
static struct offsets_3_13 runtime_3_13;
static struct offsets_3_14 runtime_3_14;

static unsigned long version;
static void *runtime, *unchecked;
static int initialized, finalizing, raised;
static const char *dump_text;

static ssize_t str_length(void *object)
{
	const struct str *str = object;
	ssize_t n = 0;

	while (str->characters[n])
		n++;
	return n;
}

static uint32_t str_character(void *object, ssize_t i)
{
	return ((const struct str *)object)->characters[i];
}

static int frame_line(void *frame)
{
	return ((const struct frame *)frame)->line;
}

static int is_initialized(void)
{
	return initialized;
}

static int is_finalizing(void)
{
	return finalizing;
}

static void *this_thread(void)
{
	return &thread;
}

static void *current_thread(void)
{
	return unchecked;
}

static void dump(int fd, void *tstate)
{
	assert_ptr_equal(tstate, &thread);
	assert_int_equal(write(fd, dump_text, strlen(dump_text)), strlen(dump_text));
}

/* Parts of the C API that need the lock: must not be reached in these tests. */
static void *raise_alarm(void)
{
	raised++;
	return NULL;
}

void *real_dlsym(void *handle, const char *name)
{
	const struct {
		const char *name;
		void *symbol;
	} symbols[] = {
		{"Py_IsInitialized", (void *)(uintptr_t)is_initialized},
		{"Py_IsFinalizing", (void *)(uintptr_t)is_finalizing},
		{"PyGILState_GetThisThreadState", (void *)(uintptr_t)this_thread},
		{"PyThreadState_GetUnchecked", (void *)(uintptr_t)current_thread},
		{"Py_Version", &version},
		{"_PyRuntime", runtime},
		{"PyUnicode_Type", str_type},
		{"PyCode_Type", code_type},
		{"PyUnicode_GetLength", (void *)(uintptr_t)str_length},
		{"PyUnicode_ReadChar", (void *)(uintptr_t)str_character},
		{"PyUnstable_InterpreterFrame_GetLine", (void *)(uintptr_t)frame_line},
		{"PyUnstable_DumpTraceback", dump_text ? (void *)(uintptr_t)dump : NULL},
		{"PyEval_GetFrame", (void *)(uintptr_t)raise_alarm},
		{"PyFrame_GetBack", (void *)(uintptr_t)raise_alarm},
		{"PyFrame_GetCode", (void *)(uintptr_t)raise_alarm},
		{"PyObject_GetAttrString", (void *)(uintptr_t)raise_alarm},
		{"PyUnicode_AsUTF8", (void *)(uintptr_t)raise_alarm},
		{"PyFrame_GetLineNumber", (void *)(uintptr_t)raise_alarm},
		{"Py_IncRef", (void *)(uintptr_t)raise_alarm},
		{"Py_DecRef", (void *)(uintptr_t)raise_alarm},
		{"PyErr_Clear", (void *)(uintptr_t)raise_alarm},
	};

	assert_ptr_equal(handle, NULL); /* RTLD_DEFAULT */
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		if (strcmp(name, symbols[i].name) == 0)
			return symbols[i].symbol;
	return NULL;
}

#define FILL(table, number)                                                                        \
	do {                                                                                       \
		memset(&(table), 0xff, sizeof(table));                                             \
		memcpy((table).cookie, "xdebugpy", 8);                                             \
		(table).version = (number);                                                        \
		(table).free_threaded = 0;                                                         \
		(table).thread_state.current_frame = offsetof(struct thread, frame);               \
		(table).interpreter_frame.previous = offsetof(struct frame, previous);             \
		(table).interpreter_frame.executable = offsetof(struct frame, executable);         \
		(table).code_object.filename = offsetof(__typeof__(code_1), filename);             \
		(table).code_object.name = offsetof(__typeof__(code_1), name);                     \
		(table).pyobject.ob_type = TYPE_AT;                                                \
	} while (0)

static int prepare(void **state)
{
	_Static_assert(offsetof(__typeof__(code_1), type) == TYPE_AT, "type");
	_Static_assert(offsetof(struct str, type) == TYPE_AT, "type");
	FILL(runtime_3_13, 0x030d00f0);
	FILL(runtime_3_14, 0x030e01f0);
	frames[0] = (struct frame){{0}, (uintptr_t)&code_1, &frames[1], 12};
	frames[1] = (struct frame){{0}, (uintptr_t)&none, &frames[2], 0};
	frames[2] = (struct frame){{0}, (uintptr_t)&code_2, NULL, 345};
	thread.frame = &frames[0];
	version = 0x030e01f0;
	runtime = &runtime_3_14;
	initialized = 1;
	finalizing = raised = 0;
	unchecked = NULL;
	dump_text = NULL;
	return 0;
}

static struct callstack stack;

/* The stack's frames, "|" between them. */
static const char *taken(void)
{
	static char text[CALLSTACK_FRAMES * CALLSTACK_TEXT];

	stack.count = 99;
	errno = EDOM;
	callstack_python(&stack);
	assert_int_equal(errno, EDOM);
	assert_int_equal(raised, 0);
	text[0] = '\0';
	for (int i = 0; i < stack.count; i++)
		sprintf(text + strlen(text), "%s%s", i ? "|" : "", stack.frame[i]);
	return text;
}

static const char both[] =
	"/a/model.py:12 forward|/\xc3\xa9/\xe2\x82\xac/\xf0\x9f\x98\x80.py:345 <module>";

static void test_layouts(void **state)
{
	assert_string_equal(taken(), both);
	frames[0].executable |= 1; /* a deferred reference */
	assert_string_equal(taken(), both);
	frames[0].executable &= ~(uintptr_t)1;
	runtime = &runtime_3_13;
	assert_string_equal(taken(), ""); /* the table of another version */
	version = 0x030d00f0;
	assert_string_equal(taken(), both);
}

static void test_not_ours(void **state)
{
	version = 0x030f00f0;
	runtime_3_14.version = version;
	assert_string_equal(taken(), "");
	prepare(NULL);
	runtime_3_14.free_threaded = 1;
	assert_string_equal(taken(), "");
	prepare(NULL);
	runtime_3_14.cookie[0] = 'X';
	assert_string_equal(taken(), "");
	prepare(NULL);
	runtime = NULL;
	assert_string_equal(taken(), "");
	prepare(NULL);
	runtime = (void *)16;
	assert_string_equal(taken(), "");
	prepare(NULL);
	finalizing = 1;
	assert_string_equal(taken(), "");
	prepare(NULL);
	initialized = 0;
	assert_string_equal(taken(), "");
	prepare(NULL);
	assert_string_equal(taken(), both);
}

/* Pointers to nowhere end the walk; they do not end the process. */
static void test_wild(void **state)
{
	static const uintptr_t wild[] = {8, 0x1000, UINTPTR_MAX - 7, (uintptr_t)1 << 63};

	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		prepare(NULL);
		thread.frame = (struct frame *)wild[i];
		assert_string_equal(taken(), "");
		prepare(NULL);
		frames[1].previous = (struct frame *)wild[i];
		assert_string_equal(taken(), "/a/model.py:12 forward");
		prepare(NULL);
		frames[0].executable = wild[i];
		assert_string_equal(taken(), strchr(both, '|') + 1);
		prepare(NULL);
		runtime_3_14.code_object.filename = wild[i] - (uintptr_t)&code_1;
		taken();
		prepare(NULL);
		runtime_3_14.pyobject.ob_type = wild[i];
		taken();
	}
	prepare(NULL);
	frames[2].previous = &frames[0]; /* a circle */
	taken();
	assert_int_equal(stack.count, CALLSTACK_FRAMES);
	prepare(NULL);
	frames[1].previous = &frames[1]; /* one without any code */
	assert_string_equal(taken(), "/a/model.py:12 forward");
}

static void test_long_strings(void **state)
{
	static uint32_t characters[5001];
	struct str long_path = {{0}, str_type, characters};
	struct str long_name = {{0}, str_type, characters};

	for (int i = 0; i < 5000; i++)
		characters[i] = i % 2 ? 0x20ac : 'a' + (uint32_t)i % 26;
	code_1.filename = &long_path;
	taken();
	assert_int_equal(stack.count, 2);
	assert_memory_equal(stack.frame[0], "...", 3);
	assert_true((stack.frame[0][3] & 0xc0) != 0x80); /* a whole character */
	assert_non_null(strstr(stack.frame[0], ":12 forward"));
	code_1.filename = &path_1;
	code_1.name = &long_name;
	taken();
	assert_int_equal(stack.count, 2);
	assert_true(strlen(stack.frame[0]) < CALLSTACK_TEXT);
	assert_non_null(strstr(stack.frame[0], "model.py:12 a"));
	code_1.name = &name_1;
}

static void test_dump(void **state)
{
	dump_text = "Stack (most recent call first):\n"
		    "  File \"x.py\", line 12 in forward\n"
		    "  File \"a \"b\" in c.py\", line ??? in <module>\n"
		    "  File \"no end\n"
		    "  File \"x.py\", line 7\n"
		    "  Binary file \"libx.so\", at f+0x1 [0x2]\n"
		    "  File \"/d/y.py\", line 3 in a in b\n"
		    "  ...\n"
		    "  File \"cut off";
	assert_string_equal(taken(), "x.py:12 forward|a \"b\" in c.py:? <module>|/d/y.py:3 a in b");
	dump_text = "";
	assert_string_equal(taken(), "");
}

static void test_lock(void **state)
{
	version = 0x03200000;
	assert_string_equal(taken(), ""); /* nobody holds it */
	unchecked = &version;		  /* another thread does */
	assert_string_equal(taken(), "");
	unchecked = &thread;
	callstack_python(&stack);
	assert_true(raised > 0);
	assert_int_equal(stack.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_layouts, prepare),
		cmocka_unit_test_setup(test_not_ours, prepare),
		cmocka_unit_test_setup(test_wild, prepare),
		cmocka_unit_test_setup(test_long_strings, prepare),
		cmocka_unit_test_setup(test_dump, prepare),
		cmocka_unit_test_setup(test_lock, prepare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
