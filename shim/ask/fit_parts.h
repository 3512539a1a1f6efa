/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the fit share: where numbers lie.
 */
#ifndef FASHIM_FIT_PARTS_H
#define FASHIM_FIT_PARTS_H

#include "shim/ask/fit.h"

#define FIT_FINE 0x1p-15 /* below, P in half precision has lost digits */

static inline uint64_t fit_score_at(const struct fit_grid *grid, int row, int64_t j)
{
	return (uint64_t)((grid->row[row].z * grid->Sq + grid->row[row].i) * grid->Sk + j);
}

static inline const float *fit_row(const struct fit_grid *grid, const struct observation *run,
				   int row)
{
	return run->p + (int64_t)row * grid->Sk;
}

static inline uint64_t fit_form_at(const struct form *form, int64_t z, int64_t i, int64_t j)
{
	const int64_t along = form->along == FORM_EACH	     ? z
			      : form->along == FORM_MODULO   ? z % form->heads
			      : form->along == FORM_QUOTIENT ? z / form->heads
							     : 0;

	return (uint64_t)(form->unit * along + form->row * i + form->column * j);
}

/* The n-th form of a kind, simplest first; false: there are no more. `whole`: elements of one z. */
bool fit_nth_along(const struct fit_grid *grid, int n, int64_t whole, struct form *form);

#endif
