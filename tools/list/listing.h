/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables that fashim is compiled from, and the formats they can be printed in.
 */
#ifndef FASHIM_LISTING_H
#define FASHIM_LISTING_H

#include "tools/base/format.h"

#include <jansson.h>

struct listing {
	const char *name; /* "kernels"; JSON's format is "fashim-kernels" */
	const char *doc;
	const char *titles; /* the Markdown table's heads: "| reason | … |" */
	/* An array of objects that all have the same members: in capitals these head the table. */
	json_t *(*rows)(void);
};

extern const struct listing listings[];
extern const int listing_count;

/* Prints all rows on stdout; what is no format of a listing as a table. */
void listing_print(const struct listing *listing, enum format format);

/* The listing of that name, or NULL. */
const struct listing *listing_named(const char *name);

#endif
