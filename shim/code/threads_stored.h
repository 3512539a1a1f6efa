/* SPDX-License-Identifier: Apache-2.0
 *
 * Which bytes a launch surely stores, and a warp of it, as its warps are run one after the other.
 */
#ifndef FASHIM_THREADS_STORED_H
#define FASHIM_THREADS_STORED_H

#include "shim/code/threads.h"

#define STORED_FILLED 32

struct stored_page;

/* Zeros at first. */
struct stored {
	struct stored_page **pages[THREADS_POINTERS];
	bool patchy[THREADS_POINTERS];	/* beyond all pages */
	bool perhaps[THREADS_POINTERS]; /* some thread stores perhaps: the caller says so */
	/* By this warp: pages that may go when it has ended. */
	struct stored_page **filled[STORED_FILLED];
	unsigned filled_count;
	uint32_t warps;			   /* so many have begun */
	uint32_t latest[THREADS_POINTERS]; /* the one that stored last */
};

/* The next warp begins. */
void stored_next_warp(struct stored *stored);

/* From `begin` to before `end`, bytes from pointer k. 0, -ENOMEM. */
int stored_note(struct stored *stored, unsigned k, int64_t begin, int64_t end);

/* Does the warp load what it stored itself, and nobody before? That is in no memory from before the
 * launch: a plain softmax stores exponentials, and divides them by their sum. */
bool stored_by_warp(const struct stored *stored, unsigned k, int64_t begin, unsigned size);

/* Is no byte of those from `begin` to before `end` stored by it, or by who ran together with it? */
bool stored_elsewhere(const struct stored *stored, unsigned k, int64_t begin, int64_t end);

/* Did it store anything by that pointer? */
static inline bool stored_anything(const struct stored *stored, unsigned k)
{
	return stored->latest[k] == stored->warps;
}

/* extent->whole and its runs, all else being there. */
void stored_tell(const struct stored *stored, unsigned k, struct threads_extent *extent);

void stored_free(struct stored *stored);

#endif
