/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for a person: who ran, the totals in a handful of lines, the table of sites, and what
 * was not replaced, why, and what to do about it.
 */
#include "report_page.h"
#include "terminal.h"
#include "tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FULL_HEADERS = 4 };

static void print_end(const struct page *page, const struct run_log *run)
{
	const char *end = report_end(run);
	bool normal = !strcmp(run->end, "exit") || !strcmp(run->end, "running");
	char duration[32];

	fprintf(page->out, "%s%s%s", normal ? "" : ink(page, YELLOW), end,
		normal ? "" : plain(page));
	if (run->counted)
		fprintf(page->out, " after %s\n",
			format_duration(duration, sizeof(duration), run->wall_us));
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

	fprintf(page->out, "%s%d: ", ink(page, BOLD), index + 1);
	print_safe(page->out, run->path);
	fprintf(page->out, "%s  pid %.0f", plain(page), number_of(run->header, "pid", 0));
	print_rank(page, run);
	fputs(", host ", page->out);
	print_safe(page->out, text_of(run->header, "host"));
	fputs(", ", page->out);
	print_end(page, run);
}

static void print_options(const struct page *page, const json_t *header)
{
	json_t *options = json_object_get(header, "options"), *value;
	const char *name;

	label(page, "uuid");
	print_safe(page->out, text_of(header, "uuid"));
	fputc('\n', page->out);
	label(page, "exe");
	print_safe(page->out, text_of(header, "exe"));
	fputc('\n', page->out);
	json_object_foreach(options, name, value)
	{
		const char *text = json_string_value(value);

		label(page, "option");
		print_safe(page->out, name);
		fputc('=', page->out);
		print_safe(page->out, text ? text : "?");
		fputc('\n', page->out);
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
	fprintf(page->out, "%s\n  ", plain(page));
	print_safe(page->out, command ? command : "?");
	fputs("\n  ", page->out);
	print_safe(page->out, report_device(run, device, sizeof(device)));
	fputs(", host ", page->out);
	print_safe(page->out, text_of(header, "host"));
	fprintf(page->out, ", pid %.0f", number_of(header, "pid", 0));
	print_rank(page, run);
	fputs("\n  fashim ", page->out);
	print_safe(page->out, text_of(header, "fashim"));
	fputs(", mode ", page->out);
	print_safe(page->out, text_of(header, "mode"));
	fputs(", started ", page->out);
	print_safe(page->out, text_of(header, "start"));
	fputs(", ", page->out);
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

static void print_reason_site(const struct page *page, const struct report_row *row)
{
	const struct site_log *site = row->site;
	const json_t *stack = json_object_get(site->record, "stack");
	const char *python =
		json_string_value(json_array_get(json_object_get(site->record, "python"), 0));
	char number[32], shape[160];

	fprintf(page->out, "              site %s %s ",
		report_site_name(page->report, row, number, sizeof(number)),
		report_shape(row, shape, sizeof(shape)));
	print_safe(page->out, text_of(site->record, "dtype"));
	if (python) {
		fputs("  ", page->out);
		print_safe(page->out, python);
	}
	if (site->detail[0]) {
		fputs("  (", page->out);
		print_safe(page->out, site->detail);
		fputc(')', page->out);
	}
	fputc('\n', page->out);
	for (size_t i = 0; i < json_array_size(stack) && i < 3; i++) {
		const char *frame = json_string_value(json_array_get(stack, i));

		fprintf(page->out, "                %s", ink(page, DIM));
		print_safe(page->out, frame ? frame : "?");
		fprintf(page->out, "%s\n", plain(page));
	}
}

static void print_reasons(const struct page *page)
{
	const struct report *report = page->report;
	char number[32];

	if (!report->reason_count)
		return;
	fprintf(page->out, "\n%sNot replaced, and why%s\n", ink(page, BOLD), plain(page));
	for (int i = 0; i < report->reason_count; i++) {
		const struct report_reason *reason = &report->reasons[i];

		fprintf(page->out, "  %10s  %s",
			format_count(number, sizeof(number), reason->count), ink(page, BOLD));
		print_safe(page->out, reason->name);
		fprintf(page->out, "%s: %s\n", plain(page), report_sentence(reason));
		for (int d = 0; d < KEPT_DETAILS && !reason->row_count && *reason->details[d];
		     d++) {
			fputs("              ", page->out);
			print_safe(page->out, reason->details[d]);
			fputc('\n', page->out);
		}
		if (*reason->hint)
			fprintf(page->out, "              %s %s\n", page->arrow, reason->hint);
		for (int r = 0; r < reason->row_count; r++)
			print_reason_site(page, &report->rows[reason->rows[r]]);
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
		.plus_minus = utf8 ? "±" : "+-",
		.times = utf8 ? "×" : "x",
		.micro = utf8 ? "µs" : "us",
		.arrow = utf8 ? "→" : "->",
		.to = utf8 ? "–" : "-",
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
