/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels by themselves on a real GPU, every variant on every case that it takes.
 *
 *     kernel_check [-i IMAGE] [-k VARIANT] [-c | -q | -s | -t] [-r TIMES] [-v] [WORD...]
 *
 *   -i  a compiled part of the image (build/kernels/sm_90a/tma_f16.fatbin), and its variants alone
 *   -k  only variants whose names contain this; those of the ladder only if this begins with
 *       "ladder", and then on calls at random, a hundred of which every step takes
 *   -c  the timed cases as -t does, of each the variant that is chosen for it; nothing is compared
 *   -q  every seventh case of the sweep, one at least for each variant, and nothing is timed
 *   -r  launches every run this often again; O must be the same, bit for bit: to find races, best
 *       while other processes share the GPU
 *   -s  for compute-sanitizer: one small case per variant, tightly allocated
 *   -t  the timed cases only: of all variants in turn but those far behind, the median of 20 rounds
 *       after 5 to warm up
 *   -v  a line for every run, not only for those that went wrong, and for every variant
 *   WORD  only cases whose names contain all of these
 *
 * Each result is compared with `fashim_reference` on sampled rows: as a whole (Frobenius) and at
 * its worst element, and in kind where one of them is no number. Around and between the operands
 * lie NaNs, and O is poisoned: what is read outside shows in the numbers, what is written outside
 * or left unwritten is counted. At the end, what went wrong by variant, with its worst case. Fails
 * also if a variant that could run on this GPU met no case, or is not in the image. How exact fp32
 * is beside fp32 arithmetic, a program of its own asks: f32_check.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel_operands.h"
#include "kernels/bench_abi.h"
#include "kernels/takes.h"

#define ROWS   512 /* sampled */
#define RUNS   20
#define BURST  200 /* us of launches between two events */
#define WARM   5
#define RANDOM 200 /* calls, for the ladder */
#define SHOWN  3   /* wrong runs of a variant; the others are only counted */

static int arch; /* of the GPU: 90 */
static struct {
	const char *variant;
	char **words;
	int verbose, quick, again, chosen;
} options;

static struct tally {
	int runs, wrong;
	double worst; /* of the wrong ones if there are any */
	char name[160];
} tallies[ATTN_VARIANTS_MOST];

/* ---- truth and verdict ---------------------------------------------------------------------- */

static int sampled_rows(const struct attn_args *a)
{
	const int64_t total = (int64_t)a->B * a->H * a->Sq;

	return (int)(total < ROWS ? total : ROWS);
}

static double *truth_of(const struct attn_args *a)
{
	struct reference_args ref = {.attn = *a, .rows = sampled_rows(a)};
	const size_t bytes = (size_t)ref.rows * (size_t)a->Dv * sizeof(double);
	double *truth = malloc(bytes);

	CHECK(cuMemAlloc((CUdeviceptr *)&ref.scratch, (size_t)ref.rows * (size_t)a->Sk * 8));
	CHECK(cuMemAlloc((CUdeviceptr *)&ref.out, bytes));
	if (fashim_kernels_reference(&ref)) {
		fprintf(stderr, "kernel_check: %s\n", fashim_kernels_error());
		exit(1);
	}
	CHECK(cuMemcpyDtoH(truth, ref.out, bytes));
	CHECK(cuMemFree(ref.scratch));
	CHECK(cuMemFree(ref.out));
	return truth;
}

struct verdict {
	double rel, worst;
	int64_t nonfinite, unwritten, astray, changed;
};

/* Are they both NaN, or the same infinity once `want` is stored as `dtype`? */
static int is_same_kind(double want, double got, int dtype)
{
	const double most = dtype == ATTN_F16 ? 65519.0 : 0x1.ffp127;

	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got);
	return isinf(got) && fabs(want) > most && (want > 0) == (got > 0);
}

