/* SPDX-License-Identifier: Apache-2.0
 *
 * QK^T and softmax in fp32, of a Q and a K that were cast from fp16, and PV in fp16 again, as GPT-J
 * and CodeGen do it. A shim may read what was cast, as long as that is what it was.
 */
#include "hazards.h"

#include <string.h>

#include "aten.h"

struct wide {
	CUdeviceptr q, k, s, p, raw; /* fp32; raw: Q as [S,H,D] */
	CUdeviceptr scaled;	     /* where S goes, scaled */
	CUfunction cast, scale, softmax, lay_out;
};

static struct wide wide_open(struct bench *b)
{
	struct wide w;

	bench_open(b, TOGETHER);
	w.q = app_alloc(b->n * 4);
	w.k = app_alloc(b->n * 4);
	w.raw = app_alloc((b->n > b->scores ? b->n : b->scores) * 4);
	w.s = app_alloc(b->scores * 4);
	w.p = app_alloc(b->scores * 4);
	w.scaled = w.s;
	CHECK(cuModuleGetFunction(&w.cast, b->app.module, TEXT(ATEN_CAST)));
	CHECK(cuModuleGetFunction(&w.scale, b->app.module, TEXT(ATEN_SCALE_F32)));
	CHECK(cuModuleGetFunction(&w.softmax, b->app.module, TEXT(ATEN_SOFTMAX_F32)));
	CHECK(cuModuleGetFunction(&w.lay_out, b->app.module, TEXT(ATEN_COPY_STRIDED_F32)));
	return w;
}

static struct aten_pointers2 pointers(CUdeviceptr out, CUdeviceptr in)
{
	return (struct aten_pointers2){{(char *)(uintptr_t)out, (char *)(uintptr_t)in}};
}

static void cast(struct bench *b, const struct wide *w, CUdeviceptr out, CUdeviceptr in, size_t n,
		 bool widen)
{
	struct aten_cast half = {ATEN_HALF, 2}, full = {ATEN_FLOAT, 4};
	struct aten_pointers2 p = pointers(out, in);
	struct aten_empty_functor nothing = {0};
	int count = (int)n;

	app_launch(&b->app, w->cast, ((unsigned)n + 511) / 512, 128,
		   (void *[]){&count, &nothing, &p, &nothing, &nothing, widen ? &half : &full,
			      widen ? &full : &half});
}

static void dimension(struct aten_strided2 *l, int size, int to, int from)
{
	const int d = l->calculator.dims++;

	l->calculator.size[d].divisor = (unsigned)size;
	l->strides[2 * d] = 4 * (unsigned)to;
	l->strides[2 * d + 1] = 4 * (unsigned)from;
}

/* [H,S,D] from [S,H,D] */
static void lay_out(struct bench *b, const struct wide *w, CUdeviceptr out, CUdeviceptr in)
{
	const struct app_shape z = b->shape;
	struct aten_strided2 l;
	int count = (int)b->n;

	memset(&l, 0, sizeof(l));
	dimension(&l, z.depth, 1, 1);
	dimension(&l, z.rows, z.depth, z.depth * z.heads);
	dimension(&l, z.heads, z.depth * z.rows, z.depth);
	l.at[0] = (char *)(uintptr_t)out;
	l.at[1] = (char *)(uintptr_t)in;
	app_launch(&b->app, w->lay_out, ((unsigned)count + 255) / 256, 128, (void *[]){&count, &l});
}

