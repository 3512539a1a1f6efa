/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: every record whole and as log_format.h says, from any thread, after a kill, misuse, a
 * full file. At exit and after a fork: test_log_fork.c.
 */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/cmocka.h"
#include "shim/base/cost.h"
#include "shim/log/log.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/reader.h"

static void whole_life(void *argument)
{
	struct live_file *live;

	(void)argument;
	log_live()->launches = 5; /* before there is a log */
	CHECK(log_path() == NULL);
	errno = EDOM;
	CHECK(log_open());
	CHECK(errno == EDOM);
	CHECK(log_open());
	CHECK(strcmp(log_path(), path) == 0);
	log_device("NVIDIA H200", "GPU-1234", 90, 13000, 130100);
	log_driver_lacks("cuFuncGetName");
	write_sample(1);
	live = log_live();
	CHECK(memcmp(live->magic, LIVE_MAGIC, 8) == 0 && live->version == LIVE_VERSION);
	CHECK(live->launches == 5 && live->start_ns > 0);
	live->gemms = 9;
	live->launches += 94;
	cost_add(PURPOSE_HOOKS, 1500);
	cost_add_gpu(PURPOSE_ASKING, 2500);
	live->scratch_peak = 1048576;
	live->copies_held = 70;
	live->copies_made = 3;
	live->copies_unfit = 1;
	live->reasons[REASON_CAPTURE] = 3;
	live->site_count = 2;
	live->sites[0] =
		(struct live_site){SITE_VERIFIED, REASON_NONE, 100, 90, 4, 3, 1, 12, 590400, 0};
	live->sites[1] = (struct live_site){
		.state = SITE_DECLINED, .reason = REASON_DRIFT, .seen = 3, .turn = 2};
	log_finish();
	CHECK(errno == EDOM);
	log_finish();
	CHECK(!log_open());
	write_sample(2); /* dropped */
	CHECK(strcmp(log_path(), path) == 0);
	log_live()->gemms++; /* a late thread must not crash */
}

