/* SPDX-License-Identifier: Apache-2.0
 *
 * Words from records that may hold anything: a number is bounded before it is printed.
 */
#include "tools/sites/report_names.h"
#include "tools/base/tool.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const chain_part_names[PART_COUNT] = {
	[PART_GEMM1] = "GEMM1",
	[PART_MIDDLE] = "middle ops",
	[PART_SOFTMAX] = "softmax",
	[PART_GEMM2] = "GEMM2",
};

char *report_parts(const struct report_row *row, const char *micro, char *buffer, size_t size)
{
	double us[PART_COUNT];
	size_t used = 0;

	*buffer = '\0';
	if (!site_parts(row->site, us))
		return buffer;
	for (int i = 0; i < PART_COUNT; i++)
		if (us[i] > 0 && used < size)
			used += (size_t)snprintf(buffer + used, size - used, "%s%s %.1f",
						 used ? ", " : "", chain_part_names[i], us[i]);
	if (used < size)
		snprintf(buffer + used, size - used, " %s", micro);
	return buffer;
}

const char *report_verdict(const struct report_row *row)
{
	const struct site_log *site = row->site;

	if (!strcmp(site->state, "declined"))
		return "declined";
	if (site->counters.replaced)
		return "replaced";
	return *site->state ? site->state : "unknown";
}

char *report_judgement(const struct report_row *row, char *buffer, size_t size)
{
	const struct site_log *site = row->site;
	const char *verdict = report_verdict(row);

	if (!strcmp(verdict, "declined"))
		snprintf(buffer, size, "declined: %s", site->reason);
	else if (site->not_ok)
		snprintf(buffer, size, "%s, %llu of %llu samples %s", verdict,
			 (unsigned long long)site->not_ok, (unsigned long long)site->samples,
			 site->bad_verdict);
	else
		snprintf(buffer, size, "%s", verdict);
	return buffer;
}

const char *name_inside_package(const char *frame)
{
	static const char *const folders[] = {"/site-packages/", "/dist-packages/"};

	for (int i = 0; i < 2; i++) {
		const char *found = strstr(frame, folders[i]);

		if (found)
			return found + strlen(folders[i]);
	}
	return frame;
}

const char *report_place(const struct report_row *row)
{
	static const char *const lists[] = {"python", "stack"};

	for (int i = 0; i < 2; i++) {
		const json_t *list = json_object_get(row->site->record, lists[i]);
		const char *frame = json_string_value(json_array_get(list, 0));

		if (frame)
			return name_inside_package(frame);
	}
	return "";
}

char *report_detail(const char *reason, const char *detail, char *buffer, size_t size)
{
	const bool slower = !strcmp(reason, "slower");
	const char *lead =
		strchr(detail, ' ') ? "" : "in "; /* a sentence, or what an op is called */

	if (!strcmp(reason, "scores_read_by"))
		lead = "read by ";
	if (!*detail || !strcmp(reason, detail))
		snprintf(buffer, size, "%s", "");
	else
		snprintf(buffer, size, "%s%s%s", slower ? "" : lead, detail,
			 slower ? " as fast" : "");
	return buffer;
}

double report_ulps(const struct report_row *row)
{
	static const struct {
		const char *dtype;
		int fraction,
			least; /* bits behind the point; the exponent of the smallest normal */
	} types[] = {{"f16", 10, -14}, {"bf16", 7, -126}, {"f32", 23, -126}};
	const struct sample *worst = &row->site->worst;
	const char *dtype = text_of(row->site->record, "dtype");
	int exponent;

	if (isnan(row->site->max_rel) || !(worst->worst_index >= 0) || !isfinite(worst->worst_app))
		return NAN;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		if (strcmp(dtype, types[i].dtype))
			continue;
		/* frexp() says 0.5 to 1 where a type's fraction is 1 to 2. */
		frexp(worst->worst_app, &exponent);
		exponent = worst->worst_app == 0 || exponent - 1 < types[i].least ? types[i].least
										  : exponent - 1;
		return worst->max_abs / ldexp(1, exponent - types[i].fraction);
	}
	return NAN;
}

char *report_calls(const struct report_row *row, char *buffer, size_t size)
{
	const struct site_counters *calls = &row->site->counters;
	const struct {
		const char *before;
		uint64_t number;
		const char *after;
		bool always;
	} parts[] = {
		{"", calls->seen, " in all", true},
		{", ", calls->replaced, " replaced", true},
		{", ", calls->compared, " compared", true},
		{", ", calls->passed, " left alone", true},
		{", ", calls->replays, " in replayed graphs", false},
		{"; scores made after all ", calls->materialised, " times", false},
		{"; inputs saved ", calls->snapshots, " times", false},
	};
	int used = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (parts[i].number || parts[i].always)
			used += snprintf(buffer + used, size - (size_t)used, "%s%llu%s",
					 parts[i].before, (unsigned long long)parts[i].number,
					 parts[i].after);
	return buffer;
}

