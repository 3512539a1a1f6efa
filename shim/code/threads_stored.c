/* SPDX-License-Identifier: Apache-2.0
 *
 * A bit for each byte, in pages. Pages that are stored all of are not kept: most kernels go through
 * what they write in order.
 */
#include "shim/code/threads_stored.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE   65536			   /* bytes */
#define PAGES  8192			   /* of what is stored by one pointer, … */
#define LOWEST ((int64_t)PAGES / 2 * PAGE) /* … from so far before it */

struct stored_page {
	uint64_t stored[PAGE / 64]; /* one bit for each byte */
	/* Those that were when the warp that last stored to the word began, and which one that is.
	 */
	uint64_t earlier[PAGE / 64];
	uint32_t warp[PAGE / 64];
	unsigned count;
};

static struct stored_page all_of_it;

static void let_go(struct stored_page **at)
{
	free(*at);
	*at = &all_of_it;
}

void stored_next_warp(struct stored *stored)
{
	stored->warps++;
	while (stored->filled_count)
		let_go(stored->filled[--stored->filled_count]);
}

static void mark(struct stored *stored, struct stored_page **at, int64_t begin, int64_t end)
{
	struct stored_page *page = *at;
	const unsigned before = page->count;

	for (int64_t n; begin < end; begin += n) {
		const int64_t word = begin / 64, bit = begin % 64;
		uint64_t bits;

		n = end - begin < 64 - bit ? end - begin : 64 - bit;
		bits = ((n < 64 ? 1ull << n : 0) - 1) << bit & ~page->stored[word];
		if (page->warp[word] != stored->warps) {
			page->warp[word] = stored->warps;
			page->earlier[word] = page->stored[word];
		}
		page->stored[word] |= bits;
		page->count += (unsigned)__builtin_popcountll(bits);
	}
	if (page->count < PAGE || before == PAGE)
		return;
	if (stored->filled_count < STORED_FILLED)
		stored->filled[stored->filled_count++] = at;
	else
		let_go(at);
}

int stored_note(struct stored *stored, unsigned k, int64_t begin, int64_t end)
{
	stored->latest[k] = stored->warps;
	if (stored->patchy[k])
		return 0;
	if (!stored->pages[k])
		stored->pages[k] = calloc(PAGES, sizeof(struct stored_page *));
	if (!stored->pages[k])
		return -ENOMEM;
	begin += LOWEST;
	end += LOWEST;
	if (begin < 0 || end > (int64_t)PAGES * PAGE) {
		stored->patchy[k] = true;
		return 0;
	}
	for (int64_t n; begin < end; begin += n) {
		struct stored_page **page = &stored->pages[k][begin / PAGE];
		const int64_t at = begin % PAGE;

		n = end - begin < PAGE - at ? end - begin : PAGE - at;
		if (*page == &all_of_it)
			continue;
		if (!*page)
			*page = calloc(1, sizeof(**page));
		if (!*page)
			return -ENOMEM;
		mark(stored, page, at, at + n);
	}
	return 0;
}

bool stored_by_warp(const struct stored *stored, unsigned k, int64_t begin, unsigned size)
{
	int64_t at = begin + LOWEST;

	if (!stored->pages[k] || at < 0 || at + size > (int64_t)PAGES * PAGE)
		return false;
	for (const int64_t end = at + size; at < end; at++) {
		const struct stored_page *page = stored->pages[k][at / PAGE];
		const int64_t word = at % PAGE / 64;

		if (!page || page == &all_of_it || page->warp[word] != stored->warps ||
		    !((page->stored[word] & ~page->earlier[word]) >> at % 64 & 1))
			return false;
	}
	return true;
}

bool stored_elsewhere(const struct stored *stored, unsigned k, int64_t begin, int64_t end)
{
	int64_t at = begin + LOWEST;

	end += LOWEST;
	if (stored->patchy[k] ||
	    !stored->pages[k]) /* as good as, to whoever asks (stored_by_warp) */
		return true;
	if (at < 0 || end > (int64_t)PAGES * PAGE)
		return true;
	for (int64_t n; at < end; at += n) {
		const struct stored_page *page = stored->pages[k][at / PAGE];
		const int64_t word = at % PAGE / 64, bit = at % 64;
		const int64_t rest = page ? 64 - bit : PAGE - at % PAGE;
		uint64_t own;

		n = end - at < rest ? end - at : rest;
		if (page == &all_of_it)
			return false; /* whoever stored it */
		if (!page || page->warp[word] != stored->warps)
			continue;
		own = page->stored[word] & ~page->earlier[word];
		if (own & ((n < 64 ? 1ull << n : 0) - 1) << bit)
			return false;
	}
	return true;
}

/* From `at` on, the first byte before `end` that is stored, or is not; else `end`. */
static int64_t next(struct stored_page *const *pages, int64_t at, int64_t end, bool is_stored)
{
	while (at < end) {
		const struct stored_page *page = pages[at / PAGE];
		const uint64_t full = page == &all_of_it ? ~0ull : 0;
		uint64_t word = page && !full ? page->stored[at % PAGE / 64] : full;

		word = (is_stored ? word : ~word) >> at % 64;
		if (word) {
			at += __builtin_ctzll(word);
			break;
		}
		at = !page || full ? (at / PAGE + 1) * PAGE : (at / 64 + 1) * 64;
	}
	return at < end ? at : end;
}

void stored_tell(const struct stored *stored, unsigned k, struct threads_extent *extent)
{
	struct stored_page *const *const pages = stored->pages[k];
	const int64_t end = extent->written.beyond + LOWEST;
	int64_t at = extent->written.first + LOWEST;

	if (extent->strays_writing || stored->patchy[k] || !pages ||
	    extent->written.first < -LOWEST || end > (int64_t)PAGES * PAGE)
		return;
	extent->whole = next(pages, at, end, false) == end;
	for (; !stored->perhaps[k] && at < end; at = next(pages, at, end, true)) { /* is stored */
		const int64_t beyond = next(pages, at, end, false);

		if (extent->runs == THREADS_RUNS) {
			extent->runs = 0;
			return;
		}
		extent->run[extent->runs].first = at - LOWEST;
		extent->run[extent->runs++].beyond = beyond - LOWEST;
		at = beyond;
	}
}

void stored_free(struct stored *stored)
{
	for (unsigned k = 0; k < THREADS_POINTERS; k++) {
		for (int64_t i = 0; stored->pages[k] && i < PAGES; i++)
			if (stored->pages[k][i] != &all_of_it)
				free(stored->pages[k][i]);
		free(stored->pages[k]);
	}
}
