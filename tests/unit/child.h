/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a piece of a test in a process of its own: for what is read or set up once a process.
 */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H

#include <stdio.h>
#include <unistd.h>

/* Seconds for alarm(): what is not done by then hangs, however busy the machine is. */
#define CHILD_HANGS 900

struct child {
	int status;	    /* as from waitpid() */
	char errors[16384]; /* what it wrote to stderr */
};

/* Forks; sets the variables in `environment` ("NAME=value", NULL at the end; may be NULL), all
 * other FASHIM_* and rank variables removed; runs `body(argument)`, then leaves by _exit(0): a
 * body that wants the exit handlers calls exit(0) itself. */
void child_run(struct child *child, const char *const *environment, void (*body)(void *),
	       void *argument);

/* Did it exit with status 0? Prints its stderr if not. */
int child_passed(const struct child *child);

/* A folder for this test program, removed at exit; ends without '/'. */
const char *child_folder(void);

/* The name of a locale with a decimal comma, made for this test where the system has none; NULL
 * where that cannot be done. */
const char *child_comma_locale(void);

/* The whole of a file as a string, to be freed; NULL when it is not there. */
char *child_file(const char *path);

/* Inside a child: an assertion. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);    \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#endif