/* Compares O, as `image` holds it, with the sampled truth, or where it may be with NaN. */
static void compare(struct verdict *v, const struct attn_args *a, const char *image,
		    const double *truth, int may_be_nan)
{
	const int rows = sampled_rows(a), size = attn_dtype_size(a->o.dtype);
	const int64_t *stride = a->o.stride;
	double error2 = 0.0, sum2 = 0.0;

	for (int r = 0; r < rows; r++) {
		const int64_t row = attn_sample_row(r, rows, (int64_t)a->B * a->H * a->Sq);
		const int64_t at = row / a->Sq / a->H * stride[0] + row / a->Sq % a->H * stride[1] +
				   row % a->Sq * stride[2];

		for (int n = 0; n < a->Dv; n++) {
			const double want = truth[(int64_t)r * a->Dv + n];
			const double got =
				operands_widen(image + (at + n * stride[3]) * size, a->o.dtype);

			if (!isfinite(want) || !isfinite(got)) {
				v->nonfinite += !is_same_kind(want, got, a->o.dtype) &&
						!(may_be_nan && isnan(got));
				continue;
			}
			v->worst = fmax(v->worst, fabs(got - want));
			error2 += (got - want) * (got - want);
			sum2 += want * want;
		}
	}
	v->rel = sqrt(error2 / (sum2 > 0.0 ? sum2 : 1.0));
}

/* Counts elements of O that kept the poison, and bytes elsewhere that lost it. */
static void inspect_poison(struct verdict *v, const struct attn_args *a, struct buffer *o)
{
	const int64_t extent[4] = {a->B, a->H, a->Sq, a->Dv};
	const size_t size = (size_t)attn_dtype_size(a->o.dtype);
	char poison[4];

	memset(poison, OPERAND_POISON, sizeof(poison));
	FOR_EACH_ELEMENT(&a->o, extent)
	{
		v->unwritten += !memcmp(operands_element(o, &a->o, at), poison, size);
		memcpy(operands_element(o, &a->o, at), poison, size);
	}
	for (size_t n = 0; n < o->bytes; n++)
		v->astray += o->host[n] != OPERAND_POISON;
}

