/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as Markdown, for an issue or a change request: who ran, the summary, the sites, and
 * what was not replaced.
 */
#include "tools/base/markdown_text.h"
#include "tools/base/escaped.h"
#include "tools/base/tool.h"
#include "tools/report/report_cells.h"
#include "tools/report/report_forms.h"
#include "tools/report/report_summary.h"
#include "tools/sites/report.h"
#include "tools/sites/report_names.h"

#include <math.h>
#include <stdlib.h>

static void write_site(FILE *out, const struct report *report, const struct report_row *row)
{
	static write_cell *const cells[] = {cell_shape, cell_dtype, cell_mask,	  cell_calls,
					    cell_app,	cell_fused, cell_speedup, cell_saved,
					    cell_abs,	cell_rel,   cell_closer,  cell_verdict};
	const struct cell_style style = {report, "-", "±", "×", "–"};
	char cell[CELL];

	fprintf(out, "| %s |", report_site_name(report, row, cell, CELL));
	for (size_t i = 0; i < sizeof(cells) / sizeof(*cells); i++) {
		fputc(' ', out);
		markdown_text(out, cell_text(&style, cells[i], row, cell));
		if (cells[i] == cell_speedup && !isnan(row->speedup.low))
			fprintf(out, " (%s)", cell_text(&style, cell_interval, row, cell));
		fputs(" |", out);
	}
	fputc('\n', out);
}

static void write_sites(FILE *out, const struct report *report)
{
	fputs("\n| site | B,H,Sq,Sk,D | dtype | mask | calls | app µs | fused µs | speed-up (95 %) "
	      "| saved | max abs | max rel | closer to float64 | verdict |\n"
	      "|--:|---|---|---|--:|--:|--:|--:|--:|--:|--:|---|---|\n",
	      out);
	for (int i = 0; i < report->row_count; i++)
		write_site(out, report, &report->rows[i]);
}

static void write_reasons(FILE *out, const struct report *report)
{
	char number[32];

	fputs("\n**Not replaced, and why**\n\n| count | reason | what it means | what you can do | "
	      "sites |\n|--:|---|---|---|---|\n",
	      out);
	for (int i = 0; i < report->reason_count; i++) {
		const struct report_reason *reason = &report->reasons[i];

		markdown_printf(out, "| %s | %s | %s | %s |",
				format_count(number, sizeof(number), reason->count), reason->name,
				report_sentence(reason), reason->hint);
		for (int r = 0; r < reason->row_count; r++)
			fprintf(out, " %s",
				report_site_name(report, &report->rows[reason->rows[r]], number,
						 sizeof(number)));
		fputs(" |\n", out);
	}
}

void report_markdown(const struct report *report, FILE *out)
{
	struct summary_line lines[SUMMARY_LINES];
	int count = report_summary(report, lines);
	char device[256];

	for (int i = 0; i < report->set.count; i++) {
		const struct run_log *run = report->set.runs[i];
		char *command = report_command(run);

		markdown_printf(out, "**%s** on %s, host %s, mode %s (%s)  \n",
				command ? command : "?", report_device(run, device, sizeof(device)),
				text_of(run->header, "host"), text_of(run->header, "mode"),
				run->path);
		free(command);
	}
	fputc('\n', out);
	for (int i = 0; i < count; i++)
		markdown_printf(out, "- %s: %s\n", lines[i].name, lines[i].text);
	if (report->row_count)
		write_sites(out, report);
	if (report->reason_count)
		write_reasons(out, report);
}
