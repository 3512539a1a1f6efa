/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for a person: who ran, the totals in a handful of lines, the table of sites, and what
 * was not replaced, why, and what to do about it.
 */
#include "tools/report/report_page.h"
#include "tools/base/escaped.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/report/report_forms.h"
#include "tools/report/report_summary.h"
#include "tools/sites/report_names.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_FULL_HEADERS = 4 };

static void print_end(const struct page *page, const struct run_log *run)
{
	const char *end = report_end(run);
	bool normal = !strcmp(run->end, "exit") || !strcmp(run->end, "running");
	char duration[64];

	fprintf(page->out, "%s%s%s", normal ? "" : ink(page, YELLOW), end,
		normal ? "" : plain(page));
	if (run->counted)
		fprintf(page->out, "%s\n", report_after(run, duration, sizeof(duration)));
	else
		fputs(": cut short, and no LOG.live has its counters\n", page->out);
}

static void print_rank(const struct page *page, const struct run_log *run)
{
	if (json_is_number(json_object_get(run->header, "rank")))
		fprintf(page->out, ", rank %.0f", number_of(run->header, "rank", 0));
}

/* One line a log, where there are many, and for the other ranks of a job. */
static void print_short_header(const struct page *page, int index)
{
	const struct run_log *run = page->report->set.runs[index];

	fputs(ink(page, BOLD), page->out);
	safe_printf(page->out, "%d: %s", index + 1, run->path);
	fprintf(page->out, "%s  pid %.0f", plain(page), number_of(run->header, "pid", 0));
	print_rank(page, run);
	safe_printf(page->out, ", host %s, ", text_of(run->header, "host"));
	print_end(page, run);
}

static void print_options(const struct page *page, const json_t *header)
{
	json_t *options = json_object_get(header, "options"), *value;
	const char *name;

	line(page, "uuid", text_of(header, "uuid"));
	line(page, "exe", text_of(header, "exe"));
	json_object_foreach(options, name, value)
	{
		const char *text = json_string_value(value);

		label(page, "option");
		safe_printf(page->out, "%s=%s\n", name, text ? text : "?");
	}
}

static void print_header(const struct page *page, int index, bool options)
{
	const struct run_log *run = page->report->set.runs[index];
	const json_t *header = run->header;
	char *command = report_command(run), device[256];

	fputs(ink(page, BOLD), page->out);
	if (page->report->set.count > 1)
		fprintf(page->out, "%d: ", index + 1);
	print_safe(page->out, run->path);
	fputs(plain(page), page->out);
	safe_printf(page->out, "\n  %s\n  %s, host %s, pid %.0f", command ? command : "?",
		    report_device(run, device, sizeof(device)), text_of(header, "host"),
		    number_of(header, "pid", 0));
	print_rank(page, run);
	safe_printf(page->out, "\n  fashim %s, mode %s, started %s, ", text_of(header, "fashim"),
		    text_of(header, "mode"), text_of(header, "start"));
	print_end(page, run);
	if (options)
		print_options(page, header);
	free(command);
}

static void print_headers(const struct page *page, bool options)
{
	const struct log_set *set = &page->report->set;
	int jobs = 0;

	for (int i = 0; i < set->count; i++)
		jobs += !set->runs[i]->job;
	for (int i = 0; i < set->count; i++) {
		if (!options && (set->runs[i]->job || jobs > MOST_FULL_HEADERS))
			print_short_header(page, i);
		else
			print_header(page, i, options);
	}
}

static void print_summary(const struct page *page)
{
	static const char *const inks[] = {
		[TONE_PLAIN] = "", [TONE_GOOD] = GREEN, [TONE_WARNING] = YELLOW, [TONE_BAD] = RED};
	struct summary_line lines[SUMMARY_LINES];
	int count = report_summary(page->report, lines);

	fputc('\n', page->out);
	for (int i = 0; i < count; i++) {
		bool toned = page->color && lines[i].tone != TONE_PLAIN;

		label(page, lines[i].name);
		fputs(toned ? inks[lines[i].tone] : "", page->out);
		print_safe(page->out, lines[i].text);
		fprintf(page->out, "%s\n", toned ? plain(page) : "");
	}
}

