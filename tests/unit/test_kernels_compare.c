/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs kernels of the host build and compares what they wrote with the answer: see
 * test_kernels_case.h.
 */
#include "tests/unit/test_kernels_case.h"
#include "tests/simgpu/sim_kernel.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"

void *kernels;

static int open_kernels(const char *path)
{
	kernels = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!kernels)
		fprintf(stderr, "%s\n", dlerror());
	return kernels ? 0 : -1;
}

int kernels_open(void **state)
{
	return open_kernels(SIM_KERNELS);
}

int kernels_open_host(void **state)
{
	return open_kernels(HOST_KERNELS);
}

int kernels_open_hopper(void **state)
{
	return open_kernels(HOPPER_KERNELS);
}

void problem_run(struct problem *p, const struct attn_variant *v)
{
	char name[128];
	const struct sim_kernel *kernel;
	unsigned rows = (unsigned)v->rows_per_block;
	unsigned grid[3] = {((unsigned)p->args.Sq + rows - 1) / rows * (unsigned)v->grid_x_factor,
			    (unsigned)p->args.H, (unsigned)p->args.B};
	unsigned block[3] = {(unsigned)v->threads, 1, 1};
	static struct attn_mapped mapped;
	const bool takes_looks = v->family == ATTN_ROUNDED;
	void *params[1] = {takes_looks ? (void *)&mapped : &p->args};

	mapped = (struct attn_mapped){.attn = p->args};
	if (takes_looks && p->look)
		p->look(p, v, &mapped);
	snprintf(name, sizeof(name), "sim_kernel_%s", v->symbol);
	kernel = dlsym(kernels, name);
	assert_non_null(kernel);
	assert_int_equal(kernel->param_count, 1);
	assert_int_equal(kernel->param_size[0], takes_looks ? sizeof(mapped) : sizeof(p->args));
	assert_int_equal(kernel->run(grid, block, (unsigned)v->shared_bytes, params), 0);
}

/* Marks in `seen` the bytes of O that belong to an element, and checks that all others still hold
 * what was there before. */
static void check_outside(struct problem *p, const unsigned char *before, const char *what)
{
	const struct attn_args *a = &p->args;
	const struct operand *m = &p->operand[OPERAND_O];
	size_t span = m->map_bytes - 4096, size = (size_t)attn_dtype_size(a->o.dtype);
	unsigned char *seen = calloc(span, 1), *now = m->map;

	for (int b = 0; b < a->B; b++)
		for (int h = 0; h < a->H; h++)
			for (int i = 0; i < a->Sq; i++)
				for (int d = 0; d < a->Dv; d++) {
					unsigned char *e = element_at(&a->o, a->H, b, h, i, d);

					memset(seen + (e - now), 1, size);
					if (!memcmp(e, before + (e - now), size))
						fail_msg("%s: O[%d,%d,%d,%d] was not written", what,
							 b, h, i, d);
				}
	for (size_t n = 0; n < span; n++)
		if (!seen[n] && now[n] != before[n])
			fail_msg("%s: byte %zd of O was written, which lies outside", what,
				 (ssize_t)(now + n - (unsigned char *)m->data));
	free(seen);
}