static int by_number(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Microseconds for one launch of many. */
static float time_of(const struct fashim_call *call, int launches, CUevent begin, CUevent end)
{
	float ms;

	CHECK(cuEventRecord(begin, NULL));
	for (int n = 0; n < launches; n++)
		fashim_kernels_launch(call, NULL);
	CHECK(cuEventRecord(end, NULL));
	CHECK(cuEventSynchronize(end));
	CHECK(cuEventElapsedTime(&ms, begin, end));
	return 1e3f * ms / (float)launches;
}

/* Of what a round took, the least, and a call no more that took so many times as long: nobody asks
 * what it takes exactly, unless it is chosen. */
#define FAR_BEHIND 6
static void leave_behind(struct fashim_call *calls[], const float us[], int chosen)
{
	float least = INFINITY;

	for (int n = 0; n < attn_variant_total; n++)
		if (calls[n] && us[n] < least)
			least = us[n];
	for (int n = 0; n < attn_variant_total; n++)
		if (calls[n] && us[n] > FAR_BEHIND * least && n != chosen)
			calls[n] = NULL;
}

/* Times the calls that were made, of all variants in turn, so that clocks are the same for all. Of
 * short ones several are launched at a time. */
static void time_in_turn(const struct kernel_case *c, struct fashim_call *const all[], int chosen)
{
	static float times[ATTN_VARIANTS_MOST][RUNS];
	struct fashim_call *calls[ATTN_VARIANTS_MOST];
	float last[ATTN_VARIANTS_MOST];
	const double pairs = (c->causal ? 0.5 : 1.0) * c->Sq * c->Sk;
	int launches[ATTN_VARIANTS_MOST];
	char name[160];
	CUevent begin, end;

	CHECK(cuEventCreate(&begin, 0));
	CHECK(cuEventCreate(&end, 0));
	memcpy(calls, all, (size_t)attn_variant_total * sizeof(calls[0]));
	for (int round = -WARM; round < RUNS; round++) {
		for (int n = 0; n < attn_variant_total; n++) {
			if (!calls[n])
				continue;
			last[n] = time_of(calls[n], round > -WARM ? launches[n] : 1, begin, end);
			if (round >= 0)
				times[n][round] = last[n];
			else
				launches[n] = last[n] < BURST ? (int)(BURST / last[n]) + 1 : 1;
		}
		if (round == -1)
			leave_behind(calls, last, chosen);
	}
	kernel_case_name(c, name, sizeof(name));
	for (int n = 0; n < attn_variant_total; n++) {
		if (!calls[n])
			continue;
		qsort(times[n], RUNS, sizeof(times[n][0]), by_number);
		printf("%-26s %8.1f us %6.1f TFLOP/s  %s%s\n", attn_variants[n].name,
		       (double)times[n][RUNS / 2],
		       4.0 * c->B * c->H * c->D * pairs / (double)times[n][RUNS / 2] * 1e-6, name,
		       n == chosen ? "  CHOSEN" : "");
	}
	fflush(stdout);
	CHECK(cuEventDestroy(begin));
	CHECK(cuEventDestroy(end));
}

static void report(const struct kernel_case *c, int n, const struct verdict *v, int wrong)
{
	char name[160];

	printf("%-26s rel %.1e max %.1e  %s", attn_variants[n].name, v->rel, v->worst,
	       kernel_case_name(c, name, sizeof(name)));
	if (v->nonfinite)
		printf("  NON-FINITE %lld", (long long)v->nonfinite);
	if (v->unwritten)
		printf("  UNWRITTEN %lld", (long long)v->unwritten);
	if (v->astray)
		printf("  ASTRAY %lld bytes", (long long)v->astray);
	if (v->changed)
		printf("  CHANGED in %lld of %d launches", (long long)v->changed, options.again);
	printf("%s\n", wrong ? "  WRONG" : "");
	fflush(stdout);
}

/* What the error may be as a whole; an element's: this much of the largest |V|. */
static double limit_of(const struct kernel_case *c)
{
	if (c->dtype == ATTN_F32) /* scores of 1e4 are known to 1e-3, those of 80 to 1e-5 */
		return c->hard == HARD_STEEP || c->hard == HARD_OVERFLOW ? 2e-3
		       : c->data == STEEP				 ? 1e-4
									 : 2e-5;
	/* S not rounded as asked for moves O by 6e-3 (bf16) or 6e-4 (fp16), and by more where
	 * logits are large; roundings that fall otherwise for fp32's sake by less than the rest
	 * does */
	if (c->round_s)
		return c->dtype == ATTN_F16 ? 4.5e-4 : 4e-3;
	return c->dtype == ATTN_F16 ? 2e-3 : 1.2e-2;
}

/* What a weight changes by, in relation, where a score is rounded the other way for fp32's sake:
 * one of 32 at most is a multiple of this. */
static double flip_of(const struct kernel_case *c)
{
	return !c->round_s ? 0.0 : c->dtype == ATTN_F16 ? 0x1p-6 : 0x1p-3;
}

/* Counts a run. */
static void enter(struct tally *t, const struct kernel_case *c, double error, int wrong)
{
	if (wrong > !!t->wrong || (wrong == !!t->wrong && error >= t->worst)) {
		t->worst = error;
		kernel_case_name(c, t->name, sizeof(t->name));
	}
	t->runs++;
	t->wrong += wrong;
}

/* Runs a call; `image` gets what the buffer of O holds then. */
static void launch(const struct kernel_case *c, struct buffer *o, struct fashim_call *call,
		   char *image)
{
	if (c->over_q)
		operands_upload(o);
	else
		CHECK(cuMemsetD8(o->block, OPERAND_POISON, o->bytes));
	if (fashim_kernels_launch(call, NULL)) {
		fprintf(stderr, "kernel_check: %s\n", fashim_kernels_error());
		exit(1);
	}
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(image, o->block, o->bytes));
}

/* Of the launches that -r asks for, how many gave something else than `image`? */
static int64_t launch_again(const struct kernel_case *c, struct buffer *o, struct fashim_call *call,
			    const char *image)
{
	char *other = options.again ? malloc(o->bytes) : NULL;
	int64_t changed = 0;

	for (int n = 0; n < options.again; n++) {
		launch(c, o, call, other);
		changed += memcmp(image, other, o->bytes) != 0;
	}
	free(other);
	return changed;
}

/* The call of a variant, to be freed. */
static struct fashim_call *prepare(struct operands *x, int n)
{
	struct fashim_call *call;

	if (fashim_kernels_prepare(&call, n, &x->args)) {
		fprintf(stderr, "kernel_check: %s\n", fashim_kernels_error());
		exit(1);
	}
	return call;
}

