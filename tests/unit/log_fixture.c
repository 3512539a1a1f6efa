/* SPDX-License-Identifier: Apache-2.0
 *
 * A log path of its own for each test of the log.
 */
#include "tests/unit/log_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/cmocka.h"
#include "shim/log/log.h"

struct child child;
char path[256], live_path[300], setting[300];
const char *const environment[] = {setting, NULL};

int fresh(void **state)
{
	static int count;

	snprintf(path, sizeof(path), "%s/%d", child_folder(), count++);
	mkdir(path, 0700);
	strcat(path, "/log.jsonl");
	unsetenv("XDG_STATE_HOME"); /* where a log goes that has no place */
	unsetenv("HOME");
	snprintf(live_path, sizeof(live_path), "%s.live", path);
	snprintf(setting, sizeof(setting), "FASHIM_OUT=%s", path);
	return 0;
}

void run(void (*body)(void *))
{
	child_run(&child, environment, body, NULL);
	assert_true(child_passed(&child));
}

char *log_text(void)
{
	char *text = child_file(path);

	assert_non_null(text);
	return text;
}

int exists(const char *name)
{
	return access(name, F_OK) == 0;
}

void write_sample(int number)
{
	struct json *record = log_record("sample");

	json_int(record, "site", number);
	json_double(record, "app_us", 15.5);
	log_commit(record);
}
