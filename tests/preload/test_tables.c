/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables and the finished library: every function of the toolkit's libcuda has a row, rows
 * stand in order, and libfashim.so exports and needs exactly what it should.
 */
#include "harness.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const driver_rows[] = {
#define HOOK(name)  #name,
#define INERT(name) #name,
#define FLUSH(name) #name,
#include "shim/real/driver_names.def"
};

static const char *const export_rows[] = {
	"dlsym", "dlvsym", "dlopen", "dlmopen", "exit", "__libc_start_main",
#define HOOK(name)  #name,
#define FLUSH(name) #name,
#include "shim/real/driver_names.def"
#define LIBRARY_ROW(name) #name,
#include "shim/real/library_hooks.def"
};

static const char *const library_rows[] = {
#define LIBRARY_ROW(name) #name,
#include "shim/real/library_hooks.def"
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The lines that a command prints about the file $OBJECT. */
struct lines {
	char *line[4096];
	unsigned count;
};

static void run(struct lines *lines, const char *command, const char *object)
{
	char text[512];
	FILE *pipe;

	setenv("OBJECT", object, 1);
	lines->count = 0;
	pipe = popen(command, "r");
	assert_non_null(pipe);
	while (fgets(text, sizeof(text), pipe) && lines->count < COUNT(lines->line)) {
		text[strcspn(text, "\n")] = '\0';
		lines->line[lines->count++] = strdup(text);
	}
	assert_int_equal(pclose(pipe), 0);
}

static void release(struct lines *lines)
{
	while (lines->count)
		free(lines->line[--lines->count]);
}

static void rows_stand_in_order(void **state)
{
	for (unsigned i = 1; i < COUNT(driver_rows); i++)
		assert_true(strcmp(driver_rows[i - 1], driver_rows[i]) < 0);
	for (unsigned i = 1; i < COUNT(library_rows); i++)
		assert_true(strcmp(library_rows[i - 1], library_rows[i]) < 0);
}

static void every_driver_function_has_a_row(void **state)
{
	struct lines lines;

	if (access(CUDA_STUB, R_OK))
		skip();
	run(&lines, "nm -D --defined-only $OBJECT | awk '$NF ~ /^cu/ {print $NF}' | LC_ALL=C sort",
	    CUDA_STUB);
	for (unsigned i = 0; i < lines.count && i < COUNT(driver_rows); i++)
		assert_string_equal(lines.line[i], driver_rows[i]);
	assert_int_equal(lines.count, COUNT(driver_rows));
	release(&lines);
}

static int by_text(const void *left, const void *right)
{
	return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void exports_are_the_tables(void **state)
{
	const char *wanted[COUNT(export_rows)];
	struct lines lines;

	memcpy(wanted, export_rows, sizeof(wanted));
	qsort(wanted, COUNT(wanted), sizeof(wanted[0]), by_text);
	run(&lines, "nm -D --defined-only $OBJECT | awk '{print $NF}' | LC_ALL=C sort",
	    beside("../../libfashim.so"));
	for (unsigned i = 0; i < lines.count && i < COUNT(wanted); i++)
		assert_string_equal(lines.line[i], wanted[i]);
	assert_int_equal(lines.count, COUNT(wanted));
	release(&lines);
}

static void needs_libc_alone(void **state)
{
	struct lines lines;

	run(&lines,
	    "readelf -dW $OBJECT | awk '/NEEDED|SONAME|TEXTREL|VERDEF/ {print $2, $NF}' | sort",
	    beside("../../libfashim.so"));
	for (unsigned i = 0; i < lines.count; i++)
		if (strcmp(lines.line[i], "(NEEDED) [ld-linux-x86-64.so.2]") != 0)
			assert_string_equal(lines.line[i], "(NEEDED) [libc.so.6]");
	assert_true(lines.count >= 1);
	release(&lines);
}

/* Nothing in the shim may ask the overridden dlsym: all look-ups go through image.c or real_dlsym.
 * (NVTX's header opens a tool by its name, once that is loaded: dlopen alone is its own.) */
static void the_shim_does_not_import_the_loader(void **state)
{
	struct lines lines;

	run(&lines,
	    "nm -D --undefined-only $OBJECT | awk '{sub(/@.*/, \"\", $NF); print $NF}' | "
	    "grep -E '^(dlsym|dlvsym|dlmopen|cu[A-Z].*|cublas.*)$' || true",
	    beside("../../libfashim.so"));
	assert_int_equal(lines.count, 0);
	release(&lines);
}

/* It starts no process, speaks to nobody, ends nothing, prints nothing on stdout, takes no signal
 * and no rights: what it would need for that it does not even import. */
static void the_shim_keeps_to_itself(void **state)
{
	struct lines lines;

	run(&lines,
	    "nm -D --undefined-only $OBJECT | awk '{sub(/@.*/, \"\", $NF); print $NF}' | grep -E "
	    "'^(v?fork|_Fork|clone.*|execv.*|execl.*|posix_spawn.*|system|popen|socket.*|connect|"
	    "bind|listen|accept.*|send.*|abort|_?_?exit|_Exit|quick_exit|kill|raise|tgkill|signal|"
	    "sigaction|pthread_create|set[e]?[ug]id|setres[ug]id|chmod|fchmod.*|chown|fchown.*|"
	    "rename.*|putenv|setenv|unsetenv|setlocale|chdir|stdout|.*printf(_chk)?|puts|putchar|"
	    "perror|ptrace|mprotect)$' | grep -vE '^(__)?v?snprintf(_chk)?$' || true",
	    beside("../../libfashim.so"));
	for (unsigned i = 0; i < lines.count; i++)
		print_error("imported: %s\n", lines.line[i]);
	assert_int_equal(lines.count, 0);
	release(&lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_stand_in_order),
		cmocka_unit_test(every_driver_function_has_a_row),
		cmocka_unit_test(exports_are_the_tables),
		cmocka_unit_test(needs_libc_alone),
		cmocka_unit_test(the_shim_does_not_import_the_loader),
		cmocka_unit_test(the_shim_keeps_to_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
