/* SPDX-License-Identifier: Apache-2.0
 *
 * What a described copy brings where, as kernels/lay_out.cu does it.
 */
#ifndef FASHIM_TEST_LAID_OUT_H
#define FASHIM_TEST_LAID_OUT_H

#include "shim/chain/relayout.h"

/* Of each element that is written, one behind another, where it is read: elements from the copy's
 * in_begin on. */
static inline void laid_out(int *from, const struct relayout *copy)
{
	int64_t total = 1;

	for (int d = 0; d < copy->dims; d++)
		total *= copy->dim[d].size;
	for (int64_t n = 0; n < total; n++) {
		int64_t left = n, at = 0;

		for (int d = 0; d < copy->dims; d++) {
			at += left % copy->dim[d].size * copy->dim[d].from;
			left /= copy->dim[d].size;
		}
		from[n] = (int)at;
	}
}

#endif
