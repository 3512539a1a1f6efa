/* SPDX-License-Identifier: Apache-2.0
 *
 * The fp32 kernels by themselves on a real GPU: `f32_check IMAGE [WORD]`, IMAGE being a compiled
 * f32_check.cu, WORD choosing cases and variants whose names contain it.
 *
 * Each case is run by every variant that takes it, on random data, O poisoned beforehand, and
 * compared with double precision on sampled rows. `of chain` is the error relative to that of a
 * chain in fp32 arithmetic on the same rows, as a whole (Frobenius) and at the worst element; above
 * LIMIT of the former the case fails, unless the error is less than ULP of the result: where one
 * key is all there is, or outweighs all others, the chain hands its V through almost or quite
 * without an error of its own, and being so many times as far off says nothing. Times: median over
 * ROUNDS of the mean of RUNS launches.
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

#define ROWS   256 /* sampled */
#define ROUNDS 7
#define RUNS   20
#define LIMIT  2.0
#define ULP    0x1p-23
#define ARCH   90

enum data { NORMAL, OUTLIERS, STEEP, UNEVEN };

struct shape {
	const char *name;
	int B, H, Sq, Sk, D;
	int causal; /* 1: aligned to the first key, 2: to the last */
	int left;   /* window to the left, 0: none */
	int bias;   /* [1,H,Sq,Sk], and scale 1 */
	int bshd;   /* storage of Q, K, V and O */
	int pad;    /* longer rows */
	int down;   /* K is stored [D,Sk] */
	int data;   /* enum data */
	int timed;
};

/* clang-format off */
#define SHAPE(b, h, sq, sk, d) .B = b, .H = h, .Sq = sq, .Sk = sk, .D = d
static const struct shape shapes[] = {
	{"plain d64", SHAPE(2, 3, 256, 256, 64)},
	{"plain d128", SHAPE(2, 3, 256, 256, 128)},
	{"odd d64", SHAPE(2, 3, 197, 203, 64), .bshd = 1},
	{"odd d128", SHAPE(2, 3, 300, 333, 128), .bshd = 1},
	{"one key", SHAPE(1, 2, 70, 1, 64)},
	{"few queries", SHAPE(2, 8, 3, 700, 64)},
	{"d40", SHAPE(2, 3, 197, 203, 40)},
	{"d80", SHAPE(2, 3, 197, 203, 80)},
	{"d256", SHAPE(2, 3, 197, 203, 256)},
	{"unaligned rows", SHAPE(2, 3, 197, 203, 64), .pad = 1},
	{"K down", SHAPE(2, 3, 197, 204, 64), .down = 1},
	{"causal d64", SHAPE(2, 3, 500, 500, 64), .causal = 1},
	{"causal last d128", SHAPE(2, 3, 200, 500, 128), .causal = 2},
	{"window d64", SHAPE(2, 3, 500, 500, 64), .causal = 1, .left = 100},
	{"bias d64", SHAPE(2, 3, 256, 320, 64), .bias = 1},
	{"bias odd d128", SHAPE(2, 3, 197, 203, 128), .bias = 1},
	{"outliers d64", SHAPE(1, 4, 512, 1024, 64), .data = OUTLIERS},
	{"outliers d128", SHAPE(1, 4, 512, 1024, 128), .data = OUTLIERS},
	{"steep d64", SHAPE(1, 4, 512, 1024, 64), .data = STEEP},
	{"steep d128", SHAPE(1, 4, 512, 1024, 128), .data = STEEP},
	{"uneven d64", SHAPE(1, 4, 512, 1024, 64), .data = UNEVEN},
	{"uneven d128", SHAPE(1, 4, 512, 1024, 128), .data = UNEVEN},
	{"B4 H16 S2048 D64", SHAPE(4, 16, 2048, 2048, 64), .timed = 1},
	{"B2 H16 S4096 D64", SHAPE(2, 16, 4096, 4096, 64), .timed = 1},
	{"B2 H16 S4096 D64 causal", SHAPE(2, 16, 4096, 4096, 64), .causal = 1, .timed = 1},
	{"B2 H16 S4096 D128", SHAPE(2, 16, 4096, 4096, 128), .timed = 1},
	{"B2 H16 S4096 D128 causal", SHAPE(2, 16, 4096, 4096, 128), .causal = 1, .timed = 1},
	{"B1 H16 S16384 D64", SHAPE(1, 16, 16384, 16384, 64), .timed = 1},
	{"B8 H16 S1024 D64", SHAPE(8, 16, 1024, 1024, 64), .timed = 1},
	{"B8 H12 S512 D64 T5 bias", SHAPE(8, 12, 512, 512, 64), .bias = 1, .bshd = 1, .timed = 1},
	{"B2 H12 S2048 D64 T5 bias", SHAPE(2, 12, 2048, 2048, 64), .bias = 1, .bshd = 1, .timed = 1},
	{"B1 H8 S512 D64", SHAPE(1, 8, 512, 512, 64), .timed = 1},
	{"B32 H12 S128 D64", SHAPE(32, 12, 128, 128, 64), .timed = 1},
	{"B8 H16 S512 D80", SHAPE(8, 16, 512, 512, 80), .timed = 1},
};
/* clang-format on */