char *report_worst(const struct report_row *row, char *buffer, size_t size)
{
	const struct sample *worst = &row->site->worst;
	const double ulps = report_ulps(row);
	int used = snprintf(buffer, size, "%.1e of the largest output, in call %llu",
			    row->site->max_rel, (unsigned long long)worst->occurrence);

	if (worst->worst_index >= 0)
		used += snprintf(
			buffer + used, size - (size_t)used, ", element %.0f: app %.6g, fused %.6g",
			fmin(worst->worst_index, 1e18), worst->worst_app, worst->worst_fused);
	if (!isnan(ulps))
		used += snprintf(buffer + used, size - (size_t)used, " (%.3g ulp)",
				 fmin(ulps, 1e18));
	if (!isnan(row->site->beyond))
		snprintf(buffer + used, size - (size_t)used,
			 "; at most %.2g%% of the elements outside the tolerance",
			 100 * row->site->beyond);
	return buffer;
}

const char *report_closer(const struct report_row *row)
{
	if (isnan(row->error_ratio))
		return "";
	if (row->error_ratio >= 0.99 && row->error_ratio <= 1.01)
		return "equal";
	return row->error_ratio < 1 ? "fused" : "app";
}

char *report_shape(const struct report_row *row, char *buffer, size_t size)
{
	static const char *const keys[] = {"B", "H", "Sq", "Sk", "D"};
	const json_t *record = row->site->record;
	double Dv = number_of(record, "Dv", NAN);
	int used = snprintf(buffer, size, "[");

	if (!record) {
		snprintf(buffer, size, "?");
		return buffer;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		used += snprintf(buffer + used, size - (size_t)used, "%s%.0f", i ? "," : "",
				 fmin(fabs(number_of(record, keys[i], 0)), 1e15));
	if (!isnan(Dv) && Dv != number_of(record, "D", 0))
		used += snprintf(buffer + used, size - (size_t)used, "/%.0f", fmin(fabs(Dv), 1e15));
	snprintf(buffer + used, size - (size_t)used, "]");
	return buffer;
}

/* Whether all logs are of one job, so that the first one's numbers need no log in front. */
static bool one_job(const struct report *report)
{
	for (int i = 1; i < report->set.count; i++) {
		if (report->set.runs[i]->job != report->set.runs[0])
			return false;
	}
	return true;
}

char *report_site_name(const struct report *report, const struct report_row *row, char *buffer,
		       size_t size)
{
	if (row->run == 0 && one_job(report))
		snprintf(buffer, size, "%u", row->site->number);
	else
		snprintf(buffer, size, "%d:%u", row->run + 1, row->site->number);
	return buffer;
}

char *report_command(const struct run_log *run)
{
	const json_t *argv = json_object_get(run->header, "argv"), *word;
	char *text = NULL;
	size_t index, size;
	FILE *out;

	if (!json_array_size(argv))
		return strdup(text_of(run->header, "exe"));
	out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	json_array_foreach(argv, index, word)
	{
		const char *part = json_string_value(word);

		fprintf(out, "%s%s", index ? " " : "", part ? part : "?");
	}
	fclose(out);
	return text;
}

char *report_device(const struct run_log *run, char *buffer, size_t size)
{
	const char *gpu = text_of(run->header, "gpu");
	int driver = (int)fmin(number_of(run->header, "driver", 0), 1e8);
	int cublas = (int)fmin(number_of(run->header, "cublas", 0), 1e8);
	double sm = fmin(number_of(run->header, "sm", 0), 1e8);
	FILE *out = fmemopen(buffer, size, "w");

	if (!out)
		return buffer;
	fputs(*gpu ? gpu : "no GPU named", out);
	if (sm > 0)
		fprintf(out, " (sm_%.0f)", sm);
	if (driver > 0)
		fprintf(out, ", driver %d.%d", driver / 1000, driver % 1000 / 10);
	if (cublas > 0)
		fprintf(out, ", cuBLAS %d.%d.%d", cublas / 10000, cublas / 100 % 100, cublas % 100);
	fclose(out);
	return buffer;
}

char *report_series(const struct series *series, const char *plus_minus, const char *none,
		    char *buffer, size_t size)
{
	const double deviation = series_deviation(series);

	if (!series->count)
		snprintf(buffer, size, "%s", none);
	else if (isnan(deviation))
		snprintf(buffer, size, "%.1f", series->mean);
	else
		snprintf(buffer, size, "%.1f %s %.1f", series->mean, plus_minus, deviation);
	return buffer;
}

const char *report_end(const struct run_log *run)
{
	static const char *const words[][2] = {
		{"exit", "ended"}, {"killed", "killed"}, {"running", "still running"}};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (!strcmp(run->end, words[i][0]))
			return words[i][1];
	}
	return "no summary";
}

const char *report_sentence(const struct report_reason *reason)
{
	return *reason->sentence ? reason->sentence : "a reason of a later fashim";
}

char *report_after(const struct run_log *run, char *buffer, size_t size)
{
	const bool known = run->wall_us > 0 && strcmp(run->end, "killed") != 0;
	const double us = known ? run->wall_us : fmax(run->wall_us, run->last_us);
	char duration[32];

	*buffer = '\0';
	if (us > 0)
		snprintf(buffer, size, " after %s%s", known ? "" : "more than ",
			 format_duration(duration, sizeof(duration), us));
	return buffer;
}