static void scores(struct bench *b, const struct wide *w)
{
	const struct app_shape z = b->shape;
	const float one = 1, zero = 0;

	CHECK(b->app.call.gemm(b->app.blas, CUBLAS_OP_T, CUBLAS_OP_N, z.columns, z.rows, z.depth,
			       &one, (void *)w->k, CUDA_R_32F, z.depth,
			       (long long)z.columns * z.depth, (void *)w->q, CUDA_R_32F, z.depth,
			       (long long)z.rows * z.depth, &zero, (void *)w->s, CUDA_R_32F,
			       z.columns, (long long)z.rows * z.columns, z.heads,
			       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void scale(struct bench *b, const struct wide *w, CUdeviceptr out, CUdeviceptr in, size_t n,
		  float factor)
{
	struct aten_pointers2 p = pointers(out, in);
	struct aten_scalar_functor f = {0, factor};
	int count = (int)n;

	app_launch(&b->app, w->scale, ((unsigned)n + 511) / 512, 128, (void *[]){&count, &f, &p});
}

static void weights(struct bench *b, const struct wide *w)
{
	int rows = b->shape.heads * b->shape.rows, chunk = -1;
	CUdeviceptr mask = 0;
	bool transformer = false;
	void *params[] = {(void *)&w->p,
			  (void *)&w->scaled,
			  &rows,
			  &b->shape.columns,
			  &b->shape.columns,
			  &mask,
			  &chunk,
			  &transformer};

	scale(b, w, w->scaled, w->s, b->scores, 0.25f);
	CHECK(cuLaunchKernel(w->softmax, (unsigned)(rows + 3) / 4, 1, 1, 32, 4, 1, 0, b->app.stream,
			     params, NULL));
	cast(b, w, b->t.p, w->p, b->scores, false);
}

/* before: comes between the casts and QK^T; inside: between softmax and PV; in late repetitions. */
enum way { CAST, LAID_OUT, REUSED }; /* REUSED: as LAID_OUT, and the scores go where raw was */

static void attend(enum way way, void (*before)(struct bench *b, const struct wide *w),
		   void (*inside)(struct bench *b, const struct wide *w))
{
	struct bench b;
	struct wide w = wide_open(&b);
	const bool laid_out = way != CAST;

	if (way == REUSED)
		w.scaled = w.raw;
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		cast(&b, &w, laid_out ? w.raw : w.q, b.t.q, b.n, true);
		cast(&b, &w, w.k, b.t.k, b.n, true);
		if (late(r) && before && laid_out)
			before(&b, &w);
		if (laid_out)
			lay_out(&b, &w, w.q, w.raw);
		if (late(r) && before && !laid_out)
			before(&b, &w);
		scores(&b, &w);
		weights(&b, &w);
		if (late(r) && inside)
			inside(&b, &w);
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* Q and K never were numbers of 16 bits, as where their positions are turned in fp32. */
static void never_narrow(bool over_q)
{
	struct bench b;
	struct wide w = wide_open(&b);

	if (over_q)
		b.t.o = w.q;
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		bench_inputs(&b, r);
		cast(&b, &w, w.raw, b.t.q, b.n, true);
		scale(&b, &w, w.q, w.raw, b.n, 0.7f);
		cast(&b, &w, w.raw, b.t.k, b.n, true);
		scale(&b, &w, w.k, w.raw, b.n, 1.3f);
		scores(&b, &w);
		weights(&b, &w);
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (r == 2 * REPETITIONS - 2)
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* What was cast is something else by the time of PV. */
static void edit_narrow(struct bench *b, const struct wide *w)
{
	(void)w;
	CHECK(cuMemsetD16(b->t.q + 512, 0x3c00, b->n / 2));
	CHECK(cuMemsetD16(b->t.k, 0x3c00, b->n / 3));
}

/* What was made of it is something else by the time of QK^T. */
static void edit_wide(struct bench *b, const struct wide *w)
{
	CHECK(cuMemsetD32(w->q + 512, 0x3f800000, b->n / 2));
	CHECK(cuMemsetD32(w->raw + 512, 0x3f800000, b->n / 2));
	CHECK(cuMemsetD32(w->k + 4, 0, b->n / 3));
}

CASE(cast_never, never_narrow(false))
CASE(cast_never_over_q, never_narrow(true))
CASE(plain, attend(CAST, NULL, NULL))
CASE(cast_laid_out, attend(LAID_OUT, NULL, NULL))
CASE(cast_edited, attend(CAST, NULL, edit_narrow))
CASE(cast_laid_edited, attend(LAID_OUT, NULL, edit_narrow))
CASE(cast_wide_edited, attend(CAST, edit_wide, NULL))
CASE(cast_laid_reused, attend(REUSED, NULL, NULL))
CASE(cast_laid_reused_edited, attend(REUSED, NULL, edit_narrow))
CASE(cast_laid_wide_edited, attend(LAID_OUT, edit_wide, NULL))

const struct hazard hazards_casts[] = {
	{.name = "cast", .run = plain, .about = "Q and K are cast to fp32 for QK^T, PV is in fp16"},
	ONCE(cast_never, "Q and K are of fp32, and V is of fp16"),
	ONCE(cast_never_over_q, "the same, and O goes where Q was"),
	ONCE(cast_edited, "the same, and they are edited before PV"),
	ONCE(cast_wide_edited, "the same, and the fp32 ones before QK^T"),
	ONCE(cast_laid_out, "Q is cast, then laid out"),
	ONCE(cast_laid_edited, "the same, and Q and K are edited before PV"),
	ONCE(cast_laid_wide_edited, "the same, and in fp32 between the two"),
	ONCE(cast_laid_reused, "Q is cast, then laid out; the scores go where it was cast to"),
	ONCE(cast_laid_reused_edited, "the same, and Q and K are edited before PV"),
	{0},
};
