/* SPDX-License-Identifier: Apache-2.0
 *
 * Single quotes hold everything but themselves; what a terminal might obey is spelt out.
 */
#include "tools/base/quote.h"
#include "tools/base/safe_text.h"

#include <errno.h>
#include <string.h>

/* $'…' of bash, zsh and ksh, where a name has what must not reach a terminal as it is. */
static void print_escaped(FILE *stream, const char *word)
{
	fputs("$'", stream);
	while (*word) {
		bool harmless;
		const size_t length = safe_character(word, &harmless);

		if (harmless && strchr("'\\", *word))
			fputc('\\', stream);
		for (size_t i = 0; i < length; i++) {
			if (harmless)
				fputc(word[i], stream);
			else
				fprintf(stream, "\\%03o", (unsigned char)word[i]);
		}
		word += length;
	}
	fputc('\'', stream);
}

static bool is_harmless(const char *word)
{
	bool harmless = true;

	while (*word && harmless)
		word += safe_character(word, &harmless);
	return harmless;
}

void print_quoted(FILE *stream, const char *word)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "%+,-./:=@_{}";

	if (*word && strspn(word, safe) == strlen(word)) {
		fputs(word, stream);
		return;
	}
	if (!is_harmless(word)) {
		print_escaped(stream, word);
		return;
	}
	fputc('\'', stream);
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", stream);
		else
			fputc(*word, stream);
	}
	fputc('\'', stream);
}

char *quoted(const char *word)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return NULL;
	print_quoted(stream, word);
	fclose(stream);
	return text;
}

const char *quoted_tool(void)
{
	static char *place;

	if (!place && strchr(program_invocation_name, '/'))
		place = quoted(program_invocation_name);
	return place ? place : "fashim";
}
