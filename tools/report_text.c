/* SPDX-License-Identifier: Apache-2.0
 *
 * The report for a person: who ran, the totals in a handful of lines, the table of sites, and what
 * was not replaced, why, and what to do about it.
 */
#include "report_page.h"
#include "tool.h"

#include <math.h>
#include <string.h>

enum { MOST_FULL_HEADERS = 4 };

static void print_end(const struct page *page, const struct run_log *run)
{
	char duration[32];

	format_duration(duration, sizeof(duration), run->wall_us);
	if (!strcmp(run->end, "exit"))
		printf("ended after %s", duration);
	else if (!strcmp(run->end, "killed"))
		printf("%skilled%s after %s", ink(page, YELLOW), plain(page), duration);
	else if (!strcmp(run->end, "running"))
		printf("still running, %s so far", duration);
	else
		printf("%sno summary%s: cut short, and no LOG.live has its counters",
		       ink(page, YELLOW), plain(page));
	putchar('\n');
}

static void print_command(const json_t *header)
{
	const json_t *argv = json_object_get(header, "argv"), *word;
	size_t index;

	if (!json_array_size(argv)) {
		print_safe(stdout, text_of(header, "exe"));
		return;
	}
	json_array_foreach(argv, index, word)
	{
		const char *text = json_string_value(word);

		if (index)
			putchar(' ');
		if (text)
			print_safe(stdout, text);
	}
}

/* One line a log, where there are many. */
static void print_short_header(const struct page *page, int index)
{
	const struct run_log *run = page->report->set.runs[index];

	printf("%s%d: ", ink(page, BOLD), index + 1);
	print_safe(stdout, run->path);
	printf("%s  pid %.0f", plain(page), number_of(run->header, "pid", 0));
	if (json_is_number(json_object_get(run->header, "rank")))
		printf(", rank %.0f", number_of(run->header, "rank", 0));
	fputs(", host ", stdout);
	print_safe(stdout, text_of(run->header, "host"));
	fputs(", ", stdout);
	print_end(page, run);
}

static void print_header(const struct page *page, int index)
{
	const struct run_log *run = page->report->set.runs[index];
	const json_t *header = run->header;
	int driver = (int)fmin(number_of(header, "driver", 0), 1e8);
	int cublas = (int)fmin(number_of(header, "cublas", 0), 1e8);

	fputs(ink(page, BOLD), stdout);
	if (page->report->set.count > 1)
		printf("%d: ", index + 1);
	print_safe(stdout, run->path);
	printf("%s\n  ", plain(page));
	print_command(header);
	fputs("\n  ", stdout);
	print_safe(stdout, *text_of(header, "gpu") ? text_of(header, "gpu") : "no GPU named");
	if (number_of(header, "sm", 0) > 0)
		printf(" (sm_%.0f)", number_of(header, "sm", 0));
	if (driver > 0)
		printf(", driver %d.%d", driver / 1000, driver % 1000 / 10);
	if (cublas > 0)
		printf(", cuBLAS %d.%d.%d", cublas / 10000, cublas / 100 % 100, cublas % 100);
	fputs(", host ", stdout);
	print_safe(stdout, text_of(header, "host"));
	printf(", pid %.0f", number_of(header, "pid", 0));
	if (json_is_number(json_object_get(header, "rank")))
		printf(", rank %.0f", number_of(header, "rank", 0));
	fputs("\n  fashim ", stdout);
	print_safe(stdout, text_of(header, "fashim"));
	fputs(", mode ", stdout);
	print_safe(stdout, text_of(header, "mode"));
	fputs(", started ", stdout);
	print_safe(stdout, text_of(header, "start"));
	fputs(", ", stdout);
	print_end(page, run);
}

/* ", 3 replaced" for each part that is not zero. */
static void print_parts(const char *const *names, const uint64_t *values, int count)
{
	const char *separator = ": ";
	char number[32];

	for (int i = 0; i < count; i++) {
		if (!values[i])
			continue;
		printf("%s%s %s", separator, format_count(number, sizeof(number), values[i]),
		       names[i]);
		separator = ", ";
	}
	putchar('\n');
}

static void print_gain(const struct page *page, const struct report_total *total)
{
	char duration[32];

	label(page, "saved");
	if (total->replaced) {
		printf("%s%s%s of GPU time", ink(page, total->saved_us > 0 ? GREEN : RED),
		       format_duration(duration, sizeof(duration), total->saved_us), plain(page));
		if (!isnan(total->speedup))
			printf("; the replaced calls ran %.2f%s as fast", total->speedup,
			       page->times);
		putchar('\n');
	} else {
		puts("nothing: no call was replaced");
	}
	if (total->could_us > 0 && total->could_us > 0.05 * total->saved_us) {
		label(page, "could");
		printf("%s of GPU time%s\n",
		       format_duration(duration, sizeof(duration), total->could_us),
		       total->replaced
			       ? " more, if the other calls of the measured sites were replaced too"
			       : ", if the calls of the measured sites were replaced");
	}
}

static void print_drift(const struct page *page, const struct report_total *total)
{
	char site[32];

	if (total->worst_row >= 0) {
		site_text(page, site, sizeof(site), &page->report->rows[total->worst_row]);
		label(page, "drift");
		printf("at worst %.1e of the largest output (site %s), %.1e absolute\n",
		       total->max_rel, site, total->max_abs);
	}
	if (total->nonfinite) {
		label(page, "");
		printf("%s%llu elements were NaN or infinite on one side only%s\n", ink(page, RED),
		       (unsigned long long)total->nonfinite, plain(page));
	}
	if (total->with_reference) {
		label(page, "float64");
		printf("the fused kernel is as close or closer to double precision at %d of %d "
		       "sites\n",
		       total->fused_closer, total->with_reference);
	}
}

