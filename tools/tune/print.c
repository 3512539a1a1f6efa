/* SPDX-License-Identifier: Apache-2.0
 *
 * People get medians with their spread and ratios with their interval in one cell each; programs
 * get every number by itself.
 */
#include "tools/tune/print.h"
#include "tools/base/escaped.h"
#include "tools/base/cell_table.h"
#include "tools/base/json_text.h"
#include "tools/base/records.h"
#include "tools/base/tool.h"

#include <math.h>

/* ---- cells ---------------------------------------------------------------------------------- */

static void put_form(FILE *out, const void *section, const void *row)
{
	const struct tune_result *result = row;
	char text[FORM_TEXT];

	print_safe(out, call_form_text(&result->form, text));
}

static void put_built_in(FILE *out, const void *section, const void *row)
{
	print_safe(out, ((const struct tune_result *)row)->built_in);
}

static void put_kernel(FILE *out, const void *section, const void *row)
{
	const struct tune_result *result = row;

	print_safe(out, *result->kernel ? result->kernel : "-");
}

static void put_time(FILE *out, double us, double spread)
{
	if (isnan(us))
		fputc('-', out);
	else
		fprintf(out, "%.2f", us);
	if (!isnan(us) && !isnan(spread))
		fprintf(out, " %s %.2f", utf8_output() ? "±" : "+-", spread);
}

static void put_built_in_time(FILE *out, const void *section, const void *row)
{
	const struct tune_result *result = row;

	put_time(out, result->built_in_us, result->built_in_spread_us);
}

static void put_kernel_time(FILE *out, const void *section, const void *row)
{
	const struct tune_result *result = row;

	put_time(out, result->us, result->spread_us);
}

static void put_ratio(FILE *out, const void *section, const void *row)
{
	const struct tune_result *result = row;

	if (isnan(result->ratio))
		fputc('-', out);
	else
		fprintf(out, "%.3f", result->ratio);
	if (!isnan(result->ratio) && !isnan(result->low))
		fprintf(out, " [%.3f, %.3f]", result->low, result->high);
}

static void put_verdict(FILE *out, const void *section, const void *row)
{
	const struct tune_result *result = row;

	if (result->choice)
		fprintf(out, "%.1f %% faster", 100 * (1 - result->ratio));
	else
		fputs("kept built-in", out);
}

static const struct cell_column columns[] = {
	{"CALL", 0, put_form},	      {"BUILT-IN CHOICE", 0, put_built_in},
	{"US", 0, put_built_in_time}, {"FASTEST OTHER", 0, put_kernel},
	{"US", 0, put_kernel_time},   {"OTHER / BUILT-IN", 0, put_ratio},
	{"VERDICT", 0, put_verdict},
};

/* ---- records -------------------------------------------------------------------------------- */

static json_t *result_json(const struct tune_result *result)
{
	char form[FORM_TEXT];

	return json_pack("{s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "form",
			 json_text(call_form_text(&result->form, form)), "chosen",
			 result->choice ? "tuned" : "built_in", "built_in",
			 json_text(result->built_in), "built_in_us",
			 json_number(result->built_in_us), "built_in_spread_us",
			 json_number(result->built_in_spread_us), "kernel",
			 json_text(result->kernel), "us", json_number(result->us), "spread_us",
			 json_number(result->spread_us), "ratio", json_number(result->ratio), "low",
			 json_number(result->low), "high", json_number(result->high));
}

static json_t *trial_json(const struct tune_trial *trial)
{
	static const char *const fates[] = {
		[SWEEP_UNTRIED] = "untried", [SWEEP_FAILED] = "failed", [SWEEP_WRONG] = "wrong",
		[SWEEP_SLOW] = "slow",	     [SWEEP_RANKED] = "ranked", [SWEEP_HALVED] = "halved",
		[SWEEP_DECIDED] = "decided"};
	json_t *candidates = json_array();

	for (int i = 0; i < trial->count; i++) {
		const struct sweep_candidate *candidate = &trial->candidates[i];

		json_array_append_new(candidates,
				      json_pack("{s:s,s:s,s:o,s:o,s:o}", "kernel", candidate->name,
						"fate", fates[candidate->fate], "max_error",
						json_number(candidate->error), "us",
						json_number(candidate->us), "spread_us",
						json_number(candidate->spread)));
	}
	return candidates;
}

static json_t *section_json(const struct tune_section *section)
{
	json_t *shapes = json_array();
	char build[20];

	for (int i = 0; i < section->count; i++) {
		json_t *shape = result_json(&section->results[i]);

		if (section->trials)
			json_object_set_new(shape, "candidates", trial_json(&section->trials[i]));
		json_array_append_new(shapes, shape);
	}
	snprintf(build, sizeof(build), "%016llx", (unsigned long long)section->machine.build);
	return json_pack("{s:o,s:i,s:s,s:o,s:o}", "gpu", json_text(section->machine.gpu), "driver",
			 section->machine.driver, "build", build, "cache", json_text(section->path),
			 "shapes", shapes);
}

static void print_json(const struct tune_section *sections, int count)
{
	json_t *array = json_array(), *root;

	for (int i = 0; i < count; i++)
		json_array_append_new(array, section_json(&sections[i]));
	root = json_pack("{s:s,s:i,s:o}", "format", "fashim-tune", "version", 1, "caches", array);
	json_document(root, 9);
}

static void print_heading(const struct tune_section *section, enum format format)
{
	const struct tuned_machine *machine = &section->machine;

	safe_printf(stdout, "%s, driver %d.%d, kernels %016llx, %s\n", machine->gpu,
		    machine->driver / 1000, machine->driver % 1000 / 10,
		    (unsigned long long)machine->build, section->path);
	fputs(format == FORMAT_MARKDOWN ? "\n" : "", stdout);
}

static void print_csv(const struct tune_section *sections, int count)
{
	json_t *results = json_array();

	for (int i = 0; i < count; i++)
		for (int n = 0; n < sections[i].count; n++)
			json_array_append_new(results, result_json(&sections[i].results[n]));
	csv_records(stdout, results, result_json(&(struct tune_result){0}));
}

static void print_section(const struct tune_section *section, bool markdown)
{
	struct cell_table cells =
		cell_table_new(columns, sizeof(columns) / sizeof(*columns), false);

	for (int i = 0; i < section->count; i++)
		cell_table_add(&cells, section, &section->results[i], 0, NULL);
	print_lines(cells.table, markdown);
}

void tune_print(const struct tune_section *sections, int count, enum format format)
{
	if (format == FORMAT_JSON)
		print_json(sections, count);
	else if (format == FORMAT_CSV)
		print_csv(sections, count);
	for (int i = 0; i < count && format != FORMAT_JSON && format != FORMAT_CSV; i++) {
		if (i)
			putchar('\n');
		print_heading(&sections[i], format);
		print_section(&sections[i], format == FORMAT_MARKDOWN);
	}
}

char *tune_verdict(const struct tune_result *result, char *text, size_t size)
{
	if (result->choice)
		snprintf(text, size, "%s takes %.2f us, %.1f %% less than %s", result->kernel,
			 result->us, 100 * (1 - result->ratio), result->built_in);
	else if (*result->kernel)
		snprintf(text, size, "kept %s, %.2f us; next is %s, %.2f us", result->built_in,
			 result->built_in_us, result->kernel, result->us);
	else
		snprintf(text, size, "kept %s, %.2f us; there is no other", result->built_in,
			 result->built_in_us);
	return text;
}
