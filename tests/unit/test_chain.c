/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains by hand: what opens one, which ops join it, how versions of memory follow one another, and
 * which product ends it. No op runs here and no site is known: only the dataflow is looked at.
 */
#include "tests/unit/core.h"

#include "tests/apps/aten.h"

#include "shim/site/site.h"
#include "shim/flow/touch.h"
#include "shim/real/driver.h"

static struct access_list list;

static const struct sight *look_at(struct op *op)
{
	const struct sight *sight;

	driver_resolve();
	sight = touch_see(op);
	assert_true(op->kind != OP_LAUNCH || sight->params);
	list = *sight->list;
	return sight;
}

static struct chain *begin(void)
{
	struct op op = core_scores();

	assert_true(chain_may_open(&op));
	return chain_open(&op);
}

/* Joins an op; it must read the chain. */
static bool join(struct chain *chain, struct op op)
{
	const struct sight *sight = look_at(&op);

	assert_ptr_equal(chain_reader(&op, &list), chain);
	if (op.kind == OP_LAUNCH)
		site_narrow(NULL, chain, sight->list);
	return chain_extend(chain, sight);
}

static bool is_reader(struct op op)
{
	look_at(&op);
	return chain_reader(&op, &list) != NULL;
}

static bool ends(struct chain *chain, struct op op)
{
	return chain_close(chain, &op);
}

/* S, X = scale S, M = X + mask, P. */
static struct chain *window(void)
{
	struct chain *chain = begin();

	assert_true(join(chain, core_scale(core.x, core.s, core.scale)));
	assert_true(join(chain, core_add_mask(core.m, core.x, core.mask)));
	assert_true(join(chain, core_softmax(core.p, core.m)));
	assert_int_equal(chain->unfit, REASON_NONE);
	return chain;
}

static void assert_extent(const struct range_set *set, uint64_t base, uint64_t bytes)
{
	if (!bytes) {
		assert_int_equal(set->count, 0);
		return;
	}
	assert_int_equal(set->count, 1);
	assert_int_equal(set->item[0].begin, base);
	assert_int_equal(set->item[0].end, base + bytes);
}

/* ---- opening
 * --------------------------------------------------------------------------------------- */

