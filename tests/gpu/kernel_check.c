/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels by themselves on a real GPU: `kernel_check IMAGE [WORD]`, IMAGE being a compiled
 * module.cu (cubin or fatbin), WORD choosing cases whose names contain it.
 *
 * Each case is run by the variant that would be chosen without sm90.cu and by every variant of
 * sm90.cu that takes it, on random data, O poisoned beforehand, and compared with
 * `fashim_reference` on sampled rows. Cases that say so are timed too: the median of 20 launches
 * after 5 to warm up. Fails if a result is further off than its element type explains.
 */
#include <cuda.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention.h"

#define CHECK(call)                                                                                \
	do {                                                                                       \
		CUresult result_ = (call);                                                         \
		if (result_ != CUDA_SUCCESS) {                                                     \
			const char *text_ = "?";                                                   \
			cuGetErrorString(result_, &text_);                                         \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text_);      \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define ROWS 512 /* sampled */
#define RUNS 20
#define WARM 5

enum bias { NO_BIAS, BIAS_SQUARE, BIAS_BATCH, BIAS_HEAD, BIAS_KEYS };

struct shape {
	const char *name;
	int dtype, B, H, Sq, Sk, D;
	int causal;    /* 1: aligned to the first key, 2: to the last */
	int left;      /* window to the left, 0: none */
	int bias;      /* enum bias */
	int bias_type; /* enum attn_dtype */
	int second;    /* also a second bias, of the keys */
	int round_x;   /* ... to the dtype */
	int mask;      /* a boolean mask, one in four off */
	int empty;     /* the mask is off for every fifth row; empty_row + 1 */
	float softcap;
	int down; /* K is stored [D,Sk] */
	int bshd; /* storage of Q, K, V and O */
	int wide; /* O is fp32 */
	int timed;
};

#define F ATTN_F16
#define G ATTN_BF16
static const struct shape shapes[] = {
	{.name = "plain f16 d64", .dtype = F, .B = 2, .H = 3, .Sq = 256, .Sk = 256, .D = 64},
	{.name = "plain bf16 d64",
	 .dtype = G,
	 .B = 2,
	 .H = 3,
	 .Sq = 256,
	 .Sk = 384,
	 .D = 64,
	 .bshd = 1},
	{.name = "plain f16 d128", .dtype = F, .B = 2, .H = 3, .Sq = 256, .Sk = 256, .D = 128},
	{.name = "plain bf16 d128", .dtype = G, .B = 1, .H = 3, .Sq = 300, .Sk = 333, .D = 128},
	{.name = "odd f16 d64",
	 .dtype = F,
	 .B = 2,
	 .H = 3,
	 .Sq = 197,
	 .Sk = 203,
	 .D = 64,
	 .bshd = 1},
	{.name = "one key", .dtype = F, .B = 1, .H = 2, .Sq = 70, .Sk = 1, .D = 64},
	{.name = "down d64", .dtype = F, .B = 2, .H = 3, .Sq = 197, .Sk = 200, .D = 64, .down = 1},
	{.name = "down d128",
	 .dtype = G,
	 .B = 2,
	 .H = 3,
	 .Sq = 197,
	 .Sk = 264,
	 .D = 128,
	 .down = 1},
	{.name = "causal d64",
	 .dtype = F,
	 .B = 2,
	 .H = 3,
	 .Sq = 500,
	 .Sk = 500,
	 .D = 64,
	 .causal = 1},
	{.name = "causal last d128",
	 .dtype = F,
	 .B = 2,
	 .H = 3,
	 .Sq = 200,
	 .Sk = 500,
	 .D = 128,
	 .causal = 2},
	{.name = "causal none seen",
	 .dtype = F,
	 .B = 1,
	 .H = 3,
	 .Sq = 500,
	 .Sk = 200,
	 .D = 64,
	 .causal = 2,
	 .empty = ATTN_EMPTY_NAN + 1},
	{.name = "causal none seen mean",
	 .dtype = G,
	 .B = 1,
	 .H = 3,
	 .Sq = 500,
	 .Sk = 200,
	 .D = 128,
	 .causal = 2,
	 .empty = ATTN_EMPTY_MEAN + 1},
	{.name = "window d64",
	 .dtype = G,
	 .B = 2,
	 .H = 3,
	 .Sq = 500,
	 .Sk = 500,
	 .D = 64,
	 .causal = 1,
	 .left = 100},
	{.name = "window down d128",
	 .dtype = G,
	 .B = 2,
	 .H = 3,
	 .Sq = 500,
	 .Sk = 504,
	 .D = 128,
	 .causal = 1,
	 .left = 70,
	 .down = 1},
	{.name = "bias square bf16",
	 .dtype = G,
	 .B = 2,
	 .H = 3,
	 .Sq = 256,
	 .Sk = 256,
	 .D = 64,
	 .bias = BIAS_SQUARE,
	 .bias_type = G,
	 .round_x = 1},
	{.name = "bias batch f16 odd",
	 .dtype = F,
	 .B = 2,
	 .H = 3,
	 .Sq = 197,
	 .Sk = 203,
	 .D = 64,
	 .bias = BIAS_BATCH,
	 .bias_type = F,
	 .round_x = 1},
	{.name = "bias head f32",
	 .dtype = F,
	 .B = 2,
	 .H = 3,
	 .Sq = 197,
	 .Sk = 200,
	 .D = 128,
	 .bias = BIAS_HEAD,
	 .bias_type = ATTN_F32},
	{.name = "bias head bf16 d128",
	 .dtype = G,
	 .B = 2,
	 .H = 3,
	 .Sq = 256,
	 .Sk = 200,
	 .D = 128,
	 .bias = BIAS_HEAD,
	 .bias_type = G},
	{.name = "two biases",
	 .dtype = F,
	 .B = 2,
	 .H = 3,
	 .Sq = 256,
	 .Sk = 264,
	 .D = 64,
	 .bias = BIAS_HEAD,
	 .bias_type = F,
	 .second = 1},
	{.name = "bias down",
	 .dtype = F,
	 .B = 2,
	 .H = 3,
	 .Sq = 256,
	 .Sk = 264,
	 .D = 64,
	 .bias = BIAS_BATCH,
	 .bias_type = F,
	 .down = 1},
	{.name = "bias down d128 odd",
	 .dtype = G,
	 .B = 2,
	 .H = 3,
	 .Sq = 197,
	 .Sk = 216,
	 .D = 128,
	 .bias = BIAS_KEYS,
	 .bias_type = G,
	 .second = 1,
	 .down = 1},
	{.name = "mask d64", .dtype = F, .B = 2, .H = 3, .Sq = 197, .Sk = 264, .D = 64, .mask = 1},
	{.name = "mask down d128",
	 .dtype = F,
	 .B = 2,
	 .H = 3,
	 .Sq = 197,
	 .Sk = 264,
	 .D = 128,
	 .mask = 1,
	 .down = 1},
	{.name = "mask empty zero",
	 .dtype = G,
	 .B = 2,
	 .H = 3,
	 .Sq = 197,
	 .Sk = 211,
	 .D = 64,
	 .mask = 1,
	 .empty = ATTN_EMPTY_ZERO + 1},
	{.name = "mask empty mean",
	 .dtype = G,
	 .B = 2,
	 .H = 3,
	 .Sq = 197,
	 .Sk = 211,
	 .D = 64,
	 .mask = 1,
	 .empty = ATTN_EMPTY_MEAN + 1},
	{.name = "mask empty nan",
	 .dtype = F,
	 .B = 2,
	 .H = 3,
	 .Sq = 197,
	 .Sk = 211,
	 .D = 128,
	 .mask = 1,
	 .empty = ATTN_EMPTY_NAN + 1,
	 .bshd = 1},
	{.name = "softcap",
	 .dtype = F,
	 .B = 2,
	 .H = 3,
	 .Sq = 256,
	 .Sk = 256,
	 .D = 64,
	 .softcap = 2.0f},
	{.name = "softcap causal d128",
	 .dtype = G,
	 .B = 2,
	 .H = 3,
	 .Sq = 256,
	 .Sk = 256,
	 .D = 128,
	 .softcap = 2.0f,
	 .causal = 1},
	{.name = "fp32 out", .dtype = F, .B = 2, .H = 3, .Sq = 256, .Sk = 256, .D = 64, .wide = 1},
	{.name = "B4 H16 S2048 D64",
	 .dtype = F,
	 .B = 4,
	 .H = 16,
	 .Sq = 2048,
	 .Sk = 2048,
	 .D = 64,
	 .timed = 1},
	{.name = "B2 H16 S4096 D64",
	 .dtype = F,
	 .B = 2,
	 .H = 16,
	 .Sq = 4096,
	 .Sk = 4096,
	 .D = 64,
	 .timed = 1},
	{.name = "B2 H16 S4096 D128",
	 .dtype = F,
	 .B = 2,
	 .H = 16,
	 .Sq = 4096,
	 .Sk = 4096,
	 .D = 128,
	 .timed = 1},
	{.name = "B2 H16 S4096 D128 bf16",
	 .dtype = G,
	 .B = 2,
	 .H = 16,
	 .Sq = 4096,
	 .Sk = 4096,
	 .D = 128,
	 .timed = 1},
	{.name = "B2 H16 S4096 D64 causal",
	 .dtype = F,
	 .B = 2,
	 .H = 16,
	 .Sq = 4096,
	 .Sk = 4096,
	 .D = 64,
	 .causal = 1,
	 .timed = 1},
	{.name = "B2 H16 S4096 D128 causal",
	 .dtype = F,
	 .B = 2,
	 .H = 16,
	 .Sq = 4096,
	 .Sk = 4096,
	 .D = 128,
	 .causal = 1,
	 .timed = 1},
	{.name = "B1 H32 S2048 D64 bias [1,1,S,S]",
	 .dtype = G,
	 .B = 1,
	 .H = 32,
	 .Sq = 2048,
	 .Sk = 2048,
	 .D = 64,
	 .bias = BIAS_SQUARE,
	 .bias_type = G,
	 .timed = 1},
	{.name = "B1 H32 S2048 D128 bias [1,1,S,S]",
	 .dtype = G,
	 .B = 1,
	 .H = 32,
	 .Sq = 2048,
	 .Sk = 2048,
	 .D = 128,
	 .bias = BIAS_SQUARE,
	 .bias_type = G,
	 .timed = 1},
	{.name = "B8 H16 S512 D64 bias [B,1,S,S]",
	 .dtype = F,
	 .B = 8,
	 .H = 16,
	 .Sq = 512,
	 .Sk = 512,
	 .D = 64,
	 .bias = BIAS_BATCH,
	 .bias_type = F,
	 .timed = 1},
	{.name = "B8 H16 S512 D64 bias [B,1,S,S], K [D,S]",
	 .dtype = F,
	 .B = 8,
	 .H = 16,
	 .Sq = 512,
	 .Sk = 512,
	 .D = 64,
	 .bias = BIAS_BATCH,
	 .bias_type = F,
	 .down = 1,
	 .timed = 1},
	{.name = "B8 H16 S512 D64 bias [1,1,1,S], K [D,S]",
	 .dtype = F,
	 .B = 8,
	 .H = 16,
	 .Sq = 512,
	 .Sk = 512,
	 .D = 64,
	 .bias = BIAS_KEYS,
	 .bias_type = F,
	 .down = 1,
	 .timed = 1},
	{.name = "B4 H16 S2048 D64, K [D,S]",
	 .dtype = F,
	 .B = 4,
	 .H = 16,
	 .Sq = 2048,
	 .Sk = 2048,
	 .D = 64,
	 .down = 1,
	 .timed = 1},
	{.name = "B32 H16 S197 D64",
	 .dtype = F,
	 .B = 32,
	 .H = 16,
	 .Sq = 197,
	 .Sk = 197,
	 .D = 64,
	 .timed = 1},
	{.name = "B1 H8 S512 D64",
	 .dtype = F,
	 .B = 1,
	 .H = 8,
	 .Sq = 512,
	 .Sk = 512,
	 .D = 64,
	 .timed = 1},
};

static CUmodule module;
static uint64_t available;
static int failures;

/* ---- numbers -------------------------------------------------------------------------------- */

static uint64_t seed = 88172645463325252u;
static float random_number(void)
{
	float sum = 0.0f;

	for (int n = 0; n < 4; n++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		sum += (float)(seed >> 40) / (float)(1 << 24) - 0.5f;
	}
	return sum * 1.7320508f; /* variance 1 */
}

static uint16_t narrow(float x, int dtype)
{
	uint32_t u;

	if (dtype == ATTN_F16) {
		_Float16 h = (_Float16)x;
		uint16_t bits;
		memcpy(&bits, &h, 2);
		return bits;
	}
	memcpy(&u, &x, 4);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static double widen(const void *p, size_t index, int dtype)
{
	uint32_t u;
	float x;

	if (dtype == ATTN_F32)
		return ((const float *)p)[index];
	if (dtype == ATTN_F16) {
		_Float16 h;
		memcpy(&h, (const char *)p + 2 * index, 2);
		return (double)h;
	}
	u = (uint32_t)((const uint16_t *)p)[index] << 16;
	memcpy(&x, &u, 4);
	return x;
}

/* A device array of n random elements: a repeated stretch of numbers, so that it is made fast. */
static CUdeviceptr random_array(size_t n, int dtype)
{
	const size_t size = (size_t)attn_dtype_size(dtype), stretch = 1000003 < n ? 1000003 : n;
	char *host = malloc(n * size);
	CUdeviceptr at;

	for (size_t i = 0; i < stretch; i++) {
		float x = random_number();
		uint16_t bits = narrow(x, dtype);
		memcpy(host + i * size, size == 4 ? (void *)&x : (void *)&bits, size);
	}
	for (size_t i = stretch; i < n; i += stretch)
		memcpy(host + i * size, host, (n - i < stretch ? n - i : stretch) * size);
	CHECK(cuMemAlloc(&at, n * size));
	CHECK(cuMemcpyHtoD(at, host, n * size));
	free(host);
	return at;
}

/* ---- a case --------------------------------------------------------------------------------- */

static struct attn_tensor operand(const struct shape *s, int rows, int dtype, int down)
{
	struct attn_tensor t = {.dtype = dtype};
	const int64_t D = s->D, H = s->H;

	t.base = random_array((size_t)s->B * (size_t)H * (size_t)rows * (size_t)D, dtype);
	if (s->bshd && !down) {
		const int64_t stride[4] = {rows * H * D, D, H * D, 1};
		memcpy(t.stride, stride, sizeof(stride));
	} else {
		const int64_t stride[4] = {H * rows * D, rows * D, down ? 1 : D, down ? rows : 1};
		memcpy(t.stride, stride, sizeof(stride));
	}
	return t;
}

static struct attn_tensor bias(const struct shape *s, enum bias kind, int dtype)
{
	struct attn_tensor t = {.dtype = dtype};
	const int64_t square = (int64_t)s->Sq * s->Sk;

	t.base = random_array((size_t)(square * (kind == BIAS_BATCH  ? s->B
						 : kind == BIAS_HEAD ? s->H
								     : 1)),
			      dtype);
	t.stride[0] = kind == BIAS_BATCH ? square : 0;
	t.stride[1] = kind == BIAS_HEAD ? square : 0;
	t.stride[2] = kind == BIAS_KEYS ? 0 : s->Sk;
	t.stride[3] = 1;
	return t;
}

static struct attn_tensor mask(const struct shape *s)
{
	struct attn_tensor t = {.dtype = ATTN_BOOL};
	const size_t n = (size_t)s->Sq * (size_t)s->Sk;
	char *host = malloc(n);
	CUdeviceptr at;

	for (size_t i = 0; i < n; i++)
		host[i] = random_number() > -0.7f && !(s->empty && i / (size_t)s->Sk % 5 == 0);
	CHECK(cuMemAlloc(&at, n));
	CHECK(cuMemcpyHtoD(at, host, n));
	free(host);
	t.base = at;
	t.stride[2] = s->Sk;
	t.stride[3] = 1;
	return t;
}

static struct attn_args arguments(const struct shape *s)
{
	struct attn_args a = {
		.B = s->B, .H = s->H, .Sq = s->Sq, .Sk = s->Sk, .D = s->D, .Dv = s->D};

	a.q = operand(s, s->Sq, s->dtype, 0);
	a.k = operand(s, s->Sk, s->dtype, s->down);
	a.v = operand(s, s->Sk, s->dtype, 0);
	a.o = operand(s, s->Sq, s->wide ? ATTN_F32 : s->dtype, 0);
	a.spec.scale = 1.0f / sqrtf((float)s->D);
	a.spec.softcap = s->softcap;
	a.spec.out_scale = 1.0f;
	a.spec.round_x = s->round_x ? s->dtype : ATTN_F32;
	a.spec.round_p = s->dtype;
	a.spec.empty_row = s->empty ? s->empty - 1 : ATTN_EMPTY_NAN;
	a.spec.window_left = s->left ? s->left : ATTN_NO_WINDOW;
	a.spec.window_right = s->causal ? 0 : ATTN_NO_WINDOW;
	a.spec.window_shift = s->causal == 2 ? s->Sk - s->Sq : 0;
	a.spec.window_value = -INFINITY;
	if (s->bias) {
		a.spec.bias[0] = bias(s, (enum bias)s->bias, s->bias_type);
		a.spec.bias_scale[0] = 1.0f;
	}
	if (s->second) {
		a.spec.bias[1] = bias(s, BIAS_KEYS, ATTN_F32);
		a.spec.bias_scale[1] = 0.5f;
	}
	if (s->mask) {
		a.spec.mask = mask(s);
		a.spec.mask_keeps = 1;
		a.spec.mask_value = -INFINITY;
	}
	return a;
}

static size_t elements(const struct attn_args *a)
{
	return (size_t)a->B * (size_t)a->H * (size_t)a->Sq * (size_t)a->Dv;
}

static void launch(CUfunction f, const struct attn_variant *v, const struct attn_args *a)
{
	void *params[] = {(void *)(uintptr_t)a};
	const unsigned x =
		(unsigned)((a->Sq + v->rows_per_block - 1) / v->rows_per_block * v->grid_x_factor);

	CHECK(cuLaunchKernel(f, x, (unsigned)a->H, (unsigned)a->B, (unsigned)v->threads, 1, 1,
			     (unsigned)v->shared_bytes, NULL, params, NULL));
}

static int by_number(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Microseconds. */
static float median(CUfunction f, const struct attn_variant *v, const struct attn_args *a)
{
	float times[RUNS];
	CUevent begin, end;

	CHECK(cuEventCreate(&begin, 0));
	CHECK(cuEventCreate(&end, 0));
	for (int n = -WARM; n < RUNS; n++) {
		float ms;
		CHECK(cuEventRecord(begin, NULL));
		launch(f, v, a);
		CHECK(cuEventRecord(end, NULL));
		CHECK(cuEventSynchronize(end));
		CHECK(cuEventElapsedTime(&ms, begin, end));
		if (n >= 0)
			times[n] = 1e3f * ms;
	}
	qsort(times, RUNS, sizeof(times[0]), by_number);
	return times[RUNS / 2];
}

static void run(const struct shape *s, const struct attn_args *a, const struct attn_variant *v,
		const double *truth, int rows)
{
	const size_t size = (size_t)attn_dtype_size(a->o.dtype), n = elements(a);
	const double limit = s->dtype == ATTN_F16 ? 2e-3 : 1.2e-2;
	double worst = 0.0, error2 = 0.0, sum2 = 0.0, rel;
	uint64_t mismatch = 0;
	CUfunction f;
	void *host = malloc(n * size);

	CHECK(cuModuleGetFunction(&f, module, v->symbol));
	CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				 v->shared_bytes));
	/* a pattern that is no NaN, so that an element left alone is off even where NaN is right */
	CHECK(cuMemsetD8(a->o.base, 0x7a, n * size));
	launch(f, v, a);
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(host, a->o.base, n * size));
	for (int r = 0; r < rows; r++) {
		const int64_t row = attn_sample_row(r, rows, (int64_t)a->B * a->H * a->Sq);
		const int64_t at = row / a->Sq / a->H * a->o.stride[0] +
				   row / a->Sq % a->H * a->o.stride[1] +
				   row % a->Sq * a->o.stride[2];

		for (int c = 0; c < a->Dv; c++) {
			const double want = truth[(int64_t)r * a->Dv + c];
			const double got =
				widen(host, (size_t)(at + c * a->o.stride[3]), a->o.dtype);

			if (!isfinite(want) || !isfinite(got)) {
				mismatch += !(isnan(want) && isnan(got));
				continue;
			}
			if (fabs(got - want) > worst)
				worst = fabs(got - want);
			error2 += (got - want) * (got - want);
			sum2 += want * want;
		}
	}
	rel = sqrt(error2 / (sum2 > 0.0 ? sum2 : 1.0));
	if (mismatch || !(rel < limit))
		failures++;
	printf("%-42s %-24s rel %.1e max %.1e%s", s->name, v->name, rel, worst,
	       mismatch	     ? " NON-FINITE"
	       : rel < limit ? ""
			     : " WRONG");
	if (s->timed) {
		const double us = median(f, v, a);
		const double pairs = s->causal ? 0.5 * s->Sq * s->Sk : (double)s->Sq * s->Sk;

		printf("  %8.1f us %6.1f TFLOP/s", us,
		       4.0 * s->B * s->H * s->D * pairs / us * 1e-6);
	}
	printf("\n");
	fflush(stdout);
	free(host);
}

