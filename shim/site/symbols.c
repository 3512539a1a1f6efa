/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over the symbols that the object's hash table lists, each held against the addresses by
 * bisection.
 */
#include "shim/site/symbols.h"

#include <stdlib.h>

/* Of a GNU hash table: symbols [*from, to) are in it. */
static uint32_t listed(const uint32_t *table, uint32_t *from)
{
	const uint32_t bucket_count = table[0], bloom_size = table[2];
	const ElfW(Addr) *bloom = (const ElfW(Addr) *)&table[4];
	const uint32_t *buckets = (const uint32_t *)&bloom[bloom_size];
	const uint32_t *chain = buckets + bucket_count;
	uint32_t last = 0;

	*from = table[1];
	for (uint32_t i = 0; i < bucket_count; i++)
		last = buckets[i] > last ? buckets[i] : last;
	if (last < *from)
		return *from;
	while (!(chain[last - *from] & 1))
		last++;
	return last + 1;
}

static int by_address(const void *a, const void *b)
{
	const uintptr_t one = ((const struct symbol_at *)a)->address,
			other = ((const struct symbol_at *)b)->address;

	return one < other ? -1 : one > other;
}

/* The first that is not below `address`. */
static int first_from(const struct symbol_at *asked, int count, uintptr_t address)
{
	int low = 0, high = count;

	while (low < high) {
		const int middle = (low + high) / 2;

		if (asked[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool symbols_find(const struct image *image, struct symbol_at *asked, int count)
{
	uint32_t from, to;

	if (!image->gnu_hash)
		return false;
	to = listed(image->gnu_hash, &from);
	qsort(asked, (size_t)count, sizeof(*asked), by_address);
	for (int i = 0; i < count; i++)
		asked[i].name = NULL;
	for (uint32_t n = from; n < to; n++) {
		const ElfW(Sym) *symbol = &image->symbols[n];
		const uintptr_t begin = image->bias + symbol->st_value;

		if (!symbol->st_value || symbol->st_shndx == SHN_UNDEF ||
		    ELF64_ST_TYPE(symbol->st_info) == STT_TLS)
			continue;
		for (int i = first_from(asked, count, begin);
		     i < count && (asked[i].address - begin < symbol->st_size ||
				   (!symbol->st_size && asked[i].address == begin));
		     i++)
			if (!asked[i].name || asked[i].begin < begin) {
				asked[i].name = image->strings + symbol->st_name;
				asked[i].begin = begin;
			}
	}
	return true;
}
