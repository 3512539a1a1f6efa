/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson refuses what JSON cannot hold; these put something else in its place.
 */
#include "tools/base/json_text.h"
#include "tools/base/safe_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *json_text(const char *text)
{
	json_t *string = json_string(text);
	char *copy;

	if (string)
		return string;
	copy = strdup(text);
	for (char *c = copy; copy && *c; c++) {
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	}
	string = copy ? json_string(copy) : NULL;
	free(copy);
	return string;
}

json_t *json_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

/* Beyond ASCII there is nothing in JSON but strings, so what is not harmless can be escaped in the
 * text as a whole. */
static void print_escaped(FILE *out, const char *text)
{
	while (*text) {
		bool harmless;
		const size_t length = safe_character(text, &harmless);
		const unsigned char *c = (const unsigned char *)text;

		if (harmless || *c < 0x20)
			fwrite(text, 1, length, out);
		else
			fprintf(out, "\\u%04x",
				length == 3
					? (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu)
				: length == 2 ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)
					      : *c);
		text += length;
	}
}

int json_print(const json_t *root, FILE *out, size_t flags)
{
	char *text = json_dumps(root, flags);

	if (!text)
		return -ENOMEM;
	print_escaped(out, text);
	free(text);
	return 0;
}

void json_document(json_t *root, size_t digits)
{
	json_print(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(digits));
	putchar('\n');
	json_decref(root);
}