static CUmodule module;
static uint8_t available[512];
static int failures;

/* ---- numbers -------------------------------------------------------------------------------- */

static float uniform(void)
{
	static uint64_t seed = 88172645463325252u;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (float)(seed >> 40) / (float)(1 << 24);
}

static float normal(void)
{
	return (uniform() + uniform() + uniform() + uniform() - 2.0f) * 1.7320508f;
}

static float number(enum data data)
{
	float x = normal();

	if (data == OUTLIERS && uniform() < 0.001f)
		x += 10.0f * normal();
	if (data == UNEVEN)
		x *= exp2f(floorf(16.0f * uniform()) - 8.0f);
	return x;
}

/* A device array of n random elements: a repeated stretch of numbers, so that it is made fast. */
static CUdeviceptr random_array(size_t n, enum data data)
{
	const size_t stretch = 1000003 < n ? 1000003 : n;
	float *host = malloc(n * sizeof(*host));
	CUdeviceptr at;

	for (size_t i = 0; i < stretch; i++)
		host[i] = number(data);
	for (size_t i = stretch; i < n; i += stretch)
		memcpy(host + i, host, (n - i < stretch ? n - i : stretch) * sizeof(*host));
	CHECK(cuMemAlloc(&at, n * sizeof(*host)));
	CHECK(cuMemcpyHtoD(at, host, n * sizeof(*host)));
	free(host);
	return at;
}

/* ---- a case --------------------------------------------------------------------------------- */

static size_t elements(const struct shape *s, int rows)
{
	return (size_t)s->B * (size_t)s->H * (size_t)rows * (size_t)(s->D + s->pad);
}

static struct attn_tensor operand(const struct shape *s, int rows, int down)
{
	struct attn_tensor t = {.dtype = ATTN_F32};
	const int64_t line = s->D + s->pad, H = s->H;
	const int64_t packed[4] = {H * rows * line, rows * line, line, 1};
	const int64_t bshd[4] = {rows * H * line, line, H * line, 1};
	const int64_t turned[4] = {H * rows * line, rows * line, 1, rows};

	t.base = random_array(elements(s, rows), (enum data)s->data);
	memcpy(t.stride, down ? turned : s->bshd ? bshd : packed, sizeof(t.stride));
	return t;
}

static struct attn_args arguments(const struct shape *s)
{
	struct attn_args a = {
		.B = s->B, .H = s->H, .Sq = s->Sq, .Sk = s->Sk, .D = s->D, .Dv = s->D};

	a.q = operand(s, s->Sq, 0);
	a.k = operand(s, s->Sk, s->down);
	a.v = operand(s, s->Sk, 0);
	a.o = operand(s, s->Sq, 0);
	a.spec.scale = s->data == STEEP ? 2.0f : s->bias ? 1.0f : 1.0f / sqrtf((float)s->D);
	a.spec.out_scale = 1.0f;
	a.spec.round_x = a.spec.round_p = ATTN_F32;
	a.spec.window_left = s->left ? s->left : ATTN_NO_WINDOW;
	a.spec.window_right = s->causal ? 0 : ATTN_NO_WINDOW;
	a.spec.window_shift = s->causal == 2 ? s->Sk - s->Sq : 0;
	a.spec.window_value = -INFINITY;
	if (s->bias) {
		const int64_t stride[4] = {0, (int64_t)s->Sq * s->Sk, s->Sk, 1};
		a.spec.bias[0].base = random_array((size_t)s->H * (size_t)s->Sq * (size_t)s->Sk,
						   (enum data)s->data);
		a.spec.bias[0].dtype = ATTN_F32;
		memcpy(a.spec.bias[0].stride, stride, sizeof(stride));
		a.spec.bias_scale[0] = 1.0f;
	}
	return a;
}

static void launch(CUfunction f, const struct attn_variant *v, const struct attn_args *a)
{
	void *params[] = {(void *)(uintptr_t)a};
	const unsigned x = (unsigned)((a->Sq + v->rows_per_block - 1) / v->rows_per_block);

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
	float times[ROUNDS];
	CUevent begin, end;

	CHECK(cuEventCreate(&begin, 0));
	CHECK(cuEventCreate(&end, 0));
	for (int n = -1; n < ROUNDS; n++) {
		float ms;
		CHECK(cuEventRecord(begin, NULL));
		for (int r = 0; r < RUNS; r++)
			launch(f, v, a);
		CHECK(cuEventRecord(end, NULL));
		CHECK(cuEventSynchronize(end));
		CHECK(cuEventElapsedTime(&ms, begin, end));
		if (n >= 0)
			times[n] = 1e3f * ms / RUNS;
	}
	qsort(times, ROUNDS, sizeof(times[0]), by_number);
	CHECK(cuEventDestroy(begin));
	CHECK(cuEventDestroy(end));
	return times[ROUNDS / 2];
}

