/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of C and C++ engines between one attention and the next: what they touch.
 */
#include "tests/unit/core.h"

#include <string.h>

#include "shim/rules/rules.h"
#include "tests/unit/rule_op.h"

/* A kernel's parameters, one after another. */
static struct {
	size_t size[24];
	uint32_t bytes[24][3];
	const void *value[24];
	unsigned count;
} said;

static void say(size_t size, uint64_t value)
{
	const unsigned n = said.count++;

	memset(said.bytes[n], 0, sizeof(said.bytes[n]));
	if (size == 12)
		said.bytes[n][2] = (uint32_t)value; /* {magic, shift, size} */
	else
		memcpy(said.bytes[n], &value, size);
	said.size[n] = size;
	said.value[n] = said.bytes[n];
}

static void say_all(size_t size, unsigned count, const uint64_t *values)
{
	for (unsigned i = 0; i < count; i++)
		say(size, values[i]);
}

#define SAY(size, ...)                                                                             \
	say_all(size, sizeof((const uint64_t[]){__VA_ARGS__}) / 8, (const uint64_t[]){__VA_ARGS__})

static struct op launch_said(const char *name, const unsigned grid[3], const unsigned block[3])
{
	struct op op = core_launch(name, said.count, said.size, said.value);

	memcpy(op.launch.grid, grid, sizeof(op.launch.grid));
	memcpy(op.launch.block, block, sizeof(op.launch.block));
	said.count = 0;
	return op;
}

/* [3,4,5,10] + [1,1,5,10], in place; two summands at once; with gaps; fewer threads. */
static void test_binary(void **state)
{
	static const char add[] =
		"_Z11k_bin_bcastIXadL_ZN4here6op_addEffEEfffJPKfEEvPKT0_PKT1_PT2_";
	static const char before[] = "_Z11k_bin_bcastIXadL_ZN4here6op_addEffEEfffEvPKT0_PKT1_PT2_";
	const unsigned grid[3] = {1, 1, 12}, block[3] = {5, 5, 1};

	for (int n = 0; n < 4; n++) {
		const uint64_t apart = n == 2 ? 12 : 10;
		const int summands = n == 1 ? 2 : 1;
		struct op op;

		core_begin();
		SAY(8, core.s, core.p, core.s);
		SAY(4, 10, 5, 4);
		SAY(12, 3, 10, 5, 1, 1);
		SAY(4, apart, 5 * apart, 20 * apart, 1, apart, 5 * apart, 20 * apart, 1, 10, 50,
		    50);
		SAY(8, core.p);
		if (n == 1)
			SAY(8, core.x);
		op = launch_said(add, (const unsigned[]){1, 1, n == 3 ? 11 : 12}, block);
		assert_int_equal(read_op(&op), n != 3);
		if (n == 3)
			continue;
		assert_int_equal(list.count, 2 + summands);
		assert_int_equal(list.item[0].end - list.item[0].begin,
				 4 * (n == 2 ? 59 * 12 + 10 : 600));
		assert_int_equal(list.item[0].sure_end == list.item[0].end, n != 2);
		assert_touch(2, ACCESS_READ, core.p, 200);
		assert_int_equal(meaning.role, ROLE_OPAQUE);
	}
	core_begin();
	SAY(8, core.s, core.p, core.x);
	SAY(4, 10, 5, 4, 3, 10, 1, 1, 1, 10, 50, 200, 10, 50, 200, 10, 10, 10);
	struct op op = launch_said(before, grid, block);
	assert_true(read_op(&op));
	assert_touch(0, ACCESS_WRITE, core.x, 2400);
	assert_touch(1, ACCESS_READ, core.s, 2400);
	assert_touch(2, ACCESS_READ, core.p, 40);
}

