/* SPDX-License-Identifier: Apache-2.0
 *
 * The sites as comma-separated values (RFC 4180): one line of names, then one line a site with
 * every column of report_columns.def. What is unknown is empty.
 */
#include "tools/base/csv_text.h"
#include "tools/report/report_forms.h"
#include "tools/sites/report_columns.h"

static void write_value(FILE *out, const struct report_column *column, const struct report_row *row)
{
	if (column->text)
		csv_text(out, column->text(row));
	else
		csv_number(out, column->number(row));
}

void report_csv(const struct report *report, FILE *out)
{
	for (int c = 0; c < report_column_count; c++)
		fprintf(out, "%s%s", c ? "," : "", report_columns[c].key);
	fputs("\r\n", out);
	for (int i = 0; i < report->row_count; i++) {
		for (int c = 0; c < report_column_count; c++) {
			if (c)
				fputc(',', out);
			write_value(out, &report_columns[c], &report->rows[i]);
		}
		fputs("\r\n", out);
	}
}
