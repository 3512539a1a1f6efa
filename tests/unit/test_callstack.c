/* SPDX-License-Identifier: Apache-2.0
 *
 * Call stacks: the C frames of this program and libc's, without those of the shared object that
 * asks; and the Python lines in every interpreter at hand, with and without its lock, in each of
 * the ways there are to get them.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"
#include "tests/unit/callstack_probe.h"
#include "tests/unit/child.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

static struct callstack stack;

__attribute__((noinline)) void callstack_inner(void);
__attribute__((noinline)) void callstack_outer(void);
int compare_by_stack(const void *a, const void *b);

void callstack_inner(void)
{
	probe_native(&stack);
	__asm__ volatile("" ::: "memory");
}

void callstack_outer(void)
{
	callstack_inner();
	__asm__ volatile("" ::: "memory");
}

static void test_native(void **state)
{
	errno = EDOM;
	callstack_outer();
	assert_int_equal(errno, EDOM);
	assert_true(stack.count >= 3);
	assert_memory_equal(stack.frame[0], "callstack_inner+0x", 18);
	assert_non_null(strstr(stack.frame[0], " (test_callstack)"));
	assert_memory_equal(stack.frame[1], "callstack_outer+0x", 18);
	for (int i = 0; i < stack.count; i++)
		assert_null(strstr(stack.frame[i], "callstack_probe.so"));
}

/* C++ names lose what nobody reads. */
__attribute__((noinline)) void
plus_plus(void) __asm__("_ZN2at6native12_GLOBAL__N_14gemmERKNS_6TensorE");
__attribute__((noinline)) void plain_plus(void) __asm__("_Z7forwardRKN2at6TensorE");
__attribute__((noinline)) void standard(void) __asm__("_ZNKSt8functionIFvvEEclEv");
__attribute__((noinline)) void odd(void) __asm__("_ZThn8_N1A1fEv");

void odd(void)
{
	probe_native(&stack);
	__asm__ volatile("" ::: "memory");
}

void standard(void)
{
	odd();
	__asm__ volatile("" ::: "memory");
}

void plain_plus(void)
{
	standard();
	__asm__ volatile("" ::: "memory");
}

void plus_plus(void)
{
	plain_plus();
	__asm__ volatile("" ::: "memory");
}

static void test_native_names(void **state)
{
	static const char *const names[] = {"_ZThn8_N1A1fEv+0x", "std::function+0x", "forward+0x",
					    "at::native::_GLOBAL__N_1::gemm+0x"};

	plus_plus();
	assert_true(stack.count > 4);
	for (int i = 0; i < 4; i++)
		assert_memory_equal(stack.frame[i], names[i], strlen(names[i]));
}

static int compared;

int compare_by_stack(const void *a, const void *b)
{
	(void)a;
	(void)b;
	compared++;
	probe_native(&stack);
	return 0;
}

/* Frames of another library, named by symbol where it is exported and by offset where not. */
static void test_native_library(void **state)
{
	int two[2] = {1, 2}, found = 0, one_form = 0;

	qsort(two, 2, sizeof(two[0]), compare_by_stack);
	assert_true(compared > 0);
	assert_memory_equal(stack.frame[0], "compare_by_stack+0x", 19);
	for (int i = 0; i < stack.count; i++) {
		const char *plus = strstr(stack.frame[i], "+0x");

		found |= strstr(stack.frame[i], "libc.so.6") != NULL;
		one_form += plus && isxdigit((unsigned char)plus[3]);
	}
	assert_true(found);
	assert_int_equal(one_form, stack.count);
}

__attribute__((noinline)) static int descend(int depth)
{
	int result;

	if (depth == 0) {
		probe_native(&stack);
		return 0;
	}
	result = descend(depth - 1);
	__asm__ volatile("" ::: "memory");
	return result + 1;
}

static void test_native_deep(void **state)
{
	assert_int_equal(descend(60), 60);
	assert_int_equal(stack.count, CALLSTACK_FRAMES);
}

static void test_no_python(void **state)
{
	assert_int_equal(probe(), 0);
}

/* -- Python
 * ------------------------------------------------------------------------------------------ */

static const char model[] = "import ctypes, sys, threading\n" /* 1 */
			    "held = 'held' in sys.argv\n"     /* 2 */
			    "lib = (ctypes.PyDLL if held else ctypes.CDLL)(sys.argv[1])\n"
			    "class Attention:\n"				  /* 4 */
			    "    def forward(self):\n"				  /* 5 */
			    "        x = 1\n"					  /* 6 */
			    "        return lib.probe()\n"			  /* 7 */
			    "def heads(m):\n"					  /* 8 */
			    "    yield m.forward()\n"				  /* 9 */
			    "def caf\xc3\xa9(): return sum(heads(Attention()))\n" /* 10 */
			    "def deep(n): return deep(n - 1) if n else caf\xc3\xa9()\n"
			    "def main(): return deep(40 if 'deep' in sys.argv else 0)\n"
			    "if 'thread' in sys.argv:\n"	      /* 13 */
			    "    t = threading.Thread(target=main)\n" /* 14 */
			    "    t.start()\n"			      /* 15 */
			    "    t.join()\n"			      /* 16 */
			    "else:\n"				      /* 17 */
			    "    main()\n";			      /* 18 */

static char model_path[128], probe_path[4096];

