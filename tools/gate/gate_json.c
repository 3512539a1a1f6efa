/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim gate as JSON. The schema is stable: within a version members are only added.
 *
 * {"format":"fashim-gate","version":1,"passed":bool,"logs":[path],"baseline":[path]|null,
 *  "pass","skip","fail",                             numbers of checks
 *  "checks":[{"check","site":"1"|null,"title","verdict":"pass"|"skip"|"fail","limit",
 *             "measured","low","high","samples","why"}]}
 *
 * site null: all sites together, or one that only the baseline has. What is unknown is null.
 */
#include "tools/gate/gate.h"
#include "tools/base/json_text.h"
#include "tools/base/records.h"

static json_t *paths_of(const struct report *report)
{
	json_t *paths = json_array();

	for (int i = 0; report && i < report->set.count; i++)
		json_array_append_new(paths, json_text(report->set.runs[i]->path));
	return paths;
}

static json_t *check_object(const struct gate *gate, const struct gate_check *check)
{
	char site[32], title[300];

	return json_pack(
		"{s:s,s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:I,s:o}", "check", check->name, "site",
		gate_site(gate, check, site, sizeof(site)) ? json_string(site) : json_null(),
		"title", json_text(gate_title(check, title, sizeof(title))), "verdict",
		gate_verdict_name(check->verdict), "limit", json_number(check->limit), "measured",
		json_number(check->measured.ratio), "low", json_number(check->measured.low), "high",
		json_number(check->measured.high), "samples", (json_int_t)check->samples, "why",
		json_text(check->why));
}

static json_t *check_objects(const struct gate *gate)
{
	json_t *checks = json_array();

	for (int i = 0; i < gate->count; i++)
		json_array_append_new(checks, check_object(gate, &gate->checks[i]));
	return checks;
}

void gate_csv(const struct gate *gate)
{
	csv_records(stdout, check_objects(gate), NULL);
}

void gate_json(const struct gate *gate)
{
	json_t *checks = check_objects(gate), *root;

	root = json_pack("{s:s,s:i,s:b,s:o,s:o,s:i,s:i,s:i,s:o}", "format", "fashim-gate",
			 "version", 1, "passed", gate_passed(gate), "logs", paths_of(gate->report),
			 "baseline", gate->baseline ? paths_of(gate->baseline) : json_null(),
			 "pass", gate->tally[GATE_PASS], "skip", gate->tally[GATE_SKIP], "fail",
			 gate->tally[GATE_FAIL], "checks", checks);
	json_document(root, 6);
}