/* Counters of runs that left none are missing in every sum; say so. */
static void print_calls(const struct page *page, const struct report_total *total)
{
	static const char *const names[] = {"replaced", "compared", "left alone"};
	const uint64_t calls[] = {total->replaced, total->compared, total->passed};
	int without = 0;
	char number[32];

	for (int i = 0; i < page->report->set.count; i++)
		without += !page->report->set.runs[i]->counted;
	label(page, "calls");
	if (without == page->report->set.count) {
		puts("unknown, and with them what was saved");
		return;
	}
	fputs(format_count(number, sizeof(number), total->calls), stdout);
	print_parts(names, calls, 3);
	if (without) {
		label(page, "");
		printf("%swithout those of %d cut-short log%s%s\n", ink(page, YELLOW), without,
		       without == 1 ? "" : "s", plain(page));
	}
	print_gain(page, total);
}

static void print_shim(const struct page *page, const struct report_total *total)
{
	char number[32], duration[32];
	uint64_t scratch = 0;
	bool counted = false;

	for (int i = 0; i < page->report->set.count; i++) {
		const struct run_log *run = page->report->set.runs[i];

		counted |= run->counted;
		if (run->scratch_peak > scratch)
			scratch = run->scratch_peak;
	}
	if (!counted)
		return;
	label(page, "shim");
	printf("%s on the host", format_duration(duration, sizeof(duration), total->overhead_us));
	if (total->wall_us > 0)
		printf(" (%.2g%% of the run)", 100 * total->overhead_us / total->wall_us);
	printf(", %.4g MiB of device scratch at most\n", (double)scratch / 1048576);
	label(page, "watched");
	printf("%s GEMMs, ", format_count(number, sizeof(number), total->gemms));
	printf("%s launches\n", format_count(number, sizeof(number), total->launches));
}

static void print_summary(const struct page *page)
{
	static const char *const site_names[] = {"replaced", "verified", "learning", "declined"};
	const struct report_total *total = &page->report->total;
	const uint64_t sites[] = {total->replaced_sites, total->verified_sites,
				  total->learning_sites, total->declined_sites};
	char number[32];

	putchar('\n');
	if (total->simulated) {
		label(page, "note");
		printf("%ssimulated timings%s: a CPU stand-in ran this; they say nothing about "
		       "speed\n",
		       ink(page, YELLOW), plain(page));
	}
	label(page, "sites");
	fputs(format_count(number, sizeof(number), total->sites), stdout);
	print_parts(site_names, sites, 4);
	print_calls(page, total);
	print_drift(page, total);
	print_shim(page, total);
	for (int i = 0; i < page->report->set.count; i++) {
		const struct run_log *run = page->report->set.runs[i];

		if (!run->violations)
			continue;
		label(page, "error");
		printf("%s%llu of the shim's own, and it passed through%s; the first: ",
		       ink(page, RED), (unsigned long long)run->violations, plain(page));
		print_safe(stdout, run->violation);
		putchar('\n');
	}
}

static void print_reason_site(const struct page *page, const struct report_row *row)
{
	const struct site_log *site = row->site;
	const json_t *stack = json_object_get(site->record, "stack");
	const char *python =
		json_string_value(json_array_get(json_object_get(site->record, "python"), 0));
	char number[32], shape[160];

	site_text(page, number, sizeof(number), row);
	shape_text(shape, sizeof(shape), site);
	printf("              site %s %s ", number, shape);
	print_safe(stdout, text_of(site->record, "dtype"));
	if (python) {
		fputs("  ", stdout);
		print_safe(stdout, python);
	}
	if (site->detail[0]) {
		fputs("  (", stdout);
		print_safe(stdout, site->detail);
		putchar(')');
	}
	putchar('\n');
	for (size_t i = 0; i < json_array_size(stack) && i < 3; i++) {
		const char *frame = json_string_value(json_array_get(stack, i));

		printf("                %s", ink(page, DIM));
		print_safe(stdout, frame ? frame : "?");
		printf("%s\n", plain(page));
	}
}

static void print_reasons(const struct page *page)
{
	const struct report *report = page->report;
	char number[32];

	if (!report->reason_count)
		return;
	printf("\n%sNot replaced, and why%s\n", ink(page, BOLD), plain(page));
	for (int i = 0; i < report->reason_count; i++) {
		const struct report_reason *reason = &report->reasons[i];

		printf("  %10s  %s", format_count(number, sizeof(number), reason->count),
		       ink(page, BOLD));
		print_safe(stdout, reason->name);
		printf("%s: %s\n", plain(page),
		       *reason->sentence ? reason->sentence : "a reason of a later fashim");
		for (int d = 0; d < KEPT_DETAILS && !reason->row_count && *reason->details[d];
		     d++) {
			fputs("              ", stdout);
			print_safe(stdout, reason->details[d]);
			putchar('\n');
		}
		if (*reason->hint)
			printf("              %s %s\n", page->arrow, reason->hint);
		for (int r = 0; r < reason->row_count; r++)
			print_reason_site(page, &report->rows[reason->rows[r]]);
	}
}

void report_text(const struct report *report, bool details, bool color)
{
	bool utf8 = utf8_output();
	struct page page = {
		report,		  color, utf8 ? "±" : "+-", utf8 ? "×" : "x", utf8 ? "µs" : "us",
		utf8 ? "→" : "->"};

	for (int i = 0; i < report->set.count; i++)
		if (report->set.count > MOST_FULL_HEADERS)
			print_short_header(&page, i);
		else
			print_header(&page, i);
	print_summary(&page);
	if (report->row_count)
		print_table(&page);
	print_reasons(&page);
	for (int i = 0; details && i < report->row_count; i++)
		print_site(&page, &report->rows[i]);
}
