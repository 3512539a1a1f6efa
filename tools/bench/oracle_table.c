/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle's verdict for a person, a line a reference, and as comma-separated values.
 */
#include "tools/bench/oracle.h"
#include "tools/base/escaped.h"
#include "tools/base/cell_table.h"
#include "tools/base/json_text.h"
#include "tools/base/records.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/bench/document.h"

#include <libsmartcols/libsmartcols.h>
#include <math.h>

/* A comparison's reference: they stand in one order. */
static const json_t *reference_of(const json_t *document, const json_t *comparison)
{
	const json_t *comparisons = json_object_get(document, "comparisons"), *one;
	size_t i;

	json_array_foreach(comparisons, i, one)
	{
		if (one == comparison)
			return json_array_get(json_object_get(document, "references"), i);
	}
	return NULL;
}

static void put_time(FILE *out, const json_t *record)
{
	double half_range, us = bench_median(record, &half_range);

	if (isfinite(us))
		fprintf(out, "%.2f %s %.2f", us, utf8_output() ? "±" : "+-", half_range);
	else
		fputc('-', out);
}

static void cell_verdict(FILE *out, const void *document, const void *comparison)
{
	fputs(json_is_true(json_object_get(comparison, "passed")) ? "pass" : "FAIL", out);
}

static void cell_reference(FILE *out, const void *document, const void *comparison)
{
	print_safe(out, text_of(comparison, "reference"));
}

static void cell_theirs(FILE *out, const void *document, const void *comparison)
{
	put_time(out, reference_of(document, comparison));
}

static void cell_ours(FILE *out, const void *document, const void *comparison)
{
	put_time(out, json_object_get(document, "candidate"));
}

static void cell_ratio(FILE *out, const void *document, const void *comparison)
{
	const double low = bench_number(comparison, "low");

	fprintf(out, "%.3f", bench_number(comparison, "ratio"));
	if (isfinite(low))
		fprintf(out, " [%.3f, %.3f]", low, bench_number(comparison, "high"));
}

static void cell_limit(FILE *out, const void *document, const void *comparison)
{
	fprintf(out, "%g", bench_number(document, "max_ratio"));
}

static void cell_error(FILE *out, const void *document, const void *comparison)
{
	const json_t *error = json_object_get(reference_of(document, comparison), "error");
	const double max = bench_number(error, "max");

	if (isfinite(max))
		fprintf(out, "%.1e", max);
	else
		fputc('-', out);
}

static void cell_kernels(FILE *out, const void *document, const void *comparison)
{
	enum { WIDEST = 48 };
	const json_t *kernels = json_object_get(reference_of(document, comparison), "kernels");
	const char *first = json_string_value(json_array_get(kernels, 0));
	char name[WIDEST + 1];

	if (!first) {
		fputc('-', out);
		return;
	}
	snprintf(name, sizeof(name), "%s", first);
	print_safe(out, name);
	if (json_array_size(kernels) > 1)
		fprintf(out, " and %zu more", json_array_size(kernels) - 1);
}

static const struct cell_column columns[] = {
	{"VERDICT", 0, cell_verdict},	       {"REFERENCE", 0, cell_reference},
	{"us", SCOLS_FL_RIGHT, cell_theirs},   {"CANDIDATE us", SCOLS_FL_RIGHT, cell_ours},
	{"RATIO [95 %]", 0, cell_ratio},       {"LIMIT", SCOLS_FL_RIGHT, cell_limit},
	{"ERROR", SCOLS_FL_RIGHT, cell_error}, {"KERNELS", 0, cell_kernels},
};

static void print_candidate(const json_t *document)
{
	const json_t *candidate = json_object_get(document, "candidate");
	const json_t *error = json_object_get(candidate, "error");

	safe_printf(stdout, "candidate %s: largest error %.1e in %.0f random cases, %.0e allowed",
		    text_of(candidate, "name"), bench_number(error, "max"),
		    bench_number(error, "cases"), bench_number(document, "tolerance"));
	if (bench_number(error, "nonfinite") > 0)
		printf("; %.0f elements are not finite", bench_number(error, "nonfinite"));
	putchar('\n');
}

static void print_verdict(const json_t *document, bool color)
{
	const char *refused = text_of(document, "refused");
	const bool passed = json_is_true(json_object_get(document, "passed"));
	const bool correct = json_is_true(json_object_get(document, "correct"));

	printf("\n%sgate %s%s: ", color ? passed ? GREEN : RED : "",
	       *refused ? "REFUSED"
	       : passed ? "passed"
			: "FAILED",
	       color ? PLAIN : "");
	if (*refused)
		print_safe(stdout, refused);
	else if (passed)
		printf("correct, and surely below %g of each reference's time",
		       bench_number(document, "max_ratio"));
	else if (!correct)
		fputs("the candidate is not correct, and its speed does not count", stdout);
	else
		printf("not surely below %g of each reference's time",
		       bench_number(document, "max_ratio"));
	putchar('\n');
}

void oracle_table(const json_t *document, bool color, bool markdown)
{
	const json_t *comparisons = json_object_get(document, "comparisons"), *one;
	struct cell_table cells =
		cell_table_new(columns, sizeof(columns) / sizeof(*columns), color);
	size_t i;

	bench_print_head(stdout, document);
	print_candidate(document);
	json_array_foreach(comparisons, i, one)
	{
		const bool passed = json_is_true(json_object_get(one, "passed"));

		cell_table_add(&cells, document, one, 0, color ? passed ? "green" : "red" : NULL);
	}
	cell_table_print(&cells, markdown);
	print_verdict(document, color);
}

void oracle_csv(const json_t *document, FILE *out)
{
	const json_t *comparisons = json_object_get(document, "comparisons"), *one;
	const double ours = bench_median(json_object_get(document, "candidate"), NULL);
	json_t *records = json_array();
	size_t i;

	json_array_foreach(comparisons, i, one)
	{
		json_array_append_new(
			records,
			json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:i}", "reference",
				  json_text(text_of(one, "reference")), "reference_us",
				  json_number(bench_median(reference_of(document, one), NULL)),
				  "candidate_us", json_number(ours), "ratio",
				  json_number(bench_number(one, "ratio")), "low",
				  json_number(bench_number(one, "low")), "high",
				  json_number(bench_number(one, "high")), "passed",
				  json_is_true(json_object_get(one, "passed"))));
	}
	csv_records(out, records, NULL);
}
