/* SPDX-License-Identifier: Apache-2.0
 *
 * Of at most 64 things that lie in memory, which may lie near? Each op is held against all that is
 * kept back, which is little of what it comes by: a bit for each thing in each page of memory that
 * it has a byte in. An answer may name too many, never too few.
 */
#ifndef FASHIM_NEAR_H
#define FASHIM_NEAR_H

#include <stdint.h>

#define NEAR_PAGE  18  /* bits of an address within a page: 256 KiB */
#define NEAR_PAGES 128 /* pages so many apart share a word */
#define NEAR_LOOK  24  /* of a range with more pages than that, all are near */

struct near_pages {
	uint64_t things[NEAR_PAGES];
};

static inline uint64_t near_count(uint64_t begin, uint64_t end)
{
	const uint64_t last = end > begin ? end - 1 : begin;
	const uint64_t pages = (last >> NEAR_PAGE) - (begin >> NEAR_PAGE) + 1;

	return pages < NEAR_PAGES ? pages : NEAR_PAGES;
}

static inline void near_add(struct near_pages *pages, unsigned thing, uint64_t begin, uint64_t end)
{
	const uint64_t first = begin >> NEAR_PAGE, count = near_count(begin, end);

	for (uint64_t i = 0; i < count; i++)
		pages->things[(first + i) % NEAR_PAGES] |= 1ull << thing;
}

static inline void near_remove(struct near_pages *pages, unsigned thing)
{
	for (unsigned i = 0; i < NEAR_PAGES; i++)
		pages->things[i] &= ~(1ull << thing);
}

/* A bit for each that may have a byte of [begin, end). */
static inline uint64_t near_of(const struct near_pages *pages, uint64_t begin, uint64_t end)
{
	const uint64_t first = begin >> NEAR_PAGE, count = near_count(begin, end);
	uint64_t things = 0;

	if (count > NEAR_LOOK)
		return UINT64_MAX;
	for (uint64_t i = 0; i < count; i++)
		things |= pages->things[(first + i) % NEAR_PAGES];
	return things;
}

#endif
