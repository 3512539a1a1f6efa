/* SPDX-License-Identifier: Apache-2.0
 *
 * People get medians with their spread and ratios with their interval in one cell each; programs
 * get every number by itself.
 */
#include "tools/tune/print.h"
#include "tools/base/json_text.h"
#include "tools/base/tool.h"

#include <math.h>

enum { CELL = 96 };

/* ---- cells ---------------------------------------------------------------------------------- */

static const char *form(const void *row)
{
	static char text[FORM_TEXT];
	const struct tune_result *result = row;

	return call_form_text(&result->form, text);
}

static const char *built_in(const void *row)
{
	return ((const struct tune_result *)row)->built_in;
}

static const char *kernel(const void *row)
{
	const struct tune_result *result = row;

	return *result->kernel ? result->kernel : "-";
}

static const char *kernel_name(const void *row)
{
	return ((const struct tune_result *)row)->kernel;
}

static const char *time_text(char *text, double us, double spread)
{
	if (isnan(us))
		snprintf(text, CELL, "-");
	else if (isnan(spread))
		snprintf(text, CELL, "%.2f", us);
	else
		snprintf(text, CELL, "%.2f %s %.2f", us, utf8_output() ? "±" : "+-", spread);
	return text;
}

static const char *built_in_time(const void *row)
{
	static char text[CELL];
	const struct tune_result *result = row;

	return time_text(text, result->built_in_us, result->built_in_spread_us);
}

static const char *kernel_time(const void *row)
{
	static char text[CELL];
	const struct tune_result *result = row;

	return time_text(text, result->us, result->spread_us);
}

static const char *ratio_text(const void *row)
{
	static char text[CELL];
	const struct tune_result *result = row;

	if (isnan(result->ratio))
		return "-";
	if (isnan(result->low))
		snprintf(text, sizeof(text), "%.3f", result->ratio);
	else
		snprintf(text, sizeof(text), "%.3f [%.3f, %.3f]", result->ratio, result->low,
			 result->high);
	return text;
}

static const char *verdict(const void *row)
{
	static char text[CELL];
	const struct tune_result *result = row;

	if (!result->choice)
		return "kept built-in";
	snprintf(text, sizeof(text), "%.1f %% faster", 100 * (1 - result->ratio));
	return text;
}

static const char *chosen(const void *row)
{
	return ((const struct tune_result *)row)->choice ? "tuned" : "built_in";
}

#define NUMBER(member)                                                                             \
	static double number_##member(const void *row)                                             \
	{                                                                                          \
		return ((const struct tune_result *)row)->member;                                  \
	}
NUMBER(us)
NUMBER(built_in_us)
NUMBER(spread_us)
NUMBER(built_in_spread_us)
NUMBER(ratio)
NUMBER(low)
NUMBER(high)
#undef NUMBER

static const struct grid_column for_people[] = {
	{"CALL", NULL, form, NULL, 0},	      {"BUILT-IN CHOICE", NULL, built_in, NULL, 0},
	{"US", NULL, built_in_time, NULL, 0}, {"FASTEST OTHER", NULL, kernel, NULL, 0},
	{"US", NULL, kernel_time, NULL, 0},   {"OTHER / BUILT-IN", NULL, ratio_text, NULL, 0},
	{"VERDICT", NULL, verdict, NULL, 0},
};

static const struct grid_column for_programs[] = {
	{NULL, "form", form, NULL, 0},
	{NULL, "chosen", chosen, NULL, 0},
	{NULL, "built_in", built_in, NULL, 0},
	{NULL, "built_in_us", NULL, number_built_in_us, 0},
	{NULL, "built_in_spread_us", NULL, number_built_in_spread_us, 0},
	{NULL, "kernel", kernel_name, NULL, 0},
	{NULL, "us", NULL, number_us, 0},
	{NULL, "spread_us", NULL, number_spread_us, 0},
	{NULL, "ratio", NULL, number_ratio, 0},
	{NULL, "low", NULL, number_low, 0},
	{NULL, "high", NULL, number_high, 0},
};

static struct grid grid_of(const struct tune_section *section, enum format format)
{
	const bool people = format == FORMAT_TABLE || format == FORMAT_MARKDOWN;

	return (struct grid){
		.columns = people ? for_people : for_programs,
		.column_count = people ? (int)(sizeof(for_people) / sizeof(*for_people))
				       : (int)(sizeof(for_programs) / sizeof(*for_programs)),
		.rows = section->results,
		.row_count = section->count,
		.row_size = sizeof(*section->results),
	};
}

/* ---- sections ------------------------------------------------------------------------------- */

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
	const struct grid grid = grid_of(section, FORMAT_JSON);
	json_t *shapes = grid_json(&grid);
	char build[20];

	for (int i = 0; section->trials && i < section->count; i++)
		json_object_set_new(json_array_get(shapes, (size_t)i), "candidates",
				    trial_json(&section->trials[i]));
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

	print_safe(stdout, machine->gpu);
	printf(", driver %d.%d, kernels %016llx, ", machine->driver / 1000,
	       machine->driver % 1000 / 10, (unsigned long long)machine->build);
	print_safe(stdout, section->path);
	fputs(format == FORMAT_MARKDOWN ? "\n\n" : "\n", stdout);
}

void tune_print(const struct tune_section *sections, int count, enum format format)
{
	if (format == FORMAT_JSON) {
		print_json(sections, count);
		return;
	}
	for (int i = 0; i < count; i++) {
		const struct grid grid = grid_of(&sections[i], format);

		if (format != FORMAT_CSV) {
			if (i)
				putchar('\n');
			print_heading(&sections[i], format);
		}
		grid_print(&grid, format, i == 0);
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
