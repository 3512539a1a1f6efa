/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequences of engines in C++, with their kernels' names and parameters (engines.cu): masks of
 * ones where a key is shown, fp32 scores and fp16 probabilities, heads that share K and V by arrays
 * of addresses that a kernel fills.
 */
#include "hazards.h"

#include <math.h>
#include <string.h>

#define FT_PAIRS                                                                                   \
	"_ZN17fastertransformer20softmax_kernel_h2_v2I6__halfLi4ELi4EEEvPT_PKS2_S5_S5_iiiiS2_"
#define FT_WIDE	      "_ZN17fastertransformer14softmax_kernelI6__halffLi4EEEvPT_PKT0_PKS2_S8_iiiif"
#define GGML_SOFTMAX  "_Z12soft_max_f32ILb1ELi0ELi0EfEvPKfPKT2_S1_Pf15soft_max_params"
#define GGML_CONVERT  "_Z13convert_unaryIf6__halfEvPKvPT0_lll5uint3lll"
#define GGML_FOUR     "_Z23convert_unary_cont_vec4If6__halfEvPKvPT0_l"
#define GGML_POINTERS "_Z22k_compute_batched_ptrsPKvS0_PcPS0_PPvlllmmmmmmll"
#define GGML_SOFTCAP  "_Z11softcap_f32PKfPfffi"

static CUfunction kernel(const struct bench *b, const char *name)
{
	CUfunction function;

	CHECK(cuModuleGetFunction(&function, b->app.module, name));
	return function;
}

static void launch(struct bench *b, CUfunction function, const unsigned grid[3],
		   const unsigned block[2], void **params)
{
	CHECK(cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], 1, 0,
			     b->app.stream, params, NULL));
}

/* ---- masks of ones --------------------------------------------------------------------------- */

/* Keys up to `length` are shown to all rows but `hidden`, which sees none; with `part`, a key is
 * shown by so much. */
static void shown(struct bench *b, int length, int hidden, uint16_t part)
{
	static uint16_t mask[80 * 80];
	const struct app_shape z = b->shape;

	for (int i = 0; i < z.rows; i++)
		for (int j = 0; j < z.columns; j++)
			mask[i * z.columns + j] = i == hidden ? 0 : j < length ? 0x3c00 : 0;
	if (part)
		mask[5] = part;
	CHECK(cuMemcpyHtoD(b->mask, mask, sizeof(mask)));
}

