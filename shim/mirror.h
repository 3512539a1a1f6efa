/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's memory once more: copies of what the middle kernels of a chain were pointed to, in
 * which they can be launched again on data of ours. Nothing of the program's is touched, and no
 * copy ends before the allocation does that it stands for.
 *
 * All functions: flow lock held, the chain's context current.
 */
#ifndef FASHIM_MIRROR_H
#define FASHIM_MIRROR_H

#include "chain.h"

#define MIRRORS	    12
#define MIRROR_HOST (64u << 10) /* bytes of pinned memory for what goes there and comes back */

/* A copy of the program's memory from the lowest pointer of an allocation to its end. */
struct mirror {
	uint64_t allocation, begin, end, copy;
};

struct mirrors {
	const struct chain *chain;
	CUevent event;
	int count;
	struct mirror item[MIRRORS];
	unsigned char *host; /* MIRROR_HOST bytes, one piece for the process */
};

/* May the kernels of the chain be launched again now? NULL, or why not. */
const char *mirrors_hindrance(const struct chain *chain);

/* Makes room for copies of all that the steps point to; they hold nothing yet. false: no room. To
 * be closed in any case. */
bool mirrors_open(struct mirrors *mirrors, const struct chain *chain);
void mirrors_close(struct mirrors *mirrors);

/* Everything as it is in the program's memory. */
bool mirrors_refresh(const struct mirrors *mirrors);

/* Where the copy of that byte lies; 0: in none. *room: how far it goes from there. */
uint64_t mirrors_place(const struct mirrors *mirrors, uint64_t pointer, uint64_t *room);

/* No further than the next pointer of the chain. */
uint64_t mirrors_room(const struct mirrors *mirrors, uint64_t pointer);

/* Runs one step in the copies. */
bool mirrors_run(const struct mirrors *mirrors, const struct step *step);

/* Until all this is done; not for ever: the stream may itself wait for the program. */
bool mirrors_await(const struct mirrors *mirrors);

/* `bytes` of memory from `to` on become the first `period` bytes of mirrors->host, again and again.
 * Waits: the host's piece may be used anew. */
bool mirrors_fill(const struct mirrors *mirrors, uint64_t to, uint64_t bytes, uint64_t period);

#endif
