/* SPDX-License-Identifier: Apache-2.0
 *
 * The fp32 kernels by themselves on a real GPU: `f32_check [-q] IMAGE [WORD]`, IMAGE being a
 * compiled f32_check.cu, WORD choosing cases and variants whose names contain it (then each run has
 * a line; else only those that are timed or wrong, and each variant at the end). -q: nothing is
 * timed.
 *
 * Each case is run by every variant that takes it, on random data, O poisoned beforehand, and
 * compared with double precision on sampled rows. `of chain` is the error relative to that of a
 * chain in fp32 arithmetic on the same rows, as a whole (Frobenius) and at the worst element; above
 * LIMIT of the former the case fails, unless the error is less than ULP of the result: where one
 * key is all there is, or outweighs all others, the chain hands its V through almost or quite
 * without an error of its own, and being so many times as far off says nothing.
 *
 * The same holds, the other way round, where scores are as large as those of UNEVEN: a row in which
 * two of them nearly meet has most of the error of all, the chain's as well as ours, and how these
 * two compare is chance. Of 24 sets of numbers (H200) kernels were between 0 and 13 times as far
 * off, even decode.cu, which has no halves, up to 3 times; the median was 0.5 to 1.3, where it was
 * not below ULP. So there the median over DRAWS_UNEVEN sets must be within LIMIT, and each within
 * LIMIT_ONE.
 *
 * Times, of all variants and of the chain that a program launches (f32_chain.h; needs cuBLAS) in
 * turn: median over ROUNDS of the mean of as many launches as take TURN microseconds. `chosen` is
 * the variant that select.c would take.
 */
#include <cuda.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "f32_chain.h"
#include "f32_shapes.h"
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
#define ROUNDS 5
#define TURN   1000.0f
#define TIMED  32 /* things that are timed in turn, at most */
#define FEW    16 /* queries that a kernel with a row per block is asked for, at most */
#define LIMIT  2.0

#define DRAWS	     2 /* sets of numbers */
#define DRAWS_UNEVEN 9
#define LIMIT_ONE    32.0
#define ULP	     0x1p-23
#define ARCH	     90

static CUmodule module;
static uint8_t available[512];
static int failures, is_verbose, is_quiet;

static struct tally {
	int runs, wrong;
	double ratio; /* the worst, and where */
	const char *name;
	double drawn[DRAWS_UNEVEN]; /* of the case that is being run */
	int draws;
} tallies[512];

/* ---- numbers -------------------------------------------------------------------------------- */

static uint64_t seed;

/* A shape has numbers of its own (FNV-1a of its name, whose lowest bit is set: never 0), other ones
 * each time: what is added to the list changes nothing for the others. */
static void begin_numbers(const struct shape *s, int drawn)
{
	seed = 14695981039346656037u + (uint64_t)drawn;
	for (const char *at = s->name; *at; at++)
		seed = (seed ^ (unsigned char)*at) * 1099511628211u;
	seed |= 1;
}

