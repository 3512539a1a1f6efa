/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts of parameters in a table of kernels (kernel_code_parts.h). Most kernels of an image have
 * few and small ones, so they lie packed behind one another.
 */
#include <stdlib.h>
#include <string.h>

#include "shim/code/kernel_code_parts.h"

#define UNSURE UINT32_MAX /* images differ */

static size_t words_of(unsigned count)
{
	return 1 + 2 * (size_t)count;
}

bool code_table_place(struct code_table *table, const struct code_layout *layout)
{
	const size_t words = words_of(layout->count);
	uint16_t *at;

	if (!table->layouts || !table->count || layout->count > CODE_PARAMS)
		return true;
	if (table->place_count + words > table->place_room) {
		const size_t room = 2 * table->place_room + words + 256;
		uint16_t *fresh = realloc(table->places, room * sizeof(*fresh));

		if (!fresh)
			return false;
		table->places = fresh;
		table->place_room = room;
	}
	table->rows[table->count - 1].layout = (uint32_t)table->place_count + 1;
	at = table->places + table->place_count;
	table->place_count += words;
	*at++ = (uint16_t)layout->count;
	memcpy(at, layout->offset, layout->count * sizeof(*at));
	memcpy(at + layout->count, layout->size, layout->count * sizeof(*at));
	return true;
}

uint32_t code_layout_of_both(const struct code_table *table, uint32_t one, uint32_t other)
{
	const uint16_t *a, *b;

	if (!one || !other)
		return one | other;
	if (one == UNSURE || other == UNSURE)
		return UNSURE;
	a = table->places + one - 1;
	b = table->places + other - 1;
	return *a == *b && !memcmp(a, b, words_of(*a) * sizeof(*a)) ? one : UNSURE;
}

bool code_table_layout(const struct code_table *table, const char *name, struct code_layout *layout)
{
	const struct code_row *row = code_table_row(table, name, strlen(name));
	const uint16_t *at;

	if (!row || !row->layout || row->layout == UNSURE)
		return false;
	at = table->places + row->layout - 1;
	layout->count = *at++;
	memcpy(layout->offset, at, layout->count * sizeof(*at));
	memcpy(layout->size, at + layout->count, layout->count * sizeof(*at));
	return true;
}
