/* SPDX-License-Identifier: Apache-2.0
 *
 * One look at a running process: what its log and its counters say now, and what has changed since
 * the look before.
 */
#ifndef FASHIM_LOOK_H
#define FASHIM_LOOK_H

#include <stdbool.h>
#include <stdint.h>

struct look_before; /* what was counted then */

struct look {
	const char *path; /* of the log */
	int others;	  /* processes that one could look at as well */
	bool color;
	struct look_before *before; /* NULL: rates are since the start */
};

/* Whether the process still runs, its end, or that there is no log to look at. */
enum look_result { LOOK_RUNS, LOOK_ENDED, LOOK_FAILED };

/* Prints a look on stdout, several lines, or, `brief`, one. Says on stderr why it cannot. */
enum look_result look_print(struct look *look, bool brief);
void look_free(struct look *look);

#endif
