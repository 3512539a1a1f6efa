/* SPDX-License-Identifier: Apache-2.0
 *
 * One child, one pipe, one deadline.
 */
#include "tools/doctor/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int milliseconds_left(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int)(PROBE_SECONDS * 1000 - (now.tv_sec - start->tv_sec) * 1000 -
		     (now.tv_nsec - start->tv_nsec) / 1000000);
}

/* Until the child closes its end. False: too late. What does not fit is read and dropped. */
static bool collect(struct probe *probe, int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	struct timespec start;
	size_t used = 0;
	char rest[4096];

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (;;) {
		const size_t room = sizeof(probe->text) - 1 - used;
		const int left = milliseconds_left(&start);
		ssize_t got;

		if (left <= 0)
			return false;
		if (poll(&wait, 1, left) <= 0)
			continue;
		got = room ? read(fd, probe->text + used, room) : read(fd, rest, sizeof(rest));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return true;
		used += room ? (size_t)got : 0;
	}
}

int probe_run(struct probe *probe, void (*body)(void *argument), void *argument)
{
	int ends[2], status = 0, result;
	pid_t pid;

	memset(probe, 0, sizeof(*probe));
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		body(argument);
		fflush(NULL);
		_exit(0);
	}
	result = pid < 0 ? -errno : 0;
	close(ends[1]);
	if (!result) {
		probe->late = !collect(probe, ends[0]);
		if (probe->late)
			kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		probe->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		probe->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	}
	close(ends[0]);
	return result;
}

const char *probe_value(const char *text, const char *key, char *buffer, size_t size)
{
	const size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) || line[length] != ' ')
			continue;
		line += length + 1;
		snprintf(buffer, size, "%.*s", (int)strcspn(line, "\n"), line);
		return buffer;
	}
	return NULL;
}