static void test_records(void **state)
{
	const struct reader_value *header, *sample, *summary;
	char *text;

	run(whole_life);
	assert_string_equal(child.errors, "");
	text = log_text();
	assert_int_equal(reader_lines(text), 3);
	header = reader_line(text, 0);
	assert_string_equal(reader_string(header, "type"), "header");
	assert_string_equal(reader_string(header, "format"), "fashim-log");
	assert_true(reader_number(header, "version") == LOG_FORMAT_VERSION);
	assert_string_equal(reader_string(header, "fashim"), FASHIM_VERSION);
	assert_true(reader_number(header, "pid") > 1);
	assert_true(reader_is_null(header, "rank"));
	assert_non_null(strstr(reader_string(header, "exe"), "/test_log"));
	assert_non_null(strstr(reader_string(header, "argv/0"), "test_log"));
	assert_true(strlen(reader_string(header, "host")) > 0);
	assert_int_equal(strlen(reader_string(header, "start")), 20);
	assert_string_equal(reader_string(header, "mode"), "replace");
	assert_string_equal(reader_string(header, "gpu"), "NVIDIA H200");
	assert_string_equal(reader_string(header, "uuid"), "GPU-1234");
	assert_true(reader_number(header, "sm") == 90);
	assert_true(reader_number(header, "driver") == 13000);
	assert_true(reader_number(header, "cublas") == 130100);
	assert_string_equal(reader_string(header, "options/FASHIM_OUT"), path);
	assert_string_equal(reader_string(header, "options/FASHIM_SAMPLE"), "64");
#define OPTION(field, kind, name, initial, help)                                                   \
	assert_non_null(reader_string(header, "options/" name));
#include "shim/base/config.def"
#undef OPTION

	sample = reader_line(text, 1);
	assert_string_equal(reader_string(sample, "type"), "sample");
	assert_true(reader_number(sample, "app_us") == 15.5);

	summary = reader_line(text, 2);
	assert_string_equal(reader_string(summary, "type"), "summary");
	assert_string_equal(reader_string(summary, "end"), "exit");
	assert_true(reader_number(summary, "wall_us") > 0);
	assert_true(reader_number(summary, "wall_us") < 60e6);
	assert_true(reader_number(summary, "gemms") == 9);
	assert_true(reader_number(summary, "launches") == 99);
	assert_true(reader_number(summary, "costs_us/host/hooks") == 1.5);
	assert_true(reader_number(summary, "costs_us/host/log") > 0);
	assert_int_equal(reader_count(summary, "costs_us/host"), 2);
	assert_true(fabs(reader_number(summary, "overhead_us") - 1.5 -
			 reader_number(summary, "costs_us/host/log")) < 1e-3);
	assert_true(reader_number(summary, "costs_us/gpu/asking") == 2.5);
	assert_int_equal(reader_count(summary, "costs_us/gpu"), 1);
	assert_true(reader_number(summary, "scratch_peak") == 1048576);
	assert_true(reader_number(summary, "copies/held") == 70);
	assert_true(reader_number(summary, "copies/made") == 3);
	assert_true(reader_number(summary, "copies/unfit") == 1);
	assert_int_equal(reader_count(summary, "reasons"), 1);
	assert_true(reader_number(summary, "reasons/capture") == 3);
	assert_int_equal(reader_count(summary, "sites"), 2);
	assert_true(reader_number(summary, "sites/0/site") == 1);
	assert_string_equal(reader_string(summary, "sites/0/state"), "verified");
	assert_string_equal(reader_string(summary, "sites/0/reason"), "none");
	assert_true(reader_number(summary, "sites/0/seen") == 100);
	assert_true(reader_number(summary, "sites/0/replaced") == 90);
	assert_true(reader_number(summary, "sites/0/compared") == 4);
	assert_true(reader_number(summary, "sites/0/agreed") == 3);
	assert_true(reader_number(summary, "sites/0/passed") == 6);
	assert_true(reader_number(summary, "sites/0/materialised") == 1);
	assert_true(reader_number(summary, "sites/0/snapshots") == 12);
	assert_true(reader_number(summary, "sites/0/saved_us") == 590.4);
	assert_true(reader_number(summary, "sites/1/site") == 2 + 2 * LIVE_SITES);
	assert_string_equal(reader_string(summary, "sites/1/state"), "declined");
	assert_string_equal(reader_string(summary, "sites/1/reason"), "drift");
	free(text);
	assert_false(exists(live_path));
}

static void unknown_device(void *argument)
{
	(void)argument;
	setenv("OMPI_COMM_WORLD_RANK", "6", 1);
	CHECK(log_open());
	CHECK(strstr(log_path(), "/log.r6.jsonl"));
	strcpy(path, log_path());
	log_finish(); /* no record at all: header and summary */
}

static void test_unknown_device(void **state)
{
	const struct reader_value *header;
	char *text;

	run(unknown_device);
	strcpy(strrchr(path, '/'), "/log.r6.jsonl");
	text = log_text();
	assert_int_equal(reader_lines(text), 2);
	header = reader_line(text, 0);
	assert_true(reader_number(header, "rank") == 6);
	assert_true(reader_is_null(header, "gpu") && reader_is_null(header, "uuid"));
	assert_true(reader_is_null(header, "sm") && reader_is_null(header, "driver"));
	assert_true(reader_is_null(header, "cublas"));
	free(text);
}

static void full_summary(void *argument)
{
	struct live_file *live;

	(void)argument;
	CHECK(log_open());
	live = log_live();
	live->site_count = LIVE_SITES + 7; /* more than there is room for */
	for (int i = 0; i < LIVE_SITES; i++) {
		memset(&live->sites[i], 0x7f, sizeof(live->sites[i]));
		live->sites[i].state = SITE_LEARNING;
		live->sites[i].reason = REASON_MASK_NOT_DISCRIMINATED;
	}
	memset(live->reasons, 0x7f, sizeof(live->reasons));
	log_finish();
}

