/* SPDX-License-Identifier: Apache-2.0
 *
 * Why the recogniser does what it does: a trace is played to it, and each chain that it looked at
 * becomes a story, one line for each op at which something was decided.
 *
 * The only header between the command and the shim's core, which is linked as one closed object.
 */
#ifndef FASHIM_REPLAY_EXPLAIN_H
#define FASHIM_REPLAY_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>

#define REPLAY_LINES 40
#define REPLAY_SITES 256

struct replay_story {
	uint64_t chain; /* in order of opening, from 1; 0: no chain was opened */
	int line_count; /* more than REPLAY_LINES are dropped */
	struct replay_line {
		long op;	  /* from 1 */
		const char *call; /* entry point, or the kernel's mangled name; lasts */
		char text[256];
	} lines[REPLAY_LINES];
};

struct replay_site {
	int number; /* what the log and the stories call it */
	int64_t B, H, Sq, Sk, D, Dv;
	const char *state, *reason;
	char detail[96];
	char *record; /* the log's record of the site, JSON; malloc'ed, or NULL */
	uint64_t seen, replaced, compared, materialised, snapshots;
};

struct replay_result {
	long ops;
	uint64_t gemms, launches;
	int site_count;
	struct replay_site sites[REPLAY_SITES];
	int reason_count;
	struct {
		const char *name, *sentence;
		uint64_t count;
	} reasons[64]; /* of occurrences that no site owns */
};

/* Plays the trace (plain or .gz) `rounds` times as if the program had run in `mode`, on a GPU of
 * every architecture, with comparisons that always agree. `tell` gets each story when its chain is
 * forgotten. 0 or -errno, said on stderr. Once a process. */
int replay_explain(const char *path, int rounds, const char *mode,
		   void (*tell)(const struct replay_story *story, void *argument), void *argument,
		   struct replay_result *result);

#endif
