/* SPDX-License-Identifier: Apache-2.0
 *
 * The locks that a forked child may want as well, because they stand on the way of dlsym and of
 * calls that are only forwarded. No thread but the forking one lives on in a child: before a fork
 * all of them are taken, so that what they guard is whole, and in the child they are new ones. A
 * child that came without fork() (_Fork, clone) is told by its pid, and gets new ones, too.
 *
 * Two locks are not here: those of the flow and of the log. A child has neither chains nor a log of
 * its parent's; both forget instead (flow.c, log.c).
 */
#ifndef FASHIM_LOCKS_H
#define FASHIM_LOCKS_H

/* In the order in which they may be taken inside each other. */
enum lock {
	LOCK_LIBRARY,	   /* library.c, library_handle.c */
	LOCK_DRIVER_TABLE, /* driver_table.c */
	LOCK_THUNK,	   /* thunk.c */
	LOCK_MAPPING,	   /* hook_shared.c */
	LOCK_COUNT
};

void lock_take(enum lock lock);
void lock_give(enum lock lock);

/* Around a walk over the loader's list of objects: it has a lock of glibc's own, which a child
 * would find taken. Walks do not wait for each other. Not inside one another. */
void locks_walk_begin(void);
void locks_walk_end(void);

#endif
