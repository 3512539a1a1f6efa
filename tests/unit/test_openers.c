/* SPDX-License-Identifier: Apache-2.0
 *
 * How products that lead nowhere are left alone, and dense layers beside attention.
 */
#include "tests/unit/core.h"

#include "shim/log/log.h"
#include "shim/site/opener.h"
#include "shim/site/site.h"

/* Of so many calls, each of which fails: how many are looked at? */
static int tries(struct op_gemm *gemm, int calls)
{
	int tried = 0;

	for (int i = 0; i < calls; i++) {
		struct op_gemm other = *gemm;

		other.k += 8; /* between two of them there is another product */
		opener_promising(&other);
		if (!opener_promising(gemm))
			continue;
		opener_result(gemm, false);
		tried++;
	}
	return tried;
}

static void test_backoff(void **state)
{
	struct op op;

	core_begin();
	op = core_scores();
	op.gemm.batch = 1;
	assert_int_equal(tries(&op.gemm, 4), 4);
	assert_int_equal(tries(&op.gemm, 4 + 8 + 16 + 32 + 64 + 128), 6);
	assert_int_equal(tries(&op.gemm, 1024), 4);
	op.gemm.n = 7; /* the same weights, another number of rows */
	assert_false(opener_promising(&op.gemm));
	op.gemm.k = 9;
	assert_true(opener_promising(&op.gemm));
	op = core_scores();
	op.gemm.batch = 12;
	assert_int_equal(tries(&op.gemm, 4), 4);
	assert_int_equal(tries(&op.gemm, 4 + 8), 2);
	assert_int_equal(tries(&op.gemm, 160), 10);
	opener_result(&op.gemm, true);
	assert_true(opener_promising(&op.gemm));
}

/* Somebody tries out how fast a product is. */
static void test_repeated(void **state)
{
	struct op op;

	core_begin();
	op = core_scores();
	op.gemm.batch = 12;
	for (int i = 0; i < 60; i++) {
		assert_true(opener_promising(&op.gemm));
		opener_result(&op.gemm, false);
	}
	assert_true(tries(&op.gemm, 1000) > 0);
	assert_false(opener_promising(&op.gemm));
}

/* Q is multiplied with a table of relative positions as well, once for each row of an image: no
 * site, and no reason to leave alone what is one for each head. */
static void test_batches(void **state)
{
	struct op op;

	core_begin();
	op = core_scores();
	op.gemm.batch = 28;
	for (int i = 0; i < 4; i++)
		opener_result(&op.gemm, false);
	assert_false(opener_promising(&op.gemm));
	op.gemm.n = 1; /* a class token, behind talking heads */
	assert_true(opener_promising(&op.gemm));
	op.gemm.n = 2;
	assert_false(opener_promising(&op.gemm));
	op.gemm.batch = 32;
	assert_true(opener_promising(&op.gemm));
}

/* The same, seen from outside: products that never become attention stop costing. */
static void test_projections(void **state)
{
	struct op op;

	core_begin();
	op = core_scores();
	for (int i = 0; i < 2000; i++) {
		core_send(op);
		core_send(core_memset(core.s, core.score_bytes));
	}
	assert_true(chain_live <= 1);
	assert_int_equal(site_count, 0);
	op.gemm.batch = 2; /* another opener still is looked at */
	assert_true(opener_promising(&op.gemm));
}

/* A dense layer: [rows,depth] of `in` times weights make [rows,width]. */
static struct op dense(uint64_t out, int64_t width, int64_t rows, int64_t depth, uint64_t in)
{
	return core_product(1, 0, width, rows, depth, CORE_OTHER, depth, 0, in, depth, 0, out,
			    width, 0, 1);
}

/* An element-wise kernel of ATen that is neither softmax nor a part of one, with a rule or none. */
static struct op pow_of(uint64_t out, uint64_t in, bool ruled)
{
	return ruled ? core_other(out, in, 2)
		     : core_named("_ZN2at6native10pow_kernelIfEEvPT_PKS2_f", out, in, 2);
}

/* V comes out of a dense layer, whose chain is open while attention runs, and O has as many numbers
 * as V, or twice as many where pairs of heads share a V: PV still belongs to QK^T. */