static float uniform(void)
{
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

/* Element [row, column] of Q, K, V, or of the bias ('b', column: key), where data are special. */
static float special(const struct shape *s, char which, int row, int column, float x)
{
	const int off = s->causal ? row >= s->Sq : row % 7 == 3;
	const int large = row % 61 == 8;
	const float unit = sqrtf((float)s->D); /* in column 0 of Q: x is column 0 of K */

	switch (s->data) {
	case TAIL:
		if (which == 'q')
			return column ? 0.0f : unit;
		if (which == 'v')
			return row == 11 ? -1.0f : 1.0f + 0.1f * x;
		return column ? x : row == 11 ? 0.0f : -32.2f * (float)M_LN2;
	case FAINT:
		if (which == 'q')
			return column ? 0.1f * x : unit;
		if (which == 'v')
			return large ? 1e8f * x : x;
		return column ? x : large ? -18.0f : 0.0f;
	case HIDDEN_V:
	case HIDDEN_BOTH:
		if (which == 'b')
			return column % 7 == 3 ? -INFINITY : x;
		if (which == 'q' || !off || (which == 'k' && s->data == HIDDEN_V))
			return x;
		/* no infinity as a score: an infinity less another is none */
		return copysignf(s->data == HIDDEN_V ? 1e30f : which == 'k' ? 1e36f : 3.4e38f, x);
	default:
		return x;
	}
}

/* `rows` lines of `columns` elements, or down, `count` times over. */
static void make_special(const struct shape *s, CUdeviceptr at, char which, int rows, int columns,
			 int down, size_t count)
{
	const size_t n = count * (size_t)rows * (size_t)columns;
	const size_t line = (size_t)(down ? rows : columns),
		     lines = (size_t)(down ? columns : rows);
	float *host = malloc(n * sizeof(*host));

	CHECK(cuMemcpyDtoH(host, at, n * sizeof(*host)));
	for (size_t i = 0; i < n; i++)
		host[i] = special(s, which, (int)(down ? i % line : i / line % lines),
				  (int)(down ? i / line % lines : i % line), host[i]);
	CHECK(cuMemcpyHtoD(at, host, n * sizeof(*host)));
	free(host);
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
	a.k = operand(s, s->Sk, s->down > 0);
	a.v = operand(s, s->Sk, s->down > 1);
	a.o = operand(s, s->Sq, 0);
	a.spec.scale = s->data == STEEP ? 2.0f : s->bias ? 1.0f : 1.0f / sqrtf((float)s->D);
	a.spec.out_scale = 1.0f;
	a.spec.round_x = a.spec.round_p = ATTN_F32;
	a.spec.window_left = s->left ? s->left : ATTN_NO_WINDOW;
	a.spec.window_right = s->causal ? 0 : ATTN_NO_WINDOW;
	a.spec.window_shift = s->causal == 2 ? s->Sk - s->Sq : 0;
	a.spec.window_value = -INFINITY;
	if (s->data >= TAIL) { /* no bshd */
		const size_t heads = (size_t)s->B * (size_t)s->H;

		make_special(s, a.q.base, 'q', s->Sq, s->D + s->pad, 0, heads);
		make_special(s, a.k.base, 'k', s->Sk, s->D + s->pad, s->down > 0, heads);
		make_special(s, a.v.base, 'v', s->Sk, s->D + s->pad, s->down > 1, heads);
	}
	if (s->bias) {
		const int64_t stride[4] = {0, (int64_t)s->Sq * s->Sk, s->Sk, 1};
		a.spec.bias[0].base = random_array((size_t)s->H * (size_t)s->Sq * (size_t)s->Sk,
						   (enum data)s->data);
		a.spec.bias[0].dtype = ATTN_F32;
		a.spec.bias[0].columns = -s->image;
		memcpy(a.spec.bias[0].stride, stride, sizeof(stride));
		a.spec.bias_scale[0] = 1.0f;
		if (s->data >= TAIL)
			make_special(s, a.spec.bias[0].base, 'b', s->Sq, s->Sk, 0, (size_t)s->H);
	}
	return a;
}

static void launch(CUfunction f, const struct attn_variant *v, const struct attn_args *a)
{
	void *params[] = {(void *)(uintptr_t)a};
	const unsigned tiles = (unsigned)((a->Sq + v->rows_per_block - 1) / v->rows_per_block);

	CHECK(cuLaunchKernel(f, tiles * (unsigned)v->grid_x_factor, (unsigned)a->H, (unsigned)a->B,
			     (unsigned)v->threads, 1, 1, (unsigned)v->shared_bytes, NULL, params,
			     NULL));
}

static int by_number(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* What is timed: a variant, or the chain that a program launches. */
struct timed {
	const struct attn_variant *v; /* NULL: the chain */
	CUfunction f;
	int runs;
	float us[ROUNDS];
};

static float turn(const struct timed *t, const struct attn_args *a, CUevent begin, CUevent end)
{
	float ms;

	CHECK(cuEventRecord(begin, NULL));
	for (int r = 0; r < t->runs; r++)
		if (t->v)
			launch(t->f, t->v, a);
		else
			f32_chain_run(a);
	CHECK(cuEventRecord(end, NULL));
	CHECK(cuEventSynchronize(end));
	CHECK(cuEventElapsedTime(&ms, begin, end));
	return 1e3f * ms / (float)t->runs;
}

/* Times all of them in turn and says so. */
static void compete(const struct shape *s, const struct attn_args *a, struct timed *timed,
		    int count)
{
	const struct attn_variant *chosen = attn_select_from(a, ARCH, NULL, available);
	const double pairs = s->causal ? 0.5 * s->Sq * s->Sk : (double)s->Sq * s->Sk;
	float chain = 0.0f;
	CUevent begin, end;

	CHECK(cuEventCreate(&begin, 0));
	CHECK(cuEventCreate(&end, 0));
	if (!s->causal && f32_chain_open(a, module))
		timed[count++] = (struct timed){.v = NULL};
	for (int n = 0; n < count; n++) {
		timed[n].runs = 2;
		(void)turn(&timed[n], a, begin, end);
		timed[n].runs = 1 + (int)(TURN / turn(&timed[n], a, begin, end));
	}
	for (int round = 0; round < ROUNDS; round++)
		for (int n = 0; n < count; n++)
			timed[n].us[round] = turn(&timed[n], a, begin, end);
	for (int n = count - 1; n >= 0; n--) {
		qsort(timed[n].us, ROUNDS, sizeof(float), by_number);
		const float us = timed[n].us[ROUNDS / 2];

		if (!timed[n].v)
			chain = us;
		printf("%-26s %-22s %9.1f us %6.1f TFLOP/s", s->name,
		       timed[n].v ? timed[n].v->name : "cuBLAS, softmax, cuBLAS", us,
		       4.0 * s->B * s->H * s->D * pairs / us * 1e-6);
		if (timed[n].v && chain > 0.0f)
			printf("  chain / this %5.2f", chain / us);
		printf("%s\n", timed[n].v == chosen ? "  chosen" : "");
	}
	if (!timed[count - 1].v)
		f32_chain_close();
	CHECK(cuEventDestroy(begin));
	CHECK(cuEventDestroy(end));
	fflush(stdout);
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

static CUfunction run(const struct shape *s, const struct attn_args *a,
		      const struct attn_variant *v, const double *truth, const struct error *chain,
		      int rows)
{
	const size_t bytes = elements(s, s->Sq) * sizeof(float);
	float *host = malloc(bytes);
	struct tally *t = &tallies[v - attn_variants];
	struct error e = {0};
	double ratio, rel;
	CUfunction f;

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
	t->runs++;
	t->drawn[t->draws++] = e.mismatch ? INFINITY : rel <= ULP ? 0.0 : ratio;
	if (e.mismatch || is_verbose)
		printf("%-26s %-20s rel %.1e max %.1e, of chain %5.2f %5.2f%s\n", s->name, v->name,
		       rel, e.worst, ratio, e.worst / fmax(chain->worst, 1e-30),
		       e.mismatch ? " NON-FINITE" : "");
	fflush(stdout);
	free(host);
	return f;
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

/* With how many sets of numbers is the case run? */
static int draws_of(const struct shape *s)
{
	return s->timed ? 1 : s->data == UNEVEN ? DRAWS_UNEVEN : DRAWS;
}

/* Is there anything to do for the case? */
static int is_asked_for(const struct shape *s, const char *word)
{
	int asked = !word || strstr(s->name, word);

	for (int n = 0; n < attn_variant_total; n++)
		asked = asked || strstr(attn_variants[n].name, word);
	return asked;
}

static void check(const struct shape *s, int drawn, const char *word)
{
	begin_numbers(s, drawn);
	struct attn_args a = arguments(s);
	const int64_t total = (int64_t)s->B * s->H * s->Sq;
	const int rows = (int)(total < ROWS ? total : ROWS);
	double *truth = rows_of("fashim_reference", &a, rows, sizeof(double));
	float *plain = rows_of("fashim_f32_chain", &a, rows, sizeof(float));
	struct timed timed[TIMED + 1];
	struct error chain = {0};
	int count = 0;

	for (int n = 0; n < rows * s->D; n++)
		add_error(&chain, plain[n], truth[n]);
	for (int n = 0; n < attn_variant_total; n++) {
		const struct attn_variant *v = &attn_variants[n];

		if (attn_select_from(&a, ARCH, v->name, available) == v &&
		    (v->rows_per_block > 1 || s->Sq <= FEW) &&
		    (!word || strstr(s->name, word) || strstr(v->name, word)))
			timed[count++] =
				(struct timed){.v = v, .f = run(s, &a, v, truth, &chain, rows)};
	}
	if (s->timed && !is_quiet)
		compete(s, &a, timed, count);
	if (is_verbose)
		printf("%-26s %s would be chosen; the chain's own error: rel %.1e max %.1e\n",
		       s->name, attn_select_from(&a, ARCH, NULL, available)->name,
		       sqrt(chain.sum2 / chain.truth2), chain.worst);
	cuMemFree(a.q.base);
	cuMemFree(a.k.base);
	cuMemFree(a.v.base);
	cuMemFree(a.o.base);
	if (a.spec.bias[0].base)
		cuMemFree(a.spec.bias[0].base);
	free(truth);
	free(plain);
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of all variants, once a shape was run with all its numbers. */
static void judge(const struct shape *s)
{
	for (int n = 0; n < attn_variant_total; n++) {
		struct tally *t = &tallies[n];

		if (!t->draws)
			continue;
		qsort(t->drawn, (size_t)t->draws, sizeof(t->drawn[0]), by_size);
		const double most = t->drawn[t->draws - 1];
		const double counts = s->data == UNEVEN ? t->drawn[t->draws / 2] : most;
		const int wrong = !(counts <= LIMIT && most <= LIMIT_ONE);

		t->draws = 0;
		t->wrong += wrong;
		failures += wrong;
		if (wrong)
			printf("%-26s %-20s WRONG: %.2f of the chain's error, at most %.2f\n",
			       s->name, attn_variants[n].name, counts, most);
		if (counts >= t->ratio) {
			t->ratio = counts;
			t->name = s->name;
		}
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;
	CUfunction f;
	int idle = 0;

	is_quiet = argc > 1 && strcmp(argv[1], "-q") == 0;
	argc -= is_quiet;
	argv += is_quiet;
	is_verbose = argc > 2;
	if (argc < 2) {
		fprintf(stderr, "usage: f32_check [-q] IMAGE [WORD]\n");
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
	for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]); n++) {
		for (int drawn = 0; drawn < draws_of(&shapes[n]); drawn++)
			if (is_asked_for(&shapes[n], argc > 2 ? argv[2] : NULL))
				check(&shapes[n], drawn, argc > 2 ? argv[2] : NULL);
		judge(&shapes[n]);
	}
	for (int n = 0; n < attn_variant_total; n++) {
		const struct tally *t = &tallies[n];

		if (attn_variants[n].dtype != ATTN_F32)
			continue;
		idle += !t->runs && argc <= 2;
		printf("%-20s %3d runs  %3d wrong  at most %.2f of the chain's error%s%s\n",
		       attn_variants[n].name, t->runs, t->wrong, t->ratio,
		       t->runs ? ": " : "  NO CASE", t->runs ? t->name : "");
	}
	printf("%d wrong\n", failures);
	return failures + idle != 0;
}
