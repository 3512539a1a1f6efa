/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/act/roundings.h"

#include <math.h>

#include "shim/act/comparison.h"
#include "shim/gpu/fused.h"

/* So much of it, if there is a kernel; else nothing. */
static int32_t possible(CUcontext context, struct attn_args *args, int32_t round_s)
{
	args->spec.round_s = round_s;
	return fused_select(context, args) ? round_s : 0;
}

/* What is asked of a kernel before any was compared. Where O may move by next to nothing, P's
 * rounding moves it too far. */
static int32_t first_of(const struct site *site, CUcontext context, struct attn_args *args,
			int32_t all)
{
	if (args->q.dtype != ATTN_BF16)
		return 0;
	return isinf(comparison_wanted(ATTN_BF16))
		       ? possible(context, args, all & ~(ATTN_ROUND_WEIGHTS | ATTN_ROUND_LESS))
		       : site->rounds;
}

void roundings_note(struct site *site, CUcontext context, struct attn_args *args)
{
	const int32_t all = args->spec.round_s;

	site->rounds = possible(context, args, all);
	if (!(site->round_s & ATTN_ROUND_WEIGHTS)) {
		const int32_t asked = first_of(site, context, args, all);

		if (asked != site->round_s)
			site_round(site, asked);
	}
	args->spec.round_s = all & site->round_s;
}

bool roundings_left(const struct site *site)
{
	return (site->rounds & ~site->round_s) != 0;
}

bool roundings_more(struct site *site)
{
	if (!roundings_left(site))
		return false;
	site_round(site, site->rounds);
	return true;
}
