/* SPDX-License-Identifier: Apache-2.0
 *
 * Something that may crash or hang, tried in a child process.
 */
#ifndef FASHIM_PROBE_H
#define FASHIM_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#define PROBE_SECONDS 20

struct probe {
	char text[64 * 1024]; /* what it wrote on stdout and stderr, as far as there was room */
	int exit_code;	      /* -1: it did not exit by itself */
	int signal;	      /* that killed it, else 0 */
	bool late;	      /* it was killed after PROBE_SECONDS */
};

/* Calls body(argument) in a child whose stdout and stderr go to `probe`; returning is exit code 0.
 * 0, or -errno when there was no child. */
int probe_run(struct probe *probe, void (*body)(void *argument), void *argument);

/* The rest of the first line of `text` that begins with `key` and a space, in `buffer`; NULL: none.
 */
const char *probe_value(const char *text, const char *key, char *buffer, size_t size);

#endif
