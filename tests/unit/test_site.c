/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes two chains the same site, and how a site's state moves. Openers that lead nowhere:
 * test_openers.c.
 */
#include "tests/unit/core.h"

#include <string.h>

#include "shim/log/log.h"
#include "shim/hazard/held.h"
#include "shim/site/site.h"

/* Which place a whole run of the chain lands in; `core` says how it looks. */
static int landed(void)
{
	struct live_site before[SITES];

	memcpy(before, log_live()->sites, sizeof(before));
	core_chain();
	for (int i = 0; i < site_count; i++)
		if (log_live()->sites[i].seen != before[i].seen ||
		    log_live()->sites[i].turn != before[i].turn)
			return i;
	return -1;
}

static void test_same(void **state)
{
	int first;

	core_begin();
	first = landed();
	assert_int_equal(first, 0);
	/* Other addresses, other aliasing. */
	core.q += 0x100000;
	core.mask += 0x100000;
	assert_int_equal(landed(), first);
	core.x = core.m = core.s; /* in place */
	assert_int_equal(landed(), first);
	core.p = core.q;
	assert_int_equal(landed(), first);
	assert_int_equal(site_count, 1);
}

/* Rules know what each step does for any number of keys. */
static void test_growing_keys(void **state)
{
	core_begin();
	for (int i = 0; i < 10; i++) {
		assert_int_equal(landed(), 0);
		core.Sk++;
		core_resize();
	}
	assert_int_equal(site_count, 1);
	assert_true(log_live()->sites[0].replaced >= 6);
}

/* As many queries as keys, another number of them each time: one site in 17 … 32, one in 33 … 64.
 */
static void test_lengths(void **state)
{
	static const int lengths[] = {20, 31, 17, 32, 25, 19, 60, 33, 64, 50, 41, 18, 30, 63};

	core_begin();
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		core.Sq = core.Sk = lengths[i];
		core_resize();
		assert_int_equal(landed(), lengths[i] > 32);
	}
	assert_int_equal(site_count, 2);
	assert_int_equal(log_live()->sites[0].replaced, 5);
	assert_int_equal(log_live()->sites[1].replaced, 3);
	core.Sk--; /* one key less than queries */
	core_resize();
	assert_int_equal(landed(), 2);
}

/* Another number of batches each time. */
static void test_batches(void **state)
{
	static const int heads[] = {8, 5, 7, 6, 8, 9, 16, 12, 10, 7};

	(void)state;
	core_begin();
	for (unsigned i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		core.H = heads[i];
		core_resize();
		assert_int_equal(landed(), heads[i] > 8);
	}
	assert_int_equal(site_count, 2);
	assert_int_equal(log_live()->sites[0].replaced, 3);
	assert_int_equal(log_live()->sites[1].replaced, 1);
}

static void another(const char *what)
{
	const int before = site_count, at = landed();

	if (at != before)
		fail_msg("%s: site %d of %d", what, at, site_count);
}

