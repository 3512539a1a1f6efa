/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of an input is copied when it is about to be overwritten: rows of it, as many as need
 * be, once for all chains that read it, and of what a copy made it of rather than of the copy. When
 * somebody asks for P after all, everything must be in place.
 */
#include "tests/unit/core.h"

#include <stdio.h>
#include <stdlib.h>

#include "shim/hazard/held.h"
#include "shim/gpu/looks.h"
#include "shim/site/site.h"
#include "tests/apps/aten.h"
#include "tests/unit/child.h"
#include "tests/unit/replay.h"

/* Q, K and V are columns of one tensor, [S,3,H,D]: 8 MiB of rows each, in 24 MiB. */
enum { H = 16, S = 2048, D = 128, ROW = 2 * H * D, PITCH = 3 * ROW };

#define ROOM  0x200000000ull
#define QKV   (ROOM + 0x10000)
#define BYTES ((uint64_t)(S - 1) * PITCH + ROW)
#define FIRST 1024 /* rows that are saved at once: 4 MiB of them */

static int64_t heads_apart = D;

static struct op columns_scores(void)
{
	return core_product(1, 0, S, S, D, core.k, PITCH / 2, heads_apart, core.q, PITCH / 2,
			    heads_apart, core.s, S, (int64_t)S * S, H);
}

static struct op columns_context(void)
{
	return core_product(0, 0, D, S, S, core.v, PITCH / 2, heads_apart, core.p, S,
			    (int64_t)S * S, core.o, H * D, D, H);
}

static int columns_chain(void)
{
	int taken = core_send(columns_scores());

	taken += core_send(core_scale(core.x, core.s, core.scale));
	taken += core_send(core_add_mask(core.m, core.x, core.mask));
	taken += core_send(core_softmax(core.p, core.m));
	return taken + core_send(columns_context());
}

/* One replaced chain over columns. */
static void columns_replaced(void)
{
	core_begin();
	core_allocate(ROOM, 1ull << 32, MEMORY_DEVICE);
	core.H = H;
	core.Sq = core.Sk = S;
	core.D = D;
	core_resize();
	core.q = QKV;
	core.k = QKV + (heads_apart == D ? ROW : 2 * D);
	core.v = QKV + 2 * (core.k - core.q);
	core.s = core.m = ROOM + (64ull << 20);
	core.x = core.s + core.score_bytes;
	core.p = core.x + core.score_bytes;
	core.o = core.p + core.score_bytes;
	core.mask = core.o + core.o_bytes;
	for (int i = 0; i < 3; i++)
		assert_int_equal(columns_chain(), 0);
	assert_int_equal(columns_chain(), 5);
	looks_forget();
	below_reset();
}

static void assert_rows(int number, uint64_t from, uint64_t rows)
{
	const struct act *copy = core_act(ACT_COPY, number);

	assert_int_equal(copy->a, from);
	assert_int_equal(copy->bytes, ROW);
	assert_int_equal(copy->pitch, PITCH);
	assert_int_equal(copy->rows, rows);
}

/* Rows of Q and K are saved where they are overwritten, and once. */
static void test_rows(void **state)
{
	uint64_t k, q;

	columns_replaced();
	assert_false(core_send(core_memset(QKV + 5 * PITCH, 2 * PITCH)));
	assert_string_equal(core_acts(), "CC");
	assert_rows(0, core.k, FIRST);
	assert_rows(1, core.q, FIRST);
	k = core_act(ACT_COPY, 0)->b;
	q = core_act(ACT_COPY, 1)->b;
	assert_false(core_send(core_memset(QKV, FIRST * PITCH)));
	assert_string_equal(core_acts(), "CC");
	assert_false(core_send(core_memset(QKV + FIRST * PITCH, 2)));
	assert_string_equal(core_acts(), "CCC"); /* Q alone */
	assert_rows(2, core.q + FIRST * PITCH, S - FIRST);
	assert_int_equal(core_act(ACT_COPY, 2)->b, q + FIRST * PITCH);
	assert_false(core_send(core_memset(QKV, BYTES + 2 * ROW)));
	assert_string_equal(core_acts(), "CCCC");
	assert_rows(3, core.k + FIRST * PITCH, S - FIRST);
	assert_int_equal(core_act(ACT_COPY, 3)->b, k + FIRST * PITCH);
	assert_int_equal(below.saved, 2ull * S * ROW);
	assert_int_equal(sites[0].live->snapshots, 2);
	assert_false(core_send(core_to_host(core.p, 2)));
	assert_string_equal(core_acts(), "CCCC" CORE_FORWARD);
	assert_int_equal(core_act(ACT_GEMM, 0)->a, k);
	assert_int_equal(core_act(ACT_GEMM, 0)->b, q);
	assert_int_equal(below.scratch, 0);
}

