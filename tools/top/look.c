/* SPDX-License-Identifier: Apache-2.0
 *
 * The same report as `fashim report` makes of a log without a summary, and rates.
 */
#include "tools/top/look.h"
#include "tools/base/escaped.h"
#include "tools/base/cell_table.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/read/log_reader.h"
#include "tools/sites/report.h"
#include "tools/sites/report_names.h"

#include <libsmartcols/libsmartcols.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct count {
	uint32_t site;
	uint64_t calls;
};

struct look_before {
	double wall_us, saved_us, spent_us;
	uint64_t calls;
	int site_count;
	struct count sites[];
};

/* What a look is made of. */
struct sight {
	const struct report *report;
	const struct look_before *before;
	double seconds; /* since the look before, or since the start; 0: unknown */
};

static struct look_before *remember(const struct report *report)
{
	const struct report_total *total = &report->total;
	struct look_before *before =
		calloc(1, sizeof(*before) + (size_t)report->row_count * sizeof(struct count));

	if (!before)
		return NULL;
	before->wall_us = total->wall_us;
	before->saved_us = total->saved_us;
	before->spent_us = total->spent_us;
	before->calls = total->calls;
	before->site_count = report->row_count;
	for (int i = 0; i < report->row_count; i++)
		before->sites[i] = (struct count){report->rows[i].site->number,
						  report->rows[i].site->counters.seen};
	return before;
}

static uint64_t calls_before(const struct sight *sight, uint32_t site)
{
	for (int i = 0; sight->before && i < sight->before->site_count; i++)
		if (sight->before->sites[i].site == site)
			return sight->before->sites[i].calls;
	return 0;
}

