/* SPDX-License-Identifier: Apache-2.0
 *
 * Products by arrays of addresses: copied there by the host or filled by a kernel, heads that share
 * K and V, arrays that change when nobody would expect it.
 */
#include "hazards.h"

#include <string.h>

enum { SHARING = 4, SHARED = 2, ARRAYS = 6 }; /* heads, those that have one K and V */

/* S = QK^T by the first three of six arrays, O = PV by the others. */
static void first_product(struct bench *b, CUdeviceptr arrays)
{
	const struct app_shape z = b->shape;
	const float one = 1, zero = 0;
	const size_t step = (size_t)z.heads * 8;

	CHECK(cublasGemmBatchedEx(b->app.blas, CUBLAS_OP_T, CUBLAS_OP_N, z.columns, z.rows, z.depth,
				  &one, (void *)arrays, CUDA_R_16F, z.depth,
				  (void *)(arrays + step), CUDA_R_16F, z.depth, &zero,
				  (void *)(arrays + 2 * step), CUDA_R_16F, z.columns, z.heads,
				  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void second_product(struct bench *b, CUdeviceptr arrays)
{
	const struct app_shape z = b->shape;
	const float one = 1, zero = 0;
	const size_t step = (size_t)z.heads * 8;

	CHECK(cublasGemmBatchedEx(b->app.blas, CUBLAS_OP_N, CUBLAS_OP_N, z.depth, z.rows, z.columns,
				  &one, (void *)arrays, CUDA_R_16F, z.depth,
				  (void *)(arrays + step), CUDA_R_16F, z.columns, &zero,
				  (void *)(arrays + 2 * step), CUDA_R_16F, z.depth, z.heads,
				  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static size_t thin(const struct bench *b)
{
	return (size_t)b->shape.rows * (size_t)b->shape.depth * 2;
}

static size_t wide(const struct bench *b)
{
	return (size_t)b->shape.rows * (size_t)b->shape.columns * 2;
}

static bool undirected; /* copies do not say from where to where they lead */

/* Of one product, from the host. K and V (a) may be shared. */
static void copy_arrays(struct bench *b, CUdeviceptr arrays, int shared, CUdeviceptr a,
			CUdeviceptr second, size_t second_step, CUdeviceptr c, size_t c_step)
{
	const int heads = b->shape.heads;
	CUdeviceptr address[3 * SHARING];

	for (int h = 0; h < heads; h++) {
		address[h] = a + (size_t)(h / shared) * thin(b);
		address[heads + h] = second + (size_t)h * second_step;
		address[2 * heads + h] = c + (size_t)h * c_step;
	}
	if (undirected)
		CHECK(cuMemcpy(arrays, (CUdeviceptr)(uintptr_t)address, (size_t)heads * 3 * 8));
	else
		CHECK(cuMemcpyHtoD(arrays, address, (size_t)heads * 3 * 8));
}

/* The arrays are rewritten after Q.K was issued. */
static void copied(struct bench *b, int shared)
{
	const CUdeviceptr arrays = app_alloc(3 * SHARING * 8);

	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(b, r);
		copy_arrays(b, arrays, shared, b->t.k, b->t.q, thin(b), b->t.s, wide(b));
		first_product(b, arrays);
		chain_middle(b, &b->t);
		if (late(r))
			CHECK(cuMemsetD32(arrays, 0, 6));
		copy_arrays(b, arrays, shared, b->t.v, b->t.p, wide(b), b->t.o, thin(b));
		second_product(b, arrays);
		observe_o(b, &b->t, r);
		if (late(r))
			observe_p(b, &b->t, r);
	}
	bench_close(b);
}

static void address_array(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	copied(&b, 1);
}

static void address_array_undirected(void)
{
	undirected = true;
	address_array();
}

/* More heads than a bench has, each tensor in an allocation of its own. */
static void open_sharing(struct bench *b)
{
	bench_open(b, APART);
	b->n = b->n / (size_t)b->shape.heads * SHARING;
	b->scores = b->scores / (size_t)b->shape.heads * SHARING;
	b->shape.heads = SHARING;
	b->t.q = app_alloc(b->n * 2);
	b->t.k = app_alloc(b->n * 2);
	b->t.v = app_alloc(b->n * 2);
	b->t.o = app_alloc(b->n * 2);
	b->t.s = b->t.m = app_alloc(b->scores * 2);
	b->t.x = app_alloc(b->scores * 2);
	b->t.p = app_alloc(b->scores * 2);
}

static void address_array_shared(void)
{
	struct bench b;

	open_sharing(&b);
	copied(&b, SHARED);
}

/* Filled once, before anything is multiplied; the first head gets the last one's Q in between. */
static void arrays_before(void)
{
	struct bench b;
	CUdeviceptr arrays;
	size_t half;

	bench_open(&b, TOGETHER);
	arrays = app_alloc((size_t)ARRAYS * SHARING * 8);
	half = (size_t)b.shape.heads * 3 * 8;
	copy_arrays(&b, arrays, 1, b.t.k, b.t.q, thin(&b), b.t.s, wide(&b));
	copy_arrays(&b, arrays + half, 1, b.t.v, b.t.p, wide(&b), b.t.o, thin(&b));
	for (int r = 0; r < REPETITIONS; r++) {
		const CUdeviceptr queries = arrays + (size_t)b.shape.heads * 8;

		bench_inputs(&b, r);
		if (r == REPETITIONS - 2)
			CHECK(cuMemcpyDtoDAsync(queries, queries + 8, 8, b.app.stream));
		first_product(&b, arrays);
		chain_middle(&b, &b.t);
		second_product(&b, arrays + half);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* ---- filled by a kernel --------------------------------------------------------------------- */

struct filled {
	struct bench b;
	CUfunction fill;
	CUdeviceptr arrays, table;
};

static void open_filled(struct filled *f, const char *kernel)
{
	const int table[SHARING] = {0, 0, 1, 1};

	open_sharing(&f->b);
	CHECK(cuModuleGetFunction(&f->fill, f->b.app.module, kernel));
	f->arrays = app_alloc(ARRAYS * SHARING * 8);
	f->table = app_alloc(sizeof(table));
	CHECK(cuMemcpyHtoD(f->table, table, sizeof(table)));
}

static void fill(struct filled *f, const struct tensors *t)
{
	struct tensors at = *t;
	long long head = (long long)thin(&f->b), scores = (long long)wide(&f->b);
	CUdeviceptr last = SHARED;

	if (f->table)
		last = f->table;
	app_launch(&f->b.app, f->fill, 1, SHARING,
		   (void *[]){&f->arrays, &at.k, &at.q, &at.s, &at.v, &at.p, &at.o, &head, &scores,
			      &last});
}

/* `meddle` runs between the launch that fills the arrays and the first product. */
static void run_filled(struct filled *f, void (*place)(struct filled *, struct tensors *, int),
		       void (*meddle)(struct filled *, int))
{
	for (int r = 0; r < REPETITIONS; r++) {
		struct tensors t = f->b.t;

		if (place)
			place(f, &t, r);
		bench_inputs(&f->b, r);
		fill(f, &t);
		if (meddle)
			meddle(f, r);
		first_product(&f->b, f->arrays);
		chain_middle(&f->b, &t);
		second_product(&f->b, f->arrays + 3 * SHARING * 8);
		observe_o(&f->b, &t, r);
		if (late(r))
			observe_p(&f->b, &t, r);
	}
	bench_close(&f->b);
}

static void arrays_by_kernel(void)
{
	struct filled f;

	open_filled(&f, "app_fill_addresses");
	f.table = 0;
	run_filled(&f, NULL, NULL);
}

/* V and Q change places, and O goes elsewhere. */
static void elsewhere(struct filled *f, struct tensors *t, int r)
{
	const CUdeviceptr q = t->q;

	if (!late(r))
		return;
	t->q = t->v;
	t->v = q;
	t->o = f->b.spare;
}

static void arrays_move(void)
{
	struct filled f;

	open_filled(&f, "app_fill_addresses");
	f.table = 0;
	run_filled(&f, elsewhere, NULL);
}

/* The first head gets the last one's Q: by a copy on the device. */
static void edit(struct filled *f, int r)
{
	const CUdeviceptr queries = f->arrays + SHARING * 8;

	if (late(r))
		CHECK(cuMemcpyDtoDAsync(queries, queries + (SHARING - 1) * 8, 8, f->b.app.stream));
}

static void arrays_edited(void)
{
	struct filled f;

	open_filled(&f, "app_fill_addresses");
	f.table = 0;
	run_filled(&f, NULL, edit);
}

/* Before the launch: which heads share is another matter each time. */
static void shuffle(struct filled *f, struct tensors *t, int r)
{
	const int table[SHARING] = {r % 2, 0, late(r), 1};

	(void)t;
	CHECK(cuMemcpyHtoD(f->table, table, sizeof(table)));
}

static void arrays_by_table(void)
{
	struct filled f;

	open_filled(&f, "app_look_up_addresses");
	run_filled(&f, shuffle, NULL);
}

/* Memory of the arrays goes and comes back, filled by nobody the second time. */
static void free_arrays(struct filled *f, int r)
{
	const size_t bytes = ARRAYS * SHARING * 8;
	unsigned char kept[ARRAYS * SHARING * 8];

	if (!late(r))
		return;
	CHECK(cuMemcpyDtoH(kept, f->arrays, bytes));
	CHECK(cuMemFree(f->arrays));
	f->arrays = app_alloc(bytes);
	for (int h = 0; h < SHARING; h++) /* the last head's Q for all */
		memcpy(kept + (SHARING + h) * 8, kept + (2 * SHARING - 1) * 8, 8);
	CHECK(cuMemcpyHtoD(f->arrays, kept, bytes));
}

static void arrays_freed(void)
{
	struct filled f;

	open_filled(&f, "app_fill_addresses");
	f.table = 0;
	run_filled(&f, NULL, free_arrays);
}

const struct hazard hazards_arrays[] = {
	ONCE(address_array, "address arrays, rewritten between the products"),
	ONCE(address_array_undirected, "the same, by copies that do not say from where to where"),
	ONCE(arrays_before, "address arrays that were there from the start"),
	ONCE(address_array_shared, "the same, K and V shared by heads"),
	ONCE(arrays_by_kernel, "address arrays that a kernel fills"),
	ONCE(arrays_move, "the same, and the tensors move"),
	ONCE(arrays_edited, "the same, and an entry is copied over another"),
	ONCE(arrays_freed, "the same, and the arrays lie elsewhere"),
	ONCE(arrays_by_table, "what is filled in depends on other memory"),
	{0},
};
