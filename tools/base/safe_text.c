/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 is decoded by its definition: no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#include "tools/base/safe_text.h"

#include <stdint.h>
#include <string.h>

static const struct {
	uint32_t first, last;
} orders[] = {
	{0x00, 0x1f},	  {0x7f, 0x9f},	    /* control characters */
	{0x061c, 0x061c}, {0x200e, 0x200f}, /* marks of a direction */
	{0x2028, 0x2029},		    /* line and paragraph ends */
	{0x202a, 0x202e}, {0x2066, 0x2069}, /* embeddings, overrides, isolates */
	{0xfeff, 0xfeff},		    /* byte order mark */
};

/* Bytes that a character with this first byte has, and the bits of its number in it. 0: none
 * begins so. */
static size_t length_of(unsigned char first, uint32_t *code)
{
	const size_t length = first < 0x80   ? 1
			      : first < 0xc2 ? 0
			      : first < 0xe0 ? 2
			      : first < 0xf0 ? 3
			      : first < 0xf5 ? 4
					     : 0;

	*code = length < 2 ? first : first & (0x7fu >> length);
	return length;
}

size_t safe_character(const char *text, bool *harmless)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t code;
	const size_t length = length_of((unsigned char)*text, &code);

	*harmless = false;
	for (size_t i = 1; i < length; i++) {
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return 1;
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	}
	if (!length || code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 1;
	*harmless = true;
	for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++)
		if (code >= orders[i].first && code <= orders[i].last)
			*harmless = false;
	return length;
}

char *safe_text(char *text)
{
	char *to = text;

	for (const char *from = text; *from;) {
		bool harmless;
		const size_t length = safe_character(from, &harmless);

		if (harmless)
			memmove(to, from, length);
		else
			*to = '?';
		to += harmless ? length : 1;
		from += length;
	}
	*to = '\0';
	return text;
}
