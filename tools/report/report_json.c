/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as JSON. The schema is stable: within a version members are only added.
 *
 * {"format":"fashim-report","version":1,
 *  "logs":[{"path","pid","rank","exe","argv","host","start","mode","gpu","uuid","sm","driver","cublas",
 *           "fashim","options",                      as in the log's header
 *           "end":"exit"|"killed"|"running"|"unknown","wall_us","overhead_us","gemms","launches",
 *           "costs_us":{"host":{…},"gpu":{…}},      by purpose
 *           "scratch_peak","copies":{"held","made","unfit","by"},"violations","first_violation",
 *           "calls","replaced","saved_us",           of this run alone
 *           "unreadable_lines","truncated","simulated"}],
 *  "total":{"sites","replaced_sites","verified_sites","learning_sites","declined_sites","calls",
 *           "replaced","compared","passed","materialised","gemms","launches","saved_us","could_save_us",
 *           "before_us","after_us","speedup","max_abs","max_rel","nonfinite","overhead_us","costs_us",
 *           "violations","complete"},
 *  "sites":[{"log":0,                                index into "logs"
 *            "site","B","H","Sq","Sk","D","Dv","dtype","scale","softcap","mask","kernel","route",
 *            "chain","aliasing","python","stack",      as in the log's site record
 *            "verdict":"replaced"|"verified"|"learning"|"declined"|"unknown","reason","detail",
 *            "calls","replaced","compared","passed","materialised","snapshots","saved_us",
 *            "could_save_us","speedup","speedup_low","speedup_high","ranks","read_by",
 *            "app_us":{"mean","deviation","min","max","count"},"fused_us":{…},"warm_up_excluded",
 *            "samples","samples_not_ok","max_abs","max_rel","beyond","nonfinite",
 *            "reference":{"samples","app_rmse","fused_rmse","app_max","fused_max",
 *                         "closer":"app"|"fused"|"equal"}}],
 *  "not_replaced":[{"reason","count","sentence","hint","details",
 *                   "sites":[{"log","site"}]}]}
 *
 * What is unknown is null; "replays", of those replaced, is there where there are any. Sites come
 * in the order of the table.
 */
#include "tools/base/json_text.h"
#include "tools/report/report_forms.h"
#include "tools/sites/report.h"
#include "tools/sites/report_names.h"

#include <jansson.h>
#include <math.h>