static void product(struct bench *b, CUdeviceptr to, cudaDataType type)
{
	const float factor = 1 / sqrtf((float)b->shape.depth), zero = 0;
	const struct app_shape z = b->shape;
	const long long thin = (long long)z.rows * z.depth, wide = (long long)z.rows * z.columns;

	CHECK(b->app.call.gemm(b->app.blas, CUBLAS_OP_T, CUBLAS_OP_N, z.columns, z.rows, z.depth,
			       &factor, (void *)b->t.k, CUDA_R_16F, z.depth, thin, (void *)b->t.q,
			       CUDA_R_16F, z.depth, thin, &zero, (void *)to, type, z.columns, wide,
			       z.heads, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void masked(bool wide)
{
	struct bench b;

	bench_open(&b, APART);
	const CUfunction softmax = kernel(&b, wide ? FT_WIDE : FT_PAIRS);
	CUdeviceptr scores = wide ? app_alloc(b.scores * 4) : b.t.s, none = 0;
	const struct app_shape z = b.shape;
	const uint16_t half = 0x3c00;
	const float one = 1;
	const int batch = 1;
	void *const factor = wide ? (void *)&one : (void *)&half;

	if (!wide)
		b.t.p = b.t.s; /* in place */
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		/* hidden rows and keys shown by parts come when the site is known */
		shown(&b, z.columns - 3 * r, late(r) ? r : -1, r >= 8 ? 0x3bff : 0);
		product(&b, scores, wide ? CUDA_R_32F : CUDA_R_16F);
		launch(&b, softmax, (unsigned[]){(unsigned)z.rows, 1, (unsigned)z.heads},
		       (unsigned[]){32, 1},
		       (void *[]){&b.t.p, &scores, &b.mask, &none, (void *)&batch, (void *)&z.heads,
				  (void *)&z.rows, (void *)&z.columns, factor});
		if (r >= 10)
			CHECK(cuMemsetD16Async(b.mask, 0, b.scores / (size_t)z.heads,
					       b.app.stream));
		chain_close(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* ---- ggml ------------------------------------------------------------------------------------ */

enum { SHARED = 3 }; /* heads of Q for one of K and V */

struct params {
	long long heads;
	unsigned log2;
	long long columns, rows_x, rows_y, size[4], mask_stride[3], mask_size[2];
	float scale, slope, m0, m1;
};

struct prefill {
	struct bench b;
	CUfunction softmax, convert, four, pointers, softcap;
	CUdeviceptr q32, s32, p32, mask, from, to;
	float cap;
};

static void open_prefill(struct prefill *f, float cap)
{
	struct bench *b = &f->b;

	bench_open(b, APART);
	f->softmax = kernel(b, GGML_SOFTMAX);
	f->convert = kernel(b, GGML_CONVERT);
	f->four = kernel(b, GGML_FOUR);
	f->pointers = kernel(b, GGML_POINTERS);
	f->softcap = kernel(b, GGML_SOFTCAP);
	f->q32 = app_alloc(b->n * 4);
	f->s32 = app_alloc(b->scores * 4);
	f->p32 = app_alloc(b->scores * 4);
	f->mask = app_alloc(b->scores * 4);
	f->from = app_alloc(16 * (size_t)b->shape.heads);
	f->to = app_alloc(8 * (size_t)b->shape.heads);
	f->cap = cap;
}

/* Q comes as [rows,heads,depth] in fp32 and is laid out as [heads,rows,depth]. */
static void queries(struct prefill *f, int r)
{
	static float host[3 * 80 * 32], mask[80 * 80];
	struct bench *b = &f->b;
	const struct app_shape z = b->shape;
	const long long columns = z.depth, rows = z.rows, heads = z.heads;
	const long long s1 = columns * heads, s2 = columns, s3 = columns * heads * rows;
	const unsigned third[3] = {1, 2, (unsigned)heads};

	app_random_f32(host, b->n, 900 + (uint64_t)r);
	CHECK(cuMemcpyHtoD(f->q32, host, b->n * 4));
	for (int i = 0; i < z.rows; i++)
		for (int j = 0; j < z.columns; j++)
			mask[i * z.columns + j] = j <= i + r ? 0 : -INFINITY;
	CHECK(cuMemcpyHtoD(f->mask, mask, sizeof(mask)));
	launch(b, f->convert, (unsigned[]){1, (unsigned)rows, (unsigned)heads},
	       (unsigned[]){256, 1},
	       (void *[]){&f->q32, &b->t.q, (void *)&columns, (void *)&rows, (void *)&heads,
			  (void *)third, (void *)&s1, (void *)&s2, (void *)&s3});
}

static void fill_pointers(struct prefill *f, CUdeviceptr a, CUdeviceptr second, long long apart,
			  CUdeviceptr c, long long c_apart)
{
	struct bench *b = &f->b;
	const long long thin = 2ll * b->shape.rows * b->shape.depth;
	const long long heads = b->shape.heads, one = 1, shared = SHARED, all = thin * heads;
	const long long second_all = apart * heads, c_all = c_apart * heads;

	launch(b, f->pointers, (unsigned[]){1, 1, 1}, (unsigned[]){16, 16},
	       (void *[]){&a, &second, &c, &f->from, &f->to, (void *)&heads, (void *)&one,
			  (void *)&heads, (void *)&thin, (void *)&all, (void *)&apart,
			  (void *)&second_all, (void *)&c_apart, (void *)&c_all, (void *)&shared,
			  (void *)&one});
}

static void arrayed(struct prefill *f, bool first)
{
	struct bench *b = &f->b;
	const struct app_shape z = b->shape;
	const float one = 1, zero = 0;
	const CUdeviceptr second = f->from + 8 * (CUdeviceptr)z.heads;

	CHECK(cublasGemmBatchedEx(b->app.blas, first ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N,
				  first ? z.columns : z.depth, z.rows, first ? z.depth : z.columns,
				  &one, (void *)f->from, CUDA_R_16F, z.depth, (void *)second,
				  CUDA_R_16F, first ? z.depth : z.columns, &zero, (void *)f->to,
				  first ? CUDA_R_32F : CUDA_R_16F, first ? z.columns : z.depth,
				  z.heads, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void soften(struct prefill *f)
{
	struct bench *b = &f->b;
	const struct app_shape z = b->shape;
	const long long row = 4ll * z.columns, quarters = (long long)b->scores / 4;
	const int scores = (int)b->scores;
	const float scale = 1 / (f->cap > 0 ? f->cap : 1);
	CUdeviceptr none = 0;
	const struct params params = {.heads = z.heads,
				      .log2 = 2,
				      .columns = z.columns,
				      .rows_x = (long long)z.heads * z.rows,
				      .rows_y = z.rows,
				      .size = {z.columns, z.rows, z.heads, 1},
				      .mask_stride = {row, row * z.rows, row * z.rows},
				      .mask_size = {1, 1},
				      .scale = f->cap > 0 ? 1 : 1 / sqrtf((float)z.depth),
				      .m0 = 1,
				      .m1 = 1};

	if (f->cap > 0)
		launch(b, f->softcap, (unsigned[]){(unsigned)(scores + 255) / 256, 1, 1},
		       (unsigned[]){256, 1},
		       (void *[]){&f->s32, &f->s32, (void *)&scale, &f->cap, (void *)&scores});
	launch(b, f->softmax, (unsigned[]){(unsigned)z.rows, (unsigned)z.heads, 1},
	       (unsigned[]){32, 1}, (void *[]){&f->s32, &f->mask, &none, &f->p32, (void *)&params});
	launch(b, f->four, (unsigned[]){(unsigned)(quarters + 255) / 256, 1, 1},
	       (unsigned[]){256, 1}, (void *[]){&f->p32, &b->t.p, (void *)&quarters});
}

static void prefill(float cap)
{
	struct prefill f;
	struct bench *b = &f.b;

	open_prefill(&f, cap);
	const long long thin = 2ll * b->shape.rows * b->shape.depth;
	const long long wide = (long long)b->shape.rows * b->shape.columns;

	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(b, r);
		queries(&f, r);
		fill_pointers(&f, b->t.k, b->t.q, thin, f.s32, 4 * wide);
		arrayed(&f, true);
		soften(&f);
		fill_pointers(&f, b->t.v, b->t.p, 2 * wide, b->t.o, thin);
		if (r == 9) /* somebody else's addresses: a head of V for all */
			CHECK(cuMemcpyDtoD(f.from + 8, f.from, 8));
		arrayed(&f, false);
		observe_o(b, &b->t, r);
		if (late(r))
			observe_p(b, &b->t, r);
	}
	bench_close(b);
}

CASE(masked_pairs, masked(false))
CASE(masked_wide, masked(true))
CASE(prefill_shared, prefill(0))
CASE(prefill_capped, prefill(20))

const struct hazard hazards_engines[] = {
	ONCE(masked_pairs, "fp16 scores in place, a mask of ones where keys are shown"),
	ONCE(masked_wide, "the same of fp32 scores"),
	ONCE(prefill_shared, "heads that share K and V, fp32 scores, fp16 P"),
	ONCE(prefill_capped, "the same with a softcap"),
	{0},
};