static void test_another(void **state)
{
	const struct core plain = (core_begin(), core);

	assert_int_equal(landed(), 0);
#define ANOTHER(change)                                                                            \
	do {                                                                                       \
		core = plain;                                                                      \
		change;                                                                            \
		core_resize();                                                                     \
		another(#change);                                                                  \
	} while (0)
	ANOTHER(core.scale = 0.3f);
	ANOTHER(core.D = 16);
	ANOTHER(core.H = 4);
	ANOTHER(core.Sq = 33);
	ANOTHER(core.math_mode += 1000);
#undef ANOTHER
	core = plain;
	assert_int_equal(landed(), 0);
}

/* Another kernel, another order, another product. */
static void test_another_chain(void **state)
{
	struct op op;

	core_begin();
	assert_int_equal(landed(), 0);
	core_send(core_scores());
	core_send(core_add_mask(core.x, core.s, core.mask));
	core_send(core_scale(core.m, core.x, core.scale));
	core_send(core_softmax(core.p, core.m));
	core_send(core_context());
	assert_int_equal(site_count, 2);
	core_window();
	op = core_context();
	op.gemm.alpha = 0.5;
	core_send(op);
	assert_int_equal(site_count, 3);
	op = core_scores();
	op.gemm.alpha = 0.5;
	core_send(op);
	core_send(core_scale(core.x, core.s, core.scale));
	core_send(core_add_mask(core.m, core.x, core.mask));
	core_send(core_softmax(core.p, core.m));
	core_send(core_context());
	assert_int_equal(site_count, 4);
	assert_int_equal(landed(), 0);
}

/* One chain with a kernel without a rule, which is told `word`. Fused launches. */
static uint64_t unknown_chain(uint32_t word)
{
	struct op op;
	float scalar;

	memcpy(&scalar, &word, 4);
	below_reset();
	core_send(core_scores());
	core_send(core_unknown(core.s, 0, scalar));
	op = core_context();
	op.gemm.b = core.s;
	core_send(op);
	return below.count[ACT_FUSED];
}

/* What was found by data for one number of keys holds for that one, until it was right for a
 * second: then it is a rule. Words that count keys or scores do not make another site. */
static void test_unknown_grows(void **state)
{
	core_begin();
	for (int i = 0; i < 2; i++) /* identified and compared, compared */
		assert_int_equal(unknown_chain((uint32_t)core.Sk), 0);
	assert_int_equal(site_count, 1);
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	assert_int_equal(unknown_chain((uint32_t)core.Sk), 1);
	core.Sk += 2;
	core_resize();
	assert_int_equal(unknown_chain((uint32_t)core.Sk), 0); /* compared */
	for (int i = 0; i < 4; i++) {
		core.Sk += i;
		core_resize();
		assert_int_equal(unknown_chain((uint32_t)core.Sk), 1);
	}
	assert_int_equal(below.args.Sk, core.Sk);
	assert_int_equal(site_count, 1);
	/* A word that does not follow the keys is another constant. */
	assert_int_equal(unknown_chain((uint32_t)core.Sk - 1), 0);
	assert_int_equal(site_count, 2);
}

/* A kernel without a rule, whose output lies in the memory of S from there on. */
static bool unknown_into_scores(uint64_t offset)
{
	struct op op;
	bool taken;

	below_reset();
	core_send(core_scores());
	core_send(core_scale(core.x, core.s, core.scale));
	taken = core_send(core_unknown(core.x, core.s + offset, 1));
	op = core_context();
	op.gemm.b = core.s + offset;
	core_send(op);
	return taken;
}

/* The same kernel with its output in the midst of what was S writes past that: what a site was
 * measured to do says nothing of it. */
static void test_unknown_elsewhere(void **state)
{
	core_begin();
	for (int i = 0; i < 2; i++)
		assert_false(unknown_into_scores(0));
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	assert_true(unknown_into_scores(0));
	assert_false(unknown_into_scores(core.score_bytes / 2));
	assert_int_equal(below.count[ACT_FUSED], 0);
	assert_int_equal(below.count[ACT_LAUNCH], 1); /* the scale, made real before it */
	assert_true(unknown_into_scores(0));
}

static void test_unknown_counts(void **state)
{
	const int64_t grown = 57;

	for (int form = 0; form < 6; form++) {
		core_begin();
		for (int i = 0; i < 2; i++) {
			const int64_t count[] = {core.Sk,	   core.Sk * 2,
						 core.Sk * 4,	   core.Sq * core.Sk,
						 core.H * core.Sk, core.H * core.Sq * core.Sk};

			unknown_chain((uint32_t)count[form]);
			core.Sk = grown;
			core_resize();
		}
		if (site_count != 1)
			fail_msg("form %d", form);
	}
	core_begin(); /* a count of something else */
	unknown_chain((uint32_t)core.Sk * 5);
	core.Sk = grown;
	core_resize();
	unknown_chain((uint32_t)core.Sk * 5);
	assert_int_equal(site_count, 2);
}

static void test_states(void **state)
{
	struct site *site;

	core_begin();
	assert_int_equal(landed(), 0);
	site = &sites[0];
	assert_int_equal(site->number, 1);
	assert_int_equal(site->state, SITE_LEARNING);
	assert_int_equal(log_live()->site_count, 1);
	landed();
	assert_int_equal(site->state, SITE_LEARNING);
	landed();
	assert_int_equal(site->state, SITE_VERIFIED);
	assert_int_equal(site->live->state, SITE_VERIFIED);
	assert_int_equal(site->live->replaced, 0);
	landed();
	assert_int_equal(site->live->replaced, 1);
	site_round(site, ATTN_ROUND_PRODUCT); /* another kernel: it is learned again */
	assert_int_equal(site->state, SITE_LEARNING);
	assert_int_equal(site->live->reason, REASON_LEARNING);
	assert_int_equal(site->passed, 0);
	site_verify(site);
	assert_int_equal(site->state, SITE_VERIFIED);
	assert_int_equal(site->live->reason, REASON_NONE);
	site_decline(site, REASON_DRIFT, "by a test");
	assert_int_equal(site->live->state, SITE_DECLINED);
	assert_int_equal(site->live->reason, REASON_DRIFT);
	assert_string_equal(site->detail, "by a test");
	site_decline(site, REASON_SLOWER, "too late");
	assert_int_equal(site->reason, REASON_DRIFT);
	site_verify(site);
	assert_int_equal(site->state, SITE_DECLINED);
	landed();
	assert_int_equal(site->live->replaced, 1);
	assert_int_equal(site->live->seen, 5);
}

/* Some layers do something else behind the same product: of a model whose other layers see a
 * window, say. They are waited for when they come, not only in what comes right behind them. */
static void test_seldom(void **state)
{
	static const char *const forwards[] = {
		"-----x",     "xx-----",	 "x-x----",
		"xx----x---", "----x---------x", "xx---------x-------------------"};

	for (size_t n = 0; n < sizeof(forwards) / sizeof(*forwards); n++) {
		core_begin();
		core_learn();
		const float usual = core.scale;
		for (int m = 0; m < 10; m++)
			for (const char *layer = forwards[n]; *layer; layer++) {
				core.scale = *layer == 'x' ? 2 * usual : usual;
				assert_int_equal(landed(), *layer == 'x');
			}
		assert_int_equal(sites[1].state, SITE_VERIFIED);
		assert_true(log_live()->sites[1].replaced >= 1);
		assert_true(log_live()->sites[0].compared <= 20);
	}
}

static void test_no_kernel(void **state)
{
	core_begin();
	below.no_kernel = true;
	landed();
	landed();
	assert_int_equal(sites[0].state, SITE_DECLINED);
	assert_int_equal(sites[0].reason, REASON_NO_KERNEL);
}

static void test_candidates(void **state)
{
	struct site_set set;
	struct op op;

	core_begin();
	core_learn();
	op = core_scores();
	assert_true(site_candidates(&set, &op.gemm));
	assert_int_equal(set.bits[0], 1);
	assert_true(site_filter(&set, 1, sites[0].steps[1]));
	assert_true(site_filter(&set, 2, sites[0].steps[2]));
	assert_false(site_filter(&set, 3, sites[0].steps[2]));
	assert_int_equal(set.bits[0], 0);
	op.gemm.m++; /* keys */
	assert_true(site_candidates(&set, &op.gemm));
	op.gemm.k++;
	assert_false(site_candidates(&set, &op.gemm));
	site_decline(&sites[0], REASON_DRIFT, "");
	op = core_scores();
	assert_false(site_candidates(&set, &op.gemm));
}

static float scale_of(int i)
{
	return 1 + (float)i / 512;
}

static void fill_table(void)
{
	while (site_count < SITES) {
		const int next = site_count;

		core.scale = scale_of(next);
		assert_int_equal(landed(), next);
	}
}

/* Whoever has not come for the longest makes room, verified or not. */
static void test_table_full(void **state)
{
	core_begin();
	for (int i = 0; i < 4; i++) {
		core.scale = scale_of(0);
		assert_int_equal(landed(), 0);
	}
	assert_int_equal(log_live()->sites[0].replaced, 1);
	fill_table();
	core.scale = scale_of(1);
	assert_int_equal(landed(), 1);
	core.scale = 5;
	for (int i = 0; i < 4; i++)
		assert_int_equal(landed(), 0);
	assert_int_equal(sites[0].number, SITES + 1);
	assert_int_equal(log_live()->sites[0].turn, 1);
	assert_int_equal(log_live()->sites[0].seen, 4);
	assert_int_equal(log_live()->sites[0].replaced, 0);
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	core.scale = scale_of(0); /* seen again, another site, to be learned anew */
	for (int i = 0; i < 3; i++)
		assert_int_equal(landed(), 2);
	assert_int_equal(sites[2].number, SITES + 3);
	core.scale = scale_of(1);
	assert_int_equal(landed(), 1);
	assert_int_equal(site_count, SITES);
}

/* While its scores are held back a site stays. */
static void test_table_full_of_use(void **state)
{
	core_begin();
	core.scale = scale_of(0);
	core_replaced();
	core.s += CORE_OTHER - CORE_ARENA;
	core.x += CORE_OTHER - CORE_ARENA;
	core.p += CORE_OTHER - CORE_ARENA;
	core.m = core.s;
	fill_table();
	core.scale = 5;
	assert_int_equal(landed(), 1);
	assert_int_equal(sites[0].number, 1);
}

/* A kernel without a rule that is told another number each time may not drive all others out. */
static void test_table_full_of_numbers(void **state)
{
	int gone = 0;

	core_begin();
	fill_table();
	for (uint32_t i = 0; i < 64; i++)
		unknown_chain(0x5eed0000 + i);
	for (int i = 0; i < SITES; i++)
		gone += sites[i].number > SITES;
	assert_int_equal(gone, 64 / 16);
}

/* With a kernel whose rule has no words for what it computes, a chain is never replaced. Numbers
 * that this kernel or others are told do not make another site. */
static void test_other_kernel(void **state)
{
	core_begin();
	for (int i = 0; i < 4; i++) {
		core_send(core_scores());
		core_send(core_unknown(core.s, 0, (float)i));
		core_send(core_other(core.p, core.s, (float)i));
		core_send(core_context());
	}
	assert_int_equal(site_count, 1);
	assert_int_equal(log_live()->sites[0].seen, 4);
	assert_int_equal(sites[0].state, SITE_DECLINED);
	assert_int_equal(sites[0].reason, REASON_UNKNOWN_KERNEL);
}

/* A kernel that is known to read on without a known end begins below P, at every occurrence. It may
 * have been elsewhere, and a value held back may be overwritten before: only where P has to be made
 * again and again the site is given up. */
static void test_read_each_time(void **state)
{
	static const struct access_list reading = {.count = 1,
						   .item[0] = {.pointer = CORE_ARENA,
							       .begin = CORE_ARENA,
							       .end = CORE_ARENA + CORE_ROOM,
							       .mode = ACCESS_READ,
							       .grade = GRADE_RULED}};
	struct access_list list = reading;
	struct op op = core_unknown(CORE_ARENA, 0, 1);

	core_begin();
	for (int i = 0; i < 4; i++) {
		core_chain();
		held_guard(&(struct sight){.op = &op, .list = &list, .who = "gather"}, NULL, true);
	}
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	for (int i = 0; i < 12; i++) {
		core_chain();
		held_guard(&(struct sight){.op = &op, .list = &list, .who = "gather"}, NULL, true);
	}
	assert_int_equal(sites[0].state, SITE_DECLINED);
	assert_int_equal(sites[0].reason, REASON_SCORES_READ_BY);
	assert_int_equal(sites[0].live->materialised, 8);
}

/* A tensor begins below P, runs over it and is written with gaps: from then on its readers are not
 * P's. */
static void test_memory_of_another(void **state)
{
	static const struct access_list writing = {
		.count = 1,
		.item[0] = {.mode = ACCESS_WRITE, .grade = GRADE_RULED, .bounded = true}};
	struct access_list list = writing;
	struct op op = core_other(0, 0, 1);

	core_begin();
	list.item[0].pointer = list.item[0].begin = list.item[0].sure_end = core.p - 64;
	list.item[0].end = core.p + core.score_bytes;
	core_chain();
	held_guard(&(struct sight){.op = &op, .list = &list, .who = "strided"}, NULL, true);
	core_send(core_copy(core.p, CORE_OTHER, core.score_bytes));
	assert_int_equal(sites[0].state, SITE_LEARNING);
	core_chain(); /* but when nobody wrote there they are */
	core_send(core_copy(core.p, CORE_OTHER, core.score_bytes));
	assert_int_equal(sites[0].reason, REASON_SCORES_READ_BY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_each_time),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_growing_keys),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_another),
		cmocka_unit_test(test_another_chain),
		cmocka_unit_test(test_unknown_grows),
		cmocka_unit_test(test_unknown_elsewhere),
		cmocka_unit_test(test_unknown_counts),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_seldom),
		cmocka_unit_test(test_no_kernel),
		cmocka_unit_test(test_candidates),
		cmocka_unit_test(test_table_full),
		cmocka_unit_test(test_table_full_of_use),
		cmocka_unit_test(test_table_full_of_numbers),
		cmocka_unit_test(test_other_kernel),
		cmocka_unit_test(test_memory_of_another),
	};

	return CORE_MAIN("site", tests);
}
