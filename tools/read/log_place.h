/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a log can be written where a pattern says. `fashim run` asks before the program starts,
 * when another place can still be named, and again after it, so as not to take a log that could not
 * be written for a program without GEMMs.
 */
#ifndef FASHIM_LOG_PLACE_H
#define FASHIM_LOG_PLACE_H

#include <limits.h>
#include <stdbool.h>

struct log_place {
	char folder[PATH_MAX]; /* as far as the pattern names it, or the pattern where it is one */
	bool device;	       /* takes a log and keeps nothing: /dev/null */
	char problem[160];     /* why no log can be written, one line; "" */
};

/* Looks at an absolute pattern of FASHIM_OUT other than "none". 0, or -errno with `problem` filled:
 * -EINVAL where it names what is no place for a log (a terminal, a pipe, /dev/stdout). */
int log_place_look(struct log_place *place, const char *pattern);

/* The disk of the folder has nothing left for us. */
bool log_place_full(const struct log_place *place);

/* $XDG_STATE_HOME/fashim, or ~/.local/state/fashim; made, with what is missing above it, where
 * `make`. Malloc'ed. NULL: there is no such folder, or none that can be made. */
char *log_place_state(bool make);

#endif
