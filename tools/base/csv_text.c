/* SPDX-License-Identifier: Apache-2.0
 *
 * Text is made safe first, so that no line break is left to be quoted.
 */
#include "tools/base/csv_text.h"
#include "tools/base/tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void csv_text(FILE *out, const char *text)
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

void csv_number(FILE *out, double number)
{
	if (!isnan(number))
		fprintf(out, "%.9g", number);
}