struct error {
	double sum2, worst, truth2;
	int mismatch;
};

static void add_error(struct error *e, double got, double want)
{
	if (!isfinite(want) || !isfinite(got)) {
		e->mismatch += !(isnan(want) && isnan(got));
		return;
	}
	e->sum2 += (got - want) * (got - want);
	e->truth2 += want * want;
	e->worst = fmax(e->worst, fabs(got - want));
}

static void run(const struct shape *s, const struct attn_args *a, const struct attn_variant *v,
		const double *truth, const struct error *chain, int rows)
{
	const size_t bytes = elements(s, s->Sq) * sizeof(float);
	float *host = malloc(bytes);
	struct error e = {0};
	double ratio, rel;
	CUfunction f;
	int good;

	CHECK(cuModuleGetFunction(&f, module, v->symbol));
	CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				 v->shared_bytes));
	CHECK(cuMemsetD8(a->o.base, 0x7a, bytes));
	launch(f, v, a);
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(host, a->o.base, bytes));
	for (int r = 0; r < rows; r++) {
		const int64_t row = attn_sample_row(r, rows, (int64_t)a->B * a->H * a->Sq);
		const int64_t at = row / a->Sq / a->H * a->o.stride[0] +
				   row / a->Sq % a->H * a->o.stride[1] +
				   row % a->Sq * a->o.stride[2];

		for (int c = 0; c < a->Dv; c++)
			add_error(&e, host[at + c], truth[(int64_t)r * a->Dv + c]);
	}
	ratio = sqrt(e.sum2 / fmax(chain->sum2, 1e-16 * e.truth2));
	rel = sqrt(e.sum2 / e.truth2);
	good = !e.mismatch && (ratio <= LIMIT || rel <= ULP);
	failures += !good;
	printf("%-26s %-20s rel %.1e max %.1e, of chain %5.2f %5.2f%s", s->name, v->name, rel,
	       e.worst, ratio, e.worst / fmax(chain->worst, 1e-30),
	       e.mismatch ? " NON-FINITE"
	       : good	  ? ""
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

/* Runs a kernel that takes struct reference_args; `bytes` per number of the answer. */
static void *rows_of(const char *kernel, const struct attn_args *a, int rows, size_t bytes)
{
	struct reference_args ref = {.attn = *a, .rows = rows};
	const size_t size = (size_t)rows * (size_t)a->Dv * bytes;
	void *params[] = {&ref}, *host = malloc(size);
	CUfunction f;

	CHECK(cuMemAlloc((CUdeviceptr *)&ref.scratch, (size_t)rows * (size_t)a->Sk * 8));
	CHECK(cuMemAlloc((CUdeviceptr *)&ref.out, size));
	CHECK(cuModuleGetFunction(&f, module, kernel));
	CHECK(cuLaunchKernel(f, (unsigned)rows, 1, 1, REFERENCE_THREADS, 1, 1, 0, NULL, params,
			     NULL));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(host, ref.out, size));
	cuMemFree(ref.scratch);
	cuMemFree(ref.out);
	return host;
}

static void check(const struct shape *s, const char *word)
{
	struct attn_args a = arguments(s);
	const int64_t total = (int64_t)s->B * s->H * s->Sq;
	const int rows = (int)(total < ROWS ? total : ROWS);
	double *truth = rows_of("fashim_reference", &a, rows, sizeof(double));
	float *plain = rows_of("fashim_f32_chain", &a, rows, sizeof(float));
	struct error chain = {0};

	for (int n = 0; n < rows * s->D; n++)
		add_error(&chain, plain[n], truth[n]);
	for (int n = 0; n < attn_variant_total; n++) {
		const struct attn_variant *v = &attn_variants[n];

		if (attn_select_from(&a, ARCH, v->name, available) == v &&
		    (!word || strstr(s->name, word) || strstr(v->name, word)))
			run(s, &a, v, truth, &chain, rows);
	}
	printf("%-26s %s would be chosen; the chain's own error: rel %.1e max %.1e\n", s->name,
	       attn_select_from(&a, ARCH, NULL, available)->name, sqrt(chain.sum2 / chain.truth2),
	       chain.worst);
	cuMemFree(a.q.base);
	cuMemFree(a.k.base);
	cuMemFree(a.v.base);
	cuMemFree(a.o.base);
	if (a.spec.bias[0].base)
		cuMemFree(a.spec.bias[0].base);
	free(truth);
	free(plain);
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;
	CUfunction f;

	if (argc < 2) {
		fprintf(stderr, "usage: f32_check IMAGE [WORD]\n");
		return 2;
	}
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoad(&module, argv[1]));
	for (int n = 0; n < attn_variant_total; n++)
		if (cuModuleGetFunction(&f, module, attn_variants[n].symbol) == CUDA_SUCCESS)
			available[n] = 1;
	for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]); n++)
		check(&shapes[n], argc > 2 ? argv[2] : NULL);
	printf("%d wrong\n", failures);
	return failures != 0;
}
