/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim diff for a person: what the two logs are, in which respects they are not alike, the sums,
 * and a line a site. Ratios are B / A.
 */
#include "tools/base/cell_table.h"
#include "tools/base/escaped.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/diff/diff.h"
#include "tools/sites/report_identity.h"
#include "tools/sites/report_names.h"

#include <libsmartcols/libsmartcols.h>
#include <math.h>
#include <string.h>

enum { LONGEST_HEADER = 72 }; /* both values together; longer ones are named alone */

static const char *arrow(void)
{
	return utf8_output() ? "→" : "->";
}

/* "0.83 [0.81, 0.85]", "0.83 [?]" without an interval, "-" without a value. */
static void put_interval(FILE *out, const struct bootstrap_interval *interval)
{
	if (isnan(interval->ratio))
		fputc('-', out);
	else if (isnan(interval->low))
		fprintf(out, "%.3f [?]", interval->ratio);
	else
		fprintf(out, "%.3f [%.3f, %.3f]", interval->ratio, interval->low, interval->high);
}

/* ---- the table ----------------------------------------------------------------------------------
 */

/* What a site is by itself is told by either side. */
static const struct report_row *either(const struct diff_site *site)
{
	return site->pair.a ? site->pair.a : site->pair.b;
}

static void cell_site(FILE *out, const void *whole, const void *row)
{
	const struct diff_site *site = row;
	const struct site_pair *pair = &site->pair;
	const struct diff *diff = whole;
	char a[32] = "-", b[32] = "-", sign = pair->how == SITE_LIKE_SHAPE ? '~' : '=';

	if (pair->a)
		report_site_name(diff->a, pair->a, a, sizeof(a));
	if (pair->b)
		report_site_name(diff->b, pair->b, b, sizeof(b));
	fprintf(out, "%s %c %s", a, pair->a && pair->b ? sign : '|', b);
}

static void cell_shape(FILE *out, const void *diff, const void *row)
{
	char shape[160];

	fputs(report_shape(either(row), shape, sizeof(shape)), out);
}

static void cell_dtype(FILE *out, const void *diff, const void *row)
{
	print_safe(out, text_of(either(row)->site->record, "dtype"));
}

static void cell_mask(FILE *out, const void *diff, const void *row)
{
	print_safe(out, text_of(either(row)->site->record, "mask"));
}

static double app_of(const struct report_row *row)
{
	return row->app.count ? row->app.mean : NAN;
}

static double fused_of(const struct report_row *row)
{
	return row->fused.count ? row->fused.mean : NAN;
}

static double drift_of(const struct report_row *row)
{
	return row->site->max_rel;
}

/* "A → B", with "-" for a side that is missing or does not know; small values as powers of ten. */
static void put_sides(FILE *out, const struct diff_site *site,
		      double (*value_of)(const struct report_row *row), bool small)
{
	const struct report_row *sides[] = {site->pair.a, site->pair.b};

	for (int i = 0; i < 2; i++) {
		double value = sides[i] ? value_of(sides[i]) : NAN;

		if (i)
			fprintf(out, " %s ", arrow());
		if (isnan(value))
			fputc('-', out);
		else if (small)
			fprintf(out, "%.1e", value);
		else
			fprintf(out, "%.1f", value);
	}
}

static void cell_app(FILE *out, const void *diff, const void *row)
{
	put_sides(out, row, app_of, false);
}

static void cell_app_ratio(FILE *out, const void *diff, const void *row)
{
	put_interval(out, &((const struct diff_site *)row)->app);
}

static void cell_fused(FILE *out, const void *diff, const void *row)
{
	put_sides(out, row, fused_of, false);
}

static void cell_fused_ratio(FILE *out, const void *diff, const void *row)
{
	put_interval(out, &((const struct diff_site *)row)->fused);
}

static void cell_drift(FILE *out, const void *diff, const void *row)
{
	put_sides(out, row, drift_of, true);
}

static void put_word(FILE *out, const char **separator, const char *word)
{
	fprintf(out, "%s%s", *separator, word);
	*separator = ", ";
}

static void cell_change(FILE *out, const void *diff, const void *row)
{
	static const char *const words[][2] = {
		{"fused faster", "fused slower"},
		{"app faster", "app slower"},
		{"drift smaller", "drift larger"},
	};
	const struct diff_site *site = row;
	const struct bootstrap_interval *intervals[] = {&site->fused, &site->app, &site->drift};
	const char *separator = "";
	char a[96], b[96];
	int known = 0;

	if (!site->pair.a || !site->pair.b) {
		safe_printf(out, "only in %s, %s", site->pair.a ? "A" : "B",
			    report_judgement(either(site), a, sizeof(a)));
		return;
	}
	if (strcmp(report_verdict(site->pair.a), report_verdict(site->pair.b))) {
		safe_printf(out, "%s %s %s", report_judgement(site->pair.a, a, sizeof(a)), arrow(),
			    report_judgement(site->pair.b, b, sizeof(b)));
		separator = ", ";
	}
	for (size_t i = 0; i < sizeof(intervals) / sizeof(*intervals); i++) {
		enum diff_change change = diff_change(intervals[i]);

		known += change != DIFF_UNKNOWN;
		if (change == DIFF_LESS || change == DIFF_MORE)
			put_word(out, &separator, words[i][change - DIFF_LESS]);
	}
	if (!known)
		put_word(out, &separator, "too few samples to tell");
	else if (!*separator)
		fputs("the same", out);
}