static void test_rms_norm(void **state)
{
	static const char name[] = "_Z12rms_norm_f32ILi256ELb1ELb0ELb0EEvPKfPfilllf";
	const unsigned grid[3] = {6, 2, 1}, block[3] = {256, 1, 1};
	struct op op;

	core_begin();
	for (int n = 0; n < 2; n++) {
		SAY(8, core.s, core.x);
		say(4, 64);
		SAY(8, 70, 420, 840);
		say(4, 0x3727c5ac);
		if (n) {
			SAY(8, core.mask, 64, 64, 64);
			SAY(12, 64, 1, 1, 1);
			SAY(8, 0, 0, 0, 0);
			SAY(12, 0, 0, 0, 0);
			say(4, 0x3f800000);
		}
		op = launch_said(name, grid, block);
		assert_true(read_op(&op));
		assert_int_equal(list.count, 2 + n);
		assert_touch(0, ACCESS_WRITE, core.x, 4 * 12 * 64);
		assert_touch(1, ACCESS_READ, core.s, 4 * (420 + 5 * 70 + 64));
		if (n)
			assert_touch(2, ACCESS_READ, core.mask, 256);
	}
}

/* [8 tokens, 3 heads, 16]; into rows of a cache. */
static void test_rope(void **state)
{
	static const char name[] = "_Z9rope_normILb1ELb0EffEvPKT1_PT2_iiiiiiiiiiiPKifff14rope_";
	const unsigned grid[3] = {24, 1, 1}, block[3] = {1, 256, 1};
	struct op op;

	for (int n = 0; n < 3; n++) {
		const bool rows = n == 1, part = n == 2;

		core_begin();
		SAY(8, core.s, core.x);
		SAY(4, 16, 3, 8, 16, 48, 384, 16, 48, 384, part ? 8 : 16, 0);
		say(8, core.mask);
		SAY(4, 0, 0, 0);
		say(8, 0);
		say(4, 0);
		SAY(8, 0, rows ? core.q : 0);
		say(4, rows ? 48 : 0);
		say(1, part);
		op = launch_said(name, grid, block);
		assert_true(read_op(&op));
		assert_int_equal(list.count, rows ? 4 : 3);
		assert_touch(0, ACCESS_READ, core.s, 4 * 384);
		assert_int_equal(list.item[1].mode, ACCESS_WRITE);
		assert_int_equal(list.item[1].bounded, !rows);
		if (!rows) {
			assert_int_equal(list.item[1].end - core.x, 4 * 384);
			assert_int_equal(list.item[1].sure_end == list.item[1].end, !part);
		}
		assert_touch(rows ? 3 : 2, ACCESS_READ, core.mask, 4 * 8);
	}
}

#define HERE(name, function) "_Z" name "IXadL_ZN4here" function "PKcPcEEEvS2_S3_iii"

