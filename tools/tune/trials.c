/* SPDX-License-Identifier: Apache-2.0
 *
 * Form by form, kernel by kernel: what the table of variants says of each.
 */
#include "tools/tune/trials.h"
#include "tools/base/json_text.h"
#include "tools/tune/contest.h"
#include "tools/tune/layout.h"

#include <stdlib.h>

struct trial_row {
	const struct call_form *form;
	const struct attn_variant *variant;
	bool built_in;
};

static const char *trial_form(const void *row)
{
	static char text[FORM_TEXT];

	return call_form_text(((const struct trial_row *)row)->form, text);
}

static const char *trial_kernel(const void *row)
{
	return ((const struct trial_row *)row)->variant->name;
}

static const char *trial_role(const void *row)
{
	return ((const struct trial_row *)row)->built_in ? "built-in" : "candidate";
}

static double trial_rows(const void *row)
{
	return ((const struct trial_row *)row)->variant->rows_per_block;
}

static double trial_threads(const void *row)
{
	return ((const struct trial_row *)row)->variant->threads;
}

static double trial_shared(const void *row)
{
	return ((const struct trial_row *)row)->variant->shared_bytes;
}

static const struct grid_column trial_columns[] = {
	{"CALL", "form", trial_form, NULL, 0},
	{"KERNEL", "kernel", trial_kernel, NULL, 0},
	{"ROLE", "role", trial_role, NULL, 0},
	{"ROWS", "rows_per_block", NULL, trial_rows, 0},
	{"THREADS", "threads", NULL, trial_threads, 0},
	{"SHARED", "shared_bytes", NULL, trial_shared, 0},
};

/* Rows of all forms, malloc'ed; *count of them. */
static struct trial_row *trial_table(const struct tune_shapes *shapes, int arch, int *count)
{
	struct trial_row *rows = NULL;
	struct contest_kernels kernels;
	int variants[256];

	*count = 0;
	contest_kernels_of(&kernels, arch);
	for (int i = 0; i < shapes->count; i++) {
		const struct call_form *form = &shapes->forms[i];
		struct call_form same = *form;
		struct attn_args args;
		uint64_t bytes;
		int found;
		void *more;

		tune_layout(&args, &same, 256, &bytes);
		found = contest_candidates(&kernels, &args, variants,
					   (int)(sizeof(variants) / sizeof(*variants)));
		more = reallocarray(rows, (size_t)(*count + found) + 1, sizeof(*rows));
		if (!more)
			break;
		rows = more;
		for (int n = 0; n < found; n++)
			rows[(*count)++] =
				(struct trial_row){form, &attn_variants[variants[n]], n == 0};
	}
	return rows;
}

void tune_trials_print(const struct tune_shapes *shapes, int arch, enum format format)
{
	struct grid grid = {.columns = trial_columns,
			    .column_count = sizeof(trial_columns) / sizeof(*trial_columns),
			    .row_size = sizeof(struct trial_row)};
	struct trial_row *rows = trial_table(shapes, arch, &grid.row_count);
	json_t *root;

	grid.rows = rows;
	if (format == FORMAT_JSON) {
		root = json_pack("{s:s,s:i,s:i,s:o}", "format", "fashim-tune-candidates", "version",
				 1, "arch", arch, "candidates", grid_json(&grid));
		json_document(root, 0);
	} else {
		grid_print(&grid, format, 1);
	}
	free(rows);
}
