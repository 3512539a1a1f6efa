/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores that a mask of bytes hides before softmax, and perhaps P of them after it; and scores that
 * lie [rows,columns,heads] meanwhile, or whose rows are a group of heads in each query, and P's the
 * other way round. By ATen's kernels, in fp16.
 */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/apps/aten_blocks.h"
#include "tools/base/half.h"

enum { LONGER = 32 }; /* columns that a site may grow by, and more */

/* Of its own numbers, so that sites are what they were without. */
void hides_make(struct site *z, CUstream s)
{
	static const float numbers[] = {-INFINITY, -65504, -5};
	struct rng r = rng_of((uint64_t)z->number, 779), grouped = rng_of((uint64_t)z->number, 780);
	const size_t bytes = (size_t)z->rows * (size_t)(z->columns + LONGER);
	char *host;
	bool whole;

	if (!z->aten || z->large)
		return;
	if (z->rows % 2 == 0 && chance(&grouped, 25)) {
		z->group = z->rows % 4 || chance(&grouped, 50) ? 2 : 4;
		trace("site %d has heads within rows: %d", z->number, z->group);
	}
	if (!chance(&r, 50))
		return;
	z->aside = chance(&r, 40);
	if (z->aside && chance(&r, 20))
		return;
	z->hides = numbers[below(&r, 3)];
	z->hides_again = chance(&r, 60);
	whole = chance(&r, 50);
	z->hidden = allocate(bytes);
	host = malloc(bytes);
	for (size_t n = 0; n < bytes; n++)
		host[n] = chance(&r, 25) ||
			  (whole && n / (size_t)z->columns % 4 == 2); /* while it has not grown */
	trace("site %d hides by %g at %llx bytes=%zu again=%d aside=%d", z->number,
	      (double)z->hides, z->hidden, bytes, z->hides_again, z->aside);
	settle(s);
	OK(cuMemcpyHtoD(z->hidden, host, bytes));
	OK(cuStreamSynchronize(CU_STREAM_LEGACY));
	mark(z->hidden, bytes, 0);
	free(host);
}

/* In place, of scores as they lie, or aside: what is beside heads is one dimension then. */
static void fill(struct chain *c, CUdeviceptr scores, float value)
{
	const struct site *z = c->site;
	const unsigned heads = (unsigned)z->heads, rows = (unsigned)c->rows,
		       columns = (unsigned)c->columns;
	struct aten_filled l =
		z->aside ? aten_filling(scores, scores, z->hidden,
					(unsigned[]){1, rows * columns, heads}, (unsigned[]){0, 1},
					float_to_f16(value))
			 : aten_filling(scores, scores, z->hidden,
					(unsigned[]){heads, rows, columns},
					(unsigned[]){0, columns}, float_to_f16(value));
	const size_t n = scores_of(c);
	int count = (int)n;

	if (z->aside)
		l.strides[2] = 0;
	trace("aten masked fill %llx n=%zu by %g", scores, n, (double)value);
	launch(c->stream, aten(TEXT(ATEN_MASKED_FILL)), blocks_of(n, 128), 128, 1,
	       (void *[]){&count, &l});
}

static void copied(struct chain *c, CUdeviceptr to, CUdeviceptr from, int dims,
		   const unsigned *size, const unsigned *apart)
{
	const size_t n = scores_of(c);
	struct aten_strided2 l;
	unsigned strides[8], all = 2;
	int count = (int)n;

	for (int d = 0; d < dims; all *= size[d++]) {
		strides[2 * d] = all;
		strides[2 * d + 1] = 2 * apart[d];
	}
	l = aten_copied(to, from, dims, size, strides);
	trace("aten order %llx <- %llx n=%zu", to, from, n);
	launch(c->stream, aten(TEXT(ATEN_COPY_STRIDED)), blocks_of(n, 128), 128, 1,
	       (void *[]){&count, &l});
	mark(to, n * width, depth_of(from, n * width));
}

void hides_softmax(struct chain *c, CUdeviceptr to, CUdeviceptr from)
{
	const struct site *z = c->site;
	unsigned heads = (unsigned)z->heads, rows = (unsigned)c->rows;
	unsigned columns = (unsigned)c->columns, entry = rows * columns;
	const unsigned group = z->aside ? 0 : (unsigned)z->group;
	CUdeviceptr at = from, out = to;

	if (z->aside || group)
		out = chain_place(c, W, scores_of(c) * width);
	if (z->aside) {
		at = out;
		copied(c, at, from, 3, (unsigned[]){heads, columns, rows},
		       (unsigned[]){entry, 1, columns});
	}
	if (z->hidden)
		fill(c, at, z->hides);
	if (z->aside) {
		trace("aten softmax %llx over %u of %u,%u", at, columns, rows, heads);
		launch(c->stream, aten(TEXT(ATEN_SOFTMAX_SPATIAL)), rows, 128, 1,
		       (void *[]){&out, &at, &rows, &columns, &heads});
	} else {
		aten_softmax(c->stream, out, at, (size_t)heads * rows, c->columns);
	}
	if (z->hidden && z->hides_again)
		fill(c, out, 0);
	if (z->aside)
		copied(c, to, out, 2, (unsigned[]){entry, heads}, (unsigned[]){heads, 1});
	else if (group)
		copied(c, to, out, 4, (unsigned[]){columns, rows / group, group, heads},
		       (unsigned[]){1, group * columns, columns, entry});
	else
		return;
	chain_give(c, W);
}