static void test_moves(void **state)
{
	static const char set[] = "_Z10k_set_rowsIfl6__halfEvPKT_PKT0_PT1_llllllllllllll5uint3S9_";
	static const char gated[] =
		"_Z21unary_gated_op_kernelIXadL_ZN4here7op_siluEfEEfEvPKT0_S3_PS1_llll";
	static const char copy[] = "_Z10cpy_scalarIXadL_ZN4here12cpy_1_scalarIffEEvPKcPcEEEvS1_S2_";
	static const char all[] = "_Z21cpy_scalar_contiguousIf6__halfEvPKcPcl";
	struct op op;

	core_begin();
	SAY(8, core.s, core.q, core.x, 8 * 48, 8, 1, 1, 1, 48, 384, 384, 1, 8, 8, 48, 0, 0);
	SAY(12, 48, 8, 1, 1, 1);
	op = launch_said(set, (const unsigned[]){2, 1, 1}, (const unsigned[]){256, 1, 1});
	assert_true(read_op(&op));
	assert_touch(0, ACCESS_READ, core.s, 4 * 384);
	assert_touch(1, ACCESS_READ, core.q, 8 * 8);
	assert_false(list.item[2].bounded);
	SAY(8, core.s, core.p, core.x, 6 * 32, 32, 64, 40);
	op = launch_said(gated, (const unsigned[]){1, 1, 1}, (const unsigned[]){256, 1, 1});
	assert_true(read_op(&op));
	assert_touch(0, ACCESS_WRITE, core.x, 4 * 192);
	assert_touch(1, ACCESS_READ, core.s, 4 * (5 * 64 + 32));
	assert_touch(2, ACCESS_READ, core.p, 4 * (5 * 40 + 32));
	/* [2,3,8] to [3,2,8] */
	SAY(8, core.s, core.x, 48, 8, 3, 2, 4, 64, 32, 192, 8, 3, 2, 4, 32, 96, 192);
	op = launch_said(copy, (const unsigned[]){1, 1, 1}, (const unsigned[]){64, 1, 1});
	assert_true(read_op(&op));
	assert_touch(0, ACCESS_WRITE, core.x, 192);
	assert_touch(1, ACCESS_READ, core.s, 4 * (2 * 16 + 8 + 8));
	op.launch.block[0] = 32; /* would leave some */
	assert_false(read_op(&op));
	for (int n = 0; n < 4;
	     n++) { /* the same in words of four bytes, and to where addresses say */
		const bool halves = n == 1, indirect = n == 3;

		SAY(8, core.s, core.x);
		SAY(4, 48, 8, 3, 2, 4, 64, 32, 192, 8, 3, 2);
		SAY(4, halves ? 2 : 4, halves ? 16 : 32, halves ? 48 : 96, halves ? 96 : 192);
		if (n > 1) {
			say(8, indirect ? core.q : 0);
			say(4, 1);
		}
		op = launch_said(n ? n == 1 ? HERE("11cpy_f32_f16", "13cpy_1_f32_f16E")
					    : HERE("11cpy_f32_f16", "13cpy_1_f32_f32E")
				   : HERE("7cpy_flt", "9cpy_1_fltIffEEv"),
				 (const unsigned[]){1, 1, 1}, (const unsigned[]){64, 1, 1});
		assert_int_equal(read_op(&op), !indirect);
		if (indirect)
			continue;
		assert_touch(0, ACCESS_WRITE, core.x, halves ? 96 : 192);
		assert_touch(1, ACCESS_READ, core.s, 4 * (2 * 16 + 8 + 8));
	}
	for (int n = 0; n < 2; n++) { /* 5 rows of 16 floats, in units of 16 bytes */
		SAY(8, core.s, core.q, core.x, n ? 4 : 16, 1);
		say(12, 1);
		SAY(8, 16, 80, 80, 64, 640, 640, 1, 5, 5);
		op = launch_said(n ? "_Z20k_get_rows_float_vecIfEvPKT_PKiPS0_ll5uint3mmm"
				   : "_Z16k_get_rows_floatIffEvPKT_PKiPT0_ll5uint3mmm",
				 (const unsigned[]){5, 1, 1}, (const unsigned[]){256, 1, 1});
		assert_true(read_op(&op));
		assert_touch(0, ACCESS_WRITE, core.x, 320);
		assert_touch(1, ACCESS_READ, core.q, 20);
		assert_false(list.item[2].bounded);
	}
	SAY(8, core.s, core.x, 100);
	op = launch_said(all, (const unsigned[]){2, 1, 1}, (const unsigned[]){64, 1, 1});
	assert_true(read_op(&op));
	assert_touch(0, ACCESS_WRITE, core.x, 200);
	assert_touch(1, ACCESS_READ, core.s, 400);
}

#define FT(rest) "_ZN17fastertransformer" rest

/* [2,16,3,8] of FasterTransformer's layer: 2 sequences, 16 queries, 3 heads of 8 numbers or pairs.
 */
