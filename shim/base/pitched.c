/* SPDX-License-Identifier: Apache-2.0
 *
 * Dimensions in order of their strides: the inner ones make up a row, the outer ones, each of which
 * must go on where the one before ends, count rows.
 */
#include "shim/base/pitched.h"

#define MOST_DIMS 8

struct dim {
	int64_t size, stride;
};

/* By stride, ascending, without those that repeat the same bytes. -1: too many, or backwards. */
static int sorted(struct dim *to, int dims, const int64_t *size, const int64_t *stride)
{
	int count = 0;

	for (int i = 0; i < dims; i++) {
		int at = count;

		if (size[i] == 1 || stride[i] == 0)
			continue;
		if (count == MOST_DIMS || size[i] < 1 || stride[i] < 0)
			return -1;
		for (; at > 0 && to[at - 1].stride > stride[i]; at--)
			to[at] = to[at - 1];
		to[at] = (struct dim){size[i], stride[i]};
		count++;
	}
	return count;
}

static bool evenly(const struct dim *dim, int count)
{
	for (int i = 1; i < count; i++)
		if (dim[i].stride != dim[i - 1].size * dim[i - 1].stride)
			return false;
	return true;
}

struct pitched pitched_of(int dims, const int64_t *size, const int64_t *stride, int element)
{
	const struct pitched whole = {0, 0};
	struct dim dim[MOST_DIMS];
	const int count = sorted(dim, dims, size, stride);
	int64_t width = 1, rows = 1;

	for (int inner = 0; inner < count; inner++) {
		/* A gap, and from here on rows? */
		if (dim[inner].stride > width && evenly(dim + inner, count - inner)) {
			for (int i = inner; i < count; i++)
				rows *= dim[i].size;
			if (4 * rows * width > 3 * ((rows - 1) * dim[inner].stride + width))
				return whole;
			return (struct pitched){(uint64_t)(width * element),
						(uint64_t)(dim[inner].stride * element)};
		}
		width += (dim[inner].size - 1) * dim[inner].stride;
	}
	return whole;
}

bool pitched_rows(const struct pitched *pitched, uint64_t bytes, uint64_t *begin, uint64_t *end)
{
	const uint64_t pitch = pitched->pitch;

	if (pitch) {
		*begin = (*begin + pitch - pitched->width) / pitch * pitch;
		*end = (*end + pitch - 1) / pitch * pitch;
	}
	if (*end > bytes)
		*end = bytes;
	return *begin < *end;
}
