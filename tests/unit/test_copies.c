/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of operands that are held back: how the log counts them, and what becomes of chains that
 * are replaced while a graph is recorded (FASHIM_GRAPHS=trust), where such copies are made. There
 * only a kernel may run that is loaded already.
 */
#include "tests/unit/core.h"

#include <stdlib.h>

#include "shim/hazard/copies.h"
#include "shim/log/log.h"
#include "shim/site/site.h"
#include "tests/apps/aten.h"

/* Q made contiguous, [H,Sq,D], from [Sq,H,D] that begins at an odd place. */
static struct op copy_q(void)
{
	const unsigned size[3] = {(unsigned)core.D, (unsigned)core.Sq, (unsigned)core.H};
	const unsigned D = 2 * (unsigned)core.D, Sq = (unsigned)core.Sq, H = (unsigned)core.H;
	const unsigned strides[3][2] = {{2, 2}, {D, D * H}, {D * Sq, D}};
	const unsigned char nothing = 0;

	return core_strided(TEXT(ATEN_COPY_STRIDED), 2, 3, size, &strides[0][0],
			    (uint64_t[]){core.q, CORE_OTHER + 2}, &nothing, 1);
}

/* Where Q lies at an odd place another kernel is chosen. */
static void reset(void)
{
	below_reset();
	below.odd = &attn_variants[1];
}

static void begin(void)
{
	core_begin();
	below_unload();
	reset();
}

static void attend(bool copied)
{
	if (copied)
		core_send(copy_q());
	core_chain();
}

static int captured_launches(bool copied)
{
	CUgraph graph = (CUgraph)&graph;
	struct op end = core_event(OP_CAPTURE_END, "cuStreamEndCapture");

	core_send(core_event(OP_CAPTURE_BEGIN, "cuStreamBeginCapture_v2"));
	reset();
	attend(copied);
	end.handle = &graph;
	core_send(end);
	return (int)below.count[ACT_FUSED];
}

static void test_copies_are_read(void **state)
{
	uint64_t compared;

	begin();
	for (int i = 0; i < 8; i++)
		attend(true);
	compared = below.args.q.base;
	assert_int_equal(compared, CORE_OTHER + 2); /* the originals … */
	assert_int_equal(captured_launches(true), 1);
	assert_int_equal(below.args.q.base, core.q); /* … and their copies */
	assert_string_equal(core_acts(), "F");
}

/* Operands that lie otherwise than all that were compared need a kernel that is not there. */
static void test_unloaded_kernel(void **state)
{
	begin();
	for (int i = 0; i < 8; i++)
		attend(false);
	core.q += 2;
	assert_int_equal(captured_launches(false), 0);
	assert_string_equal(core_acts(), CORE_FORWARD);
}

/* The log names what ran, not what would have on the copies. */
static void test_recorded_kernel(void **state)
{
	begin();
	for (int i = 0; i < 4; i++)
		attend(true);
	assert_int_equal(site_count, 1);
	assert_string_equal(sites[0].kernel, below.odd->name);
}

/* ---- counters ------------------------------------------------------------------------------- */

static void test_counters(void **state)
{
	struct live_file before;

	begin();
	for (int i = 0; i < 8; i++)
		attend(true);
	before = *log_live();
	attend(true);
	assert_int_equal(log_live()->copies_held - before.copies_held, 1);
	assert_int_equal(log_live()->copies_made - before.copies_made, 0);
	core_send(copy_q());
	core_send(core_to_host(core.q, core.q_bytes));
	assert_int_equal(log_live()->copies_held - before.copies_held, 2);
	assert_int_equal(log_live()->copies_made - before.copies_made, 1);
	assert_int_equal(log_live()->copies_unfit - before.copies_unfit, 0);
}

/* A site that is given up has no use for copies that are held back. */
static void test_site_given_up(void **state)
{
	uint64_t held;

	begin();
	for (int i = 0; i < 8; i++)
		attend(true);
	held = log_live()->copies_held;
	assert_true(held > 0);
	site_decline(&sites[0], REASON_SLOWER, "");
	attend(true);
	attend(true);
	assert_int_equal(log_live()->copies_held, held);
}

/* Where all sites are given up, ops between products are not even looked at. What was held back
 * until then is made for its reader, the product itself. */
static void test_no_hope(void **state)
{
	uint64_t made;

	begin();
	for (int i = 0; i < 8; i++)
		attend(true);
	core_send(copy_q());
	site_decline(&sites[0], REASON_SLOWER, "");
	made = log_live()->copies_made;
	attend(false);
	assert_int_equal(log_live()->copies_made, made + 1);
	assert_true(copies_watch()); /* another site may come */
	for (int i = 0; i < 64; i++)
		attend(false);
	assert_false(copies_watch());
}

/* Copies that are made after all, again and again, are left alone from then on. */
static void test_does_not_pay(void **state)
{
	uint64_t before, held;

	begin();
	for (int i = 0; i < 4; i++)
		attend(true);
	before = log_live()->copies_held;
	for (int i = 0; i < 64; i++) {
		core_send(copy_q());
		core_send(core_to_host(core.q, core.q_bytes));
	}
	held = log_live()->copies_held;
	assert_in_range(held - before, 1, 40);
	core_send(copy_q());
	assert_int_equal(log_live()->copies_held, held);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies_are_read), cmocka_unit_test(test_unloaded_kernel),
		cmocka_unit_test(test_recorded_kernel), cmocka_unit_test(test_counters),
		cmocka_unit_test(test_site_given_up),	cmocka_unit_test(test_no_hope),
		cmocka_unit_test(test_does_not_pay),
	};

	setenv("FASHIM_GRAPHS", "trust", 1);
	return CORE_MAIN("copies", tests);
}
