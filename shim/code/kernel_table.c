/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of kernels (kernel_code_parts.h): a hash of the name, and what the kernel may do. Added in
 * any order, sorted once, looked up by halves.
 */
#include <stdlib.h>
#include <string.h>

#include "shim/code/kernel_code_parts.h"

static uint64_t hash_of(const char *name, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3ull;
	return hash;
}

bool code_table_add(struct code_table *table, const char *name, size_t length, uint32_t deeds)
{
	if (table->count == table->room) {
		const size_t room = table->room ? 2 * table->room : 16;
		struct code_row *fresh = realloc(table->rows, room * sizeof(*fresh));

		if (!fresh)
			return false;
		table->rows = fresh;
		table->room = room;
	}
	table->rows[table->count++] =
		(struct code_row){.name = hash_of(name, length), .deeds = deeds};
	return true;
}

static int by_name(const void *a, const void *b)
{
	const uint64_t one = ((const struct code_row *)a)->name,
		       other = ((const struct code_row *)b)->name;

	return one < other ? -1 : one > other;
}

void code_table_sort(struct code_table *table)
{
	size_t kept = 0;

	if (table->count < 2)
		return;
	qsort(table->rows, table->count, sizeof(*table->rows), by_name);
	for (size_t i = 1; i < table->count; i++) {
		if (table->rows[i].name == table->rows[kept].name) {
			table->rows[kept].deeds |= table->rows[i].deeds;
			table->rows[kept].layout = code_layout_of_both(
				table, table->rows[kept].layout, table->rows[i].layout);
		} else {
			table->rows[++kept] = table->rows[i];
		}
	}
	table->count = kept + 1;
}

struct code_row *code_table_row(const struct code_table *table, const char *name, size_t length)
{
	const struct code_row wanted = {.name = hash_of(name, length)};

	return table->count ? bsearch(&wanted, table->rows, table->count, sizeof(wanted), by_name)
			    : NULL;
}

uint32_t code_table_deeds(const struct code_table *table, const char *name)
{
	const struct code_row *row = code_table_row(table, name, strlen(name));

	return row ? row->deeds : DEED_UNKNOWN;
}

void code_table_free(struct code_table *table)
{
	free(table->rows);
	free(table->places);
	*table = (struct code_table){.layouts = table->layouts};
}

void code_text_put(struct code_text *text, const struct code_text *own)
{
	const struct code_text before = *text;

	*text = *own;
	if (!before.code)
		return;
	if (before.several || before.bytes != own->bytes ||
	    memcmp(before.code, own->code, own->bytes))
		text->several = true;
	if (before.asserts != own->asserts)
		text->asserts = 0;
	if (before.turns != own->turns)
		text->turns = 0;
	free(before.code);
}
