/* SPDX-License-Identifier: Apache-2.0
 *
 * Single quotes hold everything but themselves.
 */
#include "quote.h"

#include <string.h>

void print_quoted(FILE *stream, const char *word)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "%+,-./:=@_{}";

	if (*word && strspn(word, safe) == strlen(word)) {
		fputs(word, stream);
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
