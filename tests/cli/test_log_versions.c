/* SPDX-License-Identifier: Apache-2.0
 *
 * The promise about versions, as it will be kept once there are several: the reader is compiled
 * here as that of format version 3, and must take 2 and 3 and nothing else.
 */
#include "shim/log/log_format.h"

#undef LOG_FORMAT_VERSION
#define LOG_FORMAT_VERSION 3
#include "tools/read/log_reader.c"

#include <unistd.h>

#include "tests/cmocka.h"

static int read_version(const char *version, struct log_set *set)
{
	char path[] = "/tmp/fashim-versions-XXXXXX";
	int fd = mkstemp(path), result;

	assert_true(fd >= 0);
	dprintf(fd,
		"{\"type\":\"header\",\"format\":\"fashim-log\"%s%s}\n"
		"{\"type\":\"of a later version\",\"x\":[1,{}]}\n"
		"{\"type\":\"sample\",\"site\":1,\"app_us\":2,\"fused_us\":1,\"new\":{\"a\":[3]}}"
		"\n",
		*version ? ",\"version\":" : "", version);
	close(fd);
	result = log_read(set, path, 0);
	unlink(path);
	return result;
}

static void the_last_two_are_read(void **state)
{
	static const char *const good[] = {"2", "3", "3.0"};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct log_set set = {0};

		assert_int_equal(read_version(good[i], &set), 0);
		assert_int_equal(set.count, 1);
		assert_int_equal(set.runs[0]->unreadable, 0);
		assert_int_equal(set.runs[0]->sites[0]->samples, 1);
		log_set_free(&set);
	}
}

static void others_are_refused(void **state)
{
	static const char *const bad[] = {"1", "4", "2.5", "-3", "0", "1e9", "\"3\"", "null", ""};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct log_set set = {0};

		assert_int_equal(read_version(bad[i], &set), -EPROTO);
		assert_int_equal(set.count, 0);
		assert_non_null(strstr(set.problem, "the last two, up to 3"));
		log_set_free(&set);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_two_are_read),
		cmocka_unit_test(others_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