static void test_masked_layer(void **state)
{
	const unsigned block[3] = {64, 1, 1}, tokens[3] = {2, 16, 1}, rows[3] = {32, 1, 1};
	const uint64_t bytes = 4 * 768;
	struct op op;

	core_begin();
	for (int n = 0; n < 2; n++) { /* in pairs; fewer threads than elements */
		SAY(8, core.s, core.x);
		SAY(4, 2, 16, 3, 8);
		say(8, 0);
		say(4, 0);
		op = launch_said(FT("9transposeI7__half2EEvPKT_PS2_iiiiPKfi"),
				 (const unsigned[]){n ? 11 : 12, 1, 1}, block);
		assert_int_equal(read_op(&op), !n);
	}
	SAY(8, core.s, core.x);
	SAY(4, 2, 16, 3, 8);
	say(8, 0);
	say(4, 0);
	op = launch_said(FT("9transposeIfEEvPKT_PS1_iiiiPKfi"), (const unsigned[]){12, 1, 1},
			 block);
	assert_true(read_op(&op));
	assert_touch(0, ACCESS_READ, core.s, bytes);
	assert_touch(1, ACCESS_WRITE, core.x, bytes);
	SAY(8, core.q, core.k, core.v, core.s, core.mask, core.x, core.mask, core.p, core.mask, 0,
	    0, 0);
	SAY(4, 2, 16, 3, 8);
	op = launch_said(FT("22addQKVBiasIA3TransposeI7__half2EEvPT_S3_S3_PKS2_"), tokens, block);
	assert_true(read_op(&op));
	assert_int_equal(list.count, 9);
	assert_touch(0, ACCESS_WRITE, core.q, bytes);
	assert_touch(1, ACCESS_READ, core.s, bytes);
	assert_touch(2, ACCESS_READ, core.mask, 4 * 24);
	for (int n = 0; n < 3; n++) { /* halves by fours, floats by ones, too few threads */
		SAY(8, core.s, core.x, core.q, core.k, core.v);
		SAY(4, 0, 256);
		if (n == 1)
			say(4, 256);
		op = launch_said(n == 1 ? FT("28addBiasResidualPostLayerNormIfLi1EEEvPT_PKS1_")
					: FT("30addBiasResidualPostLayerNormV2I6__halfEEvPT_PKS2_"),
				 rows, (const unsigned[]){n ? 64 : 32, 1, 1});
		assert_int_equal(read_op(&op), n < 2);
		if (n == 2)
			continue;
		assert_int_equal(list.item[0].end - core.s, (n ? 4 : 2) * 32 * 256);
		assert_int_equal(list.item[0].mode, ACCESS_UNKNOWN);
		assert_touch(1, ACCESS_READ, core.x, (n ? 4 : 2) * 32 * 256);
		assert_touch(4, ACCESS_READ, core.v, (n ? 4 : 2) * 256);
	}
	SAY(8, core.s, core.x, 0, 0);
	say(4, 32 * 1536);
	say(8, 0);
	say(4, 16);
	op = launch_said(FT("13addBiasGeluV2I7__half2Li1536EEEvPT_PKS2_"), rows, block);
	assert_true(read_op(&op));
	assert_int_equal(list.item[0].end - core.s, 4 * 32 * 1536);
	assert_touch(1, ACCESS_READ, core.x, 4 * 1536);
	SAY(8, core.s, core.x, 0, 0, 0, 0);
	say(4, 0);
	SAY(8, 0, 0, 0);
	SAY(4, 16, 32, 100);
	op = launch_said(FT("18generic_activationINS_14GeluActivationEffEEvPT0_PKT1_"), rows,
			 block);
	assert_true(read_op(&op));
	assert_int_equal(list.item[0].end - core.s, 4 * 32 * 100);
	assert_touch(1, ACCESS_READ, core.x, 400);
	SAY(8, core.s, core.x);
	say(4, 16);
	op = launch_said(FT("31buildEncoderAttentionMaskKernelIfEEvPT_PKii"),
			 (const unsigned[]){2, 1, 1}, block);
	assert_true(read_op(&op));
	assert_touch(0, ACCESS_WRITE, core.s, 4 * 2 * 256);
	assert_touch(1, ACCESS_READ, core.x, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_binary),	     cmocka_unit_test(test_rms_norm),
		cmocka_unit_test(test_rope),	     cmocka_unit_test(test_moves),
		cmocka_unit_test(test_masked_layer),
	};

	return CORE_MAIN("rules_between", tests);
}
