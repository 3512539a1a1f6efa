/* SPDX-License-Identifier: Apache-2.0
 *
 * What the dynamic loader would do with a program, asked of the loader itself: it resolves the
 * libraries and stops before any code of the program runs.
 */
#ifndef FASHIM_LOADER_H
#define FASHIM_LOADER_H

#include <stdbool.h>

#define LOADER_LIBRARIES 512
#define LOADER_PROBLEMS	 16

struct loader_answer {
	struct loader_library {
		char *name; /* as NEEDED says it */
		char *path; /* NULL: not found */
	} libraries[LOADER_LIBRARIES];
	int count;
	char *problems[LOADER_PROBLEMS]; /* its own words: undefined symbols, failed preloads */
	int problem_count;
};

/* Asks `interpreter` about the program at `path` with LD_PRELOAD=`preload` (NULL: as it is). 0;
 * -ENOTSUP when the interpreter is no loader that we know; -EIO when it gave no answer. For
 * loader_free() in any case. */
int loader_ask(struct loader_answer *answer, const char *interpreter, const char *path,
	       const char *preload);
void loader_free(struct loader_answer *answer);

#endif
