/* SPDX-License-Identifier: Apache-2.0
 *
 * What opens the page is started and left alone: it may run for as long as the browser does.
 */
#include "tools/run/page.h"
#include "tools/base/tool.h"
#include "tools/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char opener[] = "xdg-open";

/* "run.html" for run.jsonl, or "run.1.html" … where that is taken: made, empty. 0 or -errno. */
static int make_page(const char *log, char *page, size_t size)
{
	const char *dot = strrchr(log, '.'), *slash = strrchr(log, '/');
	const int stem = (int)(dot && (!slash || dot > slash) ? (size_t)(dot - log) : strlen(log));
	int fd = -1;

	for (int i = 0; fd < 0 && i < 1000; i++) {
		if (i)
			snprintf(page, size, "%.*s.%d.html", stem, log, i);
		else
			snprintf(page, size, "%.*s.html", stem, log);
		fd = open(page, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd < 0 && errno != EEXIST)
			return -errno;
	}
	if (fd < 0)
		return -EEXIST;
	close(fd);
	return 0;
}

static int write_page(const struct log_names *logs, char *page)
{
	char name[] = "fashim report", format[] = "--format=html", output[] = "-o";
	char **argv = calloc(logs->count + 5, sizeof(*argv));
	int status = 0;
	pid_t child;

	if (!argv)
		return -ENOMEM;
	argv[0] = name;
	argv[1] = format;
	argv[2] = output;
	argv[3] = page;
	memcpy(argv + 4, logs->names, logs->count * sizeof(*argv));
	child = fork();
	if (child == 0)
		_exit(cmd_report((int)logs->count + 4, argv));
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	free(argv);
	return child < 0 ? -errno : status ? -EIO : 0;
}

/* The end of the pipe in the opener closes with its exec: what comes through is why there was
 * none. */
static int start_opener(const char *page)
{
	int report[2], error = 0;
	pid_t child;

	if (pipe2(report, O_CLOEXEC))
		return -errno;
	child = fork();
	if (child == 0) {
		const int null = open("/dev/null", O_RDWR);

		if (fork())
			_exit(0);
		setsid();
		unsetenv("LD_PRELOAD"); /* a browser is none of the shim's business */
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		execlp(opener, opener, page, (char *)NULL);
		error = errno;
		if (write(report[1], &error, sizeof(error)) < 0)
			_exit(1);
		_exit(0);
	}
	close(report[1]);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	if (read(report[0], &error, sizeof(error)) < 0)
		error = errno;
	close(report[0]);
	return child < 0 ? -EAGAIN : -error;
}

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value;
}

void page_open(const struct log_names *logs)
{
	char page[PATH_MAX];
	int result = make_page(logs->names[0], page, sizeof(page));

	if (!result)
		result = write_page(logs, page);
	if (result) {
		complain("no page: %s: %s", page, strerror(-result));
		return;
	}
	if (!is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY"))
		complain("page: %s (not opened: there is no desktop here)", page);
	else if ((result = start_opener(page)) != 0)
		complain("page: %s (not opened: %s: %s)", page, opener,
			 result == -ENOENT ? "it is not installed" : strerror(-result));
	else
		complain("page: %s", page);
}
