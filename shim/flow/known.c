/* SPDX-License-Identifier: Apache-2.0
 *
 * Who tells, in order of trust: the kernel's code, the verified site whose next step it is, what it
 * was seen to overwrite, how far it can reach.
 */
#include "shim/flow/known.h"

#include "shim/ask/extent.h"
#include "shim/ask/overwrite.h"
#include "shim/ask/reach.h"
#include "shim/base/config.h"
#include "shim/flow/capture.h"
#include "shim/flow/in_parts.h"
#include "shim/gpu/late.h"
#include "shim/hazard/copies.h"
#include "shim/hazard/holes.h"
#include "shim/site/site.h"

/* Could an op whose kernel has no rule touch what a chain left, or what is kept back? */
static bool may_meddle(const struct access_list *list)
{
	if (late_pending())
		return true;
	for (int i = 0; i < list->count; i++) {
		const struct access *access = &list->item[i];

		if (access->grade != GRADE_UNKNOWN)
			continue;
		if (copies_near(access->begin, access->end))
			return true;
		for_each_chain(chain) if ((chain->closed || chain->deferred) &&
					  range_overlap(access->begin, access->end, chain->low,
							chain->high)) return true;
	}
	return false;
}

/* A dense layer's product is one, and its reader nobody asks about for that alone. */
static bool may_be_step(const struct chain *reader)
{
	return reader && reader->steps[0].gemm.batch > 1;
}

/* What is known of a kernel without a rule beside its pointers: all of it, where its code tells or
 * it is what a verified site does next; else how far it may reach. */
static bool settle_extents(const struct sight *sight)
{
	struct access_list *list = sight->list;

	if (sight->op->kind != OP_LAUNCH || !access_any_unknown(list))
		return true;
	const struct chain *reader = chain_reader(sight->op, list);
	const bool step = may_be_step(reader);

	if (step && extent_step_unknown(sight->function) &&
	    site_awaits(&reader->steps[0].gemm, SITE_VERIFIED))
		return false; /* verified as it is */
	return (capture_under_way() || step || may_meddle(list)) &&
	       extent_refine(sight, step, !reader && !capture_under_way());
}

static void settle_unknown(const struct sight *sight)
{
	struct access_list *list = sight->list;
	const struct site *model = NULL;
	const struct chain *chain;

	chain = chain_reader(sight->op, list);
	if (chain && chain->deferred)
		model = site_model(chain, chain_launch_key(&chain->steps[0].gemm, sight), list);
	if (model) {
		site_narrow(model, chain, list);
		return;
	}
	if (!chain && !capture_under_way())
		overwrite_refine(sight);
	if (config()->mode >= MODE_COMPARE && access_any_unknown(list))
		reach_refine(sight, !capture_under_way());
}

void known_settle(const struct sight *sight)
{
	const bool known = settle_extents(sight);

	in_parts_join(sight);
	if (!known)
		settle_unknown(sight);
	holes_tell(sight);
}