static void check(const struct shape *s)
{
	struct attn_args a = arguments(s);
	const int64_t total = (int64_t)s->B * s->H * s->Sq;
	struct reference_args ref = {.attn = a, .rows = (int32_t)(total < ROWS ? total : ROWS)};
	const size_t bytes = (size_t)ref.rows * (size_t)s->D * sizeof(double);
	void *params[] = {&ref};
	double *truth = malloc(bytes);
	CUfunction f;

	CHECK(cuMemAlloc((CUdeviceptr *)&ref.scratch, (size_t)ref.rows * (size_t)s->Sk * 8));
	CHECK(cuMemAlloc((CUdeviceptr *)&ref.out, bytes));
	CHECK(cuModuleGetFunction(&f, module, "fashim_reference"));
	CHECK(cuLaunchKernel(f, (unsigned)ref.rows, 1, 1, REFERENCE_THREADS, 1, 1, 0, NULL, params,
			     NULL));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(truth, ref.out, bytes));

	if (cuModuleGetFunction(&f, module, attn_select(&a, 90, NULL)->symbol) == CUDA_SUCCESS)
		run(s, &a, attn_select(&a, 90, NULL), truth, ref.rows);
	for (int n = attn_variant_count; n < attn_variant_total; n++)
		if (attn_select_from(&a, 90, attn_variants[n].name, available) == &attn_variants[n])
			run(s, &a, &attn_variants[n], truth, ref.rows);

	cuMemFree(a.q.base);
	cuMemFree(a.k.base);
	cuMemFree(a.v.base);
	cuMemFree(a.o.base);
	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		if (a.spec.bias[n].base)
			cuMemFree(a.spec.bias[n].base);
	if (a.spec.mask.base)
		cuMemFree(a.spec.mask.base);
	cuMemFree(ref.scratch);
	cuMemFree(ref.out);
	free(truth);
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;
	CUfunction f;

	if (argc < 2) {
		fprintf(stderr, "usage: kernel_check IMAGE [WORD]\n");
		return 2;
	}
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoad(&module, argv[1]));
	for (int n = 0; n < attn_variant_total; n++)
		if (cuModuleGetFunction(&f, module, attn_variants[n].symbol) == CUDA_SUCCESS)
			available |= (uint64_t)1 << n;
	for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]); n++)
		if (argc < 3 || strstr(shapes[n].name, argv[2]))
			check(&shapes[n]);
	printf("%d wrong\n", failures);
	return failures != 0;
}
