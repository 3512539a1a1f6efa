/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim diff as JSON. The schema is stable: within a version members are only added.
 *
 * {"format":"fashim-diff","version":1,
 *  "a":{"logs":[path],"gpu","cublas","driver","fashim","mode","calls","replaced"},"b":{…},
 *  "headers":[{"name","a","b"}],                     what the two logs differ in
 *  "common","matched_by_shape","only_a","only_b",    numbers of sites
 *  "total":{"sites","app":INTERVAL,"fused":INTERVAL},
 *  "sites":[{"a":SIDE|null,"b":SIDE|null,"matched":"all"|"callers"|"shape"|null,
 *            "B","H","Sq","Sk","D","Dv","dtype","mask","changed":bool,
 *            "app":INTERVAL,"fused":INTERVAL,"drift":INTERVAL}]}
 *  INTERVAL: {"ratio","low","high","change":"same"|"less"|"more"|null}, of B / A
 *  SIDE: {"site","verdict","calls","replaced","samples","app_us","fused_us","max_rel"}
 *
 * What is unknown is null. As comma-separated values: the sites, "a_calls" for the member of a
 * member.
 */
#include "tools/diff/diff.h"
#include "tools/base/json_text.h"
#include "tools/base/records.h"
#include "tools/sites/report_names.h"

#include <math.h>

static json_t *interval_object(const struct bootstrap_interval *interval)
{
	static const char *const words[] = {NULL, "same", "less", "more"};
	const char *change = words[diff_change(interval)];

	return json_pack("{s:o,s:o,s:o,s:o}", "ratio", json_number(interval->ratio), "low",
			 json_number(interval->low), "high", json_number(interval->high), "change",
			 change ? json_string(change) : json_null());
}

static json_t *side_object(const struct report *report)
{
	static const char *const keys[] = {"gpu", "cublas", "driver", "fashim", "mode", NULL};
	const struct report_total *total = &report->total;
	json_t *side = json_object(), *logs = json_array();

	for (int i = 0; i < report->set.count; i++)
		json_array_append_new(logs, json_text(report->set.runs[i]->path));
	json_object_set_new(side, "logs", logs);
	copy_members(side, report->set.runs[0]->header, keys);
	json_object_set_new(side, "calls",
			    total->counted ? json_integer((json_int_t)total->calls) : json_null());
	json_object_set_new(side, "replaced",
			    total->counted ? json_integer((json_int_t)total->replaced)
					   : json_null());
	return side;
}

static json_t *row_object(const struct report *report, const struct report_row *row)
{
	const struct site_counters *calls;
	char name[32];

	if (!row)
		return json_null();
	calls = &row->site->counters;
	return json_pack(
		"{s:s,s:s,s:o,s:o,s:I,s:o,s:o,s:o}", "site",
		report_site_name(report, row, name, sizeof(name)), "verdict", report_verdict(row),
		"calls", row->site->counted ? json_integer((json_int_t)calls->seen) : json_null(),
		"replaced",
		row->site->counted ? json_integer((json_int_t)calls->replaced) : json_null(),
		"samples", (json_int_t)row->site->samples, "app_us",
		json_number(row->app.count ? row->app.mean : NAN), "fused_us",
		json_number(row->fused.count ? row->fused.mean : NAN), "max_rel",
		json_number(row->site->max_rel));
}

static json_t *site_object(const struct diff *diff, const struct diff_site *site)
{
	static const char *const keys[] = {"B", "H", "Sq", "Sk", "D", "Dv", "dtype", "mask", NULL};
	static const char *const likeness[] = {NULL, "shape", "callers", "all"};
	const struct report_row *row = site->pair.a ? site->pair.a : site->pair.b;
	const char *matched = likeness[site->pair.how];
	json_t *object = json_object();

	json_object_set_new(object, "a", row_object(diff->a, site->pair.a));
	json_object_set_new(object, "b", row_object(diff->b, site->pair.b));
	json_object_set_new(object, "matched", matched ? json_string(matched) : json_null());
	copy_members(object, row->site->record, keys);
	json_object_set_new(object, "changed", json_boolean(diff_changed(site)));
	json_object_set_new(object, "app", interval_object(&site->app));
	json_object_set_new(object, "fused", interval_object(&site->fused));
	json_object_set_new(object, "drift", interval_object(&site->drift));
	return object;
}

static json_t *site_objects(const struct diff *diff, bool changed_only)
{
	json_t *sites = json_array();

	for (int i = 0; i < diff->site_count; i++) {
		if (!changed_only || diff_changed(&diff->sites[i]))
			json_array_append_new(sites, site_object(diff, &diff->sites[i]));
	}
	return sites;
}

void diff_csv(const struct diff *diff, bool changed_only)
{
	csv_records(stdout, site_objects(diff, changed_only), NULL);
}

void diff_json(const struct diff *diff, bool changed_only)
{
	json_t *headers = json_array(), *sites = site_objects(diff, changed_only), *root;

	for (int i = 0; i < diff->header_count; i++) {
		const struct diff_header *header = &diff->headers[i];

		json_array_append_new(headers,
				      json_pack("{s:s,s:o,s:o}", "name", header->name, "a",
						json_text(header->a), "b", json_text(header->b)));
	}
	root = json_pack("{s:s,s:i,s:o,s:o,s:o,s:i,s:i,s:i,s:i,s:{s:i,s:o,s:o},s:o}", "format",
			 "fashim-diff", "version", 1, "a", side_object(diff->a), "b",
			 side_object(diff->b), "headers", headers, "common", diff->common,
			 "matched_by_shape", diff->by_shape, "only_a", diff->only_a, "only_b",
			 diff->only_b, "total", "sites", diff->timed, "app",
			 interval_object(&diff->app), "fused", interval_object(&diff->fused),
			 "sites", sites);
	json_document(root, 6);
}
