/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores that a program lays out as [Sq,Sk,B,H] between its products, as one does that names its
 * einsum's output so: masks and biases are told in the order of S, or the chain is left alone.
 */
#include "tests/unit/spec_fixture.h"

#include "tests/apps/aten.h"

#define THIRD (CORE_OTHER + 0x100000)

enum { B = 2, H = 3 };

static unsigned queries(void)
{
	return (unsigned)core.Sq;
}

static unsigned keys(void)
{
	return (unsigned)core.Sk;
}

/* Elements of one head's scores. */
static unsigned entry(void)
{
	return queries() * keys();
}

static struct op copied(uint64_t out, uint64_t in, int dims, const unsigned *size,
			const unsigned *from)
{
	unsigned strides[8], apart = 2;
	const float nothing = 0;

	for (int d = 0; d < dims; apart *= size[d++]) {
		strides[2 * d] = apart;
		strides[2 * d + 1] = 2 * from[d];
	}
	return core_strided(TEXT(ATEN_COPY_STRIDED), 2, dims, size, strides, (uint64_t[]){out, in},
			    &nothing, 4);
}

/* [B*H,Sq,Sk] becomes [Sq,Sk,B*H], and that the other again. */
static struct op aside(uint64_t out, uint64_t in)
{
	return copied(out, in, 3, (unsigned[]){B * H, keys(), queries()},
		      (unsigned[]){entry(), 1, keys()});
}

static struct op back(uint64_t out, uint64_t in)
{
	return copied(out, in, 2, (unsigned[]){entry(), B * H}, (unsigned[]){B * H, 1});
}

/* By a mask [Sq,Sk,B,1]: what is beside heads is one dimension. */
static struct op hidden(uint64_t out, uint64_t in)
{
	const unsigned strides[2][3] = {{2, 2, 0}, {2 * H, 2 * H, 1}};
	const uint16_t lowest = 0xfc00;

	return core_strided(TEXT(ATEN_MASKED_FILL), 3, 2, (unsigned[]){H, B * entry()},
			    &strides[0][0], (uint64_t[]){out, in, core.mask}, &lowest, 2);
}

static struct op softmax_over(uint64_t out, uint64_t in, unsigned outer, unsigned columns,
			      unsigned inner)
{
	return core_launch(TEXT(ATEN_SOFTMAX_SPATIAL), 5, (size_t[]){8, 8, 4, 4, 4},
			   (const void *[]){&out, &in, &outer, &columns, &inner});
}

static struct op softmax_aside(uint64_t out, uint64_t in)
{
	return softmax_over(out, in, queries(), keys(), B * H);
}

#define OF_SIX(...)                                                                                \
	(core_begin(), core.H = B * H,                                                             \
	 end(chain_of((struct op[]){__VA_ARGS__},                                                  \
		      sizeof((struct op[]){__VA_ARGS__}) / sizeof(struct op))))

static void test_there_and_back(void **state)
{
	assert_int_equal(OF_SIX(aside(core.x, core.s), hidden(core.x, core.x),
				softmax_aside(core.m, core.x), back(core.p, core.m)),
			 REASON_NONE);
	assert_true(args.B == B && args.H == H && args.Sq == core.Sq && args.Sk == core.Sk);
	assert_stride(&args.spec.mask, 1, 0, B * core.Sk, B);
	assert_int_equal(args.spec.mask.base, core.mask);
	assert_int_equal(args.spec.mask_keeps, 0);
	/* steps before and behind are told as ever */
	assert_int_equal(OF_SIX(core_scale(core.s, core.s, 0.25f), aside(core.x, core.s),
				softmax_aside(core.m, core.x), back(core.p, core.m),
				core_scale(core.p, core.p, 2)),
			 REASON_NONE);
	assert_true(args.spec.scale == 0.25f && args.spec.out_scale == 2);
	assert_int_equal(args.H, B * H);
}

/* [B,Sq,Sk,H], by way of [Sq,Sk,B,H]. */
static void test_by_a_third(void **state)
{
	assert_int_equal(OF_SIX(aside(THIRD, core.s),
				copied(core.x, THIRD, 3, (unsigned[]){H, entry(), B},
				       (unsigned[]){1, B * H, H}),
				softmax_over(core.m, core.x, B * queries(), keys(), H),
				copied(core.p, core.m, 3, (unsigned[]){entry(), H, B},
				       (unsigned[]){H, 1, H * entry()})),
			 REASON_NONE);
	assert_int_equal(args.H, B * H);
}