static json_t *count(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* JSON must be UTF-8; text cut in the middle of a character is not. */
static json_t *text(const char *value)
{
	json_t *string = json_string(value);

	return string ? string : json_string("(not UTF-8)");
}

static json_t *copies_object(const struct run_log *run)
{
	json_t *copies = json_object();

	json_object_set_new(copies, "held", count(run->copies_held));
	json_object_set_new(copies, "made", count(run->copies_made));
	json_object_set_new(copies, "unfit", count(run->copies_unfit));
	json_object_set_new(copies, "by", *run->copy_by ? text(run->copy_by) : json_null());
	return copies;
}

static json_t *rests_object(const struct run_log *run)
{
	json_t *rests = json_object();

	json_object_set_new(rests, "times", count(run->rests));
	json_object_set_new(rests, "us", json_number(run->rest_us));
	return rests;
}

static json_t *by_purpose(const double *us)
{
	json_t *object = json_object();

	for (int i = 0; i < PURPOSE_COUNT; i++)
		if (us[i] > 0)
			json_object_set_new(object, purpose_name(i), json_number(us[i]));
	return object;
}

static json_t *costs_object(const double *host_us, const double *gpu_us)
{
	json_t *object = json_object();

	json_object_set_new(object, "host", by_purpose(host_us));
	json_object_set_new(object, "gpu", by_purpose(gpu_us));
	return object;
}

static json_t *log_object(const struct run_log *run)
{
	static const char *const header_keys[] = {
		"pid",	"rank", "exe",	  "argv",	  "host",   "start",  "mode",	 "gpu",
		"uuid", "sm",	"driver", "driver_lacks", "cublas", "fashim", "options", NULL};
	json_t *log = json_object();

	json_object_set_new(log, "path", text(run->path));
	copy_members(log, run->header, header_keys);
	json_object_set_new(log, "end", text(run->end));
	json_object_set_new(log, "wall_us",
			    run->wall_us > 0 ? json_number(run->wall_us) : json_null());
	json_object_set_new(log, "overhead_us",
			    run->counted ? json_number(run->overhead_us) : json_null());
	json_object_set_new(log, "costs_us",
			    run->counted ? costs_object(run->cost_us, run->cost_gpu_us)
					 : json_null());
	json_object_set_new(log, "gemms", run->counted ? count(run->gemms) : json_null());
	json_object_set_new(log, "launches", run->counted ? count(run->launches) : json_null());
	json_object_set_new(log, "scratch_peak",
			    run->counted ? count(run->scratch_peak) : json_null());
	json_object_set_new(log, "copies", run->counted ? copies_object(run) : json_null());
	json_object_set_new(log, "rests", run->counted ? rests_object(run) : json_null());
	json_object_set_new(log, "calls", run->counted ? count(run->own.calls) : json_null());
	json_object_set_new(log, "replaced", run->counted ? count(run->own.replaced) : json_null());
	json_object_set_new(log, "saved_us",
			    run->counted ? json_number(run->own.saved_us) : json_null());
	json_object_set_new(log, "violations", count(run->violations));
	json_object_set_new(log, "first_violation",
			    run->violations ? text(run->violation) : json_null());
	json_object_set_new(log, "unreadable_lines", count(run->unreadable));
	json_object_set_new(log, "simulated", json_boolean(run->simulated));
	json_object_set_new(log, "truncated", json_boolean(run->truncated));
	return log;
}

static json_t *series_object(const struct series *series)
{
	json_t *object;

	if (!series->count)
		return json_null();
	object = json_object();
	json_object_set_new(object, "mean", json_number(series->mean));
	json_object_set_new(object, "deviation", json_number(series_deviation(series)));
	json_object_set_new(object, "min", json_number(series->min));
	json_object_set_new(object, "max", json_number(series->max));
	json_object_set_new(object, "count", count(series->count));
	return object;
}

static json_t *parts_object(const struct site_log *site)
{
	double us[PART_COUNT];

	if (!site_parts(site, us))
		return json_null();
	return json_pack("{s:f,s:f,s:f,s:f}", "gemm1", us[PART_GEMM1], "middle", us[PART_MIDDLE],
			 "softmax", us[PART_SOFTMAX], "gemm2", us[PART_GEMM2]);
}

static json_t *reference_object(const struct report_row *row)
{
	const struct site_log *site = row->site;
	double samples = (double)site->references;
	json_t *object;

	if (!site->references)
		return json_null();
	object = json_object();
	json_object_set_new(object, "samples", count(site->references));
	json_object_set_new(object, "app_rmse", json_number(sqrt(site->sum_app_rmse2 / samples)));
	json_object_set_new(object, "fused_rmse",
			    json_number(sqrt(site->sum_fused_rmse2 / samples)));
	json_object_set_new(object, "app_max", json_number(site->app_max));
	json_object_set_new(object, "fused_max", json_number(site->fused_max));
	json_object_set_new(object, "closer", text(report_closer(row)));
	return object;
}

static json_t *site_object(const struct report_row *row)
{
	static const char *const record_keys[] = {"B",	    "H",     "Sq",    "Sk",	  "D",
						  "Dv",	    "dtype", "scale", "softcap",  "mask",
						  "kernel", "route", "chain", "aliasing", "python",
						  "stack",  NULL};
	const struct site_log *site = row->site;
	const struct {
		const char *key;
		uint64_t value;
	} counters[] = {
		{"calls", site->counters.seen},
		{"replaced", site->counters.replaced},
		{"compared", site->counters.compared},
		{"passed", site->counters.passed},
		{"materialised", site->counters.materialised},
		{"snapshots", site->counters.snapshots},
	};
	json_t *object = json_object(), *read_by = json_array();

	json_object_set_new(object, "log", json_integer(row->run));
	json_object_set_new(object, "site", count(site->number));
	copy_members(object, site->record, record_keys);
	json_object_set_new(object, "verdict", text(report_verdict(row)));
	json_object_set_new(object, "reason", *site->reason ? text(site->reason) : json_null());
	json_object_set_new(object, "detail", *site->detail ? text(site->detail) : json_null());
	for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++)
		json_object_set_new(object, counters[i].key,
				    site->counted ? count(counters[i].value) : json_null());
	if (site->counters.replays)
		json_object_set_new(object, "replays", count(site->counters.replays));
	json_object_set_new(object, "saved_us", json_number(row->saved_us));
	json_object_set_new(object, "could_save_us", json_number(row->could_us));
	json_object_set_new(object, "speedup", json_number(row->speedup.ratio));
	json_object_set_new(object, "speedup_low", json_number(row->speedup.low));
	json_object_set_new(object, "speedup_high", json_number(row->speedup.high));
	json_object_set_new(object, "ranks", count(site->ranks));
	for (int i = 0; i < KEPT_READERS && *site->read_by[i]; i++)
		json_array_append_new(read_by, text(site->read_by[i]));
	json_object_set_new(object, "read_by", read_by);
	json_object_set_new(object, "app_us", series_object(&row->app));
	json_object_set_new(object, "parts_us", parts_object(site));
	json_object_set_new(object, "fused_us", series_object(&row->fused));
	json_object_set_new(object, "warm_up_excluded", json_boolean(row->warm_up_excluded));
	json_object_set_new(object, "samples", count(site->samples));
	json_object_set_new(object, "samples_not_ok", count(site->not_ok));
	json_object_set_new(object, "max_abs", json_number(site->max_abs));
	json_object_set_new(object, "max_rel", json_number(site->max_rel));
	json_object_set_new(object, "beyond", json_number(site->beyond));
	json_object_set_new(object, "nonfinite", count(site->nonfinite));
	json_object_set_new(object, "reference", reference_object(row));
	return object;
}

