/* SPDX-License-Identifier: Apache-2.0
 *
 * A socket pair is the child's standard input and output. Each line is answered by one line, so
 * whoever waits knows what for; a child that says nothing for minutes is given up.
 */
#include "tools/bench/referee.h"
#include "tools/base/shim_library.h"
#include "tools/base/tool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 180000 }; /* PyTorch's first import on a cold disk takes a minute */

/* ---- the child ------------------------------------------------------------------------------ */

static void run_child(int end, const char *python, const char *script)
{
	dup2(end, STDIN_FILENO);
	dup2(end, STDOUT_FILENO);
	/* What it launches is to be measured as it is. */
	unsetenv("LD_PRELOAD");
	execlp(python, python, script, (char *)NULL);
	_exit(127);
}

static int spawn(struct referee *referee, const char *python, const char *script)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;
	fflush(NULL);
	referee->pid = fork();
	if (referee->pid == 0)
		run_child(ends[1], python, script);
	close(ends[1]);
	referee->socket = ends[0];
	referee->answers = referee->pid > 0 ? fdopen(ends[0], "r") : NULL;
	if (referee->answers)
		return 0;
	close(ends[0]);
	return -ENOMEM;
}

void referee_stop(struct referee *referee)
{
	if (referee->answers) {
		shutdown(referee->socket, SHUT_RDWR);
		fclose(referee->answers);
	}
	if (referee->pid > 0) {
		/* It may be deep in a kernel that never ends. */
		kill(referee->pid, SIGKILL);
		while (waitpid(referee->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	json_decref(referee->identity);
	memset(referee, 0, sizeof(*referee));
}

/* ---- questions and answers ------------------------------------------------------------------ */

/* The next answer, or NULL when the child is gone or silent. Answers are lines, and one question
 * is open at a time: what poll() does not see is not in the stream's buffer either. */
static json_t *next_answer(struct referee *referee)
{
	struct pollfd wait = {.fd = referee->socket, .events = POLLIN};
	char *line = NULL;
	size_t size = 0;
	json_t *answer = NULL;
	int ready;

	do
		ready = poll(&wait, 1, PATIENCE_MS);
	while (ready < 0 && errno == EINTR);
	if (ready > 0 && getline(&line, &size, referee->answers) > 0)
		answer = json_loads(line, 0, NULL);
	free(line);
	return answer;
}

/* What the child could not do, in its words, or NULL. */
static const char *error_in(const json_t *answer)
{
	return answer ? json_string_value(json_object_get(answer, "error")) : "no answer";
}

int referee_start(struct referee *referee, const char *python, const char *script, char *why,
		  size_t size)
{
	char *installed = script ? NULL : installed_file("referee.py");
	const char *path = script ? script : installed, *error;
	int result = path ? 0 : -ENOENT;

	memset(referee, 0, sizeof(*referee));
	python = python ? python : "python3";
	if (!result)
		result = spawn(referee, python, path);
	free(installed);
	if (result) {
		snprintf(why, size, "%s", strerror(-result));
		return result;
	}
	referee->identity = next_answer(referee);
	error = error_in(referee->identity);
	if (!error)
		return 0;
	snprintf(why, size, "%s: %s", python, error);
	referee_stop(referee);
	return -ENODEV;
}

json_t *referee_ask(struct referee *referee, const char *format, ...)
{
	char line[256];
	json_t *answer;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	line[length++] = '\n';
	if (send(referee->socket, line, (size_t)length, MSG_NOSIGNAL) != length) {
		complain("PyTorch: the child process is gone");
		return NULL;
	}
	answer = next_answer(referee);
	if (!error_in(answer))
		return answer;
	complain("PyTorch: %.*s: %s", length - 1, line, error_in(answer));
	json_decref(answer);
	return NULL;
}

int referee_shape(struct referee *referee, const struct gpu_shape *shape, int sets, uint64_t seed)
{
	static const char *const dtypes[] = {"f16", "bf16", "f32"};
	json_t *answer = referee_ask(referee, "shape %d %d %d %d %d %s %d %d %llu", shape->B,
				     shape->H, shape->Sq, shape->Sk, shape->D, dtypes[shape->dtype],
				     shape->causal, sets, (unsigned long long)seed);
	const int result = answer ? 0 : -EIO;

	json_decref(answer);
	return result;
}

int referee_round(void *subject, double *us)
{
	const struct referee_backend *backend = subject;
	json_t *answer = referee_ask(backend->referee, "time %s 1", backend->name);
	const int result = answer ? 0 : -EIO;

	*us = json_number_value(json_array_get(json_object_get(answer, "us"), 0));
	json_decref(answer);
	return result;
}