static void test_full_summary(void **state)
{
	char *text;

	run(full_summary);
	text = log_text();
	assert_int_equal(reader_lines(text), 2);
	assert_int_equal(reader_count(reader_line(text, 1), "sites"), LIVE_SITES);
	assert_int_equal(reader_count(reader_line(text, 1), "reasons"), REASON_COUNT);
	free(text);
}

static void in_comma_locale(void *argument)
{
	CHECK(setlocale(LC_ALL, argument));
	write_sample(1);
	log_finish();
}

static void test_locale(void **state)
{
	const char *name = child_comma_locale();
	char *text;

	if (!name)
		skip();
	child_run(&child, environment, in_comma_locale, (void *)(uintptr_t)name);
	assert_true(child_passed(&child));
	text = log_text();
	assert_int_equal(reader_lines(text), 3);
	assert_true(reader_number(reader_line(text, 1), "app_us") == 15.5);
	assert_string_equal(reader_string(reader_line(text, 0), "options/FASHIM_TOL"), "2");
	free(text);
}

static void misuse(void *argument)
{
	struct json *record, *inner;

	(void)argument;
	record = log_record("site");
	for (int i = 0; i < 100000; i++)
		json_string(record, "stack", "far too long a record");
	log_commit(record);
	record = log_record("state"); /* no JSON: an element without a key */
	json_int(record, NULL, 1);
	log_commit(record);
	record = log_record("outer");
	inner = log_record("inner"); /* dropped */
	json_int(inner, "lost", 1);
	log_violation("within %s", "outer"); /* on stderr only */
	log_commit(inner);
	json_int(record, "kept", 1);
	log_commit(record);
	log_violation("one %d", 1);
	log_finish();
}

static void test_misuse(void **state)
{
	char *text;

	run(misuse);
	text = log_text();
	assert_int_equal(reader_lines(text), 6);
	assert_string_equal(reader_string(reader_line(text, 1), "type"), "violation");
	assert_non_null(strstr(reader_string(reader_line(text, 1), "what"), "type site"));
	assert_string_equal(reader_string(reader_line(text, 2), "type"), "violation");
	assert_true(reader_number(reader_line(text, 3), "kept") == 1);
	assert_int_equal(reader_count(reader_line(text, 3), ""), 2);
	assert_string_equal(reader_string(reader_line(text, 4), "what"), "one 1");
	assert_string_equal(child.errors, "fashim: within outer\nfashim: one 1\n");
	free(text);
}

static void many_violations(void *argument)
{
	(void)argument;
	for (int i = 0; i < 100; i++)
		log_violation("again");
	log_finish();
}

static void test_violations_bounded(void **state)
{
	char *text;

	run(many_violations);
	text = log_text();
	assert_int_equal(reader_lines(text), 1 + 32 + 1);
	free(text);
}