/* Runs a variant and compares. Returns the call, to be freed. */
static struct fashim_call *run(const struct kernel_case *c, struct operands *x, int n,
			       const double *truth)
{
	const double limit = limit_of(c);
	const int may_be_nan = hard_may_be_nan(c->hard, c->hiding);
	/* Scores beyond 65504 are known to 2^-7 each in fp32, and their weights to twice that. */
	const double scores = c->hard == HARD_OVERFLOW ? 0x1p-6 : flip_of(c);
	const double worst = c->data == MODEST ? 1e-3 : (limit + scores) * x->most_v;
	struct buffer *o = c->over_q ? &x->q : &x->o;
	char *image = malloc(o->bytes);
	struct fashim_call *const call = prepare(x, n);
	struct verdict v = {0};
	int wrong;

	launch(c, o, call, image);
	v.changed = launch_again(c, o, call, image);
	compare(&v, &x->args, image + o->margin, truth, may_be_nan);
	if (!c->over_q) {
		memcpy(o->host, image, o->bytes);
		inspect_poison(&v, &x->args, o);
	}
	free(image);
	wrong = v.nonfinite || v.unwritten || v.astray || v.changed || !(v.rel < limit) ||
		v.worst >= worst;
	if ((wrong && tallies[n].wrong < SHOWN) || options.verbose)
		report(c, n, &v, wrong);
	enter(&tallies[n], c, v.rel, wrong);
	return call;
}

/* ---- which cases, which variants ------------------------------------------------------------ */

static int is_ladder_asked(void)
{
	return options.variant && !strncmp(options.variant, "ladder", strlen("ladder"));
}

static int is_asked(int n)
{
	if (attn_variants[n].family == ATTN_LADDER && !is_ladder_asked())
		return 0;
	return !options.variant || strstr(attn_variants[n].name, options.variant);
}

/* Could this GPU run it, if it is compiled? */
static int is_for_here(int n)
{
	const struct attn_variant *v = &attn_variants[n];

	return v->needs & ATTN_NEEDS_ARCH
		       ? arch == v->min_arch
		       : arch >= v->min_arch && v->shared_bytes <= attn_shared_of(arch);
}

static int is_wanted(int n)
{
	return is_asked(n) && is_for_here(n) && fashim_kernels_present(n);
}

/* only: one variant, or -1 for all that take the case. */
static void check(const struct kernel_case *c, int only)
{
	struct fashim_call *calls[ATTN_VARIANTS_MOST] = {NULL};
	char name[160];
	struct operands x;
	double *truth;
	int chosen;

	kernel_case_name(c, name, sizeof(name));
	for (char **word = options.words; *word; word++)
		if (!strstr(name, *word))
			return;
	x = operands_make(c);
	chosen = fashim_kernels_select(&x.args, NULL, 0);
	if (options.chosen) {
		if (chosen >= 0 && is_wanted(chosen)) {
			calls[chosen] = prepare(&x, chosen);
			time_in_turn(c, calls, chosen);
			fashim_kernels_free(calls[chosen]);
		}
		operands_free(&x);
		return;
	}
	truth = truth_of(&x.args);
	operands_spoil(&x, c);
	for (int n = 0; n < attn_variant_total; n++)
		if ((only < 0 || only == n) && is_wanted(n) &&
		    fashim_kernels_select(&x.args, attn_variants[n].name, 0) == n)
			calls[n] = run(c, &x, n, truth);
	if (c->timed && !options.quick)
		time_in_turn(c, calls, chosen);
	for (int n = 0; n < attn_variant_total; n++)
		fashim_kernels_free(calls[n]);
	free(truth);
	operands_free(&x);
}

static void check_small(void)
{
	for (int n = 0; n < attn_variant_total; n++)
		for (int which = 0; which < 2 && is_wanted(n); which++) {
			const struct kernel_case c = small_case(&attn_variants[n], which);

			check(&c, n);
		}
}

static void check_table(int timed)
{
	for (int n = 0; n < COUNT(kernel_cases); n++)
		if (!timed || kernel_cases[n].timed)
			check(&kernel_cases[n], -1);
}

static void check_sweep(int step)
{
	for (int n = 0; n < SWEEP_CASES; n += step) {
		const struct kernel_case c = sweep_case(n);

		check(&c, -1);
	}
}

static void check_hard(void)
{
	for (int n = 0; n < HARD_CASES; n++) {
		struct kernel_case c;

		if (hard_case(n, &c))
			check(&c, -1);
	}
}

