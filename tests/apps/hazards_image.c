/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and queries are the places of images, and each query has a number for each row of keys and
 * one for each column, as an image encoder's products leave them: by rows of queries, or by
 * columns, over all images.
 */
#include "hazards.h"

#include <assert.h>

#include "app_aten.h"
#include "aten_blocks.h"

enum { HIGH = 8, WIDE = 10 };

/* out = in + bias over scores [heads,HIGH,WIDE,HIGH,WIDE]; `apart`: bytes from one number of the
 * bias to the next, in the order from the last dimension to the first. */
static void added(struct bench *b, CUdeviceptr out, CUdeviceptr in, CUdeviceptr bias,
		  const unsigned apart[5])
{
	const unsigned size[5] = {WIDE, HIGH, WIDE, HIGH, (unsigned)b->shape.heads};
	struct aten_strided3 l;
	unsigned dense = 2;
	int count = (int)b->scores;
	CUfunction f;

	CHECK(cuModuleGetFunction(&f, b->app.module, TEXT(ATEN_ADD_STRIDED)));
	aten_unset(&l, sizeof(l));
	l.calculator.dims = 0;
	for (int d = 0; d < 5; d++) {
		aten_dimension(&l.calculator, size[d]);
		l.strides[3 * d] = l.strides[3 * d + 1] = dense;
		l.strides[3 * d + 2] = apart[d];
		dense *= size[d];
	}
	l.at[0] = aten_pointer(out);
	l.at[1] = aten_pointer(in);
	l.at[2] = aten_pointer(bias);
	l.factor = 1;
	app_launch(&b->app, f, ((unsigned)count + 127) / 128, 128, (void *[]){&count, &l});
}

/* `after` comes behind P V in the late repetitions, when O and P are still to be read. */
static void images(void (*after)(struct bench *b, CUdeviceptr rows, CUdeviceptr columns))
{
	struct bench b;

	bench_open(&b, TOGETHER);
	const struct app_shape z = b.shape;
	const unsigned heads = (unsigned)z.heads, all = heads * z.rows;
	const CUdeviceptr rows = app_alloc(2 * all * HIGH), columns = app_alloc(2 * all * WIDE);

	assert(z.rows == HIGH * WIDE && z.columns == HIGH * WIDE);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		app_upload_random(rows, all * HIGH, 700 + (uint64_t)r);
		app_upload_random(columns, all * WIDE, 800 + (uint64_t)r);
		if (r >= 8) /* queries that do not see some rows of keys */
			CHECK(cuMemsetD2D16(rows + 2 * (size_t)r, 2 * HIGH * 3, 0xfc00, 3, WIDE));
		chain_open(&b, &b.t);
		added(&b, b.t.x, b.t.s, rows,
		      (unsigned[]){0, 2, 2 * HIGH, 2 * HIGH * WIDE * heads, 2 * HIGH * WIDE});
		added(&b, b.t.x, b.t.x, columns,
		      (unsigned[]){2, 0, 2 * WIDE * HIGH * heads, 2 * WIDE, 2 * WIDE * HIGH});
		app_softmax(&b.app, b.t.p, b.t.x, (size_t)z.heads * z.rows, z.columns);
		chain_close(&b, &b.t);
		if (after && late(r))
			after(&b, rows, columns);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

static void change(struct bench *b, CUdeviceptr rows, CUdeviceptr columns)
{
	app_fill(&b->app, rows, 3.0f, (size_t)b->shape.heads * b->shape.rows);
	app_fill(&b->app, columns, 2.0f, (size_t)b->shape.heads * b->shape.rows);
}

CASE(image_biases, images(NULL))
CASE(image_biases_change, images(change))

const struct hazard hazards_image[] = {
	ONCE(image_biases, "a number for each row of an image's keys, and one for each column"),
	ONCE(image_biases_change, "… which change before P is read"),
	{0},
};
