/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons under way: each has a place with its events and its pinned memory.
 */
#include "shim/act/compare.h"

#include <sched.h>
#include <string.h>

#include "shim/act/comparison.h"
#include "shim/act/roundings.h"
#include "shim/act/trial.h"
#include "shim/base/clock.h"
#include "shim/base/cost.h"
#include "shim/gpu/ledger.h"
#include "shim/gpu/timing.h"
#include "shim/real/driver.h"
#include "shim/real/driver_context.h"
#include "shim/rules/grouped.h"
#include "shim/rules/rules.h"

#define PENDING 24
#define WAIT_NS 100000000ull

static struct pending {
	bool used;
	bool awaited; /* in vain: its stream may wait for what comes next */
	CUcontext context;
	uint64_t promised; /* to the ledger */
	struct comparison comparison;
} pending[PENDING];
static int used_count; /* of them */

/* ---- starting ------------------------------------------------------------------------------- */

static struct pending *find_slot(CUcontext context)
{
	for (int i = 0; i < PENDING; i++) {
		struct pending *slot = &pending[i];
		struct comparison *comparison = &slot->comparison;

		if (slot->used || (slot->context && slot->context != context))
			continue;
		if (!comparison->result) {
			void *memory = NULL;

			if (driver.cuMemAllocHost_v2(&memory, sizeof(*comparison->result)) !=
			    CUDA_SUCCESS)
				return NULL;
			comparison->result = memory;
			slot->context = context;
		}
		return comparison_events(comparison) ? slot : NULL;
	}
	return NULL;
}

/* The comparison, and its numbers to the host. */
static int enqueue(const struct comparison *comparison, const struct chain *chain,
		   const struct attn_args *args, const struct attn_tensor *order,
		   const struct attn_variant *variant, const struct comparison_buffers *buffers,
		   const struct trial *trial)
{
	if (comparison_enqueue(comparison, chain, args, order, variant, buffers, trial) ||
	    driver.cuMemcpyDtoHAsync_v2(comparison->result, (CUdeviceptr)buffers->result,
					sizeof(*comparison->result), chain->stream) != CUDA_SUCCESS)
		return -1;
	return comparison_mark(comparison->last, chain);
}

void compare_start(struct site *site, const struct chain *chain, const struct attn_args *args,
		   const struct attn_tensor *order, const struct attn_variant *variant,
		   struct timing *timing)
{
	const struct comparison_buffers bytes = comparison_bytes(args);
	struct comparison_buffers buffers = {0};
	struct driver_context here;
	struct pending *slot = NULL;
	struct trial trial = {.stream = chain->stream};
	int error = -1;

	COST(PURPOSE_LEARNING);
	const struct ledger_entry entry = ledger_begin(LEDGER_COMPARE);

	if (driver_enter(&here, chain->context)) {
		slot = find_slot(chain->context);
		if (slot &&
		    comparison_buffers_get(&buffers, &bytes, chain->context, chain->stream)) {
			comparison_of(&slot->comparison, site, chain, args, variant);
			slot->comparison.tried = site->empty && site->state == SITE_LEARNING &&
						 trial_begin(&trial, chain, args);
			error = enqueue(&slot->comparison, chain, args, order, variant, &buffers,
					&trial);
		}
		trial_end(&trial);
		comparison_buffers_put(&buffers, chain->stream);
		driver_leave(&here);
	}
	ledger_end(entry);
	if (error) {
		timing_drop(timing);
		comparison_failed(site, "no comparison could be made");
		return;
	}
	slot->promised = ledger_promise(LEDGER_COMPARE);
	slot->comparison.timing = timing;
	slot->used = true;
	slot->awaited = false;
	used_count++;
	site->pending++;
}

/* ---- verdicts ------------------------------------------------------------------------------- */

static void release(struct pending *slot, double took_us)
{
	ledger_settle(LEDGER_COMPARE, slot->promised, took_us);
	slot->used = false;
	used_count--;
	slot->comparison.site->pending--;
}

static void finish(struct pending *slot)
{
	const struct comparison *comparison = &slot->comparison;

	release(slot, timing_between(comparison->first, comparison->last));
	comparison_judge(comparison);
	timing_drop(comparison->timing);
}

/* What speaks against a verified site by what is known now. */
static const char *objection(struct site *site)
{
	const char *any = comparison_objection(site->dtype);

	if (any || site->round_s & ATTN_ROUND_WEIGHTS ||
	    !(site->moved > comparison_wanted(site->dtype)) || roundings_more(site))
		return any;
	if (grouped_seen() || rules_picks())
		return "before a choice";
	return site->dtype == ATTN_F32 ? "before large scores" : NULL;
}

/* Sites that were verified before the program chose anything, or before it was known that little
 * moves it far. */
static void reconsider(void)
{
	static unsigned before;
	const unsigned now = comparison_strict();

	if (now == before)
		return;
	before = now;
	for (int i = 0; i < site_count; i++) {
		const char *why = sites[i].state == SITE_VERIFIED ? objection(&sites[i]) : NULL;

		if (why)
			site_decline(&sites[i], REASON_DRIFT, why);
	}
}

void compare_poll(void)
{
	reconsider();
	for (int i = 0; i < PENDING && used_count > 0; i++) {
		struct driver_context here;
		CUresult result;

		if (!pending[i].used || !driver_enter(&here, pending[i].context))
			continue;
		COST(PURPOSE_LEARNING);
		result = driver.cuEventQuery(pending[i].comparison.last);
		if (result == CUDA_SUCCESS) {
			finish(&pending[i]);
		} else if (result != CUDA_ERROR_NOT_READY) {
			release(&pending[i], 0);
			timing_drop(pending[i].comparison.timing);
		}
		driver_leave(&here);
	}
}

static bool worth_waiting(const struct site *site)
{
	for (int i = 0; i < PENDING; i++)
		if (pending[i].used && pending[i].comparison.site == site && !pending[i].awaited)
			return true;
	return false;
}

void compare_wait(const struct site *site, uint64_t most_ns)
{
	const uint64_t until = clock_ns(CLOCK_MONOTONIC) + (most_ns < WAIT_NS ? most_ns : WAIT_NS);

	COST(PURPOSE_LEARNING);

	while (worth_waiting(site) && site->state == SITE_LEARNING &&
	       clock_ns(CLOCK_MONOTONIC) < until) {
		compare_poll();
		sched_yield();
	}
	for (int i = 0; i < PENDING; i++)
		pending[i].awaited |= pending[i].used && pending[i].comparison.site == site;
}

void compare_forget(CUcontext context)
{
	for (int i = 0; i < PENDING; i++)
		if (pending[i].context == context) {
			if (pending[i].used)
				release(&pending[i], 0);
			memset(&pending[i], 0, sizeof(pending[i]));
		}
	timing_forget(context);
}
