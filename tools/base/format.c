/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command prints of its formats is also what it takes.
 */
#include "tools/base/format.h"

#include <string.h>

static const struct {
	const char *word;
	enum format format;
} formats[] = {{"table", FORMAT_TABLE}, {"json", FORMAT_JSON},	       {"csv", FORMAT_CSV},
	       {"tsv", FORMAT_TSV},	{"markdown", FORMAT_MARKDOWN}, {"md", FORMAT_MARKDOWN},
	       {"html", FORMAT_HTML},	{"junit", FORMAT_JUNIT}};

enum { WORDS = sizeof(formats) / sizeof(*formats) };

int format_named(const char *word, const char *others)
{
	int found = -1;

	for (int i = 0; i < WORDS; i++)
		if (!strcmp(formats[i].word, word))
			found = (int)formats[i].format;
	for (int i = 0; i < WORDS; i++)
		if (found == (int)formats[i].format &&
		    (found == FORMAT_TABLE || strstr(others, formats[i].word)))
			return found;
	return -1;
}

enum format format_argument(struct argp_state *state, const char *word, const char *others)
{
	const int format = format_named(word, others);

	if (format < 0)
		argp_error(state, "no format '%s'; table%s", word, others);
	return (enum format)format;
}