/* Columns between those that are needed, within a row, are nobody's. */
static void test_other_columns(void **state)
{
	columns_replaced();
	assert_false(core_send(core_memset(core.v, ROW)));
	assert_false(core_send(core_memset(core.v + 1500ull * PITCH, ROW)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(core_memset(core.v + 1500ull * PITCH - 2, ROW)));
	assert_string_equal(core_acts(), "C");
	assert_rows(0, core.k + FIRST * PITCH, S - FIRST);
}

/* What nobody overwrote is put beside what was saved when P is wanted. */
static void test_completed(void **state)
{
	columns_replaced();
	assert_false(core_send(core_memset(core.k + (S - 1ull) * PITCH, ROW)));
	assert_string_equal(core_acts(), "C");
	assert_rows(0, core.k + FIRST * PITCH, S - FIRST);
	assert_false(core_send(core_to_host(core.p, 2)));
	assert_string_equal(core_acts(), "CC" CORE_FORWARD);
	assert_rows(1, core.k, FIRST);
	assert_int_equal(core_act(ACT_COPY, 1)->b + FIRST * PITCH, core_act(ACT_COPY, 0)->b);
	assert_int_equal(core_act(ACT_GEMM, 0)->a, core_act(ACT_COPY, 1)->b);
	assert_int_equal(core_act(ACT_GEMM, 0)->b, core.q); /* was not touched */
	assert_int_equal(below.scratch, 0);
}

/* A driver that does not take the pitch copies everything in between. */
static void test_no_pitch(void **state)
{
	columns_replaced();
	below.no_rows = true;
	assert_false(core_send(core_memset(QKV, BYTES + ROW)));
	assert_string_equal(core_acts(), "CC");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(core_act(ACT_COPY, i)->a, i ? core.q : core.k);
		assert_int_equal(core_act(ACT_COPY, i)->bytes, BYTES);
		assert_int_equal(core_act(ACT_COPY, i)->rows, 0);
	}
}

/* Q, K and V head by head, [S,H,3,D]: rows are too narrow to copy them one by one, but still nobody
 * needs V. */
