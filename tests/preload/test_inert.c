/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that never touches CUDA does not notice the shim: no output, no file, the same exit
 * status.
 */
#include "harness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/fashim-inert-XXXXXX";

/* Exit status of a command under the shim, run in the empty folder; its output is counted. */
static int run(const char *command, size_t *output)
{
	char line[8192];
	FILE *pipe;

	snprintf(line, sizeof(line), "cd %s && LD_PRELOAD=%s %s 2>&1", folder,
		 beside("../../libfashim.so"), command);
	pipe = popen(line, "r");
	assert_non_null(pipe);
	*output = fread(line, 1, sizeof(line), pipe);
	return WEXITSTATUS(pclose(pipe));
}

static unsigned files_in_folder(void)
{
	unsigned count = 0;
	struct dirent *entry;
	DIR *dir = opendir(folder);

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static void true_stays_true(void **state)
{
	size_t output;

	assert_int_equal(run("/bin/true", &output), 0);
	assert_int_equal(output, 0);
	assert_int_equal(files_in_folder(), 0);
}

static void false_stays_false(void **state)
{
	size_t output;

	assert_int_equal(run("/bin/false", &output), 1);
	assert_int_equal(output, 0);
}

static void a_pipeline_of_children_is_silent(void **state)
{
	size_t output;

	assert_int_equal(run("/bin/sh -c 'ls / | wc -l >/dev/null; exit 7'", &output), 7);
	assert_int_equal(output, 0);
	assert_int_equal(files_in_folder(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(true_stays_true),
		cmocka_unit_test(false_stays_false),
		cmocka_unit_test(a_pipeline_of_children_is_silent),
	};
	int failed;

	if (!mkdtemp(folder))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return failed;
}
