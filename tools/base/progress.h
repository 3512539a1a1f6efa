/* SPDX-License-Identifier: Apache-2.0
 *
 * What takes longer than two seconds says on a terminal how far it is: one line on stderr, which
 * goes when it is done.
 */
#ifndef FASHIM_PROGRESS_H
#define FASHIM_PROGRESS_H

#include <stdbool.h>

/* A row of a command's options, in group `group`, for progress_quiet(). */
#define QUIET_OPTION(group)                                                                        \
	{                                                                                          \
		"quiet", 'q', NULL, 0, "do not say how far it is", group                           \
	}

/* `done` of `all` of what is called `what`; all 0: nobody knows how much there is, and `unit` of
 * `done` are told. May be called as often as one likes. */
void progress(const char *what, double done, double all, const char *unit);

/* It is done: the line goes, and the next call begins anew. */
void progress_end(void);

/* Takes the line away for something else to be written. */
void progress_hide(void);

/* Whether there is somebody who sees it, and did not ask for quiet. */
bool progress_wanted(void);

/* From now on nothing is said. */
void progress_quiet(void);

#endif
