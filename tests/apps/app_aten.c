/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameter blocks as PyTorch's host code fills them, what it leaves unset included: those bytes
 * hold something else in every launch.
 */
#include "app_aten.h"
#include "aten.h"
#include "tools/base/half.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(struct aten_strided2) == 536, "as traced");
static_assert(sizeof(struct aten_strided3) == 648, "as traced");

static __thread unsigned garbage = 0x5eed;

static void *unset(void *block, size_t bytes)
{
	unsigned char *p = block;

	for (size_t i = 0; i < bytes; i++) {
		garbage = garbage * 1664525u + 1013904223u;
		p[i] = (unsigned char)(garbage >> 24);
	}
	return block;
}

static char *pointer(CUdeviceptr address)
{
	return (char *)(uintptr_t)address;
}

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
	struct aten_pointers2 p = {{pointer(out), pointer(in)}};
	struct aten_scalar_functor f;

	unset(&f, sizeof(f));
	f.scalar = factor;
	contiguous(app, app->aten.scale, (int)n, &f, &p);
}

void aten_copy(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t n)
{
	struct aten_pointers2 p = {{pointer(out), pointer(in)}};
	struct aten_empty_functor f;

	contiguous(app, app->aten.copy, (int)n, unset(&f, sizeof(f)), &p);
}

void aten_fill(struct app *app, CUdeviceptr out, float value, size_t n)
{
	struct aten_pointers1 p = {{pointer(out)}};
	struct aten_fill_functor f = {float_to_f16(value)};

	contiguous(app, app->aten.fill, (int)n, &f, &p);
}

static void dimension(struct aten_calculator *c, unsigned size)
{
	unsigned shift = 0;

	while (shift < 31 && 1u << shift < size)
		shift++;
	c->size[c->dims].divisor = size;
	c->size[c->dims].magic =
		(unsigned)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - size)) / size + 1);
	c->size[c->dims++].shift = shift;
}

void aten_add_mask(struct app *app, CUdeviceptr out, CUdeviceptr in, CUdeviceptr mask, size_t n,
		   size_t period)
{
	const unsigned strides[2][3] = {{2, 2, 2}, {(unsigned)period * 2, (unsigned)period * 2, 0}};
	struct aten_strided3 l;
	int count = (int)n;

	unset(&l, sizeof(l));
	l.calculator.dims = 0;
	dimension(&l.calculator, (unsigned)period);
	dimension(&l.calculator, (unsigned)(n / period));
	memcpy(l.strides, strides, sizeof(strides));
	l.at[0] = pointer(out);
	l.at[1] = pointer(in);
	l.at[2] = pointer(mask);
	l.factor = 1;
	app_launch(app, app->aten.add_strided, ((unsigned)n + 127) / 128, 128,
		   (void *[]){&count, &l});
}

/* [heads,rows,depth] from where rows and heads lie so many bytes apart. */
static void copy_heads(struct app *app, CUdeviceptr out, CUdeviceptr in, int rows, int heads,
		       int depth, unsigned row, unsigned head)
{
	const unsigned d = (unsigned)depth * 2;
	const unsigned strides[3][2] = {{2, 2}, {d, row}, {d * (unsigned)rows, head}};
	struct aten_strided2 l;
	int count = rows * heads * depth;

	unset(&l, sizeof(l));
	l.calculator.dims = 0;
	dimension(&l.calculator, (unsigned)depth);
	dimension(&l.calculator, (unsigned)rows);
	dimension(&l.calculator, (unsigned)heads);
	memcpy(l.strides, strides, sizeof(strides));
	l.at[0] = pointer(out);
	l.at[1] = pointer(in);
	app_launch(app, app->aten.copy_strided, ((unsigned)count + 127) / 128, 128,
		   (void *[]){&count, &l});
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
	int count = (int)n;
	struct aten_strided2 l;

	unset(&l, sizeof(l));
	l.calculator.dims = 0;
	dimension(&l.calculator, (unsigned)n);
	l.strides[0] = 4;
	l.strides[1] = 2;
	l.at[0] = pointer(out);
	l.at[1] = pointer(in);
	app_launch(app, app->aten.copy_strided, ((unsigned)count + 127) / 128, 128,
		   (void *[]){&count, &l});
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