static void test_not_told(void **state)
{
	/* P never comes back */
	assert_int_equal(OF_SIX(aside(core.x, core.s), softmax_aside(core.p, core.x)),
			 REASON_LAYOUT);
	/* or not to where it was */
	assert_int_equal(OF_SIX(aside(core.x, core.s), softmax_aside(core.m, core.x),
				copied(core.p, core.m, 3, (unsigned[]){entry(), H, B},
				       (unsigned[]){B * H, B, 1})),
			 REASON_LAYOUT);
	/* softmax over what are no keys then */
	assert_int_equal(
		OF_SIX(aside(core.x, core.s), core_softmax(core.m, core.x), back(core.p, core.m)),
		REASON_NOT_SOFTMAX);
	/* a copy that repeats some scores and leaves others out */
	assert_int_not_equal(
		OF_SIX(copied(core.x, core.s, 3, (unsigned[]){B * H, keys(), queries()},
			      (unsigned[]){entry(), 1, 0}),
		       softmax_aside(core.m, core.x), back(core.p, core.m)),
		REASON_NONE);
	/* a mask over the copy as if it lay as S does */
	assert_int_not_equal(OF_SIX(aside(core.x, core.s),
				    core_masked_fill(core.x, core.x, core.mask, 0xfc00),
				    softmax_aside(core.m, core.x), back(core.p, core.m)),
			     REASON_NONE);
}

/* A mask over S and one over its copy: each by where its scores were then. */
static void test_mask_before(void **state)
{
	assert_int_equal(OF_SIX(core_masked_fill(core.s, core.s, core.mask, 0xfc00),
				aside(core.x, core.s), softmax_aside(core.m, core.x),
				back(core.p, core.m)),
			 REASON_NONE);
	assert_stride(&args.spec.mask, 0, 0, core.Sk, 1);
}

enum { GROUP = 4 };

/* [Z,Sq,GROUP,Sk] becomes [Z,GROUP,Sq,Sk], as einsum has it where heads of a group share K. */
static struct op turned(uint64_t out, uint64_t in)
{
	return copied(out, in, 4, (unsigned[]){keys(), queries() / GROUP, GROUP, B * H},
		      (unsigned[]){1, GROUP * keys(), keys(), entry()});
}

/* By a mask of queries and keys: it repeats every `inner` rows, or stays for so many. */
static struct op hidden_rows(uint64_t out, uint64_t in, unsigned inner, bool repeats)
{
	const unsigned outer = queries() / inner, apart = inner * keys();
	const unsigned strides[4][3] = {{2, 2, 1},
					{2 * keys(), 2 * keys(), repeats ? keys() : 0},
					{2 * apart, 2 * apart, repeats ? 0 : keys()},
					{2 * entry(), 2 * entry(), 0}};
	const uint16_t lowest = 0xfc00;

	return core_strided(TEXT(ATEN_MASKED_FILL), 3, 4, (unsigned[]){keys(), inner, outer, B * H},
			    &strides[0][0], (uint64_t[]){out, in, core.mask}, &lowest, 2);
}

static void test_heads_within_rows(void **state)
{
	int64_t row;

	assert_int_equal(OF_SIX(core_softmax(core.m, core.s), turned(core.p, core.m)), REASON_NONE);
	row = args.o.stride[2];
	assert_true(args.B == B * H && args.H == GROUP && args.Sq == core.Sq / GROUP);
	assert_stride(&args.q, args.q.stride[0], core.D, GROUP * core.D, 1);
	assert_stride(&args.o, core.Sq * row, core.Sq / GROUP * row, row, 1);
	assert_true(args.k.stride[1] == 0 && args.v.stride[1] == 0);
	/* a mask of all rows is of heads and queries then */
	assert_int_equal(OF_SIX(core_masked_fill(core.s, core.s, core.mask, 0xfc00),
				core_softmax(core.m, core.s), turned(core.p, core.m)),
			 REASON_NONE);
	assert_stride(&args.spec.mask, 0, core.Sk, GROUP * core.Sk, 1);
	assert_int_equal(OF_SIX(hidden_rows(core.s, core.s, GROUP, false),
				core_softmax(core.m, core.s), turned(core.p, core.m)),
			 REASON_NONE);
	assert_stride(&args.spec.mask, 0, 0, core.Sk, 1);
	/* one that says that others are the heads */
	assert_int_equal(OF_SIX(hidden_rows(core.s, core.s, 2 * GROUP, false),
				core_softmax(core.m, core.s), turned(core.p, core.m)),
			 REASON_LAYOUT);
	assert_int_equal(OF_SIX(hidden_rows(core.s, core.s, GROUP, true),
				core_softmax(core.m, core.s), turned(core.p, core.m)),
			 REASON_LAYOUT);
	/* rows in three parts, of which the inner two change places */
	assert_int_equal(
		OF_SIX(core_softmax(core.m, core.s),
		       copied(core.p, core.m, 4,
			      (unsigned[]){keys(), GROUP, 2, queries() / GROUP / 2 * B * H},
			      (unsigned[]){1, 2 * keys(), keys(), 2 * GROUP * keys()})),
		REASON_LAYOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),	  cmocka_unit_test(test_by_a_third),
		cmocka_unit_test(test_not_told),	  cmocka_unit_test(test_mask_before),
		cmocka_unit_test(test_heads_within_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