/* Frames of C where no line of Python says it, once for sites that come from the same place. */
static void print_reason_stack(const struct page *page, const struct report_row *row,
			       const struct report_row *above)
{
	const json_t *stack = json_object_get(row->site->record, "stack");

	if (above && json_equal(stack, json_object_get(above->site->record, "stack")))
		return;
	for (size_t i = 0; i < json_array_size(stack) && i < 3; i++) {
		const char *frame = json_string_value(json_array_get(stack, i));

		fprintf(page->out, "                %s", ink(page, DIM));
		print_safe(page->out, frame ? frame : "?");
		fprintf(page->out, "%s\n", plain(page));
	}
}

static bool has_python(const struct report_row *row)
{
	return json_array_size(json_object_get(row->site->record, "python")) > 0;
}

/* Shape, dtype, place and detail of a row, for free(); NULL when memory is short. */
static char *reason_site_text(const struct report_row *row)
{
	const struct site_log *site = row->site;
	const char *python = has_python(row) ? report_place(row) : "";
	char shape[160], detail[200], *text;

	report_detail(site->reason, site->detail, detail, sizeof(detail));
	if (asprintf(&text, "%s %s%s%s%s%s%s", report_shape(row, shape, sizeof(shape)),
		     text_of(site->record, "dtype"), *python ? "  " : "", python,
		     *detail ? "  (" : "", detail, *detail ? ")" : "") < 0)
		return NULL;
	return text;
}

static bool says(const struct report_row *row, const char *text)
{
	char *own = reason_site_text(row);
	bool same = own && text && !strcmp(own, text);

	free(own);
	return same;
}

/* The sites of a reason, those of which the same is to be said on one line. */
static void print_reason_sites(const struct page *page, const struct report_reason *reason)
{
	const struct report_row *rows = page->report->rows, *above = NULL;
	char number[32];

	for (int first = 0, after; first < reason->row_count; first = after) {
		const struct report_row *row = &rows[reason->rows[first]];
		char *text = reason_site_text(row);

		for (after = first + 1; after < reason->row_count; after++)
			if (!says(&rows[reason->rows[after]], text))
				break;
		fprintf(page->out, "              site%s", after > first + 1 ? "s" : "");
		for (int i = first; i < after; i++)
			fprintf(page->out, "%s %s", i > first ? "," : "",
				report_site_name(page->report, &rows[reason->rows[i]], number,
						 sizeof(number)));
		safe_printf(page->out, " %s\n", text ? text : "?");
		if (!has_python(row))
			print_reason_stack(page, row, above);
		above = row;
		free(text);
	}
}

static void print_reasons(const struct page *page)
{
	const struct report *report = page->report;
	char number[32], detail[200];

	if (!report->reason_count)
		return;
	fprintf(page->out, "\n%sNot replaced, and why%s\n", ink(page, BOLD), plain(page));
	for (int i = 0; i < report->reason_count; i++) {
		const struct report_reason *reason = &report->reasons[i];

		fprintf(page->out, "  %10s  %s",
			format_count(number, sizeof(number), reason->count), ink(page, BOLD));
		print_safe(page->out, reason->name);
		fprintf(page->out, "%s: %s\n", plain(page), report_sentence(reason));
		for (int d = 0; d < KEPT_DETAILS && !reason->row_count && *reason->details[d]; d++)
			safe_printf(page->out, "              %s\n",
				    report_detail(reason->name, reason->details[d], detail,
						  sizeof(detail)));
		if (*reason->hint)
			fprintf(page->out, "              %s %s\n", page->arrow, reason->hint);
		print_reason_sites(page, reason);
	}
}

void report_text(const struct report *report, const struct report_style *style)
{
	bool utf8 = utf8_output();
	struct page page = {
		.report = report,
		.out = style->width ? folded_stream(stdout, style->width) : NULL,
		.width = style->width,
		.color = style->color,
		.utf8 = utf8,
		.micro = utf8 ? "µs" : "us",
		.arrow = utf8 ? "→" : "->",
		.cells = {report, "-", utf8 ? "±" : "+-", utf8 ? "×" : "x", utf8 ? "–" : "-"},
	};
	FILE *folded = page.out;

	if (!folded)
		page.out = stdout;
	print_headers(&page, style->headers_only);
	if (!style->headers_only) {
		print_summary(&page);
		if (report->row_count)
			print_table(&page);
		print_reasons(&page);
		for (int i = 0; style->details && i < report->row_count; i++)
			print_site(&page, &report->rows[i]);
	}
	if (folded)
		fclose(folded);
}
