/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables that fashim is compiled from, as rows of text, and the formats they can be printed in.
 */
#ifndef FASHIM_LISTING_H
#define FASHIM_LISTING_H

#include "tools/base/format.h"

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

/* Prints all rows on stdout; what is no format of a listing as a table. */
void listing_print(const struct listing *listing, enum format format);

/* The listing of that name, or NULL. */
const struct listing *listing_named(const char *name);

#endif
