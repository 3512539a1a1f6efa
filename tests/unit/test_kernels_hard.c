/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel that the host can run on the numbers of kernel_cases_hard.h, against plain double
 * precision: right in size, and in kind where the answer is no number.
 */
#include "kernels/attention.h"
#include "kernels/takes.h"
#include "tests/gpu/kernel_cases_hard.h"
#include "tests/unit/test_kernels_case.h"

#include <math.h>
#include <string.h>
#include <stdio.h>
#include "tests/cmocka.h"

#define KEYS 200
#define ROWS 20

/* Every element of Q, K or V. */
static void fill(struct problem *p, int kind, char operand)
{
	const struct attn_args *a = &p->args;
	const struct attn_tensor *t = operand == 'q' ? &a->q : operand == 'k' ? &a->k : &a->v;
	const int rows = operand == 'q' ? a->Sq : a->Sk;

	for (int i = 0; i < rows; i++)
		for (int d = 0; d < a->D; d++) {
			void *at = element_at(t, 1, 0, 0, i, d);
			const float x = (float)number_load(at, t->dtype);

			number_store(at, t->dtype,
				     hard_number(kind, operand, t->dtype, a->D, a->Sk, i, d, x));
		}
}

static void hide(struct problem *p, int hiding)
{
	struct attn_spec *s = &p->args.spec;
	const struct layout one = {.same = "bhr"};

	if (hiding == HIDE_WINDOW)
		s->window_right = 0;
	if (hiding == HIDE_MASK)
		problem_mask(p, false, -INFINITY, &one, 0.0);
	if (hiding == HIDE_BIAS)
		problem_bias(p, 0, p->args.q.dtype, &one, 0.0);
	for (int j = 0; j < p->args.Sk; j++)
		if (hard_is_off(hiding, j, p->args.Sq, p->args.Sk)) {
			if (hiding == HIDE_MASK)
				number_store(element_at(&s->mask, 1, 0, 0, 0, j), ATTN_BOOL, 1);
			if (hiding == HIDE_BIAS)
				number_store(element_at(&s->bias[0], 1, 0, 0, 0, j),
					     s->bias[0].dtype, -INFINITY);
		}
}

static void spoil(struct problem *p, int kind, int hiding)
{
	const struct attn_args *a = &p->args;

	for (int j = 0; j < a->Sk; j++)
		for (int d = 0; d < a->D && hard_is_off(hiding, j, a->Sq, a->Sk); d++) {
			void *k = element_at(&a->k, 1, 0, 0, j, d);
			void *v = element_at(&a->v, 1, 0, 0, j, d);
			const int dtype = a->k.dtype;

			number_store(k, dtype,
				     hard_spoilt(kind, 'k', dtype, (float)number_load(k, dtype)));
			number_store(v, dtype,
				     hard_spoilt(kind, 'v', dtype, (float)number_load(v, dtype)));
		}
}

static void check(const struct attn_variant *v, int kind, int hiding)
{
	const int tail = kind == HARD_TAIL || kind == HARD_WIDE_TAIL;
	const int D = v->max_d < 128 || v->dtype == ATTN_F32 ? v->max_d : v->max_d - 8;
	uint8_t available[ATTN_VARIANTS_MOST];
	struct problem p;
	char what[96];

	memset(available, 1, sizeof(available));
	problem_init(&p, v->dtype,
		     (int[6]){1, 1, tail ? 4 : ROWS, tail ? HARD_TAIL_KEYS : KEYS, D, D}, NULL);
	fill(&p, kind, 'q');
	fill(&p, kind, 'k');
	fill(&p, kind, 'v');
	hide(&p, hiding);
	if (v->needs & ATTN_NEEDS_IMAGE) { /* of zeros */
		problem_bias(&p, 1, v->dtype, &(struct layout){.same = "bhr"}, 0.0);
		p.args.spec.bias[1].columns = 7;
	}
	p.args.spec.overflow = hard_limit(kind, v->dtype);
	p.spoil = hard_is_hidden_kind(kind) ? spoil : NULL;
	p.kind = kind;
	p.hiding = hiding;
	p.more_steps = kind == HARD_OVERFLOW;
	p.may_be_nan = hard_may_be_nan(kind, hiding);
	snprintf(what, sizeof(what), "%s, hiding %d, %s", hard_names[kind], hiding, v->name);
	if (attn_select_from(&p.args, 90, v->name, available) == v)
		problem_check(&p, v, what);
	else
		fail_msg("%s: %s does not take it", what, v->name);
	problem_free(&p);
}

static void check_kind(const struct attn_variant *v, int kind)
{
	const int hidden = hard_is_hidden_kind(kind);
	const int last = hidden || kind == HARD_STORED ? HIDE_WINDOW : HIDE_NOT;

	for (int hiding = hidden ? HIDE_MASK : HIDE_NOT; hiding <= last; hiding++)
		if (!(v->needs & ATTN_NEEDS_PLAIN) || hiding == HIDE_NOT || hiding == HIDE_WINDOW)
			check(v, kind, hiding);
}

/* The variants of a family; of those that share keys only the first, since on the host they do not.
 * HARD_STORED is for test_stored(). */
static void check_family(int family)
{
	for (int n = 0; n < attn_variant_total; n++) {
		const struct attn_variant *v = &attn_variants[n];

		for (int kind = HARD_FLAT; kind < HARD_KINDS; kind++)
			if (v->family == family && v->grid_x_factor <= 1 && kind != HARD_STORED)
				check_kind(v, kind);
	}
}

static void test_wmma(void **state)
{
	check_family(ATTN_WMMA);
}

static void test_mma(void **state)
{
	check_family(ATTN_MMA);
}

static void test_decode(void **state)
{
	check_family(ATTN_DECODE);
}

static void test_few(void **state)
{
	check_family(ATTN_FEW);
}

static void test_f32(void **state)
{
	check_family(ATTN_F32_ANY);
}

static void test_f32_sm90(void **state)
{
	check_family(ATTN_F32_SM90);
}

static void test_stored(void **state)
{
	for (int n = 0; n < attn_variant_count; n++)
		if (attn_variants[n].dtype == ATTN_F16 && attn_variants[n].grid_x_factor <= 1 &&
		    !rounds_weights(&attn_variants[n]))
			check_kind(&attn_variants[n], HARD_STORED);
}

int main(void)
{
	const struct CMUnitTest hopper[] = {cmocka_unit_test(test_f32_sm90)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wmma),   cmocka_unit_test(test_mma),
		cmocka_unit_test(test_decode), cmocka_unit_test(test_few),
		cmocka_unit_test(test_f32),    cmocka_unit_test(test_stored),
	};

	int failed = cmocka_run_group_tests_name("portable", tests, kernels_open, NULL);

	return failed + cmocka_run_group_tests_name("Hopper", hopper, kernels_open_hopper, NULL);
}
