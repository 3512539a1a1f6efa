/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of what was asked for. Each request has a number, so that what comes back finds its own
 * and not that of a context that has the same address since.
 */
#include "shim/gpu/ahead.h"

#include <errno.h>

#include "shim/base/cost.h"
#include "shim/real/driver_context.h"

#define THINGS 256

static struct thing {
	CUcontext context;
	const void *what;
	ahead_maker *make;
	enum { WANTED, BEING_MADE, MADE, FAILED } state;
	void *made;
	unsigned number;
} things[THINGS];
static int thing_count;
static int wanted_count; /* of them */

static struct thing *find(CUcontext context, const void *what)
{
	for (int i = 0; i < thing_count; i++)
		if (things[i].context == context && things[i].what == what)
			return &things[i];
	return NULL;
}

static struct thing *ask(CUcontext context, const void *what, ahead_maker *make)
{
	static unsigned number;

	if (thing_count == THINGS)
		return NULL;
	number++;
	things[thing_count] =
		(struct thing){.context = context, .what = what, .make = make, .number = number};
	wanted_count++;
	return &things[thing_count++];
}

static void settle(struct thing *thing, void *made)
{
	wanted_count -= thing->state == WANTED;
	thing->state = made ? MADE : FAILED;
	thing->made = made;
}

int ahead_get(void **made, CUcontext context, const void *what, ahead_maker *make)
{
	const struct thing *thing = find(context, what);

	if (!thing)
		return ask(context, what, make) ? -EAGAIN : -EIO;
	*made = thing->made;
	return thing->state == MADE ? 0 : thing->state == FAILED ? -EIO : -EAGAIN;
}

void ahead_forget(CUcontext context)
{
	for (int i = thing_count - 1; i >= 0; i--)
		if (things[i].context == context) {
			wanted_count -= things[i].state == WANTED;
			things[i] = things[--thing_count];
		}
}

bool ahead_wanted(void)
{
	return wanted_count > 0;
}

void ahead_take(struct ahead_wants *wants)
{
	wants->count = 0;
	if (!wanted_count)
		return;
	wants->entry = ledger_begin(LEDGER_KERNELS);
	for (int i = 0; i < thing_count && wants->count < AHEAD_WANTS; i++) {
		struct thing *thing = &things[i];

		if (thing->state != WANTED)
			continue;
		thing->state = BEING_MADE;
		wanted_count--;
		wants->want[wants->count++] = (struct ahead_want){.context = thing->context,
								  .what = thing->what,
								  .make = thing->make,
								  .number = thing->number};
	}
}

void ahead_make(struct ahead_wants *wants)
{
	COST(PURPOSE_IMAGES);
	for (int i = 0; i < wants->count; i++) {
		struct ahead_want *want = &wants->want[i];
		struct driver_context here;

		if (!driver_enter(&here, want->context))
			continue;
		if (want->make(want->what, &want->made))
			want->made = NULL;
		driver_leave(&here);
	}
}

void ahead_keep(const struct ahead_wants *wants)
{
	for (int i = 0; i < wants->count; i++) {
		struct thing *thing = find(wants->want[i].context, wants->want[i].what);

		if (thing && thing->number == wants->want[i].number && thing->state == BEING_MADE)
			settle(thing, wants->want[i].made);
	}
	ledger_end(wants->entry);
}
