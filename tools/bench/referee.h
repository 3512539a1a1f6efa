/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch as a referee: referee.py in a child process, which times SDPA's backends as the command
 * times its own kernels, and waits while the command works.
 */
#ifndef FASHIM_BENCH_REFEREE_H
#define FASHIM_BENCH_REFEREE_H

#include "tools/gpu/gpu_operands.h"

#include <jansson.h>
#include <sys/types.h>

struct referee {
	pid_t pid; /* 0: there is none */
	int socket;
	FILE *answers;
	json_t *identity; /* {"torch", "cuda", "cudnn", "gpu"} */
};

/* Starts `python` (NULL: python3) on the script (NULL: the one installed with the command) and asks
 * which PyTorch it has. 0, or -errno where there is no PyTorch to ask: `why` then says it in a few
 * words, and nothing runs. */
int referee_start(struct referee *referee, const char *python, const char *script, char *why,
		  size_t size);
void referee_stop(struct referee *referee);

/* Sends a line, waits for the answer: an object for json_decref(), or NULL with one line on stderr
 * (the child's own words where it has some). */
json_t *referee_ask(struct referee *referee, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Tells the shape and how many sets of inputs to make. 0 or -errno. */
int referee_shape(struct referee *referee, const struct gpu_shape *shape, int sets, uint64_t seed);

/* One of its backends as a racer. */
struct referee_backend {
	struct referee *referee;
	const char *name; /* "flash" or "math" */
};

/* struct referee_backend * as void *, for `struct racer`. */
int referee_round(void *backend, double *us);

#endif
