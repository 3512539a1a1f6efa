/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches of ATen's kernels (aten_blocks.h).
 */
#include "app_aten.h"
#include "aten_blocks.h"
#include "tools/base/half.h"

void aten_load_functions(struct app *app)
{
	CHECK(cuModuleGetFunction(&app->aten.scale, app->module, TEXT(ATEN_SCALE)));
	CHECK(cuModuleGetFunction(&app->aten.copy, app->module, TEXT(ATEN_COPY)));
	CHECK(cuModuleGetFunction(&app->aten.fill, app->module, TEXT(ATEN_FILL)));
	CHECK(cuModuleGetFunction(&app->aten.add_strided, app->module, TEXT(ATEN_ADD_STRIDED)));
	CHECK(cuModuleGetFunction(&app->aten.copy_strided, app->module, TEXT(ATEN_COPY_STRIDED)));
	CHECK(cuModuleGetFunction(&app->aten.softmax, app->module, TEXT(ATEN_SOFTMAX)));
	app->aten.used = true;
}

static void contiguous(struct app *app, CUfunction f, int n, void *functor, void *pointers)
{
	app_launch(app, f, ((unsigned)n + 511) / 512, 128, (void *[]){&n, functor, pointers});
}

void aten_scale(struct app *app, CUdeviceptr out, CUdeviceptr in, float factor, size_t n)
{
	struct aten_pointers2 p = {{aten_pointer(out), aten_pointer(in)}};
	struct aten_scalar_functor f = aten_factor(factor);

	contiguous(app, app->aten.scale, (int)n, &f, &p);
}

void aten_copy(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t n)
{
	struct aten_pointers2 p = {{aten_pointer(out), aten_pointer(in)}};
	struct aten_empty_functor f;

	contiguous(app, app->aten.copy, (int)n, aten_unset(&f, sizeof(f)), &p);
}

void aten_fill(struct app *app, CUdeviceptr out, float value, size_t n)
{
	struct aten_pointers1 p = {{aten_pointer(out)}};
	struct aten_fill_functor f = {float_to_f16(value)};

	contiguous(app, app->aten.fill, (int)n, &f, &p);
}

void aten_add_mask(struct app *app, CUdeviceptr out, CUdeviceptr in, CUdeviceptr mask, size_t n,
		   size_t period)
{
	struct aten_strided3 l = aten_masked(out, in, mask, n, period);
	int count = (int)n;

	app_launch(app, app->aten.add_strided, ((unsigned)n + 127) / 128, 128,
		   (void *[]){&count, &l});
}

void aten_masked_fill(struct app *app, CUdeviceptr scores, CUdeviceptr mask, const unsigned size[3],
		      const unsigned stride[2], float value)
{
	struct aten_filled l =
		aten_filling(scores, scores, mask, size, stride, float_to_f16(value));
	int count = (int)(size[0] * size[1] * size[2]);

	if (!app->aten.masked_fill)
		CHECK(cuModuleGetFunction(&app->aten.masked_fill, app->module,
					  TEXT(ATEN_MASKED_FILL)));
	app_launch(app, app->aten.masked_fill, ((unsigned)count + 127) / 128, 128,
		   (void *[]){&count, &l});
}

static void copy_strided(struct app *app, int count, struct aten_strided2 l)
{
	app_launch(app, app->aten.copy_strided, ((unsigned)count + 127) / 128, 128,
		   (void *[]){&count, &l});
}

/* [heads,rows,depth] from where rows and heads lie so many bytes apart. */
static void copy_heads(struct app *app, CUdeviceptr out, CUdeviceptr in, int rows, int heads,
		       int depth, unsigned row, unsigned head)
{
	const unsigned d = (unsigned)depth * 2;

	copy_strided(app, rows * heads * depth,
		     aten_copied(out, in, 3,
				 (unsigned[]){(unsigned)depth, (unsigned)rows, (unsigned)heads},
				 (unsigned[]){2, 2, d, row, d * (unsigned)rows, head}));
}

void aten_split_heads(struct app *app, CUdeviceptr out, CUdeviceptr in, int rows, int heads,
		      int depth)
{
	const unsigned d = (unsigned)depth * 2;

	copy_heads(app, out, in, rows, heads, depth, d * (unsigned)heads, d);
}

void aten_repeat_head(struct app *app, CUdeviceptr out, CUdeviceptr in, int rows, int heads,
		      int depth)
{
	copy_heads(app, out, in, rows, heads, depth, (unsigned)depth * 2, 0);
}

void aten_interleave(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t n)
{
	copy_strided(app, (int)n,
		     aten_copied(out, in, 1, (unsigned[]){(unsigned)n}, (unsigned[]){4, 2}));
}

void aten_softmax(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t rows, int columns)
{
	int count = (int)rows, stride = columns, chunk = -1;
	CUdeviceptr mask = 0;
	bool transformer = false;
	void *params[] = {&out, &in, &count, &stride, &columns, &mask, &chunk, &transformer};
	CUstream stream = app->stream;

	if (app->per_thread && !stream)
		stream = CU_STREAM_PER_THREAD;
	CHECK(cuLaunchKernel(app->aten.softmax, (unsigned)(rows + 3) / 4, 1, 1, 32, 4, 1, 0, stream,
			     params, NULL));
}
