/* SPDX-License-Identifier: Apache-2.0
 *
 * Q, K and V as columns of one tensor, [S, 3, H, D], as a single projection makes them; the
 * products read them where they lie. Then some columns or rows are overwritten, and only then is P
 * read: it has to be computed from what Q and K were.
 */
#include "hazards.h"

enum { HEADS = 4, ROWS = 128, DEPTH = 64, HIDDEN = HEADS * DEPTH, PITCH = 3 * HIDDEN };

enum columns { COLUMNS_Q, COLUMNS_K, COLUMNS_V };

/* The tensor, and scores of its size. */
static CUdeviceptr columns_open(struct bench *b)
{
	bench_open(b, APART);
	b->shape = (struct app_shape){HEADS, ROWS, ROWS, DEPTH};
	b->n = (size_t)ROWS * HIDDEN;
	b->scores = (size_t)HEADS * ROWS * ROWS;
	b->t.s = b->t.m = app_alloc(b->scores * 2);
	b->t.x = app_alloc(b->scores * 2);
	b->t.p = app_alloc(b->scores * 2);
	b->t.o = app_alloc(b->n * 2);
	b->mask = app_alloc((size_t)ROWS * ROWS * 2);
	app_upload_causal(b->mask, ROWS, ROWS);
	return app_alloc(3 * b->n * 2);
}

static CUdeviceptr columns_of(CUdeviceptr qkv, enum columns columns)
{
	return qkv + 2 * (CUdeviceptr)columns * HIDDEN;
}

static void product(struct bench *b, cublasOperation_t transa, int m, int k, CUdeviceptr a,
		    CUdeviceptr second, int ldb, long long apart, CUdeviceptr c, int ldc,
		    long long c_apart)
{
	const float one = 1, zero = 0;

	CHECK(b->app.call.gemm(b->app.blas, transa, CUBLAS_OP_N, m, ROWS, k, &one, (void *)a,
			       CUDA_R_16F, PITCH, DEPTH, (void *)second, CUDA_R_16F, ldb, apart,
			       &zero, (void *)c, CUDA_R_16F, ldc, c_apart, HEADS,
			       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void attend(struct bench *b, CUdeviceptr qkv)
{
	product(b, CUBLAS_OP_T, ROWS, DEPTH, columns_of(qkv, COLUMNS_K), columns_of(qkv, COLUMNS_Q),
		PITCH, DEPTH, b->t.s, ROWS, (long long)ROWS * ROWS);
	chain_middle(b, &b->t);
	product(b, CUBLAS_OP_N, DEPTH, ROWS, columns_of(qkv, COLUMNS_V), b->t.p, ROWS,
		(long long)ROWS * ROWS, b->t.o, HIDDEN, DEPTH);
}

/* In the late repetitions `overwrite` does what the case is about, before P is read. */
static void overwriting(void (*overwrite)(struct bench *b, CUdeviceptr qkv))
{
	struct bench b;
	const CUdeviceptr qkv = columns_open(&b);

	for (int r = 0; r < REPETITIONS; r++) {
		app_upload_random(qkv, 3 * b.n, 7 * (uint64_t)r + 1);
		attend(&b, qkv);
		if (late(r)) {
			overwrite(&b, qkv);
			observe_p(&b, &b.t, r);
		}
		observe_o(&b, &b.t, r);
	}
	bench_close(&b);
}

static void clear(struct bench *b, CUdeviceptr qkv, enum columns columns)
{
	CHECK(cuMemsetD2D16Async(columns_of(qkv, columns), 2 * PITCH, 0, HIDDEN, ROWS,
				 b->app.stream));
}

static void clear_q(struct bench *b, CUdeviceptr qkv)
{
	clear(b, qkv, COLUMNS_Q);
}

static void clear_k(struct bench *b, CUdeviceptr qkv)
{
	clear(b, qkv, COLUMNS_K);
}

static void clear_v(struct bench *b, CUdeviceptr qkv)
{
	clear(b, qkv, COLUMNS_V);
}

/* From the middle of a row to the middle of another, then all of it. */
static void in_pieces(struct bench *b, CUdeviceptr qkv)
{
	app_fill(&b->app, qkv + 2 * (5 * PITCH + HIDDEN / 2), 3.0f, 7 * PITCH);
	app_upload_random(qkv, 3 * b->n, 4711);
}

CASE(columns_q, overwriting(clear_q))
CASE(columns_k, overwriting(clear_k))
CASE(columns_v, overwriting(clear_v))
CASE(columns_pieces, overwriting(in_pieces))

const struct hazard hazards_columns[] = {
	ONCE(columns_q, "Q, columns of QKV, is overwritten before P is read"),
	ONCE(columns_k, "K, columns of QKV, is overwritten before P is read"),
	ONCE(columns_v, "V, columns between those of Q and K, is overwritten"),
	ONCE(columns_pieces, "QKV is overwritten piece by piece before P is read"),
	{0},
};
