/* SPDX-License-Identifier: Apache-2.0
 *
 * The promise of FASHIM_BUDGET: at no time has the shim spent more than so many percent of the
 * program's run time so far, and ALLOWANCE_MS once, unless what it saved outweighs it. Spent is all
 * that cost.h counts; but only what can be put off asks here first, and waits where it is not
 * affordable: at a later occurrence more time has passed. What safety needs asks nobody, and what
 * is verified goes on being replaced, as long as that is worth its time (flow/rest.h). On the CPU
 * stand-in, whose times say nothing, there is no limit unless FASHIM_BUDGET is set.
 *
 * Flow lock held.
 */
#ifndef FASHIM_LEDGER_H
#define FASHIM_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

enum ledger_item {
#define ITEM(id, purpose, host_us, gpu_us) LEDGER_##id,
#include "shim/gpu/ledger.def"
#undef ITEM
	LEDGER_ITEMS
};

/* ---- the arithmetic: all times in ns ---- */

#define ALLOWANCE_MS 30

struct ledger {
	double percent;		     /* 0: everything is affordable */
	uint64_t began;		     /* the process did */
	uint64_t saved;		     /* GPU time, so far */
	uint64_t promised;	     /* of the GPU's, under way and not measured yet */
	uint64_t host[LEDGER_ITEMS]; /* expected of the next one: what a dear one took at once, */
	uint64_t gpu[LEDGER_ITEMS];  /* … what cheaper ones take by and by */
};

void ledger_open(struct ledger *ledger, double percent, uint64_t began);
bool ledger_allows(const struct ledger *ledger, uint64_t now, uint64_t spent, uint64_t more);
uint64_t ledger_room(const struct ledger *ledger, uint64_t now, uint64_t spent);
void ledger_learn(uint64_t *expected, uint64_t took);

/* ---- that of the process ---- */

/* May one more be begun now, or so many? */
bool ledger_affords(enum ledger_item item);
bool ledger_affords_many(enum ledger_item item, unsigned count);

/* How much may be spent now; without a limit UINT64_MAX. */
uint64_t ledger_left(void);

/* And one more of another kind with it. */
bool ledger_affords_both(enum ledger_item item, enum ledger_item other);

/* Around one, to learn what it takes of the host; what is inside of another is its own alone. */
struct ledger_entry {
	enum ledger_item item;
	uint64_t began, inner;
};
struct ledger_entry ledger_begin(enum ledger_item item);
void ledger_end(struct ledger_entry entry);

/* The GPU is at one: what is expected of it. Later that much is no longer under way; it took `us`
 * (not above 0: unknown), which cost.h counts. */
uint64_t ledger_promise(enum ledger_item item);
void ledger_settle(enum ledger_item item, uint64_t promised, double us);

/* A fused kernel ran in a chain's place; the GPU time of all that did. */
void ledger_saved(uint64_t ns);
uint64_t ledger_saved_ns(void);

/* What may be spent of the run time; 0: no limit. */
double ledger_percent(void);

/* Is the GPU none? */
bool ledger_on_stand_in(void);

#endif
