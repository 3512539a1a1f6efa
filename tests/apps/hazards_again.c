/* SPDX-License-Identifier: Apache-2.0
 *
 * P of what a mask hid made 0 once more after softmax, where rows are hidden in all or what the
 * mask leaves is as low as what hides; and scores laid out as [rows,columns,heads] between the
 * products.
 */
#include "hazards.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "app_aten.h"
#include "aten_blocks.h"

/* ---- hidden, and hidden again ---------------------------------------------------------------- */

enum { MOST = 8192 }; /* elements of a mask */

/* From the eighth repetition on the first row is hidden in all, and in the second row all that is
 * not is -inf by the bias, which hides what comes after a row's own key. */
static void hidden_again(float value)
{
	unsigned char hides[MOST];
	CUdeviceptr mask;
	struct bench b;

	bench_open(&b, TOGETHER);
	const struct app_shape z = b.shape;
	const unsigned size[3] = {(unsigned)z.heads, (unsigned)z.rows, (unsigned)z.columns};
	const unsigned stride[2] = {0, size[2]};

	assert(z.rows * z.columns <= MOST);
	mask = app_alloc(sizeof(hides));
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		for (int n = 0; n < z.rows * z.columns; n++) {
			const int i = n / z.columns, j = n % z.columns;

			hides[n] = j % 5 == 1 + r / 8 && j != i;
			if (r >= 8 && i < 2)
				hides[n] = i == 0 || j <= i;
		}
		if (r % 8 == 0)
			CHECK(cuMemcpyHtoD(mask, hides, sizeof(hides)));
		chain_open(&b, &b.t);
		app_scale(&b.app, b.t.x, b.t.s, 0.25f, b.scores);
		app_add_mask(&b.app, b.t.m, b.t.x, b.mask, b.scores,
			     (size_t)z.rows * (size_t)z.columns);
		aten_masked_fill(&b.app, b.t.m, mask, size, stride, value);
		app_softmax(&b.app, b.t.p, b.t.m, (size_t)z.heads * z.rows, z.columns);
		aten_masked_fill(&b.app, b.t.p, mask, size, stride, 0);
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

CASE(hidden_again_lowest, hidden_again(-65504))
CASE(hidden_again_infinite, hidden_again(-INFINITY))
CASE(hidden_again_low, hidden_again(-5))

/* ---- scores in another order ----------------------------------------------------------------- */

static CUfunction kernel(struct app *app, const char *name)
{
	CUfunction f;

	CHECK(cuModuleGetFunction(&f, app->module, name));
	return f;
}

static void copied(struct app *app, CUdeviceptr out, CUdeviceptr in, int dims, const unsigned *size,
		   const unsigned *from)
{
	struct aten_strided2 l;
	unsigned strides[8];
	int count = 1;

	for (int d = 0; d < dims; count *= (int)size[d++]) {
		strides[2 * d] = 2 * (unsigned)count;
		strides[2 * d + 1] = 2 * from[d];
	}
	l = aten_copied(out, in, dims, size, strides);
	app_launch(app, kernel(app, TEXT(ATEN_COPY_STRIDED)), ((unsigned)count + 127) / 128, 128,
		   (void *[]){&count, &l});
}

/* In place, what a mask hides that lies so far apart in rows, columns and heads. */
static void filled_aside(struct app *app, CUdeviceptr scores, CUdeviceptr mask,
			 const unsigned size[3], const unsigned stride[3])
{
	struct aten_filled l = aten_filling(scores, scores, mask, size, stride, 0xfc00);
	int count = (int)(size[0] * size[1] * size[2]);

	l.strides[2] = stride[2];
	app_launch(app, kernel(app, TEXT(ATEN_MASKED_FILL)), ((unsigned)count + 127) / 128, 128,
		   (void *[]){&count, &l});
}

/* Softmax of what lies [rows,columns,heads], over the columns. */
static void softmax_aside(struct app *app, CUdeviceptr out, CUdeviceptr in,
			  const struct app_shape *z)
{
	int outer = z->rows, columns = z->columns, inner = z->heads;

	app_launch(app, kernel(app, TEXT(ATEN_SOFTMAX_SPATIAL)), (unsigned)outer, 128,
		   (void *[]){&out, &in, &outer, &columns, &inner});
}

/* `edit` comes between the copy and softmax; the mask hides from all heads, or (each) from each its
 * own keys. */
static void aside(void (*edit)(struct bench *b), bool each)
{
	unsigned char hides[MOST];
	CUdeviceptr mask;
	struct bench b;

	bench_open(&b, TOGETHER);
	const struct app_shape z = b.shape;
	const unsigned heads = (unsigned)z.heads, rows = (unsigned)z.rows,
		       columns = (unsigned)z.columns, entry = rows * columns;

	assert(rows * columns <= MOST && heads * columns <= MOST);
	mask = app_alloc(sizeof(hides));
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		for (int n = 0; n < MOST; n++)
			hides[n] = (each ? n / z.heads + n % z.heads * 3 : n % z.columns) % 5 ==
				   1 + r / 8;
		if (r % 8 == 0)
			CHECK(cuMemcpyHtoD(mask, hides, sizeof(hides)));
		chain_open(&b, &b.t);
		app_scale(&b.app, b.t.s, b.t.s, 0.25f, b.scores);
		copied(&b.app, b.t.x, b.t.s, 3, (unsigned[]){heads, columns, rows},
		       (unsigned[]){entry, 1, columns});
		if (each)
			filled_aside(&b.app, b.t.x, mask, (unsigned[]){rows, columns, heads},
				     (unsigned[]){0, heads, 1});
		else /* two dimensions that follow one another are one */
			filled_aside(&b.app, b.t.x, mask, (unsigned[]){1, entry, heads},
				     (unsigned[]){0, 1, 0});
		if (edit && late(r))
			edit(&b);
		softmax_aside(&b.app, b.spare, b.t.x, &z);
		copied(&b.app, b.t.p, b.spare, 2, (unsigned[]){entry, heads},
		       (unsigned[]){heads, 1});
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

static void clear_some(struct bench *b)
{
	CHECK(cuMemsetD16Async(b->t.x + b->scores, 0, b->scores / 8, b->app.stream));
}

enum { GROUP = 4 };

/* Groups of heads share K: S has rows of [queries,GROUP], P such of [GROUP,queries]. A mask hides
 * keys from each query of a group (masked), from the eighth repetition on others. */
static void within_rows(bool masked)
{
	unsigned char hides[MOST];
	CUdeviceptr mask;
	struct bench b;

	bench_open(&b, TOGETHER);
	const struct app_shape z = b.shape;
	const unsigned heads = (unsigned)z.heads, columns = (unsigned)z.columns,
		       queries = (unsigned)z.rows / GROUP;

	assert(heads * queries * columns <= MOST && z.rows % GROUP == 0);
	mask = app_alloc(sizeof(hides));
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		for (int n = 0; n < MOST; n++)
			hides[n] = (n + n / z.columns) % 5 == 1 + r / 8;
		if (r % 8 == 0)
			CHECK(cuMemcpyHtoD(mask, hides, sizeof(hides)));
		chain_open(&b, &b.t);
		app_scale(&b.app, b.t.s, b.t.s, 0.25f, b.scores);
		if (masked)
			filled_aside(&b.app, b.t.s, mask,
				     (unsigned[]){heads * queries, GROUP, columns},
				     (unsigned[]){columns, 0, 1});
		app_softmax(&b.app, b.spare, b.t.s, (size_t)z.heads * z.rows, z.columns);
		copied(&b.app, b.t.p, b.spare, 4, (unsigned[]){columns, queries, GROUP, heads},
		       (unsigned[]){1, GROUP * columns, columns, (unsigned)z.rows * columns});
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

CASE(heads_within_rows, within_rows(false))
CASE(heads_within_rows_masked, within_rows(true))
CASE(scores_aside, aside(NULL, false))
CASE(scores_aside_each, aside(NULL, true))
CASE(scores_aside_edited, aside(clear_some, false))

const struct hazard hazards_again[] = {
	ONCE(hidden_again_lowest,
	     "a bias, a mask of the lowest number, and P masked again by zeros"),
	ONCE(hidden_again_infinite, "the same of -inf"),
	ONCE(hidden_again_low, "the same of a number that scores are near to"),
	ONCE(heads_within_rows, "P's rows are counted by heads first, those of S by queries"),
	ONCE(heads_within_rows_masked, "… and a mask hides keys from queries"),
	ONCE(scores_aside, "scores are laid out with heads innermost, and masked there"),
	ONCE(scores_aside_each, "… by a mask of each head"),
	ONCE(scores_aside_edited, "… and some of them are set there"),
	{0},
};
