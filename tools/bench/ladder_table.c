/* SPDX-License-Identifier: Apache-2.0
 *
 * The ladder for a person, a line a step, and as comma-separated values.
 */
#include "tools/bench/ladder.h"
#include "tools/base/cell_table.h"
#include "tools/base/json_text.h"
#include "tools/base/records.h"
#include "tools/base/tool.h"
#include "tools/bench/document.h"

#include <libsmartcols/libsmartcols.h>
#include <math.h>
#include <string.h>

/* ---- values --------------------------------------------------------------------------------- */

static const json_t *reference(const json_t *document, const char *name)
{
	const json_t *references = json_object_get(document, "references"), *one;
	size_t i;

	json_array_foreach(references, i, one)
	{
		if (!strcmp(text_of(one, "name"), name))
			return one;
	}
	return NULL;
}

static bool is_tile(const json_t *step)
{
	return json_object_get(step, "exact") != NULL;
}

/* Times those of a reference; NAN where either is missing. */
static double ratio_to(const json_t *document, const json_t *step, const char *name)
{
	if (is_tile(step))
		return NAN;
	return bench_median(step, NULL) / bench_median(reference(document, name), NULL);
}

static double teraflops(const json_t *document, const json_t *step)
{
	const json_t *work = is_tile(step) ? step : json_object_get(document, "shape");

	return bench_number(work, "flops") / bench_median(step, NULL) * 1e-6;
}

/* A step that was measured and is wrong; references are as they are. */
static bool is_wrong(const json_t *document, const json_t *step)
{
	if (is_tile(step))
		return !json_is_true(json_object_get(step, "exact"));
	return json_object_get(step, "number") && ladder_step_measured(step) &&
	       !ladder_step_correct(document, step);
}

static double error_of(const json_t *step)
{
	return bench_number(json_object_get(step, "error"), "max");
}

/* ---- cells ---------------------------------------------------------------------------------- */

static void put_number(FILE *out, double value, int digits)
{
	if (isfinite(value))
		fprintf(out, "%.*f", digits, value);
	else
		fputc('-', out);
}

static void cell_name(FILE *out, const void *document, const void *step)
{
	char label[96];

	print_safe(out, ladder_step_label(step, label, sizeof(label)));
}

static void cell_us(FILE *out, const void *document, const void *step)
{
	double half_range, us = bench_median(step, &half_range);

	put_number(out, us, us < 100 ? 2 : 0);
	if (isfinite(us))
		fprintf(out, " %s %.*f", utf8_output() ? "±" : "+-", us < 100 ? 2 : 0, half_range);
}

static void cell_teraflops(FILE *out, const void *document, const void *step)
{
	const double rate = teraflops(document, step);

	put_number(out, rate, rate < 10 ? 2 : 1);
}

static void put_ratio(FILE *out, const void *document, const void *step, const char *name)
{
	const double ratio = ratio_to(document, step, name);

	put_number(out, ratio, ratio < 10 ? 2 : 0);
}

static void cell_flash(FILE *out, const void *document, const void *step)
{
	put_ratio(out, document, step, "SDPA flash");
}

static void cell_math(FILE *out, const void *document, const void *step)
{
	put_ratio(out, document, step, "SDPA math");
}

static void cell_chain(FILE *out, const void *document, const void *step)
{
	put_ratio(out, document, step, "cuBLAS chain");
}

static void cell_error(FILE *out, const void *document, const void *step)
{
	if (is_tile(step) && !is_wrong(document, step))
		fputs("exact", out);
	else if (isfinite(error_of(step)))
		fprintf(out, "%.1e", error_of(step));
	else
		fputc('-', out);
	if (is_wrong(document, step))
		fputs(" WRONG", out);
}

static void cell_registers(FILE *out, const void *document, const void *step)
{
	put_number(out, bench_number(step, "registers"), 0);
	if (bench_number(step, "local_bytes") > 0)
		fprintf(out, " +%.0fB", bench_number(step, "local_bytes"));
}

static void cell_shared(FILE *out, const void *document, const void *step)
{
	put_number(out, bench_number(step, "shared_bytes") / 1024, 1);
}