/* What `python model.py` prints of the frames; 0 when that Python does not run here. */
static int run_python(const char *python, const char *how, const char *hidden, char *text,
		      size_t size)
{
	char command[9000];
	FILE *pipe;
	size_t n;

#ifdef SANITIZED
	return 0; /* a sanitizer cannot be loaded late into a Python without one */
#endif
	snprintf(command, sizeof(command), "%s -c 'import ctypes' 2>/dev/null", python);
	if (system(command) != 0)
		return 0;
	snprintf(command, sizeof(command), "CALLSTACK_HIDE='%s' %s -I %s %s %s 2>&1", hidden,
		 python, model_path, probe_path, how);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	n = fread(text, 1, size - 1, pipe);
	text[n] = '\0';
	assert_int_equal(pclose(pipe), 0);
	return 1;
}

static void expect_frames(const char *text, const char *cafe)
{
	char expected[2048];

	snprintf(expected, sizeof(expected),
		 "%s:7 forward\n%s:9 heads\n%s:10 %s\n%s:11 deep\n%s:12 main\n", model_path,
		 model_path, model_path, cafe, model_path, model_path);
	if (strncmp(text, expected, strlen(expected)) != 0)
		fprintf(stderr, "expected:\n%sfound:\n%s", expected, text);
	assert_memory_equal(text, expected, strlen(expected));
}

static int prepare(void **state)
{
	FILE *file;
	char *slash;
	ssize_t n = readlink("/proc/self/exe", probe_path, sizeof(probe_path) - 32);

	if (n < 0)
		return -1;
	probe_path[n] = '\0';
	slash = strrchr(probe_path, '/');
	strcpy(slash, "/callstack_probe.so");
	snprintf(model_path, sizeof(model_path), "%s/model.py", child_folder());
	file = fopen(model_path, "w");
	fputs(model, file);
	return fclose(file);
}

static const char *const pythons[] = {"python3",    "python3.9",  "python3.10", "python3.11",
				      "python3.12", "python3.13", "python3.14", "python3.15"};

static void test_python(void **state)
{
	int ran = 0;
	char text[8192];

	for (size_t i = 0; i < sizeof(pythons) / sizeof(pythons[0]); i++) {
		/* A dump for crash reports escapes what is not ASCII; the others do not. */
		static const char *const ways[] = {"", "held", "thread"};

		for (int way = 0; way < 3; way++) {
			if (!run_python(pythons[i], ways[way], "", text, sizeof(text)))
				continue;
			ran++;
			expect_frames(text, strstr(text, "caf\\xe9") ? "caf\\xe9" : "caf\xc3\xa9");
			if (way < 2) {
				char last[256];

				snprintf(last, sizeof(last), "%s:18 <module>\n", model_path);
				assert_non_null(strstr(text, last));
			}
		}
	}
	if (!ran)
		skip();
}

/* Without a dump and without a known layout: the C API where the lock is held, nothing where not.
 */
static void test_python_api(void **state)
{
	static const char hidden[] =
		"_Py_DumpTraceback PyUnstable_DumpTraceback Py_Version Py_GetVersion";
	char text[8192];

	if (!run_python("python3", "held", hidden, text, sizeof(text)))
		skip();
	expect_frames(text, "caf\xc3\xa9");
	assert_true(run_python("python3", "", hidden, text, sizeof(text)));
	assert_string_equal(text, "");
}

static void test_python_deep(void **state)
{
	char text[16384];
	int lines = 0;

	if (!run_python("python3", "deep", "", text, sizeof(text)))
		skip();
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		lines++;
	assert_int_equal(lines, CALLSTACK_FRAMES);
	assert_non_null(strstr(text, ":7 forward\n"));
}

/* A path longer than a frame keeps its end, which says most. */
static void test_python_long_path(void **state)
{
	char text[16384], folder[300], saved[128];

	if (!run_python("python3", "", "", text, sizeof(text)))
		skip();
	strcpy(saved, model_path);
	memset(folder, 'd', sizeof(folder));
	snprintf(folder, sizeof(folder), "%s/%.*s", child_folder(), 60,
		 "ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd");
	for (int depth = 0; depth < 3; depth++) {
		const size_t used = strlen(folder);

		assert_int_equal(system(NULL) ? 0 : 1, 0);
		snprintf(text, sizeof(text), "mkdir -p %s", folder);
		assert_int_equal(system(text), 0);
		if (depth < 2)
			snprintf(folder + used, sizeof(folder) - used, "/%.*s", 60,
				 "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
				 "e");
	}
	snprintf(text, sizeof(text), "cp %s %s/model.py", saved, folder);
	assert_int_equal(system(text), 0);
	snprintf(text, sizeof(text), "CALLSTACK_HIDE='' python3 -I %s/model.py %s", folder,
		 probe_path);
	{
		FILE *pipe = popen(text, "r");
		char line[1024];

		if (!fgets(line, sizeof(line), pipe)) {
			pclose(pipe);
			skip();
		}
		assert_int_equal(strlen(line), CALLSTACK_TEXT); /* the newline for the NUL */
		assert_memory_equal(line, "...", 3);
		assert_non_null(strstr(line, "eee/model.py:7 forward\n"));
		while (fgets(line, sizeof(line), pipe))
			;
		pclose(pipe);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_native),		 cmocka_unit_test(test_native_names),
		cmocka_unit_test(test_native_library),	 cmocka_unit_test(test_native_deep),
		cmocka_unit_test(test_no_python),	 cmocka_unit_test(test_python),
		cmocka_unit_test(test_python_api),	 cmocka_unit_test(test_python_deep),
		cmocka_unit_test(test_python_long_path),
	};

	return cmocka_run_group_tests(tests, prepare, NULL);
}
