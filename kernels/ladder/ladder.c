/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of the ladder's steps, and which row of the table of variants each of them is.
 */
#include "kernels/ladder/ladder.h"

#include <stddef.h>
#include <string.h>

#define STEP(number, label, rows, threads, shared, library, l4, figure, adds)                      \
	{"ladder/" #label,                                                                         \
	 "fashim_ladder_" #label,                                                                  \
	 adds,                                                                                     \
	 number,                                                                                   \
	 rows,                                                                                     \
	 threads,                                                                                  \
	 shared,                                                                                   \
	 library,                                                                                  \
	 l4,                                                                                       \
	 LADDER_##figure},
#define LADDER(number, label, rows, threads, shared, grid, needs, l4, figure, adds)                \
	STEP(number, label, rows, threads, shared, 0, l4, figure, adds)
#define LADDER_LIBRARY(number, label, rows, threads, shared, l4, figure, adds)                     \
	STEP(number, label, rows, threads, shared, 1, l4, figure, adds)

const struct ladder_step ladder_steps[] = {
#include "kernels/ladder/ladder.def"
};
const int ladder_step_count = (int)(sizeof(ladder_steps) / sizeof(ladder_steps[0]));

const struct attn_variant *ladder_variant(const struct ladder_step *step)
{
	for (int n = attn_variant_total - 1; n >= 0; n--)
		if (!strcmp(attn_variants[n].name, step->name))
			return &attn_variants[n];
	return NULL;
}