static void test_narrow(void **state)
{
	heads_apart = 3 * D;
	columns_replaced();
	heads_apart = D;
	assert_false(core_send(core_memset(core.v, 2 * D)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(core_memset(core.q, 2 * D)));
	assert_string_equal(core_acts(), "C");
	assert_int_equal(core_act(ACT_COPY, 0)->a, core.q);
	assert_int_equal(core_act(ACT_COPY, 0)->rows, 0);
	assert_int_equal(core_act(ACT_COPY, 0)->bytes, FIRST * PITCH);
}

/* In the window the kernel reads the snapshot: all of it. */
static void test_in_window(void **state)
{
	columns_replaced();
	core_send(columns_scores());
	core_send(core_scale(core.x, core.s, core.scale));
	below_reset();
	assert_false(core_send(core_memset(core.k, 2)));
	assert_string_equal(core_acts(), "C");
	assert_rows(0, core.k, S);
}

/* Somebody else reads what lies between the rows, too. */
static void test_rows_and_all(void **state)
{
	const struct op op = columns_scores();
	struct chain *chain;

	columns_replaced();
	chain = chain_open(&op);
	assert_int_equal(chain->inputs[1].pitched.width, ROW);
	assert_int_equal(chain->inputs[1].pitched.pitch, PITCH);
	assert_int_equal(chain_add_input(chain, core.q, core.q + BYTES), 1);
	assert_int_equal(chain->inputs[1].pitched.pitch, 0);
	assert_int_equal(chain->inputs[0].pitched.pitch, PITCH);
}

/* Who overwrites on another stream waits for the copies, which are made where the chain is. */
static void test_parts_on_streams(void **state)
{
	struct op op;

	columns_replaced();
	assert_false(core_send(core_memset(core.q, 2)));
	op = core_memset(core.q + FIRST * PITCH, 2);
	op.stream = (CUstream)0x777;
	assert_false(core_send(op));
	assert_string_equal(core_acts(), "CCO");
	assert_ptr_equal(core_act(ACT_COPY, 1)->stream, core.stream);
	assert_ptr_equal(core_act(ACT_ORDER, 0)->stream, op.stream);
}

/* ---- one snapshot for several chains -------------------------------------------------------- */

/* The next chain's tensors, but for the mask. */
static void elsewhere(void)
{
	const uint64_t apart = 1 << 20;

	core.q += apart;
	core.k += apart;
	core.s += apart;
	core.x += apart;
	core.m += apart;
	core.p += apart;
	core.o += apart;
}

static void test_shared(void **state)
{
	const uint64_t first = CORE_ARENA + 0x61000;

	core_replaced();
	elsewhere();
	assert_int_equal(core_chain(), 5);
	looks_forget();
	below_reset();
	assert_int_equal(core.p, first + (1 << 20));
	assert_false(core_send(core_memset(core.mask, core.mask_bytes)));
	assert_string_equal(core_acts(), "C");
	assert_int_equal(below.scratch, 1);
	assert_int_equal(chain_list[0]->inputs[2].snapshot, core_act(ACT_COPY, 0)->b);
	assert_int_equal(chain_list[1]->inputs[2].snapshot, core_act(ACT_COPY, 0)->b);
	assert_int_equal(sites[0].live->snapshots, 1);
	assert_false(core_send(core_to_host(first, 2)));
	assert_int_equal(below.scratch, 1); /* the other chain's now */
	assert_int_equal(chain_live, 1);
	assert_false(core_send(core_to_host(core.p, 2)));
	assert_int_equal(below.scratch, 0);
}

/* A mask that was written since is another one. */
static void test_other_version(void **state)
{
	core_replaced();
	assert_false(core_send(core_memset(core.mask, core.mask_bytes)));
	elsewhere();
	assert_int_equal(core_chain(), 5);
	below_reset();
	assert_false(core_send(core_memset(core.mask, core.mask_bytes)));
	assert_string_equal(core_acts(), "C");
	assert_int_not_equal(chain_list[0]->inputs[2].snapshot, chain_list[1]->inputs[2].snapshot);
	assert_int_equal(below.scratch, 2);
}

/* ---- copies of something smaller ------------------------------------------------------------ */

/* K, [H,Sk,D], of keys that lie `apart` bytes from head to head. */
static struct op copy_keys(uint64_t from, unsigned apart)
{
	const unsigned size[2] = {(unsigned)(core.Sk * core.D), (unsigned)core.H};
	const unsigned head = 2 * size[0];
	const unsigned strides[2][2] = {{2, 2}, {head, apart}};
	const unsigned char nothing = 0;

	return core_strided(TEXT(ATEN_COPY_STRIDED), 2, 2, size, &strides[0][0],
			    (uint64_t[]){core.k, from}, &nothing, 1);
}

/* Of one head's keys for all heads. */
static struct op repeat_keys(uint64_t from)
{
	return copy_keys(from, 0);
}

/* A site that was learned without such a copy. */
static void learned(void)
{
	core_replaced();
	core.D = 32; /* as large as a copy must be to be kept in mind */
	core_resize();
	core.math_mode += 1000;
	site_count = 0;
	while (chain_live)
		held_drop(chain_list[0]);
	core_learn();
}

static void replaced_with_repeated_keys(void)
{
	learned();
	assert_false(core_send(repeat_keys(CORE_OTHER)));
	assert_int_equal(core_chain(), 5);
	assert_string_equal(core_acts(), "F");
	assert_int_equal(core_act(ACT_FUSED, 0)->c, core.k); /* not compared with the original */
	below_reset();
}

static void test_traced_back(void **state)
{
	replaced_with_repeated_keys();
	assert_false(core_send(core_memset(core.k, core.k_bytes)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(core_memset(CORE_OTHER, 4096)));
	assert_string_equal(core_acts(), "C");
	assert_int_equal(core_act(ACT_COPY, 0)->a, CORE_OTHER);
	assert_int_equal(core_act(ACT_COPY, 0)->bytes, core.k_bytes / 3);
	assert_false(core_send(core_to_host(core.p, 2)));
	assert_string_equal(core_acts(), "CL" CORE_FORWARD); /* keys are repeated in scratch */
	assert_true(core_act(ACT_GEMM, 0)->a >= BELOW_SCRATCH);
	assert_int_equal(core_act(ACT_GEMM, 0)->b, core.q);
	assert_int_equal(below.scratch, 0);
}

static void untouched(void)
{
}

static void edit_copy(void)
{
	assert_false(core_send(core_memset(core.k, 2)));
}

static void edit_original(void)
{
	assert_false(core_send(core_memset(CORE_OTHER, 2)));
}

static void copy_others(void)
{
	assert_false(core_send(repeat_keys(CORE_OTHER + 65536)));
}

/* K itself is saved, from what it was when the product read it: the copy or what it was made of has
 * changed, before or in the window, or is no smaller. */
static void test_not_traced_back(void **state)
{
	static const struct {
		unsigned apart;
		void (*before)(void), (*within)(void);
		const char *acts;
	} rows[] = {
		{0, edit_copy, untouched, "FC"},    {0, edit_original, untouched, "FC"},
		{0, untouched, edit_copy, "CF"},    {0, untouched, copy_others, "CF"},
		{4096, untouched, untouched, "FC"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		learned();
		assert_false(core_send(copy_keys(CORE_OTHER, rows[i].apart)));
		rows[i].before();
		assert_int_equal(core_window(), 4);
		rows[i].within();
		assert_true(core_send(core_context()));
		assert_false(core_send(core_memset(core.k, 2)));
		assert_string_equal(core_acts(), rows[i].acts);
		assert_int_equal(core_act(ACT_COPY, 0)->a, core.k);
		assert_int_equal(core_act(ACT_COPY, 0)->bytes, core.k_bytes);
		assert_false(core_send(core_to_host(core.p, 2)));
		assert_int_equal(core_act(ACT_GEMM, 0)->a, core_act(ACT_COPY, 0)->b);
	}
}

/* ---- recorded programs ---------------------------------------------------------------------- */

/* MiB that may be saved. By whole extents, and for each chain alone, these were 116, 500 and 668.
 */
static const struct recorded {
	const char *name;
	int rounds;
	uint64_t most;
} recorded[] = {
	{"gpt2", 1, 69},
	{"llama1b", 1, 63},
	{"llama8b", 6, 629},
};

static void replay_recorded(void *argument)
{
	const struct recorded *row = argument;
	struct replay got;

	CHECK(replay_trace(trace_path(row->name), row->rounds, &got) == 0);
	fprintf(stderr, "%s: %llu KiB\n", row->name, (unsigned long long)below.saved >> 10);
	CHECK(below.saved <= row->most << 20);
	CHECK(got.snapshots > 0);
	exit(0);
}

static void test_recorded(void **state)
{
	const char *const environment[] = {"FASHIM_OUT=none", NULL};
	static struct child child;

	for (size_t i = 0; i < sizeof(recorded) / sizeof(*recorded); i++) {
		child_run(&child, environment, replay_recorded, (void *)(uintptr_t)&recorded[i]);
		print_message("# %s", child.errors);
		assert_true(child_passed(&child));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded), /* first: nothing is known yet */
		cmocka_unit_test(test_rows),	     cmocka_unit_test(test_other_columns),
		cmocka_unit_test(test_completed),    cmocka_unit_test(test_no_pitch),
		cmocka_unit_test(test_narrow),	     cmocka_unit_test(test_in_window),
		cmocka_unit_test(test_rows_and_all), cmocka_unit_test(test_parts_on_streams),
		cmocka_unit_test(test_shared),	     cmocka_unit_test(test_other_version),
		cmocka_unit_test(test_traced_back),  cmocka_unit_test(test_not_traced_back),
	};

	return CORE_MAIN("snapshot", tests);
}
