/* SPDX-License-Identifier: Apache-2.0
 *
 * What the driver makes only when the device has nothing else to do: an image is loaded, a handle
 * of cuBLAS is created. The device may be waiting for a call of another thread, so neither is done
 * under the lock: it is asked for, made after the turn was given back (turn.h), and there when the
 * next turn asks again. Whoever needs it learns so one op earlier, or does without it once. What
 * the program's data will depend on is asked for before anything is held back.
 *
 * All functions but ahead_make(): flow lock held.
 */
#ifndef FASHIM_AHEAD_H
#define FASHIM_AHEAD_H

#include <cuda.h>
#include <stdbool.h>

#include "shim/gpu/ledger.h"

/* Makes something of `what`, the context current. 0 or -errno. */
typedef int ahead_maker(const void *what, void **made);

/* What was made of `what` for the context. 0; -EAGAIN: it is asked for; -EIO: it cannot be made. */
int ahead_get(void **made, CUcontext context, const void *what, ahead_maker *make);

/* The context is about to go, and what was made for it with it. */
void ahead_forget(CUcontext context);

/* What was asked for, taken out under the lock, … */
#define AHEAD_WANTS 8
struct ahead_wants {
	int count;
	struct ledger_entry entry;
	struct ahead_want {
		CUcontext context;
		const void *what;
		ahead_maker *make;
		void *made; /* NULL: it could not be made */
		unsigned number;
	} want[AHEAD_WANTS];
};
bool ahead_wanted(void); /* is there any? */
void ahead_take(struct ahead_wants *wants);

/* … made without it, … */
void ahead_make(struct ahead_wants *wants);

/* … and kept, if nobody has forgotten the context meanwhile. */
void ahead_keep(const struct ahead_wants *wants);

#endif