static json_t *reason_object(const struct report *report, const struct report_reason *reason)
{
	json_t *object = json_object(), *details = json_array(), *sites = json_array();

	for (int i = 0; i < KEPT_DETAILS && *reason->details[i]; i++)
		json_array_append_new(details, text(reason->details[i]));
	for (int i = 0; i < reason->row_count; i++) {
		const struct report_row *row = &report->rows[reason->rows[i]];

		json_array_append_new(sites, json_pack("{s:i,s:I}", "log", row->run, "site",
						       (json_int_t)row->site->number));
	}
	json_object_set_new(object, "reason", text(reason->name));
	json_object_set_new(object, "count", count(reason->count));
	json_object_set_new(object, "sentence", text(reason->sentence));
	json_object_set_new(object, "hint", text(reason->hint));
	json_object_set_new(object, "details", details);
	json_object_set_new(object, "sites", sites);
	return object;
}

static json_t *total_object(const struct report_total *total)
{
	const struct {
		const char *key;
		uint64_t value;
	} counts[] = {
		{"sites", total->sites},
		{"replaced_sites", total->replaced_sites},
		{"verified_sites", total->verified_sites},
		{"learning_sites", total->learning_sites},
		{"declined_sites", total->declined_sites},
		{"calls", total->calls},
		{"replaced", total->replaced},
		{"compared", total->compared},
		{"passed", total->passed},
		{"materialised", total->materialised},
		{"gemms", total->gemms},
		{"launches", total->launches},
		{"nonfinite", total->nonfinite},
		{"violations", total->violations},
	};
	json_t *object = json_object();

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
		json_object_set_new(object, counts[i].key, count(counts[i].value));
	json_object_set_new(object, "saved_us",
			    json_number(total->simulated ? NAN : total->saved_us));
	json_object_set_new(object, "could_save_us",
			    json_number(total->simulated ? NAN : total->could_us));
	json_object_set_new(object, "before_us",
			    json_number(total->before_us > 0 ? total->before_us : NAN));
	json_object_set_new(object, "after_us",
			    json_number(total->before_us > 0 ? total->after_us : NAN));
	json_object_set_new(object, "speedup", json_number(total->speedup));
	json_object_set_new(object, "max_abs", json_number(total->max_abs));
	json_object_set_new(object, "max_rel", json_number(total->max_rel));
	json_object_set_new(object, "overhead_us", json_number(total->overhead_us));
	json_object_set_new(object, "costs_us", costs_object(total->cost_us, total->cost_gpu_us));
	json_object_set_new(object, "complete", json_boolean(total->counted));
	return object;
}

void report_json(const struct report *report)
{
	json_t *root = json_object(), *logs = json_array(), *sites = json_array();
	json_t *reasons = json_array();

	for (int i = 0; i < report->set.count; i++)
		json_array_append_new(logs, log_object(report->set.runs[i]));
	for (int i = 0; i < report->row_count; i++)
		json_array_append_new(sites, site_object(&report->rows[i]));
	for (int i = 0; i < report->reason_count; i++)
		json_array_append_new(reasons, reason_object(report, &report->reasons[i]));
	json_object_set_new(root, "format", json_string("fashim-report"));
	json_object_set_new(root, "version", json_integer(1));
	json_object_set_new(root, "logs", logs);
	json_object_set_new(root, "total", total_object(&report->total));
	json_object_set_new(root, "sites", sites);
	json_object_set_new(root, "not_replaced", reasons);
	json_document(root, 9);
}
