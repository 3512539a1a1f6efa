/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: which levels show, that they are bounded, whole lines, and harmless to the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "tests/cmocka.h"
#include "shim/base/message.h"
#include "tests/unit/child.h"

static struct child child;

static void say_all(void *argument)
{
	(void)argument;
	errno = EDOM;
	message_error("one %d", 1);
	message_warn("two");
	message_info("three");
	message_debug_of("shim/site/site.c", "%s", "four");
	message_debug_of("shim/ask/probe.c", "five");
	CHECK(errno == EDOM);
}

static void test_levels(void **state)
{
	static const char *const environments[][2] = {
		{"FASHIM_LOG=none", NULL},	    {NULL, NULL},
		{"FASHIM_LOG=warn", NULL},	    {"FASHIM_LOG=info", NULL},
		{"FASHIM_LOG=debug", NULL},	    {"FASHIM_LOG=debug:site", NULL},
		{"FASHIM_LOG=debug:gpu,ask", NULL}, {"FASHIM_LOG=debug:ask,site", NULL}};
#define THREE "fashim: one 1\nfashim: two\nfashim: three\n"
	static const char *const shown[] = {"",
					    "fashim: one 1\n",
					    "fashim: one 1\nfashim: two\n",
					    THREE,
					    THREE "fashim: site: four\nfashim: ask: five\n",
					    THREE "fashim: site: four\n",
					    THREE "fashim: ask: five\n",
					    THREE "fashim: site: four\nfashim: ask: five\n"};

	for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++) {
		child_run(&child, environments[i], say_all, NULL);
		assert_true(child_passed(&child));
		assert_string_equal(child.errors, shown[i]);
	}
}

static void test_rank(void **state)
{
	static const char *const environment[] = {"RANK=3", NULL};

	child_run(&child, environment, say_all, NULL);
	assert_string_equal(child.errors, "fashim[3]: one 1\n");
}

static void say_much(void *argument)
{
	char text[2000];

	(void)argument;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	message_error("two\nlines\x1b[31m");
	message_error("%s", text);
	for (int i = 0; i < 100; i++)
		message_warn("again");
}

static int count(const char *text, const char *part)
{
	int n = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		n++;
	return n;
}

static void test_bounds(void **state)
{
	static const char *const environment[] = {"FASHIM_LOG=warn", NULL};
	const char *line;

	child_run(&child, environment, say_much, NULL);
	assert_true(child_passed(&child));
	assert_int_equal(count(child.errors, "\n"), MESSAGE_LIMIT + 1);
	assert_int_equal(count(child.errors, "again"), MESSAGE_LIMIT - 2);
	assert_int_equal(count(child.errors, "not shown"), 1);
	assert_non_null(strstr(child.errors, "two lines [31m\n"));
	line = strstr(child.errors, "xxx");
	assert_true(strcspn(line, "\n") <= 512);
}

/* A host whose stderr is a closed pipe, and that has not asked to be spared SIGPIPE. */
static void say_to_nobody(void *argument)
{
	int fds[2];
	sigset_t pending, blocked;

	(void)argument;
	signal(SIGPIPE, SIG_DFL);
	CHECK(pipe(fds) == 0);
	close(fds[0]);
	CHECK(message_write(fds[1], "x", 1) == -EPIPE);
	dup2(fds[1], STDERR_FILENO);
	message_error("nobody hears this");
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	if (sigismember(&pending, SIGPIPE) || sigismember(&blocked, SIGPIPE))
		_exit(2);
}

static void test_closed_pipe(void **state)
{
	child_run(&child, NULL, say_to_nobody, NULL);
	assert_true(child_passed(&child));
}

static void *write_lines(void *argument)
{
	for (int i = 0; i < 4; i++)
		message_error("%s", (const char *)argument);
	return NULL;
}

static void say_together(void *argument)
{
	static char texts[8][200];
	pthread_t threads[8];

	(void)argument;
	for (int i = 0; i < 8; i++) {
		memset(texts[i], 'a' + i, sizeof(texts[i]) - 1);
		pthread_create(&threads[i], NULL, write_lines, texts[i]);
	}
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

static void test_threads(void **state)
{
	int lines = 0;

	child_run(&child, NULL, say_together, NULL);
	assert_true(child_passed(&child));
	for (const char *line = child.errors; *line; line = strchr(line, '\n') + 1, lines++) {
		assert_int_equal(strcspn(line, "\n"), 8 + 199);
		assert_int_equal(strspn(line + 8, (char[]){line[8], '\0'}), 199);
	}
	assert_int_equal(lines, 32);
}

static void meet_size_limit(void *argument)
{
	const struct rlimit limit = {100, 100};
	char path[128], data[300] = "";
	int fd;

	(void)argument;
	signal(SIGXFSZ, SIG_DFL);
	snprintf(path, sizeof(path), "%s/limited", child_folder());
	fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
	CHECK(fd >= 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0);
	errno = EDOM;
	CHECK(message_write(fd, data, sizeof(data)) == 100);
	CHECK(message_write(fd, data, sizeof(data)) == -EFBIG);
	CHECK(message_allocate(fd, 5000) == -EFBIG);
	CHECK(errno == EDOM);
}

static void test_size_limit(void **state)
{
	child_folder();
	child_run(&child, NULL, meet_size_limit, NULL);
	assert_true(child_passed(&child));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels),	cmocka_unit_test(test_rank),
		cmocka_unit_test(test_bounds),	cmocka_unit_test(test_closed_pipe),
		cmocka_unit_test(test_threads), cmocka_unit_test(test_size_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
