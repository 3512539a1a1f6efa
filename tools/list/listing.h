/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables that fashim is compiled from, as rows of text, and the formats they can be printed in.
 */
#ifndef FASHIM_LISTING_H
#define FASHIM_LISTING_H

#include <stdbool.h>

#define LISTING_COLUMNS 6
#define LISTING_CELL	256

struct listing {
	const char *name; /* "kernels"; JSON's format is "fashim-kernels" */
	const char *doc;
	const char *columns[LISTING_COLUMNS]; /* JSON's keys; in capitals they head the table */
	bool number[LISTING_COLUMNS];	      /* a number in JSON */
	const char *titles;		      /* the Markdown table's heads: "| reason | … |" */
	/* Fills in the cells of row `index`; false: there are no more. */
	bool (*row)(int index, char cells[LISTING_COLUMNS][LISTING_CELL]);
};

extern const struct listing listings[];
extern const int listing_count;

enum listing_format { LISTING_TABLE, LISTING_JSON, LISTING_MARKDOWN, LISTING_TSV, LISTING_BAD };

/* "table", "json", "markdown" or "md", "tsv"; LISTING_BAD for any other word. */
enum listing_format listing_format(const char *word);

/* Prints all rows on stdout. */
void listing_print(const struct listing *listing, enum listing_format format);

/* The listing of that name, or NULL. */
const struct listing *listing_named(const char *name);

#endif
