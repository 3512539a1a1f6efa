/* SPDX-License-Identifier: Apache-2.0
 *
 * The log as a guest: existing files left alone, nothing on stdout, and hosts that change folders,
 * close our descriptor, fill the disk or remove the file.
 */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/cmocka.h"
#include "shim/log/log.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/reader.h"

/* libc's, on a file whose writes take so long. */
static unsigned slow_us, written;

ssize_t pwrite(int fd, const void *data, size_t size, off_t place)
{
	written++;
	usleep(slow_us);
	return syscall(SYS_pwrite64, fd, data, size, place);
}

static void simple(void *argument)
{
	(void)argument;
	CHECK(log_open());
	write_sample(1);
	log_finish();
}

static void test_existing(void **state)
{
	char name[300], *text;

	for (int i = 0; i < 4; i++)
		run(simple);
	for (int i = 0; i < 4; i++) {
		if (i)
			snprintf(name, sizeof(name), "%.*s.%d.jsonl", (int)(strlen(path) - 6), path,
				 i);
		else
			strcpy(name, path);
		text = child_file(name);
		assert_non_null(text);
		assert_int_equal(reader_lines(text), 3);
		free(text);
	}
}

static void relative(void *argument)
{
	(void)argument;
	CHECK(chdir(child_folder()) == 0);
	setenv("FASHIM_OUT", "%e/new/folders/%e.log", 1);
	CHECK(log_open());
	CHECK(chdir("/") == 0);
	CHECK(log_path()[0] == '/');
	write_sample(1);
	log_finish();
}

static void test_relative(void **state)
{
	char *text;

	run(relative);
	snprintf(path, sizeof(path), "%s/test_log_host/new/folders/test_log_host.log",
		 child_folder());
	text = log_text();
	assert_int_equal(reader_lines(text), 3);
	free(text);
}

static void into_folder(void *argument)
{
	char name[128], *text;

	setenv("FASHIM_OUT", argument, 1);
	CHECK(log_open());
	snprintf(name, sizeof(name), "/fashim.test_log_host.%d.jsonl", (int)getpid());
	CHECK(strstr(log_path(), name));
	log_finish();
	text = child_file(log_path());
	CHECK(text && reader_lines(text) == 2);
}

static void test_folder(void **state)
{
	char name[300];

	child_run(&child, NULL, into_folder, (void *)(uintptr_t)child_folder());
	assert_true(child_passed(&child));
	snprintf(name, sizeof(name), "%s/new folder/", child_folder());
	mkdir(name, 0700);
	child_run(&child, NULL, into_folder, name);
	assert_true(child_passed(&child));
}

static void into_state(void *argument)
{
	char name[300];
	struct stat status;

	(void)argument;
	snprintf(name, sizeof(name), "%s/home", child_folder());
	mkdir(name, 0755);
	setenv("HOME", name, 1);
	CHECK(log_open());
	write_sample(1);
	log_finish();
	strcat(name, "/.local/state/fashim");
	CHECK(stat(name, &status) == 0 && (status.st_mode & 0777) == 0700);
	sprintf(name + strlen(name), "/fashim.test_log_host.%d.jsonl", (int)getpid());
	CHECK(strcmp(log_path(), name) == 0);
	CHECK(reader_lines(child_file(name)) == 3);
}

static void without_log(void *argument)
{
	(void)argument;
	CHECK(!log_open());
	CHECK(log_path() == NULL);
	write_sample(1);
	log_live()->gemms++;
	CHECK(log_live()->gemms == 1);
	log_finish();
	log_live()->gemms++;
	CHECK(log_live()->gemms == 2);
}

/* A folder that somebody named is not made, but the log is, where such files go. */
static const char *missing; /* what the test's variables say */

static void into_missing(void *argument)
{
	char name[300];

	snprintf(name, sizeof(name), "%s/%s", child_folder(), missing);
	setenv("FASHIM_OUT", name, 1);
	into_state(argument);
}

