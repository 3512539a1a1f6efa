/* SPDX-License-Identifier: Apache-2.0
 *
 * Markup characters get a backslash, what is not harmless (safe_text.h) becomes '?'.
 */
#include "tools/base/markdown_text.h"
#include "tools/base/safe_text.h"

#include <string.h>

void markdown_text(FILE *out, const char *text)
{
	while (*text) {
		bool harmless;
		const size_t length = safe_character(text, &harmless);

		if (harmless && strchr("\\`*_{}[]<>|#!&~", *text))
			fputc('\\', out);
		if (harmless)
			fwrite(text, 1, length, out);
		else
			fputc('?', out);
		text += length;
	}
}

void markdown_lines(FILE *out, char *text)
{
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		markdown_text(out, line + strspn(line, " "));
		fputs("  \n", out);
	}
}