static void test_projected_v(void **state)
{
	for (int shared = 1; shared <= 2; shared++) {
		core_begin();
		core.H = 4;
		core.Sk = core.Sq;
		core_resize();
		for (int i = 0; i < 5; i++) {
			core_send(dense(core.v, core.D, core.H / shared * core.Sk, 32, core.o));
			assert_int_equal(core_chain(), i < 3 ? 0 : 5);
			core_send(core_memset(core.v, core.v_bytes));
		}
		assert_int_equal(site_count, 1);
		assert_int_equal(sites[0].live->replaced, 2);
	}
}

/* Between two dense layers there is no attention, whatever kernels of ATen are: no site, only a
 * count, and soon nothing is looked at any more. */
static void test_dense_layers(void **state)
{
	const uint64_t before = log_live()->reasons[REASON_NOT_SOFTMAX];

	for (int ruled = 0; ruled < 2; ruled++) {
		core_begin();
		for (int i = 0; i < 8; i++) {
			core_send(dense(core.s, 48, 32, 16, core.q));
			core_send(pow_of(core.p, core.s, ruled));
			core_send(core_product(0, 0, 24, 32, 48, CORE_OTHER, 24, 0, core.p, 48, 0,
					       core.o, 24, 0, 1));
		}
		assert_int_equal(site_count, 0);
	}
	assert_true(log_live()->reasons[REASON_NOT_SOFTMAX] >= before + 4);
	assert_true(log_live()->reasons[REASON_NOT_SOFTMAX] <= before + 10);
}

/* What a dense layer made is overwritten before anybody could have closed a chain: soon none is
 * opened. */
static void test_dense_overwritten(void **state)
{
	core_begin();
	for (int i = 0; i < 7; i++) {
		core_send(dense(core.s, 40, 32, 16, core.q));
		assert_int_equal(chain_live, i < 4);
		core_send(core_memset(core.s, 40 * 32 * 2));
		assert_int_equal(chain_live, 0);
	}
}

/* Dense layers of a single head's depth: that they lead nowhere says nothing of the head. */
static void test_dense_beside_single_head(void **state)
{
	core_begin();
	core.H = 1;
	core_resize();
	for (int i = 0; i < 8; i++) {
		core_send(dense(core.x, 48, 32, core.D, core.q));
		core_send(core_kernel_copy(core.p, core.x, 48 * 32));
		core_send(core_product(0, 0, 24, 32, 48, CORE_OTHER, 24, 0, core.p, 48, 0, core.o,
				       24, 0, 1));
	}
	core_learn();
	assert_int_equal(core_chain(), 5);
}

/* Softmaxes that no product takes have a reason in the log; other work has none, nor has one row of
 * experts that are chosen among. */
static void test_led_nowhere(void **state)
{
	struct op op;

	core_begin();
	core_send(core_scores());
	core_send(core_scale(core.x, core.s, 2));
	core_send(core_memset(core.s, core.score_bytes));
	core_send(core_memset(core.x, core.score_bytes));
	assert_int_equal(log_live()->reasons[REASON_LAYOUT], 0);
	core_send(core_scores());
	core_send(core_softmax(core.p, core.s));
	core_send(core_memset(core.s, core.score_bytes));
	core_send(core_memset(core.p, core.score_bytes));
	assert_int_equal(log_live()->reasons[REASON_LAYOUT], 1);
	core_send(core_scores());
	core_send(core_softmax(core.p, core.s));
	core_send(core_to_host(core.p, core.score_bytes));
	for (int i = 0; i < CHAIN_PATIENCE; i++)
		core_send(core_memset(CORE_OTHER, 64));
	assert_int_equal(log_live()->reasons[REASON_LAYOUT], 1);
	assert_int_equal(log_live()->reasons[REASON_SCORES_READ_BY], 1);
	core_begin();
	core.H = 1;
	core_resize();
	op = core_scores();
	op.gemm.batch = 1;
	core_send(op);
	core_send(core_softmax(core.p, core.s));
	core_send(core_memset(core.s, core.score_bytes));
	core_send(core_memset(core.p, core.score_bytes));
	assert_int_equal(log_live()->reasons[REASON_LAYOUT], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_led_nowhere),
		cmocka_unit_test(test_backoff),
		cmocka_unit_test(test_repeated),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_projections),
		cmocka_unit_test(test_projected_v),
		cmocka_unit_test(test_dense_layers),
		cmocka_unit_test(test_dense_overwritten),
		cmocka_unit_test(test_dense_beside_single_head),
	};

	return CORE_MAIN("openers", tests);
}
