/* SPDX-License-Identifier: Apache-2.0
 *
 * The log at the end of a process and after forks: a child has a log of its own, or none.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "tests/cmocka.h"
#include "shim/log/log.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/reader.h"

static void leave_at_exit(void *argument)
{
	(void)argument;
	atexit(log_finish);
	write_sample(1);
	exit(0);
}

static void test_at_exit(void **state)
{
	char *text;

	run(leave_at_exit);
	text = log_text();
	assert_int_equal(reader_lines(text), 3);
	free(text);
	assert_false(exists(live_path));
}

static void fork_in_the_middle(void *argument)
{
	char pid_name[64];
	int status;
	pid_t pid;

	(void)argument;
	atexit(log_finish);
	write_sample(1);
	log_live()->gemms = 1;
	pid = fork();
	if (pid == 0) {
		/* Nothing of the parent's is left, and silence leaves no file. */
		CHECK(log_path() == NULL);
		CHECK(log_live()->gemms == 0);
		log_live()->gemms = 500;
		if (argument)
			exit(0);
		CHECK(log_open());
		snprintf(pid_name, sizeof(pid_name), ".%d.", (int)getpid());
		CHECK(strstr(log_path(), pid_name));
		write_sample(2);
		write_sample(3);
		CHECK(log_live()->gemms == 500);
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(log_live()->gemms == 1);
	write_sample(4);
	if (!argument)
		fprintf(stderr, "%d %d", (int)getpid(), (int)pid);
	exit(0);
}

static void test_fork(void **state)
{
	char base[256], *text;
	int parent, forked;

	*strrchr(path, '/') = '\0';
	strcpy(base, path);
	snprintf(setting, sizeof(setting), "FASHIM_OUT=%s/log.%%p.jsonl", base);
	run(fork_in_the_middle);
	assert_int_equal(sscanf(child.errors, "%d %d", &parent, &forked), 2);
	snprintf(path, sizeof(path), "%s/log.%d.jsonl", base, parent);
	text = log_text();
	assert_int_equal(reader_lines(text), 4);
	assert_true(reader_number(reader_line(text, 0), "pid") == parent);
	assert_true(reader_number(reader_line(text, 2), "site") == 4);
	assert_true(reader_number(reader_line(text, 3), "gemms") == 1);
	free(text);
	snprintf(path, sizeof(path), "%s/log.%d.jsonl", base, forked);
	text = log_text();
	assert_int_equal(reader_lines(text), 4);
	assert_true(reader_number(reader_line(text, 0), "pid") == forked);
	assert_true(reader_number(reader_line(text, 1), "site") == 2);
	assert_true(reader_number(reader_line(text, 3), "gemms") == 500);
	free(text);
}

static void test_silent_fork(void **state)
{
	char *text;
	char second[300];

	child_run(&child, environment, fork_in_the_middle, (void *)1);
	assert_true(child_passed(&child));
	text = log_text();
	assert_int_equal(reader_lines(text), 4);
	free(text);
	snprintf(second, sizeof(second), "%.*s.1.jsonl", (int)(strlen(path) - 6), path);
	assert_false(exists(second));
}

static atomic_int stop_writing;

static void *write_until_told(void *argument)
{
	while (!stop_writing)
		write_sample(0);
	return argument;
}

/* Forks while other threads hold the lock most of the time: the child must not wait for them. */
static void fork_under_load(void *argument)
{
	pthread_t threads[3];
	int status;

	(void)argument;
	log_open();
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, write_until_told, NULL);
	for (int i = 0; i < 40; i++) {
		const pid_t pid = fork();

		if (pid == 0) {
			alarm(CHILD_HANGS);
			write_sample(1);
			log_finish();
			_exit(log_path() ? 0 : 1);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	stop_writing = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	log_finish();
}

static void test_fork_under_load(void **state)
{
	char *text;

	run(fork_under_load);
	text = log_text();
	assert_true(reader_lines(text) > 2);
	free(text);
	for (int i = 1; i <= 40; i++) {
		char name[300];

		snprintf(name, sizeof(name), "%.*s.%d.jsonl", (int)(strlen(path) - 6), path, i);
		text = child_file(name);
		assert_non_null(text);
		assert_int_equal(reader_lines(text), 3);
		free(text);
	}
}

static void child_without_handlers(void *argument)
{
	char counters[300];
	int status;
	pid_t pid;

	log_open();
	snprintf(counters, sizeof(counters), "%s.live", log_path());
	write_sample(1);
	log_live()->gemms = 7;
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0) {
		log_live()->gemms += 100;
		usleep((LIVE_LONGEST_MS + LIVE_INTERVAL_MS) * 1000);
		log_live();
		if (argument)
			write_sample(2);
		log_finish();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(exists(counters));
	CHECK(log_live()->gemms == 7);
	log_finish();
}

/* A child that came without fork() neither ends the parent's log nor removes its counters. */
static void test_child_without_handlers(void **state)
{
	char *text;
	char second[300];

	child_run(&child, environment, child_without_handlers, NULL);
	assert_true(child_passed(&child));
	text = log_text();
	assert_int_equal(reader_lines(text), 3);
	assert_true(reader_number(reader_line(text, 2), "gemms") == 7);
	free(text);
	child_run(&child, environment, child_without_handlers, (void *)1);
	assert_true(child_passed(&child));
	snprintf(second, sizeof(second), "%.*s.2.jsonl", (int)(strlen(path) - 6), path);
	text = child_file(second); /* the child's own */
	assert_non_null(text);
	assert_int_equal(reader_lines(text), 3);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_at_exit, fresh),
		cmocka_unit_test_setup(test_fork, fresh),
		cmocka_unit_test_setup(test_silent_fork, fresh),
		cmocka_unit_test_setup(test_fork_under_load, fresh),
		cmocka_unit_test_setup(test_child_without_handlers, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
