/* SPDX-License-Identifier: Apache-2.0
 *
 * Form by form, kernel by kernel: what the table of variants says of each.
 */
#include "tools/tune/trials.h"
#include "tools/base/json_text.h"
#include "tools/base/records.h"
#include "tools/tune/contest.h"
#include "tools/tune/layout.h"

#include <libsmartcols/libsmartcols.h>

static const struct record_column columns[] = {
	{"CALL", "form", 0},
	{"KERNEL", "kernel", 0},
	{"ROLE", "role", 0},
	{"ROWS", "rows_per_block", SCOLS_FL_RIGHT},
	{"THREADS", "threads", SCOLS_FL_RIGHT},
	{"SHARED", "shared_bytes", SCOLS_FL_RIGHT},
};

/* The kernels of one form. */
static void add_trials(json_t *trials, const struct contest_kernels *kernels,
		       const struct call_form *form)
{
	enum { MOST = 256 };
	struct call_form same = *form;
	struct attn_args args;
	int variants[MOST], found;
	char text[FORM_TEXT];
	uint64_t bytes;

	tune_layout(&args, &same, 256, &bytes);
	found = contest_candidates(kernels, &args, variants, MOST);
	for (int n = 0; n < found; n++) {
		const struct attn_variant *variant = &attn_variants[variants[n]];

		json_array_append_new(trials,
				      json_pack("{s:s,s:s,s:s,s:f,s:f,s:f}", "form",
						call_form_text(form, text), "kernel", variant->name,
						"role", n ? "candidate" : "built-in",
						"rows_per_block", (double)variant->rows_per_block,
						"threads", (double)variant->threads, "shared_bytes",
						(double)variant->shared_bytes));
	}
}

void tune_trials_print(const struct tune_shapes *shapes, int arch, enum format format)
{
	struct contest_kernels kernels;
	json_t *trials = json_array();

	contest_kernels_of(&kernels, arch);
	for (int i = 0; i < shapes->count; i++)
		add_trials(trials, &kernels, &shapes->forms[i]);
	if (format == FORMAT_JSON) {
		json_document(json_pack("{s:s,s:i,s:i,s:o}", "format", "fashim-tune-candidates",
					"version", 1, "arch", arch, "candidates", trials),
			      0);
	} else if (format == FORMAT_CSV) {
		csv_records(stdout, trials, NULL);
	} else {
		print_records(columns, sizeof(columns) / sizeof(*columns), trials,
			      format == FORMAT_MARKDOWN);
		json_decref(trials);
	}
}