/* For variants that met none so far: the sweep's first case that they take. */
static void check_idle(void)
{
	for (int variant = 0; variant < attn_variant_total; variant++)
		for (int n = 0; n < SWEEP_CASES && is_wanted(variant) && !tallies[variant].runs;
		     n++) {
			const struct kernel_case c = sweep_case(n);

			check(&c, variant);
		}
}

static void check_random(void)
{
	for (int n = 0; n < RANDOM; n++) {
		const struct kernel_case c = random_case(n);

		check(&c, -1);
	}
}

/* Says which variants were not asked for anything, and why. Returns how many have no good reason.
 */
static int summary_of_absent(void)
{
	int elsewhere = 0, missing = 0;

	for (int n = 0; n < attn_variant_total; n++)
		elsewhere += is_asked(n) && !is_for_here(n);
	if (elsewhere)
		printf("not applicable, %d variants: this GPU is sm_%d, and they are for",
		       elsewhere, arch);
	for (int n = 0; n < attn_variant_total && elsewhere; n++)
		if (is_asked(n) && !is_for_here(n))
			printf(" %s (sm_%d%s)", attn_variants[n].name, attn_variants[n].min_arch,
			       attn_variants[n].needs & ATTN_NEEDS_ARCH ? " alone" : " and later");
	if (elsewhere)
		printf("\n");
	for (int n = 0; n < attn_variant_total; n++)
		if (is_asked(n) && is_for_here(n) && !fashim_kernels_present(n)) {
			printf("%-26s NOT IN THE IMAGE\n", attn_variants[n].name);
			missing++;
		}
	return missing;
}

/* A line for each variant that went wrong or, where that is asked (`all_cases`), met no case.
 * Returns how many did. */
static int summary(int all_cases)
{
	int bad = summary_of_absent(), wrong = 0, runs = 0, variants = 0;

	for (int n = 0; n < attn_variant_total; n++) {
		const struct tally *t = &tallies[n];
		const int idle = all_cases && !t->runs;

		if (!is_wanted(n))
			continue;
		if (t->wrong || idle || options.verbose)
			printf("%-26s %5d runs  %3d wrong  worst rel %.1e%s  %s\n",
			       attn_variants[n].name, t->runs, t->wrong, t->worst,
			       idle ? "  NO CASE" : "", t->name);
		bad += t->wrong || idle;
		wrong += t->wrong;
		runs += t->runs;
		variants++;
	}
	printf("%d variants, %d of them wrong, without a case, or missing\n", variants, bad);
	printf("%d runs, %d wrong\n", runs, wrong);
	return bad + (runs == 0);
}

static int attribute(CUdevice_attribute which, CUdevice device)
{
	int value = 0;

	CHECK(cuDeviceGetAttribute(&value, which, device));
	return value;
}

int main(int argc, char **argv)
{
	const char *image = NULL;
	int step = 1, timed = 0, option;
	CUcontext context;
	CUdevice device;

	setvbuf(stdout, NULL, _IOLBF, 0); /* what was wrong is told when it has to stop, too */
	while ((option = getopt(argc, argv, "ci:k:qr:stv")) != -1) {
		switch (option) {
		case 'c':
			options.chosen = timed = 1;
			break;
		case 'i':
			image = optarg;
			break;
		case 'k':
			options.variant = optarg;
			break;
		case 'q':
			options.quick = 1;
			step = 7;
			break;
		case 'r':
			options.again = atoi(optarg);
			break;
		case 's':
			operands_tight = 1;
			break;
		case 't':
			timed = 1;
			break;
		case 'v':
			options.verbose = 1;
			break;
		default:
			fprintf(stderr, "usage: kernel_check [-i IMAGE] [-k VARIANT] [-c | -q | "
					"-s | -t] [-r TIMES] [-v] [WORD...]\n");
			return 2;
		}
	}
	options.words = argv + optind;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	arch = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) +
	       attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	if (fashim_kernels_open(image)) {
		fprintf(stderr, "kernel_check: %s\n", fashim_kernels_error());
		return 1;
	}
	if (operands_tight) {
		check_small();
	} else if (is_ladder_asked() && !timed) {
		check_random();
	} else {
		check_table(timed);
		if (!timed) {
			check_sweep(step);
			check_hard();
			check_idle();
		}
	}
	return options.chosen ? 0 : summary(!timed && !*options.words) != 0;
}