static void cell_blocks(FILE *out, const void *document, const void *step)
{
	put_number(out, bench_number(step, "blocks"), 0);
}

static void cell_l4(FILE *out, const void *document, const void *step)
{
	const double us = bench_number(step, "l4_us");

	if (json_is_true(json_object_get(step, "l4_hoped")))
		fprintf(out, "(%.0f)", us);
	else
		put_number(out, us, us < 10 ? 1 : 0);
}

static void cell_adds(FILE *out, const void *document, const void *step)
{
	print_safe(out, text_of(step, "adds"));
}

static const struct cell_column columns[] = {
	{"STEP", 0, cell_name},
	{"us", SCOLS_FL_RIGHT, cell_us},
	{"TFLOP/s", SCOLS_FL_RIGHT, cell_teraflops},
	{"/flash", SCOLS_FL_RIGHT, cell_flash},
	{"/math", SCOLS_FL_RIGHT, cell_math},
	{"/chain", SCOLS_FL_RIGHT, cell_chain},
	{"ERROR", SCOLS_FL_RIGHT, cell_error},
	{"REGS", SCOLS_FL_RIGHT, cell_registers},
	{"SMEM KB", SCOLS_FL_RIGHT, cell_shared},
	{"BLOCKS", SCOLS_FL_RIGHT, cell_blocks},
	{"L4 us", SCOLS_FL_RIGHT, cell_l4},
	{"ADDS", 0, cell_adds},
};

static void add_lines(const struct cell_table *cells, const json_t *document, const char *key,
		      bool color)
{
	enum { ERROR_COLUMN = 6 };
	const json_t *list = json_object_get(document, key), *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		cell_table_add(cells, document, one, ERROR_COLUMN,
			       color && !is_tile(one) && is_wrong(document, one) ? "red" : NULL);
	}
}

void ladder_table(const json_t *document, bool color, bool markdown)
{
	struct cell_table cells =
		cell_table_new(columns, sizeof(columns) / sizeof(*columns), color);

	bench_print_head(stdout, document);
	add_lines(&cells, document, "tiles", color);
	add_lines(&cells, document, "references", color);
	add_lines(&cells, document, "steps", color);
	cell_table_print(&cells, markdown);
	printf("\nus: median of the rounds, and half of what they spread over.\n"
	       "/flash, /math, /chain: time as a multiple of that reference's.\n"
	       "ERROR: the largest of all cases against double precision; below %.0e is right, in "
	       "a step that calls a library below %.1e.\n"
	       "REGS: registers of a thread, and bytes of it that did not fit; BLOCKS: that fit "
	       "one "
	       "multiprocessor.\n"
	       "L4 us: on an NVIDIA L4 in 2025 (B1 H8 S512 D64); in brackets what was hoped for.\n",
	       bench_number(document, "tolerance"),
	       bench_number(document, "tolerance") * BENCH_CHAIN);
}

/* ---- comma-separated ------------------------------------------------------------------------ */

static void add_records(json_t *records, const json_t *document, const char *key, const char *kind)
{
	static const char *const members[] = {"registers", "local_bytes", "threads", "shared_bytes",
					      "blocks",	   "l4_us",	  "adds",    NULL};
	const json_t *list = json_object_get(document, key), *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		double half_range, us = bench_median(one, &half_range);
		json_t *record = json_pack(
			"{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "kind", kind, "name",
			json_text(text_of(one, "name")), "us", json_number(us), "half_range_us",
			json_number(half_range), "tflops", json_number(teraflops(document, one)),
			"to_flash", json_number(ratio_to(document, one, "SDPA flash")), "to_math",
			json_number(ratio_to(document, one, "SDPA math")), "to_chain",
			json_number(ratio_to(document, one, "cuBLAS chain")), "max_error",
			json_number(error_of(one)));

		copy_members(record, one, members);
		json_array_append_new(records, record);
	}
}

void ladder_csv(const json_t *document, FILE *out)
{
	json_t *records = json_array();

	add_records(records, document, "tiles", "tile");
	add_records(records, document, "references", "reference");
	add_records(records, document, "steps", "step");
	csv_records(out, records, NULL);
}
