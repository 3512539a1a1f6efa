/* SPDX-License-Identifier: Apache-2.0
 *
 * Every step of the ladder, as built for the host and launched as a program would, against plain
 * double precision: a hundred random calls each, none of whose results may be off by 1e-3. Also
 * what the steps are called, and that none is chosen unless named.
 */
#include "kernels/ladder/ladder.h"
#include "kernels/launch.h"
#include "kernels/takes.h"
#include "tests/simgpu/sim_kernel.h"
#include "tests/unit/test_kernels_case.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"

#define CASES  100
#define LIMIT  1e-3
#define ARCH   90
#define POISON 0x7b /* of O's bytes: no number that an answer could be */

static uint8_t available[ATTN_VARIANTS_MOST];

static const struct sim_kernel *kernel_named(const char *symbol)
{
	char name[128];
	const struct sim_kernel *kernel;

	snprintf(name, sizeof(name), "sim_kernel_%s", symbol);
	kernel = dlsym(kernels, name);
	if (!kernel)
		fail_msg("no kernel %s", symbol);
	return kernel;
}

static void launch(const char *symbol, const uint32_t grid[3], uint32_t threads,
		   uint32_t shared_bytes, void *parameter)
{
	const unsigned block[3] = {threads, 1, 1};
	void *params[1] = {parameter};

	assert_int_equal(kernel_named(symbol)->run(grid, block, shared_bytes, params), 0);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* What steps have in common whose cases are the same. */
enum kind {
	ANY,	/* D and Dv, layouts, alignments as they come */
	PIECES, /* D = Dv = 64, rows on 16 bytes */
	COARSE, /* scores of a deviation of 1 at most, for S in halves: its error grows with S */
	KINDS
};

static struct known {
	struct problem problem;
	double *answer; /* [B][H][Sq][Dv] */
} known[KINDS][CASES];

/* From low to high, both included. */
static int between(int low, int high)
{
	return low + (int)(number_random() * (high - low + 1));
}

/* Sizes and layouts at random. V stays below 1, so that half a unit in the last place of O stays
 * well below LIMIT. */
static void random_problem(struct problem *p, enum kind kind)
{
	static const struct layout even[] = {
		{0}, {.order = "brhc"}, {.pad = 8}, {.order = "hbrc"}, {.same = "h"}};
	static const struct layout any[] = {{.order = "bhcr"},	{.pad = 1},
					    {.offset = 1},	{.order = "brch"},
					    {.by_array = true}, {.step = 3, .pad = 2}};
	const bool odd = kind != PIECES && between(0, 1);
	const int dims[6] = {between(1, 2),
			     between(1, 2),
			     between(1, 100),
			     between(1, 100),
			     odd ? between(1, 64) : 64,
			     odd ? between(1, 64) : 64};
	struct layout of[4];

	for (int n = 0; n < 4; n++)
		of[n] = odd ? any[between(0, 5)] : even[between(0, n == OPERAND_O ? 3 : 4)];
	problem_init(p, ATTN_F16, dims, of);
	for (int b = 0; b < dims[0]; b++)
		for (int h = 0; h < dims[1]; h++)
			for (int j = 0; j < dims[3]; j++)
				for (int d = 0; d < dims[5]; d++)
					number_store(element_at(&p->args.v, dims[1], b, h, j, d),
						     ATTN_F16, number_random() * 2 - 1);
}

static void random_spec(struct attn_args *a, enum kind kind)
{
	struct attn_spec *s = &a->spec;

	s->scale *= (float)(0.25 + (kind == COARSE ? 0.75 : 2) * number_random());
	s->out_scale = between(0, 3) ? 1.0f : 0.5f;
	s->empty_row = between(0, 1) ? ATTN_EMPTY_NAN : ATTN_EMPTY_ZERO;
	s->window_value = -INFINITY;
	switch (between(0, 4)) {
	case 0: /* causal */
		s->window_right = 0;
		break;
	case 1: /* causal, aligned to the last key */
		s->window_right = 0;
		s->window_shift = a->Sk - a->Sq;
		break;
	case 2: /* a band */
		s->window_left = between(0, 40);
		s->window_right = between(0, 40);
		s->window_shift = between(-40, 40);
		break;
	default:
		break;
	}
}

/* The cases of a kind, with their answers: made once, the same for every step. */
static struct known *cases_of(enum kind kind)
{
	for (int n = 0; n < CASES && !known[kind][n].answer; n++) {
		struct problem *p = &known[kind][n].problem;
		const struct attn_args *a = &p->args;
		double *row;

		random_problem(p, kind);
		random_spec(&p->args, kind);
		row = malloc((size_t)(a->B * a->H * a->Sq * a->Dv) * sizeof(*row));
		known[kind][n].answer = row;
		for (int r = 0; r < a->B * a->H * a->Sq; r++, row += a->Dv)
			problem_row(p, r / a->Sq / a->H, r / a->Sq % a->H, r % a->Sq, false, row);
	}
	return known[kind];
}

static int forget_cases(void **state)
{
	for (int kind = 0; kind < KINDS; kind++)
		for (int n = 0; n < CASES && known[kind][n].answer; n++) {
			problem_free(&known[kind][n].problem);
			free(known[kind][n].answer);
		}
	return 0;
}

/* ---- verdict --------------------------------------------------------------------------------- */

/* The memory around O, without the page that nobody may touch. */
static size_t span_of(const struct operand *o)
{
	return o->map_bytes - 4096;
}

/* Compares every element, and what lies between and around them with what was there before. */
static void check(const struct known *k, const char *what)
{
	const struct attn_args *a = &k->problem.args;
	const struct operand *o = &k->problem.operand[OPERAND_O];
	const double *want = k->answer;

	for (int n = 0; n < a->B * a->H * a->Sq * a->Dv; n++, want++) {
		const int d = n % a->Dv, i = n / a->Dv % a->Sq, h = n / a->Dv / a->Sq % a->H;
		const int b = n / a->Dv / a->Sq / a->H;
		void *at = element_at(&a->o, a->H, b, h, i, d);
		const double got = number_load(at, ATTN_F16);

		if (isnan(*want) ? !isnan(got) : !(fabs(got - *want) < LIMIT))
			fail_msg("%s [B%d H%d Sq%d Sk%d D%d Dv%d]: O[%d,%d,%d,%d] is %g, should be "
				 "%g",
				 what, a->B, a->H, a->Sq, a->Sk, a->D, a->Dv, b, h, i, d, got,
				 *want);
		memset(at, POISON, 2);
	}
	for (size_t n = 0; n < span_of(o); n++)
		if (((unsigned char *)o->map)[n] != POISON)
			fail_msg("%s: a byte was written that is not O's", what);
}

/* ---- the steps ------------------------------------------------------------------------------- */

static void run_variant(struct problem *p, const struct attn_variant *v)
{
	const struct attn_device device = {.multiprocessors = 3};
	const uint64_t bytes = attn_launch_scratch(v, &p->args, &device);
	struct attn_launch l;
	void *scratch = NULL;

	assert_ptr_equal(attn_select_from(&p->args, ARCH, v->name, available), v);
	assert_int_equal(posix_memalign(&scratch, 256, bytes ? bytes : 256), 0);
	memset(scratch, 0xff, bytes);
	assert_int_equal(
		attn_launch_prepare(&l, v, &p->args, &device, (uint64_t)(uintptr_t)scratch), 0);
	for (int n = 0; n < l.before_count; n++)
		launch(l.before[n].symbol, l.before[n].grid, l.before[n].threads, 0,
		       &l.before[n].parameter);
	launch(v->symbol, l.grid, l.threads, l.shared_bytes, &l.parameter);
	free(scratch);
}

/* What cuBLAS would compute: S = scale Q K^T in halves, and O = P V. */
static void multiply_scores(struct ladder_scores *s)
{
	const struct attn_args *a = &s->attn;
	const int64_t rows = (int64_t)a->B * a->H * a->Sq;

	for (int64_t n = 0; n < rows * a->Sk; n++) {
		const int64_t j = n % a->Sk, i = n / a->Sk % a->Sq, h = n / a->Sk / a->Sq % a->H;
		const int64_t b = n / a->Sk / a->Sq / a->H;
		double x = 0;

		for (int d = 0; d < a->D; d++)
			x += number_load(element_at(&a->q, a->H, b, h, i, d), ATTN_F16) *
			     number_load(element_at(&a->k, a->H, b, h, j, d), ATTN_F16);
		number_store((uint16_t *)(uintptr_t)s->scores + n, ATTN_F16, x * a->spec.scale);
	}
}

static void multiply_values(const struct ladder_scores *s)
{
	const struct attn_args *a = &s->attn;
	const uint16_t *p = (const uint16_t *)(uintptr_t)s->scores;

	for (int n = 0; n < a->B * a->H * a->Sq; n++, p += a->Sk) {
		const int i = n % a->Sq, h = n / a->Sq % a->H, b = n / a->Sq / a->H;

		for (int d = 0; d < a->Dv; d++) {
			double sum = 0;

			for (int j = 0; j < a->Sk; j++)
				sum += number_load(&p[j], ATTN_F16) *
				       number_load(element_at(&a->v, a->H, b, h, j, d), ATTN_F16);
			number_store(element_at(&a->o, a->H, b, h, i, d), ATTN_F16, sum);
		}
	}
}

static void run_library(struct problem *p, const struct ladder_step *step)
{
	const struct attn_args *a = &p->args;
	const uint32_t rows = (uint32_t)step->rows;
	const uint32_t grid[3] = {((uint32_t)a->Sq + rows - 1) / rows, (uint32_t)a->H,
				  (uint32_t)a->B};
	uint16_t *room = calloc((size_t)a->B * (size_t)a->H * (size_t)a->Sq * (size_t)a->Sk, 2);
	struct ladder_scores s = {.attn = *a, .scores = (uint64_t)(uintptr_t)room};

	multiply_scores(&s);
	launch(step->symbol, grid, (uint32_t)step->threads, (uint32_t)step->shared_bytes, &s);
	multiply_values(&s);
	free(room);
}

static void test_step(void **state)
{
	const struct ladder_step *step = *state;
	const struct attn_variant *v = ladder_variant(step);
	struct known *cases = cases_of(!v ? COARSE : v->needs & ATTN_NEEDS_PIECES ? PIECES : ANY);

	for (int n = 0; n < CASES; n++) {
		struct problem *p = &cases[n].problem;

		memset(p->operand[OPERAND_O].map, POISON, span_of(&p->operand[OPERAND_O]));
		if (v)
			run_variant(p, v);
		else
			run_library(p, step);
		check(&cases[n], step->name);
	}
}

/* ---- names and choice ------------------------------------------------------------------------ */

static void test_names(void **state)
{
	struct problem p;
	char name[16];

	problem_init(&p, ATTN_F16, (int[6]){1, 1, 70, 70, 64, 64}, NULL);
	for (int n = 0; n < ladder_step_count; n++) {
		const struct ladder_step *step = &ladder_steps[n];
		const bool first = n == 0 || step->number != step[-1].number;

		assert_true(n == 0 || step->number - step[-1].number == first);
		snprintf(name, sizeof(name), "ladder/%02d", step->number);
		assert_memory_equal(step->name, name, strlen(name));
		assert_int_equal(step->name[strlen(name)], '_');
		assert_true(step->threads % 32 == 0 && step->shared_bytes <= 99 * 1024);
		if (step->library)
			assert_null(ladder_variant(step));
		else if (first)
			assert_ptr_equal(attn_select_from(&p.args, ARCH, name, available),
					 ladder_variant(step));
	}
	assert_null(attn_select_from(&p.args, ARCH, "ladder/0", available));
	assert_null(attn_select_from(&p.args, ARCH, "ladder", available));
	problem_free(&p);
}

static void test_only_if_named(void **state)
{
	struct problem p;

	for (int length = 1; length < 3000; length *= 3) {
		problem_init(&p, ATTN_F16, (int[6]){1, 1, length, length, 64, 64}, NULL);
		assert_int_not_equal(attn_select_from(&p.args, ARCH, NULL, available)->family,
				     ATTN_LADDER);
		assert_null(attn_select(&p.args, ARCH, "ladder/01"));
		problem_free(&p);
	}
}

/* What no step takes. */
static void test_refused(void **state)
{
	struct problem p;
	const char *const name = "ladder/01";

	problem_init(&p, ATTN_F16, (int[6]){1, 1, 20, 20, 64, 64}, NULL);
	assert_non_null(attn_select_from(&p.args, ARCH, name, available));
	assert_null(attn_select_from(&p.args, 75, name, available));
	p.args.spec.softcap = 20;
	assert_null(attn_select_from(&p.args, ARCH, name, available));
	p.args.spec.softcap = 0;
	p.args.o.dtype = ATTN_F32;
	assert_null(attn_select_from(&p.args, ARCH, name, available));
	p.args.o.dtype = ATTN_F16;
	p.args.spec.window_right = 0;
	p.args.spec.window_value = -1e4f;
	assert_null(attn_select_from(&p.args, ARCH, name, available));
	p.args.spec.window_value = -INFINITY;
	p.args.spec.empty_row = ATTN_EMPTY_MEAN;
	assert_null(attn_select_from(&p.args, ARCH, name, available));
	problem_bias(&p, 0, ATTN_F16, NULL, 1);
	p.args.spec.empty_row = ATTN_EMPTY_NAN;
	assert_null(attn_select_from(&p.args, ARCH, name, available));
	problem_free(&p);
	problem_init(&p, ATTN_F16, (int[6]){1, 1, 20, 20, 65, 64}, NULL);
	assert_null(attn_select_from(&p.args, ARCH, name, available));
	problem_free(&p);
}

int main(void)
{
	struct CMUnitTest tests[3 + 64] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_only_if_named),
		cmocka_unit_test(test_refused),
	};
	size_t count = 3;

	if (kernels_open(NULL) || ladder_step_count > 64) {
		fprintf(stderr, "no kernels, or more steps than expected\n");
		return 1;
	}
	memset(available, 1, sizeof(available));
	for (int n = 0; n < ladder_step_count; n++)
		tests[count++] =
			(struct CMUnitTest){.name = ladder_steps[n].name,
					    .test_func = test_step,
					    .initial_state = (void *)(uintptr_t)&ladder_steps[n]};
	return _cmocka_run_group_tests("ladder", tests, count, NULL, forget_cases);
}