static void *write_samples(void *argument)
{
	for (int i = 0; i < 200; i++) {
		log_open();
		write_sample(*(int *)argument);
		__atomic_fetch_add(&log_live()->gemms, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void from_threads(void *argument)
{
	static int numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
	pthread_t threads[8];

	(void)argument;
	log_open();
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, write_samples, &numbers[i]);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	log_finish();
}

static void test_threads(void **state)
{
	int counts[8] = {0};
	char *text;

	run(from_threads);
	text = log_text();
	assert_int_equal(reader_lines(text), 1 + 1600 + 1);
	assert_string_equal(reader_string(reader_line(text, 0), "type"), "header");
	for (const char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
		const struct reader_value *record = reader_line(line, 0);

		if (strcmp(reader_string(record, "type"), "sample") == 0)
			counts[(int)reader_number(record, "site")]++;
		else
			assert_true(reader_number(record, "gemms") == 1600);
	}
	for (int i = 0; i < 8; i++)
		assert_int_equal(counts[i], 200);
	free(text);
}

static void *write_forever(void *argument)
{
	for (;;) {
		write_sample(0);
		pthread_testcancel();
	}
	return argument;
}

/* Threads that are cancelled while they write leave the log whole and unlocked. */
static void cancelled(void *argument)
{
	(void)argument;
	log_open();
	for (int i = 0; i < 50; i++) {
		const struct timespec moment = {0, 300000};
		pthread_t thread;

		pthread_create(&thread, NULL, write_forever, NULL);
		nanosleep(&moment, NULL);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
		alarm(CHILD_HANGS);
		write_sample(1);
	}
	log_finish();
}

static void test_cancelled(void **state)
{
	char *text;

	run(cancelled);
	text = log_text();
	assert_true(reader_lines(text) > 52);
	free(text);
}

static void killed(void *argument)
{
	(void)argument;
	log_open();
	write_sample(1);
	log_live()->gemms = 77;
	log_live()->site_count = 1;
	log_live()->sites[0].seen = 33;
	usleep((LIVE_LONGEST_MS + LIVE_INTERVAL_MS) * 1000);
	log_live(); /* the next count */
	raise(SIGKILL);
}

static void test_killed(void **state)
{
	struct live_file live;
	FILE *file;
	char *text;

	child_run(&child, environment, killed, NULL);
	assert_true(WIFSIGNALED(child.status));
	text = log_text();
	assert_int_equal(reader_lines(text), 2);
	free(text);
	file = fopen(live_path, "r");
	assert_non_null(file);
	assert_int_equal(fread(&live, sizeof(live), 1, file), 1);
	assert_int_equal(fgetc(file), EOF);
	fclose(file);
	assert_memory_equal(live.magic, LIVE_MAGIC, 8);
	assert_int_equal(live.version, LIVE_VERSION);
	assert_int_equal(live.gemms, 77);
	assert_int_equal(live.sites[0].seen, 33);
	assert_true(live.start_ns > UINT64_C(1700000000000000000));
}

static void write_two_mib(void *largest)
{
	char word[1001];

	setenv("FASHIM_OUT_MB", largest, 1);
	memset(word, 'x', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	log_open();
	for (int i = 0; i < 2200; i++) {
		struct json *record = log_record("site");

		json_string(record, "word", word);
		log_commit(record);
	}
	log_live()->gemms = 9;
	log_finish();
}

/* The last record, and whether the one before says that the log is full. */
static bool ends_full(const char *text)
{
	const int lines = reader_lines(text);
	const char *what = reader_string(reader_line(text, lines - 2), "what");

	assert_true(reader_number(reader_line(text, lines - 1), "gemms") == 9);
	return what && strstr(what, "the log is full at 1 MiB");
}

static char *two_mib(const char *largest)
{
	child_run(&child, environment, write_two_mib, (void *)(uintptr_t)largest);
	assert_true(child_passed(&child));
	return log_text();
}

static void test_full(void **state)
{
	char *text = two_mib("1");

	assert_true(strlen(text) > 900u << 10 && strlen(text) < 1100u << 10);
	assert_true(ends_full(text));
	free(text);
}

static void test_no_limit(void **state)
{
	char *text = two_mib("0");

	assert_true(strlen(text) > 2u << 20);
	assert_false(ends_full(text));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_records, fresh),
		cmocka_unit_test_setup(test_unknown_device, fresh),
		cmocka_unit_test_setup(test_full_summary, fresh),
		cmocka_unit_test_setup(test_locale, fresh),
		cmocka_unit_test_setup(test_misuse, fresh),
		cmocka_unit_test_setup(test_violations_bounded, fresh),
		cmocka_unit_test_setup(test_threads, fresh),
		cmocka_unit_test_setup(test_cancelled, fresh),
		cmocka_unit_test_setup(test_killed, fresh),
		cmocka_unit_test_setup(test_full, fresh),
		cmocka_unit_test_setup(test_no_limit, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