static void test_missing_folder(void **state)
{
	static const char *const names[] = {"no/such/x.jsonl", "no/", "no/%h/x.jsonl"};
	char name[300];

	/* A file is none either. */
	snprintf(name, sizeof(name), "%s/file", child_folder());
	fclose(fopen(name, "w"));
	missing = "file/x.jsonl";
	run(into_missing);
	assert_non_null(strstr(child.errors, " (Not a directory) but at "));

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		missing = names[i];
		run(into_missing);
		snprintf(name, sizeof(name), "%s/no", child_folder());
		assert_false(exists(name));
		snprintf(name, sizeof(name), "fashim: the log is not at %s/no", child_folder());
		assert_memory_equal(child.errors, name, strlen(name));
		assert_non_null(strstr(child.errors, " (No such file or directory) but at "));
		assert_int_equal(strcspn(child.errors, "\n"), strlen(child.errors) - 1);
	}
}

/* Nobody named one, and the current folder takes none: nothing is said. */
static void into_current(void *argument)
{
	setenv("FASHIM_OUT", "", 1);
	CHECK(chdir("/proc") == 0);
	into_state(argument);
}

static void test_unusable_folder(void **state)
{
	run(into_current);
	assert_string_equal(child.errors, "");
}

static void without_home(void *argument)
{
	setenv("HOME", "/nonexistent", 1);
	without_log(argument);
}

static void test_no_home(void **state)
{
	snprintf(setting, sizeof(setting), "FASHIM_OUT=%s/no/such/x.jsonl", child_folder());
	run(without_home);
	assert_false(exists("/nonexistent"));
	assert_non_null(strstr(child.errors, "fashim: no log: "));
}

static void test_none(void **state)
{
	strcpy(setting, "FASHIM_OUT=none");
	run(without_log);
	assert_string_equal(child.errors, "");
	assert_false(exists("none"));
}

static void test_impossible(void **state)
{
	strcpy(setting, "FASHIM_OUT=/proc/no/such/place.jsonl");
	run(without_log);
	assert_non_null(
		strstr(child.errors, "fashim: no log: /proc/no/such/place.jsonl: No such file"));
	assert_int_equal(strcspn(child.errors, "\n"), strlen(child.errors) - 1);
}

static void to_device(void *argument)
{
	(void)argument;
	CHECK(log_open());
	write_sample(1);
	log_finish();
}

static void test_device(void **state)
{
	struct stat status;

	strcpy(setting, "FASHIM_OUT=/dev/null");
	run(to_device);
	assert_int_equal(stat("/dev/null", &status), 0);
	assert_true(S_ISCHR(status.st_mode));
	assert_false(exists("/dev/null.live"));
	assert_false(exists("/dev/null.1"));
}

static int log_descriptor(void)
{
	struct stat ours, status;

	CHECK(stat(log_path(), &ours) == 0);
	for (int fd = 0; fd < 1024; fd++)
		if (fstat(fd, &status) == 0 && status.st_ino == ours.st_ino &&
		    status.st_dev == ours.st_dev)
			return fd;
	return -1;
}

