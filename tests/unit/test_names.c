/* SPDX-License-Identifier: Apache-2.0
 *
 * File names: each %-sign, ranks, what does not fit, and the calendar against the C library's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "tests/cmocka.h"
#include "shim/base/names.h"
#include "tests/unit/child.h"

static char out[4096];

static int clean(void **state)
{
	unsetenv("RANK");
	unsetenv("OMPI_COMM_WORLD_RANK");
	unsetenv("PMIX_RANK");
	unsetenv("PMI_RANK");
	unsetenv("SLURM_PROCID");
	return 0;
}

static void expect(const char *pattern, const char *expected)
{
	assert_int_equal(names_expand(pattern, out, sizeof(out)), strlen(expected));
	assert_string_equal(out, expected);
}

static void test_signs(void **state)
{
	char expected[512], host[256];

	expect("", "");
	expect("plain.jsonl", "plain.jsonl");
	expect("100%%", "100%");
	expect("%e", "test_names");
	snprintf(expected, sizeof(expected), "a%db%d", (int)getpid(), (int)getpid());
	expect("a%pb%p", expected);
	gethostname(host, sizeof(host));
	expect("%h", host);
	expect("%r", "0");
	/* What is no sign is copied. */
	expect("%x %", "%x %");
	expect("%%p", "%p");
	expect("%q %q{} %q{NOT", "%q %q{} %q{NOT");
}

static void test_variables(void **state)
{
	setenv("FASHIM_TEST_JOB", "job/%p", 1);
	expect("<%q{FASHIM_TEST_JOB}>", "<job/%p>");
	expect("%q{FASHIM_TEST_JOB}%q{FASHIM_TEST_JOB}", "job/%pjob/%p");
	unsetenv("FASHIM_TEST_JOB");
	expect("<%q{FASHIM_TEST_JOB}>", "<>");
}

static void test_ranks(void **state)
{
	static const char *const variables[] = {"SLURM_PROCID", "PMI_RANK", "PMIX_RANK",
						"OMPI_COMM_WORLD_RANK", "RANK"};
	char expected[64];

	/* Each one hides those before it. */
	assert_int_equal(names_rank(), -1);
	for (int i = 0; i < 5; i++) {
		snprintf(expected, sizeof(expected), "%d", 10 + i);
		setenv(variables[i], expected, 1);
		assert_int_equal(names_rank(), 10 + i);
		expect("%r", expected);
	}
	expect("log.jsonl", "log.r14.jsonl");
	expect("d.ir/log", "d.ir/log.r14");
	expect(".hidden", ".hidden.r14");
	expect("a.%r.jsonl", "a.14.jsonl");
	snprintf(expected, sizeof(expected), "a.%d", (int)getpid());
	expect("a.%p", expected);
	expect("%%p%%r", "%p%r.r14");
	clean(state);
	for (int i = 0; i < 4; i++) {
		static const char *const wrong[] = {"", "x", "-1", "99999999999999999999"};

		setenv("RANK", wrong[i], 1);
		assert_int_equal(names_rank(), -1);
		setenv("PMI_RANK", "3", 1);
		assert_int_equal(names_rank(), 3);
		unsetenv("PMI_RANK");
	}
	clean(state);
	expect("log.jsonl", "log.jsonl");
}

static void test_number(void **state)
{
	char pattern[256], expected[256];

	snprintf(pattern, sizeof(pattern), "%s/run%%n.log", child_folder());
	for (int i = 1; i < 4; i++) {
		snprintf(expected, sizeof(expected), "%s/run%d.log", child_folder(), i);
		expect(pattern, expected);
		close(open(expected, O_CREAT | O_WRONLY, 0600));
	}
}

static void test_room(void **state)
{
	for (size_t size = 1; size < 12; size++) {
		const int result = names_expand("abc%%def", out, size); /* 7 long */

		out[size] = '#';
		if (size > 7) {
			assert_int_equal(result, 7);
			assert_string_equal(out, "abc%def");
		} else {
			assert_int_equal(result, -ENAMETOOLONG);
			assert_string_equal(out, "");
		}
	}
	setenv("RANK", "5", 1);
	assert_int_equal(names_expand("a.b", out, 6), 6 > 6 ? 6 : -ENAMETOOLONG);
	assert_string_equal(out, "");
	assert_int_equal(names_expand("a.b", out, 7), 6);
	assert_string_equal(out, "a.r5.b");
	unsetenv("RANK");
	errno = EDOM;
	names_expand("%e%p%h%n%t", out, sizeof(out));
	assert_int_equal(errno, EDOM);
}

static void test_insert(void **state)
{
	assert_int_equal(names_insert("a.b/c.jsonl", "1", out, sizeof(out)), 13);
	assert_string_equal(out, "a.b/c.1.jsonl");
	names_insert("a.b/c", "22", out, sizeof(out));
	assert_string_equal(out, "a.b/c.22");
	names_insert("x.tar.gz", "1", out, sizeof(out));
	assert_string_equal(out, "x.tar.1.gz");
	assert_int_equal(names_insert("c.d", "1", out, 6), 5);
	assert_int_equal(names_insert("c.d", "1", out, 5), -ENAMETOOLONG);
}

static void test_calendar(void **state)
{
	char expected[64], text[NAMES_UTC_SIZE];

	/* Every 7.3 hours from 1970 to 2105, which crosses each day, month end and leap rule. */
	for (uint64_t seconds = 0; seconds < UINT64_C(4260000000); seconds += 26280 - 1) {
		const time_t time = (time_t)seconds;
		struct tm tm;

		gmtime_r(&time, &tm);
		strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%SZ", &tm);
		names_utc(seconds * 1000000000u + 999999999u, 0, text);
		assert_string_equal(text, expected);
	}
	names_utc(UINT64_C(1769903999) * 1000000000u, 1, text);
	assert_string_equal(text, "20260131T235959Z");
}

static void start_of_child(void *argument)
{
	CHECK(names_start_ns() > *(uint64_t *)argument);
	CHECK(names_start_ns() == names_start_ns());
}

static void test_start(void **state)
{
	const struct timespec moment = {0, 2000000};
	uint64_t start = names_start_ns();
	char text[NAMES_UTC_SIZE], again[64];
	struct child child;

	nanosleep(&moment, NULL);
	assert_true(start > UINT64_C(1700000000000000000));
	assert_true(names_start_ns() == start);
	names_utc(start, 1, text);
	names_expand("%t", again, sizeof(again));
	assert_string_equal(text, again);
	child_run(&child, NULL, start_of_child, &start);
	assert_true(child_passed(&child));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_signs, clean),
		cmocka_unit_test_setup(test_variables, clean),
		cmocka_unit_test_setup(test_ranks, clean),
		cmocka_unit_test_setup(test_number, clean),
		cmocka_unit_test_setup(test_room, clean),
		cmocka_unit_test_setup(test_insert, clean),
		cmocka_unit_test_setup(test_calendar, clean),
		cmocka_unit_test_setup(test_start, clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
