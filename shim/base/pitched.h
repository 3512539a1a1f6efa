/* SPDX-License-Identifier: Apache-2.0
 *
 * Which bytes of its extent a strided tensor really has: rows of a width, one every pitch. Q lies
 * so in the tensor that one product made of Q, K and V together, and is a third of it.
 */
#ifndef FASHIM_PITCHED_H
#define FASHIM_PITCHED_H

#include <stdbool.h>
#include <stdint.h>

struct pitched {
	uint64_t width, pitch; /* bytes; pitch 0: the extent is one row */
};

/* The fewest bytes that hold a tensor of these dimensions (strides and element in their own units:
 * elements, bytes), counted from the beginning of its extent. One row where its dimensions do not
 * nest in two, or where rows would leave out less than a quarter. */
struct pitched pitched_of(int dims, const int64_t *size, const int64_t *stride, int element);

/* Narrows [*begin, *end), offsets in an extent of `bytes`, to the whole rows that it touches.
 * false: it touches none. */
bool pitched_rows(const struct pitched *pitched, uint64_t bytes, uint64_t *begin, uint64_t *end);

#endif
