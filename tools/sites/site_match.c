/* SPDX-License-Identifier: Apache-2.0
 *
 * Three passes over the rows that are still alone, from the strictest likeness to the loosest, so
 * that a site is never taken from the one that fits it best.
 */
#include "tools/sites/site_match.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The next piece of a frame that stays the same when a file moves or grows: words, without the
 * folders before a file's name, line numbers (":12"), offsets ("+0x1234") and the versions of
 * libraries (".so.12"). Ends at the frame's end, where it is empty. */
static const char *next_word(const char *at, size_t *length)
{
	while (*at) {
		size_t size = strcspn(at, " :+/");

		if (at[size] == '/') {
			at += size + 1;
			continue;
		}
		if (size && !isdigit((unsigned char)*at) && strncmp(at, ".so", 3)) {
			const char *version = memmem(at, size, ".so", 3);

			*length = version ? (size_t)(version - at) : size;
			return at;
		}
		at += size + (at[size] != '\0');
	}
	*length = 0;
	return at;
}

static bool same_place(const char *a, const char *b)
{
	size_t length_a, length_b;

	for (;;) {
		a = next_word(a, &length_a);
		b = next_word(b, &length_b);
		if (length_a != length_b || memcmp(a, b, length_a))
			return false;
		if (!length_a)
			return true;
		a += length_a;
		b += length_b;
	}
}

static bool same_frames(const json_t *a, const json_t *b)
{
	size_t count = json_array_size(a);

	if (count != json_array_size(b))
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *x = json_string_value(json_array_get(a, i));
		const char *y = json_string_value(json_array_get(b, i));

		if (!x || !y || !same_place(x, y))
			return false;
	}
	return true;
}

enum site_likeness site_likeness(const struct site_log *a, const struct site_log *b)
{
	static const char *const what[] = {"B",	    "H",    "Sq",    "Sk",	"D", "Dv",
					   "dtype", "mask", "scale", "softcap", NULL};
	static const char *const where[] = {"python", "stack", NULL};
	const json_t *python_a = json_object_get(a->record, "python");
	const json_t *python_b = json_object_get(b->record, "python");

	if (!a->record || !b->record || !same_members(a->record, b->record, what))
		return SITE_DIFFERENT;
	if (same_members(a->record, b->record, where))
		return SITE_LIKE_ALL;
	/* Where Python tells the place, the libraries below it may have been split anew. */
	if (json_array_size(python_a) || json_array_size(python_b))
		return same_frames(python_a, python_b) ? SITE_LIKE_CALLERS : SITE_LIKE_SHAPE;
	return same_frames(json_object_get(a->record, "stack"), json_object_get(b->record, "stack"))
		       ? SITE_LIKE_CALLERS
		       : SITE_LIKE_SHAPE;
}

int site_match(const struct report *a, const struct report *b, struct site_pair **pairs, int *count)
{
	size_t most = (size_t)a->row_count + (size_t)b->row_count;
	bool *taken = calloc((size_t)b->row_count + 1, sizeof(*taken));
	struct site_pair *found = calloc(most + 1, sizeof(*found));

	*pairs = found;
	*count = 0;
	if (!taken || !found) {
		free(taken);
		return -ENOMEM;
	}
	for (; *count < a->row_count; ++*count)
		found[*count].a = &a->rows[*count];
	for (int how = SITE_LIKE_ALL; how > SITE_DIFFERENT; how--) {
		for (int i = 0; i < a->row_count; i++) {
			for (int j = 0; j < b->row_count && !found[i].b; j++) {
				if (taken[j] ||
				    (int)site_likeness(a->rows[i].site, b->rows[j].site) < how)
					continue;
				taken[j] = true;
				found[i].b = &b->rows[j];
				found[i].how = how;
			}
		}
	}
	for (int j = 0; j < b->row_count; j++) {
		if (!taken[j])
			found[(*count)++].b = &b->rows[j];
	}
	free(taken);
	return 0;
}
