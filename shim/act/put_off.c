/* SPDX-License-Identifier: Apache-2.0
 *
 * Only what is voluntary asks here: comparing, asking, loading what these need.
 */
#include "shim/act/put_off.h"

#include "shim/base/config.h"
#include "shim/gpu/fused.h"
#include "shim/hazard/held.h"
#include "shim/gpu/ledger.h"
#include "shim/log/log.h"
#include "shim/log/decline.h"

bool asks_again(const struct site *site)
{
	return site->by_data && !site->identified && site->questions < QUESTIONS;
}

bool affordable_to_prepare(const struct chain *chain)
{
	return fused_prepared(chain->context) || ledger_affords_both(LEDGER_KERNELS, LEDGER_SITE);
}

bool affordable_to_learn(const struct chain *chain, bool fresh, bool by_data)
{
	const bool compares = config()->mode >= MODE_COMPARE;

	if (compares && !affordable_to_prepare(chain))
		return false;
	if (!fresh)
		return true;
	return compares && by_data ? ledger_affords_both(LEDGER_SITE, LEDGER_IDENTIFY)
				   : ledger_affords(LEDGER_SITE);
}

bool too_dear(const struct site *site, const struct chain *chain)
{
	if (config()->mode < MODE_COMPARE || site->state == SITE_DECLINED)
		return false;
	if (asks_again(site) && !ledger_affords(LEDGER_IDENTIFY))
		return true;
	return (chain->timed || site->by_data || site->live->seen > 0) &&
	       !ledger_affords(LEDGER_COMPARE);
}

enum flow put_off(struct chain *chain, struct site *site)
{
	log_decline(REASON_BUDGET, chain->steps[0].gemm.entry);
	if (site)
		site_waits(site, true);
	held_drop(chain);
	return FLOW_PASS;
}

/* Most of what opens is no site's: that is told once. */
enum flow put_off_opener(const struct op *op)
{
	if (site_openers_wait(&op->gemm) || !log_live()->reasons[REASON_BUDGET])
		log_decline(REASON_BUDGET, op->name);
	return FLOW_PASS;
}
