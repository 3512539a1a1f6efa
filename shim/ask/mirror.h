/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's memory once more: copies of what kernels were pointed to, in which they can be
 * launched again on data of ours. Nothing of the program's is touched: each copy is of a whole
 * allocation, since a kernel may walk either way from where it is pointed to, but where it is known
 * of all of them how far they go: some programs have all their memory in one allocation.
 *
 *     mirrors_begin(), mirrors_add() for each pointer, mirrors_make()      or, for the middle
 *     kernels of a chain, mirrors_open(); then mirrors_refresh() …; mirrors_close() in any case
 *
 * All functions: flow lock held, the context current.
 */
#ifndef FASHIM_MIRROR_H
#define FASHIM_MIRROR_H

#include "shim/chain/chain.h"

#define MIRRORS	    16
#define MIRROR_HOST (64u << 10) /* bytes of pinned memory for what goes there and comes back */

/* A copy of an allocation, or a part of one. */
struct mirror {
	uint64_t begin, end, copy;
};

struct mirrors {
	CUcontext context;
	CUstream stream;	   /* all is ordered here */
	const struct chain *chain; /* or NULL */
	CUevent event;
	int count;
	struct mirror item[MIRRORS];
	unsigned char *host; /* MIRROR_HOST bytes, one piece for the process */
	bool bounded; /* wherever the kernels go is in the copies, whatever they find there */
	const char *hindrance; /* why mirrors_open() said no, where it is not for lack of room */
};

/* Of nothing yet. false: the driver refused, or something of before is still under way. */
bool mirrors_begin(struct mirrors *mirrors, CUcontext context, CUstream stream);

/* A context is about to go (NULL: any of them). */
void mirrors_forget(CUcontext context);

/* The allocation that a pointer leads to. false: not to be watched, or too many. */
bool mirrors_add(struct mirrors *mirrors, uint64_t pointer);

/* Makes room for the copies; they hold nothing yet. false: no room. */
bool mirrors_make(struct mirrors *mirrors);

/* May a kernel be launched again at all, as it was? NULL, or why not. */
const char *mirrors_objection(const struct function *function, const unsigned grid[3],
			      const unsigned block[3], const unsigned char *params);

/* Does any of these words lead to the program's memory, or are they too many to tell? */
bool mirrors_any_address(const struct addresses_result *found);

/* Enqueues the search for such in [base, base+bytes): into the struct addresses_result at `room` on
 * the device, beside what is there. 0 or what the driver says. */
int mirrors_find_addresses(CUcontext context, CUstream stream, uint64_t base, uint64_t bytes,
			   uint64_t room);

/* Is there nothing in the copies, as they are now, that leads back to the program's memory? Waits.
 */
bool mirrors_self_contained(struct mirrors *mirrors);

/* May the kernels of the chain be launched again now? NULL, or why not. */
const char *mirrors_hindrance(const struct chain *chain);

/* All that the steps of a chain point to, copied; false: there is no room, or a hindrance. */
bool mirrors_open(struct mirrors *mirrors, const struct chain *chain);

void mirrors_close(struct mirrors *mirrors);

/* Everything as it is in the program's memory. */
bool mirrors_refresh(const struct mirrors *mirrors);

/* The one that holds a byte; NULL: none. */
const struct mirror *mirrors_find(const struct mirrors *mirrors, uint64_t pointer);

/* Where the copy of that byte lies; 0: in none. *room: how far it goes from there. */
uint64_t mirrors_place(const struct mirrors *mirrors, uint64_t pointer, uint64_t *room);

/* No further than the next pointer of the chain. */
uint64_t mirrors_room(const struct mirrors *mirrors, uint64_t pointer);

/* Runs one step in the copies. */
bool mirrors_run(const struct mirrors *mirrors, const struct step *step);

/* Launches a kernel with these parameters, pointers leading to the copies; all they lead to was
 * added. */
bool mirrors_launch(const struct mirrors *mirrors, const struct function *function,
		    const struct op_launch *launch, const unsigned char *params);

/* Until all this is done; not for ever: the stream may itself wait for the program. After one in
 * vain none are begun before that is done: memory of the host's may still be written to. */
bool mirrors_await(const struct mirrors *mirrors);

/* `bytes` of memory from `to` on become the first `period` bytes of mirrors->host, again and again.
 * Waits: the host's piece may be used anew. */
bool mirrors_fill(const struct mirrors *mirrors, uint64_t to, uint64_t bytes, uint64_t period);

#endif