static const struct cell_column columns[] = {
	{"A = B", 0, cell_site},
	{"B,H,Sq,Sk,D", 0, cell_shape},
	{"DTYPE", 0, cell_dtype},
	{"MASK", SCOLS_FL_TRUNC, cell_mask},
	{"APP us", SCOLS_FL_RIGHT, cell_app},
	{"B / A", 0, cell_app_ratio},
	{"FUSED us", SCOLS_FL_RIGHT, cell_fused},
	{"B / A", 0, cell_fused_ratio},
	{"MAX REL", SCOLS_FL_RIGHT, cell_drift},
	{"CHANGE", 0, cell_change},
};

enum { COLUMN_COUNT = sizeof(columns) / sizeof(*columns) };

/* Worse is red, better is green; a side that is missing is neither. */
static const char *change_color(const struct diff_site *site)
{
	enum diff_change fused = diff_change(&site->fused), drift = diff_change(&site->drift);
	bool was, is;

	if (!site->pair.a || !site->pair.b)
		return "yellow";
	was = !strcmp(report_verdict(site->pair.a), "replaced");
	is = !strcmp(report_verdict(site->pair.b), "replaced");
	if ((was && !is) || fused == DIFF_MORE || drift == DIFF_MORE)
		return "red";
	if ((!was && is) || fused == DIFF_LESS || drift == DIFF_LESS)
		return "green";
	return NULL;
}

static void print_sites(const struct diff *diff, const struct diff_style *style)
{
	struct cell_table cells = cell_table_new(columns, COLUMN_COUNT, style->color);
	int left_out = 0;

	for (int i = 0; i < diff->site_count; i++) {
		const struct diff_site *site = &diff->sites[i];

		if (style->changed_only && !diff_changed(site))
			left_out++;
		else
			cell_table_add(&cells, diff, site, COLUMN_COUNT - 1,
				       style->color ? change_color(site) : NULL);
	}
	cell_table_print(&cells, style->markdown);
	if (style->markdown)
		putchar('\n');
	if (left_out < diff->site_count)
		printf("%s  us: mean of the samples. B / A: of the medians, with its 95 %% "
		       "interval "
		       "([?]: fewer than %d samples); a change counts\n  where that leaves out 1. "
		       "A ~ B: alike in what they compute, called from another place.%s\n",
		       style->color ? DIM : "", BOOTSTRAP_FEWEST, style->color ? PLAIN : "");
	if (left_out)
		printf("  %d unchanged site%s not shown\n", left_out, left_out == 1 ? "" : "s");
}

/* ---- above the table ----------------------------------------------------------------------------
 */

static void print_headers(const struct diff *diff)
{
	for (int i = 0; i < diff->header_count; i++) {
		const struct diff_header *header = &diff->headers[i];

		printf("  %-9s ", i ? "" : "differ");
		print_safe(stdout, header->name);
		if (strlen(header->a) + strlen(header->b) > LONGEST_HEADER)
			putchar('\n');
		else
			safe_printf(stdout, ": %s %s %s\n", header->a, arrow(), header->b);
	}
	if (diff->simulated)
		printf("  %-9s a CPU stand-in ran one of them: its times say nothing about speed\n",
		       "note");
	else if (diff->other_machine)
		printf("  %-9s the GPUs are of two kinds: times differ for that reason alone\n",
		       "note");
}

static void print_total(const char *name, const struct bootstrap_interval *interval, int sites)
{
	static const char *const words[] = {"", "the same", "faster", "slower"};
	enum diff_change change = diff_change(interval);

	if (change == DIFF_UNKNOWN)
		return;
	printf("  %-9s ", name);
	put_interval(stdout, interval);
	printf(" of the time: %s (%d site%s, weighed by A's calls)\n", words[change], sites,
	       sites == 1 ? "" : "s");
}

static void print_replaced(const struct diff *diff)
{
	const struct report_total *totals[] = {&diff->a->total, &diff->b->total};
	char count[32];

	printf("  %-9s ", "replaced");
	for (int i = 0; i < 2; i++) {
		if (!totals[i]->counted) {
			printf("%sunknown", i ? ", B " : "A ");
			continue;
		}
		printf("%s%s", i ? ", B " : "A ",
		       format_count(count, sizeof(count), totals[i]->replaced));
		printf(" of %s calls", format_count(count, sizeof(count), totals[i]->calls));
	}
	putchar('\n');
}

static void print_summary(const struct diff *diff)
{
	printf("  %-9s %d in both", "sites", diff->common);
	if (diff->by_shape)
		printf(" (%d of them alike, but called from another place)", diff->by_shape);
	printf(", %d only in A, %d only in B\n", diff->only_a, diff->only_b);
	print_replaced(diff);
	print_total("app", &diff->app, diff->timed);
	print_total("fused", &diff->fused, diff->timed);
}

/* A diff and whether it is printed in colour. */
struct above {
	const struct diff *diff;
	bool color;
};

static void above_table(const void *context)
{
	const struct above *above = context;
	const struct diff *diff = above->diff;

	print_identity("A: ", diff->a, above->color);
	print_identity("B: ", diff->b, above->color);
	putchar('\n');
	print_headers(diff);
	print_summary(diff);
}

void diff_table(const struct diff *diff, const struct diff_style *style)
{
	const struct above above = {diff, style->color};

	print_above(above_table, &above, style->markdown);
	if (diff->site_count)
		print_sites(diff, style);
}
