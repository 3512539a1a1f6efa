/* SPDX-License-Identifier: Apache-2.0
 *
 * Small pieces of text that every part of the report prints.
 */
#include "tools/report/report_page.h"
#include "tools/base/tool.h"
#include "tools/base/escaped.h"

const char *ink(const struct page *page, const char *color)
{
	return page->color ? color : "";
}

const char *plain(const struct page *page)
{
	return page->color ? PLAIN : "";
}

void label(const struct page *page, const char *name)
{
	fprintf(page->out, "  %s%-9s%s ", ink(page, DIM), name, plain(page));
}

void line(const struct page *page, const char *name, const char *text)
{
	label(page, name);
	safe_printf(page->out, "%s\n", text);
}

void print_bars(const struct page *page, const struct histogram *histogram)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const marks[] = {".", ":", "-", "=", "+", "*", "#", "@"};

	for (int i = 0; i < histogram->bins; i++) {
		/* Anything at all shows; only the fullest bin is full. */
		uint64_t height =
			histogram->counts[i] * 7 / (histogram->largest + !histogram->largest);
		const char *bar = page->utf8 ? blocks[height] : marks[height];

		fputs(histogram->counts[i] ? bar : " ", page->out);
	}
}