static void close_all(void *argument)
{
	char name[300], *text;
	int fd, other;

	(void)argument;
	log_open();
	write_sample(1);
	fd = log_descriptor();
	CHECK(fd > 2 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	for (int i = 3; i < 1024; i++)
		close(i);
	/* The host gets our number for a file of its own. */
	snprintf(name, sizeof(name), "%s.host", path);
	other = open(name, O_CREAT | O_RDWR, 0600);
	CHECK(dup2(other, fd) == fd);
	write_sample(2);
	log_finish();
	CHECK(fcntl(fd, F_GETFD) >= 0); /* and keeps it */
	text = child_file(name);
	CHECK(text && strlen(text) == 0);
}

static void test_descriptor_closed(void **state)
{
	char *text;

	run(close_all);
	text = log_text();
	assert_int_equal(reader_lines(text), 4);
	free(text);
}

static void low_numbers(void *argument)
{
	(void)argument;
	close(0);
	close(1);
	CHECK(log_open());
	CHECK(log_descriptor() > 2);
	CHECK(dup(2) == 0); /* still the lowest free number */
	log_finish();
}

static void test_low_numbers(void **state)
{
	run(low_numbers);
}

static void removed(void *argument)
{
	(void)argument;
	log_open();
	write_sample(1);
	CHECK(remove(path) == 0);
	write_sample(2);
	log_finish();
	CHECK(!exists(path) && !exists(live_path));
}

static void test_removed(void **state)
{
	run(removed);
}

static void full_disk(void *argument)
{
	struct rlimit limit = {20000, RLIM_INFINITY};
	char *text;
	int lines;

	(void)argument;
	signal(SIGXFSZ, SIG_DFL);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	log_open();
	for (int i = 0; i < 1000; i++)
		write_sample(i);
	text = child_file(path);
	lines = reader_lines(text);
	CHECK(lines > 100 && lines < 1000); /* cut, but every line whole */
	CHECK(strlen(text) <= 20000 && strlen(text) > 19800);
	limit.rlim_cur = RLIM_INFINITY;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	log_finish();
	CHECK(reader_lines(child_file(path)) == lines + 1);
}

static void test_full_disk(void **state)
{
	run(full_disk);
}

static void no_room_for_live(void *argument)
{
	const struct rlimit limit = {4096, RLIM_INFINITY};

	(void)argument;
	signal(SIGXFSZ, SIG_DFL);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(log_open());
	CHECK(!exists(live_path));
	log_live()->gemms = 3;
	log_finish();
	CHECK(reader_number(reader_line(child_file(path), 1), "gemms") == 3);
}

static void test_no_room_for_live(void **state)
{
	run(no_room_for_live);
}

/* A file that takes long is written more rarely: 200 times what it took passes in between. */
static void slow_live(void *argument)
{
	struct timespec begin, now;

	(void)argument;
	log_open();
	slow_us = 2000;
	usleep((LIVE_LONGEST_MS + LIVE_INTERVAL_MS) * 1000);
	log_live();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	written = 0;
	do {
		log_live();
		usleep(5000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 <
		 200);
	CHECK(written == 0);
	slow_us = 0;
	log_finish();
}

static void test_slow_live(void **state)
{
	run(slow_live);
}

/* Somebody empties LOG.live, as who clears logs does. */
static void truncated_live(void *argument)
{
	(void)argument;
	log_open();
	log_live()->gemms = 1;
	CHECK(truncate(live_path, 0) == 0);
	for (int i = 0; i < LIVE_SITES; i++)
		log_live()->sites[i].seen = 5;
	log_live()->gemms = 2;
	usleep((LIVE_LONGEST_MS + LIVE_INTERVAL_MS) * 1000);
	log_live();
	raise(SIGKILL);
}

static void test_truncated_live(void **state)
{
	struct live_file live;
	struct stat status;
	FILE *file;

	child_run(&child, environment, truncated_live, NULL);
	assert_true(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGKILL);
	file = fopen(live_path, "r");
	assert_non_null(file);
	assert_int_equal(fread(&live, sizeof(live), 1, file), 1);
	assert_int_equal(fstat(fileno(file), &status), 0);
	fclose(file);
	assert_memory_equal(live.magic, LIVE_MAGIC, 8);
	assert_int_equal(live.gemms, 2);
	assert_int_equal(live.sites[LIVE_SITES - 1].seen, 5);
	assert_int_equal(status.st_mode & 0777, 0600);
}

static void beside_another_file(void *argument)
{
	char name[300];
	int fd;

	strcpy(name, path);
	*strrchr(name, '/') = '\0';
	mkdir(name, 0777);
	if (argument) {
		snprintf(name, sizeof(name), "%s.of_user", path);
		CHECK(symlink(name, live_path) == 0);
	} else {
		strcpy(name, live_path);
	}
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
	CHECK(fd >= 0 && write(fd, "precious", 8) == 8 && close(fd) == 0);
	log_open();
	write_sample(1);
	log_live()->gemms = 4;
	log_finish();
	CHECK(exists(live_path));
	CHECK(strcmp(child_file(name), "precious") == 0);
	CHECK(reader_number(reader_line(child_file(path), 2), "gemms") == 4);
}

/* A file or link of that name which is no counters stays as it is. */
static void test_beside_another_file(void **state)
{
	run(beside_another_file);
	fresh(state);
	child_run(&child, environment, beside_another_file, (void *)1);
	assert_true(child_passed(&child));
}

static void left_over(void *argument)
{
	(void)argument;
	log_open();
	CHECK(exists(live_path));
	CHECK(remove(path) == 0);
	raise(SIGKILL);
}

/* Counters of a log that was removed give way to those of the next one. */
static void test_left_over(void **state)
{
	child_run(&child, environment, left_over, NULL);
	assert_true(exists(live_path));
	run(simple);
	assert_false(exists(live_path));
}

static void fork_after_close(void *argument)
{
	int fd, other, status;
	pid_t pid;

	(void)argument;
	log_open();
	write_sample(1);
	fd = log_descriptor();
	other = open("/dev/null", O_WRONLY);
	CHECK(dup2(other, fd) == fd);
	pid = fork();
	if (pid == 0) /* the host's file is not ours to close */
		_exit(fcntl(fd, F_GETFD) >= 0 ? 0 : 1);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void test_fork_after_close(void **state)
{
	run(fork_after_close);
}

static void odd_environment(void *argument)
{
	char value[6000];
	char *text;

	(void)argument;
	memset(value, 1, sizeof(value) - 1); /* six bytes each when escaped */
	value[sizeof(value) - 1] = '\0';
	setenv("FASHIM_KERNEL", value, 1);
	value[1500] = '\0';
	setenv("FASHIM_ONLY", value, 1);
	setenv("FASHIM_SKIP", value, 1);
	setenv("FASHIM_RECORD", value, 1);
	write_sample(1);
	text = child_file(path);
	CHECK(text && reader_lines(text) == 2);
	CHECK(strcmp(reader_string(reader_line(text, 0), "type"), "header") == 0);
	free(text);
}

static void test_odd_environment(void **state)
{
	run(odd_environment);
}

static void test_long_command_line(void **state)
{
	const struct reader_value *header;
	char command[16000], *text;
	size_t used;
	long count;

	used = (size_t)snprintf(command, sizeof(command), "FASHIM_OUT=%s /proc/%d/exe --host ",
				path, (int)getpid());
	for (int i = 0; i < 1000; i++)
		used += (size_t)snprintf(command + used, sizeof(command) - used, "\"\x02'\xff%d\" ",
					 i % 10);
	assert_int_equal(system(command), 0);
	text = log_text();
	assert_int_equal(reader_lines(text), 3);
	header = reader_line(text, 0);
	assert_string_equal(reader_string(header, "argv/1"), "--host");
	assert_string_equal(reader_string(header, "argv/2"), "\x02'\xef\xbf\xbd"
							     "0");
	count = reader_count(header, "argv");
	assert_true(count > 700);
	snprintf(command, sizeof(command), "argv/%ld", count - 1);
	assert_string_equal(reader_string(header, command), "...");
	free(text);
}

static void test_stdout_untouched(void **state)
{
	char command[512], line[128];
	FILE *pipe;

	/* This very program as a host: cmocka prints on stdout, "simple" below does not. */
	snprintf(command, sizeof(command),
		 "FASHIM_LOG=debug FASHIM_OUT=%s /proc/%d/exe --host 2>&-", path, (int)getpid());
	pipe = popen(command, "r");
	assert_null(fgets(line, sizeof(line), pipe));
	assert_int_equal(pclose(pipe), 0);
	assert_true(exists(path));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_existing, fresh),
		cmocka_unit_test_setup(test_relative, fresh),
		cmocka_unit_test_setup(test_folder, fresh),
		cmocka_unit_test_setup(test_missing_folder, fresh),
		cmocka_unit_test_setup(test_unusable_folder, fresh),
		cmocka_unit_test_setup(test_no_home, fresh),
		cmocka_unit_test_setup(test_none, fresh),
		cmocka_unit_test_setup(test_impossible, fresh),
		cmocka_unit_test_setup(test_device, fresh),
		cmocka_unit_test_setup(test_descriptor_closed, fresh),
		cmocka_unit_test_setup(test_low_numbers, fresh),
		cmocka_unit_test_setup(test_removed, fresh),
		cmocka_unit_test_setup(test_full_disk, fresh),
		cmocka_unit_test_setup(test_no_room_for_live, fresh),
		cmocka_unit_test_setup(test_slow_live, fresh),
		cmocka_unit_test_setup(test_truncated_live, fresh),
		cmocka_unit_test_setup(test_beside_another_file, fresh),
		cmocka_unit_test_setup(test_left_over, fresh),
		cmocka_unit_test_setup(test_fork_after_close, fresh),
		cmocka_unit_test_setup(test_odd_environment, fresh),
		cmocka_unit_test_setup(test_long_command_line, fresh),
		cmocka_unit_test_setup(test_stdout_untouched, fresh),
	};

	if (argc > 1 && strcmp(argv[1], "--host") == 0) {
		simple(NULL);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
