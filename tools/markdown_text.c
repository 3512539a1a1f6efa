/* SPDX-License-Identifier: Apache-2.0
 *
 * Markup characters get a backslash, control bytes become '?'.
 */
#include "markdown_text.h"

#include <string.h>

void markdown_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == 0x7f)
			fputc('?', out);
		else if (strchr("\\`*_{}[]<>|#!&~", c))
			fprintf(out, "\\%c", c);
		else
			fputc(c, out);
	}
}
