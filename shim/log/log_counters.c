/* SPDX-License-Identifier: Apache-2.0
 *
 * A site's counters as records tell them.
 */
#include "shim/log/log_counters.h"

const char *log_reason_name(unsigned reason)
{
	static const char *const names[REASON_COUNT] = {
#define REASON(id, name, sentence, hint) [REASON_##id] = name,
#include "shim/log/reasons.def"
#undef REASON
	};

	return reason < REASON_COUNT ? names[reason] : "?";
}

const char *log_state_name(unsigned state)
{
	static const char *const names[] = {[SITE_LEARNING] = "learning",
					    [SITE_VERIFIED] = "verified",
					    [SITE_DECLINED] = "declined"};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

unsigned log_site_number(unsigned place, const struct live_site *site)
{
	return place + 1 + (unsigned)site->turn * LIVE_SITES;
}

void log_counters(struct json *json, unsigned place, const struct live_file *live)
{
	const struct live_site *site = &live->sites[place];
	const uint64_t answered = site->replaced + site->compared;

	json_uint(json, "site", log_site_number(place, site));
	json_string(json, "state", log_state_name(site->state));
	json_string(json, "reason", log_reason_name(site->reason));
	json_uint(json, "seen", site->seen);
	json_uint(json, "replaced", site->replaced);
	json_uint(json, "compared", site->compared);
	json_uint(json, "agreed", site->agreed);
	json_uint(json, "passed", site->seen > answered ? site->seen - answered : 0);
	json_uint(json, "materialised", site->materialised);
	json_uint(json, "snapshots", site->snapshots);
	json_double(json, "saved_us", (double)(int64_t)site->saved_ns / 1e3);
	if (live->replays[place])
		json_uint(json, "replays", live->replays[place]);
}
