/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that forks between and in the midst of its attentions. The children do not touch the
 * GPU: one leaves by exit(), one becomes another program, one by _exit().
 */
#include "app.h"

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEADS = 3, ROWS = 80, DEPTH = 32, REPETITIONS = 12 };

static void fork_child(int repetition)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (repetition % 3 == 0)
			exit(7);
		if (repetition % 3 == 1)
			execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
		_exit(7);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		app_fail("child", status);
}

int main(void)
{
	const struct app_shape shape = {HEADS, ROWS, ROWS, DEPTH};
	const size_t n = (size_t)HEADS * ROWS * DEPTH, scores = (size_t)HEADS * ROWS * ROWS;
	struct app_report report = {0};
	struct app app;

	app_open(&app, NULL);
	CUdeviceptr q = app_alloc(n * 2), k = app_alloc(n * 2), v = app_alloc(n * 2);
	CUdeviceptr o = app_alloc(n * 2), s = app_alloc(scores * 2), p = app_alloc(scores * 2);
	for (int r = 0; r < REPETITIONS; r++) {
		app_upload_random(q, n, 3 * (uint64_t)r);
		app_upload_random(k, n, 3 * (uint64_t)r + 1);
		app_upload_random(v, n, 3 * (uint64_t)r + 2);
		app_scores(&app, shape, q, k, s);
		app_scale(&app, s, s, 1 / sqrtf(DEPTH), scores);
		if (r % 2)
			fork_child(r);
		app_softmax(&app, p, s, (size_t)HEADS * ROWS, ROWS);
		app_context(&app, shape, p, v, o);
		if (r % 2 == 0)
			fork_child(r);
		app_observe(&report, "O", r, o, n);
		if (r == REPETITIONS - 1)
			app_observe(&report, "P", r, p, scores);
	}
	app_report(&report);
	app_close(&app);
	return 0;
}