static void test_may_open(void **state)
{
	struct op op;

	core_begin();
#define DENIED(change)                                                                             \
	do {                                                                                       \
		op = core_scores();                                                                \
		change;                                                                            \
		if (chain_may_open(&op))                                                           \
			fail_msg("opens with %s", #change);                                        \
	} while (0)
	op = core_scores();
	assert_true(chain_may_open(&op));
	op.gemm.transa = 0; /* K stored transposed */
	op.gemm.lda = core.Sk;
	assert_true(chain_may_open(&op));
	op = core_scores();
	op.gemm.atype = op.gemm.btype = op.gemm.ctype = CUDA_R_32F;
	assert_true(chain_may_open(&op));
	DENIED(op.gemm.plain = false);
	DENIED(op.gemm.by_array = true);
	DENIED(op.gemm.k = 513); /* a projection, not a head */
	DENIED(op.gemm.batch = 0);
	DENIED(op.gemm.m = 0);
	DENIED(op.gemm.ldc = core.Sk + 8); /* scores with gaps */
	DENIED(op.gemm.stride_c += 8);
	DENIED(op.gemm.atype = CUDA_R_32F); /* mixed operands */
	DENIED(op.gemm.atype = op.gemm.btype = CUDA_R_8I);
	DENIED(op.gemm.ctype = CUDA_R_64F);
	DENIED(op.gemm.d = core.x);
#undef DENIED
}

static void test_open(void **state)
{
	struct chain *chain;
	struct op op;

	core_begin();
	chain = begin();
	assert_int_equal(chain->input_count, 2);
	assert_int_equal(chain->inputs[0].begin, core.k);
	assert_int_equal(chain->inputs[0].end, core.k + core.k_bytes);
	assert_int_equal(chain->inputs[1].begin, core.q);
	assert_int_equal(chain->inputs[1].end, core.q + core.q_bytes);
	assert_int_equal(chain->value_count, 1);
	assert_extent(&chain->values[0].live, core.s, core.score_bytes);
	assert_true(chain->low <= core.q && chain->high >= core.s + core.score_bytes);
	assert_int_equal(chain_live, 1);
	chain_free(chain);
	assert_int_equal(chain_live, 0);
	op = core_scores(); /* Q is K */
	op.gemm.b = op.gemm.a;
	op.gemm.n = op.gemm.m;
	op.gemm.stride_b = op.gemm.stride_a;
	chain = chain_open(&op);
	assert_int_equal(chain->input_count, 2);
	op = core_scores();
	assert_int_equal(chain_open(&op)->preload, -1);
	op.gemm.beta = 1; /* what lies in S is read */
	chain = chain_open(&op);
	assert_int_equal(chain->unfit, REASON_NONE);
	assert_int_equal(chain->preload, 2);
	assert_int_equal(chain->inputs[2].begin, core.s);
	assert_int_equal(chain->inputs[2].end, core.s + core.score_bytes);
	op.gemm.scalars_on_device = true;
	assert_int_equal(chain_open(&op)->unfit, REASON_SCALARS_ON_DEVICE);
}

static void test_table_full(void **state)
{
	struct op op;

	core_begin();
	op = core_scores();
	for (int i = 0; i < CHAIN_COUNT; i++)
		assert_non_null(chain_open(&op));
	assert_null(chain_open(&op));
	chain_free(chain_list[7]);
	assert_non_null(chain_open(&op));
	assert_int_equal(chain_live, CHAIN_COUNT);
}

/* ---- joining
 * --------------------------------------------------------------------------------------- */

static void test_versions(void **state)
{
	struct chain *chain;

	core_begin();
	chain = window();
	assert_int_equal(chain->step_count, 4);
	assert_int_equal(chain->value_count, 4);
	assert_extent(&chain->values[0].live, core.s, 0); /* M lies over S */
	assert_extent(&chain->values[1].live, core.x, core.score_bytes);
	assert_extent(&chain->values[2].live, core.m, core.score_bytes);
	assert_extent(&chain->values[3].live, core.p, core.score_bytes);
	assert_int_equal(chain->input_count, 3);
	assert_int_equal(chain->inputs[2].begin, core.mask);
	assert_int_equal(chain->inputs[2].end, core.mask + core.mask_bytes);
	assert_string_equal(chain->steps[1].name, "mul");
	assert_string_equal(chain->steps[2].name, "add");
	assert_string_equal(chain->steps[3].name, "softmax");
	assert_true(ends(chain, core_context()));
	assert_int_equal(chain->p_value, 3);
}

static void test_in_place(void **state)
{
	struct chain *chain;

	core_begin();
	core.x = core.m = core.p = core.s;
	chain = window();
	assert_int_equal(chain->value_count, 4);
	for (int i = 0; i < 4; i++)
		assert_extent(&chain->values[i].live, core.s, i == 3 ? core.score_bytes : 0);
	assert_true(ends(chain, core_context()));
	assert_int_equal(chain->p_value, 3);
}

/* A version that lies half over another takes only that half from it. */
static void test_partial_overlap(void **state)
{
	struct chain *chain;

	core_begin();
	core.p = core.x + core.score_bytes / 2;
	chain = window();
	assert_extent(&chain->values[1].live, core.x, core.score_bytes / 2);
	assert_extent(&chain->values[3].live, core.p, core.score_bytes);
	assert_true(ends(chain, core_context()));
}

/* Scores written over Q: the input's place is taken, but the chain goes on. */
static void test_middle_into_q(void **state)
{
	struct chain *chain;

	core_begin();
	core.x = core.q;
	chain = window();
	assert_extent(&chain->values[1].live, core.q, core.score_bytes);
	assert_true(ends(chain, core_context()));
}

static void test_readers(void **state)
{
	struct chain *chain;
	struct op op;

	core_begin();
	chain = window();
	assert_true(is_reader(core_scale(CORE_OTHER, core.p, 1)));
	assert_true(is_reader(core_unknown(CORE_OTHER, core.p, 1)));
	assert_true(is_reader(core_copy(core.p, CORE_OTHER, 64)));
	assert_false(is_reader(core_to_host(core.p, 64))); /* no step: the host waits for it */
	assert_false(is_reader(core_memset(core.p, 64)));
	assert_false(is_reader(core_fill(core.p, 64)));
	/* V's copy into Q, into S: neither reads the chain. */
	assert_false(is_reader(core_kernel_copy(core.q, CORE_OTHER, 64)));
	assert_false(is_reader(core_kernel_copy(core.x, CORE_OTHER, 64)));
	op = core_scale(CORE_OTHER, core.p, 1);
	op.stream = (CUstream)0x55; /* not in this stream's order */
	assert_false(is_reader(op));
	op.stream = core.stream;
	op.context = (CUcontext)0x66;
	assert_false(is_reader(op));
	chain->closed = true;
	assert_false(is_reader(core_scale(CORE_OTHER, core.p, 1)));
}

/* Two numbers side by side that make an address are none, unless something is kept there. */
static void test_pointer_words(void **state)
{
	int numbers[2] = {(int)CORE_ARENA, 0};
	const uint64_t block[2] = {CORE_ARENA, CORE_ARENA};
	struct op op;

	core_begin();
	op = core_launch("somebody_elses", 3, (size_t[]){4, 4, 8},
			 (const void *[]){numbers, numbers + 1, &core.s});
	look_at(&op);
	assert_int_equal(list.count, 1);
	assert_int_equal(list.item[0].pointer, core.s);
	assert_int_equal(list.item[0].begin, CORE_ARENA); /* it may lead anywhere in there */
	assert_int_equal(list.item[0].end, CORE_ARENA + CORE_ROOM);
	assert_int_equal(list.item[0].where, 8);
	op = core_launch("of_a_struct", 1, (size_t[]){16}, (const void *[]){block});
	look_at(&op);
	assert_int_equal(list.count, 2);

	begin();
	for (int kept = 0; kept < 2; kept++) {
		numbers[0] = (int)(kept ? core.s + 2 : CORE_OTHER);
		op = core_launch("somebody_elses", 3, (size_t[]){4, 4, 8},
				 (const void *[]){numbers, numbers + 1, &core.s});
		look_at(&op);
		assert_int_equal(list.opaque, kept);
		assert_int_equal(list.count, !kept);
	}
}

/* Factors on the device, of the product or of an operand. */
static void test_besides_a_product(void **state)
{
	struct op op;

	core_begin();
	op = core_scores();
	look_at(&op);
	assert_int_equal(list.count, 3);
	op.gemm.scalars_on_device = true;
	op.gemm.alpha_at = core.p + 4;
	op.gemm.beside_count = 1;
	op.gemm.beside[0] = (struct op_operand){CORE_OTHER, CORE_OTHER + 4, .read = true};
	look_at(&op);
	assert_int_equal(list.count, 5);
	assert_int_equal(list.item[3].begin, core.p + 4);
	assert_int_equal(list.item[3].mode, ACCESS_READ);
	assert_int_equal(list.item[4].begin, CORE_OTHER);
	assert_int_equal(list.item[4].end, CORE_OTHER + 4);
	assert_int_equal(list.item[4].mode, ACCESS_READ);
}

/* S plus a product that has `keys` columns more than S, read as it lies or, as a mask, once more
 * for each head: whose step is the sum? */
static void sum_of_products(int64_t keys, bool repeated, bool scores_first)
{
	const unsigned size[1] = {(unsigned)(core.H * core.Sq * core.Sk)}, strides[3] = {2, 2, 2};
	struct chain *scores, *other;
	const float one = 1;
	struct op op, sum;

	core_begin();
	op = core_scores();
	op.gemm.m += keys;
	op.gemm.ldc += keys;
	op.gemm.stride_c = op.gemm.ldc * op.gemm.n;
	op.gemm.c = CORE_OTHER;
	scores = scores_first ? begin() : NULL;
	other = chain_open(&op);
	scores = scores_first ? scores : begin();
	sum = repeated ? core_add_mask(core.x, core.s, CORE_OTHER)
		       : core_strided(TEXT(ATEN_ADD_STRIDED), 3, 1, size, strides,
				      (uint64_t[]){core.x, core.s, CORE_OTHER}, &one, 4);
	look_at(&sum);
	assert_ptr_equal(chain_reader(&sum, &list),
			 keys || repeated || !scores_first ? scores : other);
	chain_free(scores);
	look_at(&sum);
	assert_ptr_equal(chain_reader(&sum, &list), other);
	chain_free(other);
}

/* A bias that is a product: what is written is as large as the scores, and these are not repeated.
 */
static void test_two_products(void **state)
{
	for (int form = 0; form < 8; form++)
		sum_of_products(form & 1 ? 39 : 0, form & 2, form & 4);
}

/* As good as one another, but for what was gathered from the later one. */
static void test_gathered_product(void **state)
{
	const unsigned size[1] = {(unsigned)(core.H * core.Sq * core.Sk)}, strides[3] = {2, 2, 2};
	const uint64_t gathered = CORE_OTHER + 0x40000;
	struct chain *scores, *other;
	const float one = 1;
	struct op op, sum;

	core_begin();
	scores = begin();
	op = core_scores();
	op.gemm.c = CORE_OTHER;
	other = chain_open(&op);
	assert_true(join(other, core_other(gathered, CORE_OTHER, 2)));
	sum = core_strided(TEXT(ATEN_ADD_STRIDED), 3, 1, size, strides,
			   (uint64_t[]){core.x, core.s, gathered}, &one, 4);
	look_at(&sum);
	assert_ptr_equal(chain_reader(&sum, &list), scores);
	chain_free(scores);
	chain_free(other);
}

/* V was projected a moment ago, and PV is as large as that projection: whose product is it? */
static void test_projected_values(void **state)
{
	struct chain *values, *scores;
	struct op op;

	core_begin();
	core.Sq = core.Sk;
	core_resize();
	op = core_product(1, 0, core.D, core.H * core.Sk, 16, CORE_OTHER, 16, 0,
			  CORE_OTHER + 0x10000, 16, 0, core.v, core.D, 0, 1);
	assert_true(chain_may_open(&op));
	values = chain_open(&op);
	scores = begin();
	look_at(&op);
	assert_ptr_equal(chain_reader(&op, &list), NULL);
	assert_true(join(scores, core_softmax(core.p, core.s)));
	op = core_context();
	look_at(&op);
	assert_ptr_equal(chain_reader(&op, &list), scores);
	assert_true(ends(scores, op));
	chain_free(scores);
	chain_free(values);
}

static void test_copies(void **state)
{
	struct chain *chain;

	core_begin();
	chain = begin();
	assert_true(join(chain, core_copy(core.s, core.x, core.score_bytes)));
	assert_int_equal(chain->value_count, 2);
	assert_int_equal(chain->unfit, REASON_NONE);
	assert_false(join(chain, core_copy(core.x, core.p, core.score_bytes / 2)));
	assert_int_equal(chain->unfit, REASON_UNKNOWN_KERNEL);
}

static void test_too_long(void **state)
{
	struct chain *chain;

	core_begin();
	chain = begin();
	for (int i = 1; i < CHAIN_STEPS; i++) {
		assert_true(join(chain, core_scale(core.s, core.s, 1)));
		assert_int_equal(chain->unfit, chain->value_count < CHAIN_VALUES || i < CHAIN_VALUES
						       ? REASON_NONE
						       : REASON_UNKNOWN_KERNEL);
	}
	assert_false(join(chain, core_scale(core.s, core.s, 1)));
	assert_int_not_equal(chain->unfit, REASON_NONE);
}

static void test_unreadable(void **state)
{
	struct chain *chain;
	struct op op;

	core_begin();
	chain = begin();
	op = core_scale(core.x, core.s, 1);
	look_at(&op);
	assert_false(chain_extend(chain, &(struct sight){.op = &op, .list = &list}));
	assert_int_equal(chain->unfit, REASON_UNKNOWN_KERNEL);
	core_begin();
	chain = begin();
	op = core_scale(core.x, core.s, 1);
	op.launch.cooperative = true;
	join(chain, op);
	assert_int_equal(chain->unfit, REASON_UNKNOWN_KERNEL);
}

/* ---- ending
 * ---------------------------------------------------------------------------------------- */

static void test_end_denied(void **state)
{
	struct chain *chain;
	struct op op;

	core_begin();
	chain = window();
#define DENIED(change)                                                                             \
	do {                                                                                       \
		op = core_context();                                                               \
		change;                                                                            \
		if (ends(chain, op))                                                               \
			fail_msg("ends with %s", #change);                                         \
	} while (0)
	DENIED(op.gemm.b += 2);	    /* not P from its beginning */
	DENIED(op.gemm.b = core.o); /* nothing of ours */
	DENIED(op.gemm.b = core.s - core.score_bytes);
	DENIED(op.gemm.batch--);
	DENIED(op.gemm.k--); /* not all keys */
	DENIED(op.gemm.n--); /* not all queries */
	DENIED(op.gemm.ldb = core.Sk + 1);
	DENIED(op.gemm.stride_b += 8);
	DENIED(op.gemm.stride_b = 0);
	DENIED(op.gemm.a = core.p); /* P times P */
	DENIED(op.gemm.a = core.x + 64);
	DENIED(op.gemm.plain = false);
	DENIED(op.gemm.by_array = true);
	DENIED(op.gemm.atype = CUDA_R_16BF);
	/* P^T dO: contracts the queries. */
	DENIED(op = core_product(0, 1, core.D, core.Sk, core.Sq, core.o, core.D, core.Sq * core.D,
				 core.p, core.Sk, core.Sq * core.Sk, core.v, core.D,
				 core.Sk * core.D, core.H));
#undef DENIED
	assert_true(ends(chain, core_context()));
}

/* Rows of P that are one column longer than there are keys; also where a head has but one row. */
static void test_end_sink(void **state)
{
	struct chain *chain;
	struct op op;

	for (int one = 0; one < 2; one++) {
		core_begin();
		core.Sq = one ? 1 : core.Sq;
		core_resize();
		chain = begin();
		core.Sk++; /* the softmax is over one column more */
		assert_true(join(chain, core_softmax(core.p, core.s)));
		core.Sk--;
		op = core_context();
		op.gemm.ldb = core.Sk + 1;
		op.gemm.stride_b = core.Sq * (core.Sk + 1);
		assert_true(ends(chain, op));
		assert_int_equal(chain->unfit, REASON_NONE);
		assert_int_equal(chain->further, 1);
	}
}

/* The same product in other words: O transposed, P the first operand. */
static void test_end_p_first(void **state)
{
	struct chain *chain;

	core_begin();
	chain = window();
	assert_true(ends(chain, core_product(1, 1, core.Sq, core.D, core.Sk, core.p, core.Sk,
					     core.Sq * core.Sk, core.v, core.D, core.Sk * core.D,
					     core.o, core.Sq, core.Sq * core.D, core.H)));
	assert_int_equal(chain->p_value, 3);
}

/* An older version, overwritten since, is not what the product reads. */
static void test_end_old_version(void **state)
{
	struct chain *chain;
	struct op op;

	core_begin();
	chain = window();
	op = core_context();
	op.gemm.b = core.x; /* alive, though not the last: which one is for the spec to judge */
	assert_true(ends(chain, op));
	assert_int_equal(chain->p_value, 1);
	range_set_cut(&chain->values[3].live, core.p + 100, core.p + 102);
	assert_false(ends(chain, core_context())); /* two bytes of P are somebody else's */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_may_open),	  cmocka_unit_test(test_open),
		cmocka_unit_test(test_table_full),	  cmocka_unit_test(test_versions),
		cmocka_unit_test(test_in_place),	  cmocka_unit_test(test_partial_overlap),
		cmocka_unit_test(test_middle_into_q),	  cmocka_unit_test(test_readers),
		cmocka_unit_test(test_besides_a_product), cmocka_unit_test(test_pointer_words),
		cmocka_unit_test(test_two_products),	  cmocka_unit_test(test_gathered_product),
		cmocka_unit_test(test_projected_values),  cmocka_unit_test(test_copies),
		cmocka_unit_test(test_too_long),	  cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_end_sink),	  cmocka_unit_test(test_end_denied),
		cmocka_unit_test(test_end_p_first),	  cmocka_unit_test(test_end_old_version),
	};

	return CORE_MAIN("chain", tests);
}