/* "1 234/s", "1.7/s", or "-" where nobody knows how long it took. */
static const char *rate(const struct sight *sight, uint64_t now, uint64_t then, char *buffer,
			size_t size)
{
	const double per_second =
		now > then && sight->seconds > 0 ? (double)(now - then) / sight->seconds : 0;
	char count[32];

	if (!(sight->seconds > 0))
		snprintf(buffer, size, "-");
	else if (per_second > 0 && per_second < 100)
		snprintf(buffer, size, "%.3g/s", per_second);
	else
		snprintf(buffer, size, "%s/s",
			 format_count(count, sizeof(count), (unsigned long long)per_second));
	return buffer;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* ---- the lines ------------------------------------------------------------------------------ */

static void print_head(const struct look *look, const struct run_log *run)
{
	char *command = report_command(run), device[300], after[64];

	if (look->color)
		fputs(BOLD, stdout);
	print_safe(stdout, command ? command : "?");
	if (look->color)
		fputs(PLAIN, stdout);
	safe_printf(stdout, "\n  pid %.0f, mode %s, %s%s\n  %s\n  %s",
		    number_of(run->header, "pid", 0), text_of(run->header, "mode"), report_end(run),
		    report_after(run, after, sizeof(after)),
		    report_device(run, device, sizeof(device)), look->path);
	if (look->others)
		printf(", and %d more run%s here", look->others, look->others == 1 ? "s" : "");
	puts("\n");
	free(command);
}

static void print_calls(const struct sight *sight)
{
	const struct report_total *total = &sight->report->total;
	char per_second[48], calls[32], replaced[32], rest[32];

	printf("  calls     %s, %s in all: %s replaced (%.0f %%), %llu compared, %s left alone\n",
	       rate(sight, total->calls, sight->before ? sight->before->calls : 0, per_second,
		    sizeof(per_second)),
	       format_count(calls, sizeof(calls), total->calls),
	       format_count(replaced, sizeof(replaced), total->replaced),
	       percent(total->replaced, total->calls), (unsigned long long)total->compared,
	       format_count(rest, sizeof(rest), total->passed));
}

static void print_gain(const struct sight *sight)
{
	const struct report_total *total = &sight->report->total;
	const struct look_before *before = sight->before;
	char saved[32], per_second[32];

	if (total->simulated) {
		puts("  saved     not measured here: a CPU stand-in runs this");
		return;
	}
	printf("  saved     %s of GPU time",
	       format_duration(saved, sizeof(saved), isnan(total->saved_us) ? 0 : total->saved_us));
	if (sight->seconds > 0)
		printf(", %s in each second",
		       format_duration(per_second, sizeof(per_second),
				       (total->saved_us - (before ? before->saved_us : 0)) /
					       sight->seconds));
	putchar('\n');
}

static void print_cost(const struct sight *sight)
{
	const struct report_total *total = &sight->report->total;
	const double then = sight->before ? sight->before->spent_us : 0;
	char spent[32];

	if (total->simulated)
		return;
	printf("  cost      %s of ours", format_duration(spent, sizeof(spent), total->spent_us));
	if (sight->seconds > 0)
		printf(", %.2g %% of the time", (total->spent_us - then) / sight->seconds / 1e4);
	putchar('\n');
}

static void print_drift(const struct report *report)
{
	const struct report_total *total = &report->total;

	if (isnan(total->max_rel))
		puts("  drift     nothing was compared yet");
	else
		printf("  drift     at worst %.1e of the largest output (site %u)\n",
		       total->max_rel,
		       total->worst_row >= 0 ? report->rows[total->worst_row].site->number : 0);
}

static void print_reasons(const struct report *report)
{
	bool first = true;

	for (int i = 0; i < report->reason_count; i++) {
		char count[32];

		if (!report->reasons[i].count)
			continue;
		printf("%s%s ", first ? "\nLeft alone: " : ", ",
		       format_count(count, sizeof(count), report->reasons[i].count));
		print_safe(stdout, report->reasons[i].name);
		first = false;
	}
	if (!first)
		putchar('\n');
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct report_row *row_of(const void *row)
{
	return row;
}

static void put_site(FILE *out, const void *sight, const void *row)
{
	fprintf(out, "%u", row_of(row)->site->number);
}

static void put_shape(FILE *out, const void *sight, const void *row)
{
	char shape[160];

	print_safe(out, report_shape(row, shape, sizeof(shape)));
}

static void put_dtype(FILE *out, const void *sight, const void *row)
{
	print_safe(out, text_of(row_of(row)->site->record, "dtype"));
}

static void put_rate(FILE *out, const void *sight, const void *row)
{
	const struct site_log *site = row_of(row)->site;
	char text[48];

	fputs(rate(sight, site->counters.seen, calls_before(sight, site->number), text,
		   sizeof(text)),
	      out);
}

static void put_calls(FILE *out, const void *sight, const void *row)
{
	char text[32];

	fputs(format_count(text, sizeof(text), row_of(row)->site->counters.seen), out);
}

static void put_replaced(FILE *out, const void *sight, const void *row)
{
	const struct site_counters *counters = &row_of(row)->site->counters;

	fprintf(out, "%.0f %%", percent(counters->replaced, counters->seen));
}

static void put_saved(FILE *out, const void *sight, const void *row)
{
	const double saved = row_of(row)->saved_us;
	char text[32];

	fputs(isnan(saved) ? "-" : format_duration(text, sizeof(text), saved), out);
}

static void put_drift(FILE *out, const void *sight, const void *row)
{
	const double drift = row_of(row)->site->max_rel;

	if (isnan(drift))
		fputc('-', out);
	else
		fprintf(out, "%.1e", drift);
}

static void put_verdict(FILE *out, const void *sight, const void *row)
{
	char text[200];

	print_safe(out, report_judgement(row, text, sizeof(text)));
}

/* Its end, which is the line and the function, where it is long. */
static void put_place(FILE *out, const void *sight, const void *row)
{
	enum { LONGEST = 30 };
	const char *place = report_place(row);
	const size_t length = strlen(place);

	if (length > LONGEST) {
		place += length - LONGEST + 1;
		place += strcspn(place, "/ :");
		fputs(utf8_output() ? "…" : "~", out);
	}
	print_safe(out, place);
}

/* What is left of the terminal's edge comes first. */
static const struct cell_column columns[] = {
	{"SITE", SCOLS_FL_RIGHT, put_site},    {"WHERE", 0, put_place},
	{"CALLS/S", SCOLS_FL_RIGHT, put_rate}, {"REPLACED", SCOLS_FL_RIGHT, put_replaced},
	{"SAVED", SCOLS_FL_RIGHT, put_saved},  {"DRIFT", SCOLS_FL_RIGHT, put_drift},
	{"VERDICT", 0, put_verdict},	       {"CALLS", SCOLS_FL_RIGHT, put_calls},
	{"B,H,Sq,Sk,D", 0, put_shape},	       {"DTYPE", 0, put_dtype},
};

static void print_sites(const struct sight *sight)
{
	struct cell_table cells =
		cell_table_new(columns, sizeof(columns) / sizeof(*columns), false);

	for (int i = 0; i < sight->report->row_count; i++)
		cell_table_add(&cells, sight, &sight->report->rows[i], 0, NULL);
	cell_table_print(&cells, false);
}

static void print_brief(const struct sight *sight)
{
	const struct report_total *total = &sight->report->total;
	char clock[16] = "", calls[48], saved[32];
	const time_t now = time(NULL);
	struct tm local;

	if (localtime_r(&now, &local))
		strftime(clock, sizeof(clock), "%T", &local);
	printf("%s  calls %s, replaced %.0f %%, saved %s, drift ", clock,
	       rate(sight, total->calls, sight->before ? sight->before->calls : 0, calls,
		    sizeof(calls)),
	       percent(total->replaced, total->calls),
	       total->simulated || isnan(total->saved_us)
		       ? "-"
		       : format_duration(saved, sizeof(saved), total->saved_us));
	if (isnan(total->max_rel))
		fputc('-', stdout);
	else
		printf("%.1e", total->max_rel);
	printf(", sites %llu: %llu replaced, %llu learning, %llu declined\n",
	       (unsigned long long)total->sites, (unsigned long long)total->replaced_sites,
	       (unsigned long long)total->learning_sites,
	       (unsigned long long)total->declined_sites);
}

static void print_sight(const struct look *look, const struct sight *sight)
{
	const struct report *report = sight->report;

	print_head(look, report->set.runs[report->set.count - 1]);
	print_calls(sight);
	print_gain(sight);
	print_cost(sight);
	print_drift(report);
	print_sites(sight);
	print_reasons(report);
}

enum look_result look_print(struct look *look, bool brief)
{
	struct report report = {0};
	struct sight sight = {.report = &report, .before = look->before};
	enum look_result result = LOOK_FAILED;
	int error = log_read(&report.set, look->path, 0);

	/* Of a file with several runs the last is the one that may go on. */
	while (report.set.count > 1)
		log_set_remove(&report.set, 0);
	if (!report.set.count) {
		complain("%s: %s", look->path, report.set.problem);
	} else if (report_build(&report, NULL)) {
		complain("out of memory");
	} else {
		const double wall_us = report.total.wall_us;

		sight.seconds = (wall_us - (sight.before ? sight.before->wall_us : 0)) / 1e6;
		result = strcmp(report.set.runs[0]->end, "running") ? LOOK_ENDED : LOOK_RUNS;
		if (brief)
			print_brief(&sight);
		else
			print_sight(look, &sight);
		free(look->before);
		look->before = remember(&report);
	}
	report_free(&report);
	return error && result != LOOK_FAILED ? LOOK_ENDED : result;
}

void look_free(struct look *look)
{
	free(look->before);
	look->before = NULL;
}