void problem_check(struct problem *p, const struct attn_variant *v, const char *what)
{
	const struct attn_args *a = &p->args;
	struct operand *m = &p->operand[OPERAND_O];
	size_t row = (size_t)a->Dv, rows = (size_t)a->B * a->H * a->Sq, count = 0, n = 0;
	double *answer, *flips, *chain = malloc(row * sizeof(*chain)), error = 0, most = 0, bound;
	double step = a->q.dtype == ATTN_F16 ? 0x1p-11 : a->q.dtype == ATTN_BF16 ? 0x1p-8 : 0x1p-22;
	unsigned char *before = malloc(m->map_bytes - 4096);
	char name[160];

	snprintf(name, sizeof(name), "%s [%s B%d H%d Sq%d Sk%d D%d Dv%d]", what, v->name, a->B,
		 a->H, a->Sq, a->Sk, a->D, a->Dv);
	answer = malloc((rows / (size_t)p->row_step + 1) * row * sizeof(*answer));
	flips = malloc((rows / (size_t)p->row_step + 1) * sizeof(*flips));
	for (size_t r = 0; r < rows; r += (size_t)p->row_step, count++) {
		int i = (int)(r % (size_t)a->Sq), h = (int)(r / (size_t)a->Sq % (size_t)a->H);
		int b = (int)(r / (size_t)a->Sq / (size_t)a->H);

		flips[count] = problem_row_loose(p, b, h, i, false, answer + count * row);
		problem_row(p, b, h, i, true, chain);
		for (size_t d = 0; d < row; d++) {
			double exact = answer[count * row + d], e = fabs(chain[d] - exact);

			if (isfinite(e) && e > error)
				error = e;
			if (isfinite(exact) && fabs(exact) > most)
				most = fabs(exact);
		}
	}
	bound = 2 * error + (1 + p->more_steps) * step * most;
	if (p->spoil)
		p->spoil(p, p->kind, p->hiding);

	memset(m->map, OPERAND_POISON, m->map_bytes - 4096);
	memcpy(before, m->map, m->map_bytes - 4096);
	problem_run(p, v);
	check_outside(p, before, name);
	for (size_t r = 0; r < rows; r += (size_t)p->row_step, n++) {
		int i = (int)(r % (size_t)a->Sq), h = (int)(r / (size_t)a->Sq % (size_t)a->H);
		int b = (int)(r / (size_t)a->Sq / (size_t)a->H);

		for (int d = 0; d < a->Dv; d++) {
			double exact = answer[n * row + (size_t)d];
			double o = number_load(element_at(&a->o, a->H, b, h, i, d), a->o.dtype);
			bool good = isnan(exact) ? isnan(o)
				    : isinf(number_round(exact, a->o.dtype))
					    ? o == number_round(exact, a->o.dtype)
					    : fabs(o - exact) <= bound + flips[n];

			if (!good && !(p->may_be_nan && isnan(o)))
				fail_msg("%s: O[%d,%d,%d,%d] is %g, should be %g within %g", name,
					 b, h, i, d, o, exact, bound + flips[n]);
		}
	}
	free(before);
	free(chain);
	free(flips);
	free(answer);
}

/* Of each family the narrowest width that takes the call: are there any, and is it worth the host's
 * time? */
static void find_narrowest(int narrowest[], const struct problem *p)
{
	for (int n = 0; n < attn_variant_count; n++) {
		const struct attn_variant *v = &attn_variants[n];
		int *least = &narrowest[v->family];

		if (attn_select(&p->args, 90, v->name) == v && (!*least || v->max_d < *least))
			*least = v->max_d;
	}
}

static bool is_worth(const struct attn_variant *v, const int narrowest[], const struct problem *p)
{
	return v->dtype == p->args.q.dtype && v->max_d == narrowest[v->family] &&
	       !(takes_few_queries(v) &&
		 (v->grid_x_factor > 1 || p->args.B * p->args.H * p->args.Sq > 40));
}

void problem_check_all(struct problem *p, const char *what)
{
	int narrowest[ATTN_LADDER + 1] = {0}, checked = 0;

	find_narrowest(narrowest, p);
	for (int n = 0; n < attn_variant_count; n++) {
		const struct attn_variant *v = &attn_variants[n];

		if (!is_worth(v, narrowest, p))
			continue;
		if (attn_select(&p->args, 90, v->name) == v) {
			problem_check(p, v, what);
			checked++;
		} else {
			assert_true(v->needs & ATTN_NEEDS_PLAIN || p->args.spec.lengths.base ||
				    p->args.spec.sinks.base || p->args.spec.late_biases ||
				    p->args.spec.scales.base || p->args.spec.bias[0].columns);
		}
	}
	assert_true(checked > 0);
	problem_free(p);
}

void problem_check_rounded(struct problem *p, const char *what)
{
	const bool weights = p->args.spec.round_s & ATTN_ROUND_WEIGHTS;
	int narrowest[ATTN_LADDER + 1] = {0}, checked = 0;

	find_narrowest(narrowest, p);
	for (int n = 0; n < attn_variant_count; n++) {
		const struct attn_variant *v = &attn_variants[n];

		if (attn_select(&p->args, 90, v->name) != v)
			continue;
		assert_int_equal(rounds_weights(v), weights);
		if (v->family == ATTN_MMA || v->family == ATTN_ROUNDED ||
		    is_worth(v, narrowest, p)) {
			problem_check(p, v, what);
			checked++;
		}
	}
	assert_true(checked > 0);
	assert_int_equal(rounds_weights(attn_select(&p->args, 90, NULL)), weights);
	problem_free(p);
}

void problem_check_chosen(struct problem *p, const char *what)
{
	const struct attn_variant *v = attn_select(&p->args, 90, NULL);

	assert_non_null(v);
	problem_check(p, v, what);
	problem_free(p);
}
