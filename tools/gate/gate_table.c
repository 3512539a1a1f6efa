/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim gate for a person: a line a check, then the verdict.
 */
#include "tools/base/cell_table.h"
#include "tools/base/escaped.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/gate/gate.h"
#include "tools/sites/report_identity.h"
#include "tools/sites/report_names.h"

#include <libsmartcols/libsmartcols.h>
#include <math.h>

static void cell_verdict(FILE *out, const void *gate, const void *row)
{
	static const char *const words[] = {"pass", "skip", "FAIL"};
	const struct gate_check *check = row;

	fputs(words[check->verdict], out);
}

static void cell_name(FILE *out, const void *gate, const void *row)
{
	const struct gate_check *check = row;

	fputs(check->name, out);
}

static void cell_site(FILE *out, const void *gate, const void *row)
{
	const struct gate_check *check = row;
	char site[32];

	if (gate_site(gate, check, site, sizeof(site)))
		fputs(site, out);
	else
		fputs(check->row ? "-" : "all", out);
}

static void cell_shape(FILE *out, const void *gate, const void *row)
{
	const struct gate_check *check = row;
	char shape[160];

	if (!check->row)
		return;
	safe_printf(out, "%s %s", report_shape(check->row, shape, sizeof(shape)),
		    text_of(check->row->site->record, "dtype"));
}

static void cell_measured(FILE *out, const void *gate, const void *row)
{
	const struct bootstrap_interval *measured = &((const struct gate_check *)row)->measured;

	if (isnan(measured->ratio))
		fputc('-', out);
	else if (isnan(measured->low))
		fprintf(out, "%.3g", measured->ratio);
	else
		fprintf(out, "%.3f [%.3f, %.3f]", measured->ratio, measured->low, measured->high);
}

static void cell_limit(FILE *out, const void *gate, const void *row)
{
	const struct gate_check *check = row;

	if (!isnan(check->limit))
		fprintf(out, "%.6g", check->limit);
}

static void cell_why(FILE *out, const void *gate, const void *row)
{
	print_safe(out, ((const struct gate_check *)row)->why);
}

static const struct cell_column columns[] = {
	{"VERDICT", 0, cell_verdict},
	{"CHECK", 0, cell_name},
	{"SITE", SCOLS_FL_RIGHT, cell_site},
	{"B,H,Sq,Sk,D", 0, cell_shape},
	{"MEASURED [95 %]", 0, cell_measured},
	{"LIMIT", SCOLS_FL_RIGHT, cell_limit},
	{"WHY", 0, cell_why},
};

static void print_verdict(const struct gate *gate, bool color)
{
	bool passed = gate_passed(gate);
	const char *const ink = passed ? GREEN : RED;

	printf("\n%sgate %s%s: ", color ? ink : "", passed ? "passed" : "FAILED",
	       color ? PLAIN : "");
	if (passed)
		printf("%d check%s kept", gate->tally[GATE_PASS],
		       gate->tally[GATE_PASS] == 1 ? "" : "s");
	else
		printf("%d of %d checks broken", gate->tally[GATE_FAIL],
		       gate->tally[GATE_FAIL] + gate->tally[GATE_PASS]);
	if (gate->tally[GATE_SKIP])
		printf(", %d skipped", gate->tally[GATE_SKIP]);
	putchar('\n');
}

/* A gate and whether it is printed in colour. */
struct above {
	const struct gate *gate;
	bool color;
};

static void above_table(const void *context)
{
	const struct above *above = context;

	print_identity("", above->gate->report, above->color);
	if (above->gate->baseline)
		print_identity("baseline ", above->gate->baseline, above->color);
}

static void print_gate(const struct gate *gate, bool color, bool markdown)
{
	static const char *const inks[] = {"green", "yellow", "red"};
	struct cell_table cells =
		cell_table_new(columns, sizeof(columns) / sizeof(*columns), color);

	const struct above above = {gate, color};

	print_above(above_table, &above, markdown);
	for (int i = 0; i < gate->count; i++) {
		const struct gate_check *check = &gate->checks[i];

		cell_table_add(&cells, gate, check, 0, color ? inks[check->verdict] : NULL);
	}
	cell_table_print(&cells, markdown);
	print_verdict(gate, color);
}

void gate_table(const struct gate *gate, bool color)
{
	print_gate(gate, color, false);
}

void gate_markdown(const struct gate *gate)
{
	print_gate(gate, false, true);
}
