/* SPDX-License-Identifier: Apache-2.0
 *
 * The sites as comma-separated values (RFC 4180): one line of names, then one line a site with
 * every column of report_columns.def. What is unknown is empty.
 */
#include "tools/sites/report_columns.h"
#include "tools/base/tool.h"
#include "tools/report/report_forms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What would move a terminal's cursor is shown as '?', as in every other form. */
static void write_text(FILE *out, const char *text)
{
	char *safe = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&safe, &size);
	bool quoted;

	if (!stream)
		return;
	print_safe(stream, text);
	fclose(stream);
	quoted = safe[strcspn(safe, "\",")] != '\0';
	if (quoted)
		fputc('"', out);
	for (const char *at = safe; *at; at++)
		fputs(*at == '"' ? "\"\"" : (char[]){*at, '\0'}, out);
	if (quoted)
		fputc('"', out);
	free(safe);
}

static void write_value(FILE *out, const struct report_column *column, const struct report_row *row)
{
	double number;

	if (column->text) {
		write_text(out, column->text(row));
		return;
	}
	number = column->number(row);
	if (!isnan(number))
		fprintf(out, "%.9g", number);
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
