/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of tuning on stdout.
 */
#ifndef FASHIM_TUNE_PRINT_H
#define FASHIM_TUNE_PRINT_H

#include "tools/base/format.h"
#include "tools/tune/cache.h"
#include "tools/tune/sweep.h"

/* The candidates of a form, and what became of each. */
struct tune_trial {
	struct sweep_candidate *candidates;
	int count;
};

/* The results for one machine. */
struct tune_section {
	struct tuned_machine machine;
	char *path; /* of the cache */
	struct tune_result *results;
	struct tune_trial *trials; /* one for each result, or NULL */
	int count;
};

/* Prints the sections, the first with a line of names in CSV. */
void tune_print(const struct tune_section *sections, int count, enum format format);

/* "B,H,…: 6.9 % faster than …", what a result comes to. Returns text. */
char *tune_verdict(const struct tune_result *result, char *text, size_t size);

#endif
