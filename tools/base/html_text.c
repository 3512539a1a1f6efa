/* SPDX-License-Identifier: Apache-2.0
 *
 * Character by character, as safe_text.h tells them apart.
 */
#include "tools/base/html_text.h"
#include "tools/base/safe_text.h"

static const char *entity(unsigned char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

void html_text(FILE *out, const char *text)
{
	while (*text) {
		bool harmless;
		const size_t length = safe_character(text, &harmless);

		if (!harmless)
			fputs("\xef\xbf\xbd", out);
		else if (entity((unsigned char)*text))
			fputs(entity((unsigned char)*text), out);
		else
			fwrite(text, 1, length, out);
		text += length;
	}
}
