/* SPDX-License-Identifier: Apache-2.0
 *
 * Few lines, the most important first: a program's own output stands above them.
 */
#include "tools/run/closing.h"
#include "tools/base/quote.h"
#include "tools/base/tool.h"

#include <math.h>
#include <string.h>

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* The reason that held back most, or NULL. */
static const struct report_reason *main_reason(const struct report *report)
{
	for (int i = 0; i < report->reason_count; i++) {
		if (strcmp(report->reasons[i].name, "learning"))
			return &report->reasons[i];
	}
	return report->reason_count ? &report->reasons[0] : NULL;
}

void report_closing(const struct report *report, const char *next)
{
	const struct report_total *total = &report->total;
	const struct report_reason *reason = main_reason(report);
	char calls[32], replaced[32], duration[32], spent[32], processes[48] = "", drift[64] = "";

	if (report->set.count > 1)
		snprintf(processes, sizeof(processes), " in %d processes", report->set.count);
	format_count(calls, sizeof(calls), total->calls);
	format_count(replaced, sizeof(replaced), total->replaced);
	if (!isnan(total->max_rel))
		snprintf(drift, sizeof(drift), "; worst drift %.1e of the largest output",
			 total->max_rel);
	if (!total->counted) {
		complain("%llu attention site%s%s, but %s ends without its counts: killed, or the "
			 "disk was full",
			 (unsigned long long)total->sites, plural(total->sites), processes,
			 report->set.count > 1 ? "a log" : "the log");
		complain("next: %s report %s", quoted_tool(), next);
		return;
	}
	if (!total->sites)
		complain("no attention found%s among %llu GEMMs", processes,
			 (unsigned long long)total->gemms);
	else
		complain("%llu attention site%s%s, %llu replaced: %s of %s calls",
			 (unsigned long long)total->sites, plural(total->sites), processes,
			 (unsigned long long)total->replaced_sites, replaced, calls);
	if (total->simulated)
		complain("speed: not measured here, a CPU stand-in ran this%s", drift);
	else if (total->replaced && !isnan(total->speedup))
		complain("saved %s of GPU time for %s of ours, replaced calls %.2f%s as fast%s",
			 format_duration(duration, sizeof(duration), total->saved_us),
			 format_duration(spent, sizeof(spent), total->spent_us), total->speedup,
			 utf8_output() ? "×" : "x", drift);
	else if (total->replaced)
		complain("saved %s of GPU time for %s of ours%s",
			 format_duration(duration, sizeof(duration), total->saved_us),
			 format_duration(spent, sizeof(spent), total->spent_us), drift);
	else if (total->could_us > 0)
		complain("replacing could save %s of GPU time%s",
			 format_duration(duration, sizeof(duration), total->could_us), drift);
	else if (reason)
		complain("nothing replaced, mostly because: %s",
			 *reason->sentence ? reason->sentence : reason->name);
	complain("next: %s report %s", quoted_tool(), next);
}
