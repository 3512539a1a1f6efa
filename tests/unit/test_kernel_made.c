/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the addresses of code come from, instruction by instruction: code of a few words, as
 * nvdisasm prints it beside them.
 */
#include "tests/cmocka.h"

#include "shim/code/kernel_code_parts.h"

/* Addresses come from memory in ways that kernel_code_kernels.cu does not show, or that no
 * compiler's release makes of it for sure. */
static void test_words(void **state)
{
#define LDG_WORDS 0x0000000402027981, 0x000ea2000c1e1b00 /* LDG.64 R2, [R2.64] */
#define USE_WORDS 0x0000000406007981, 0x000ea2000c1e1900 /* LDG R0, [R6.64] */
#define END_WORDS 0x000000000000794d, 0x000fea0003800000 /* EXIT */
	static const struct {
		unsigned sm;
		enum code_reach reach;
		uint64_t code[10];
	} few[] = {
		{90, CODE_NEAR, {USE_WORDS, END_WORDS}},
		/* ATOMG.EXCH.128 R4, [R2.64], R8 */
		{90, CODE_BY_VALUE, {0x00000008020479a8, 0x001ea2000c1ee9c4, USE_WORDS, END_WORDS}},
		/* ATOMG.ADD.F32x4 R4, [R2.64], R12 */
		{90, CODE_BY_VALUE, {0x0000000c020479a3, 0x001ea200081ef7c4, USE_WORDS, END_WORDS}},
		/* LDGMC.ADD.F16x8 R4, [RZ.U32+UR4] */
		{90, CODE_BY_VALUE, {0x00000000ff0479a5, 0x000ea20008014504, USE_WORDS, END_WORDS}},
		/* ULDC.64 UR8, c[0x3][0x28]; LDGMC R7, [RZ.U32+UR8] */
		{90,
		 CODE_BY_VALUE,
		 {0x00c00a0000087ab9, 0x000fe20000000a00, 0x00000000ff0779a5, 0x004ea20008015908,
		  END_WORDS}},
		/* The same; LDGSTS.128 [R3], [R14.64+UR8] */
		{80,
		 CODE_BY_VALUE,
		 {0x00c00a0000087ab9, 0x000fe20000000a00, 0x000000000e037fae, 0x0003e2000b900d48,
		  END_WORDS}},
		/* VOTE.ANY R6, PT, P0 */
		{80, CODE_BY_VALUE, {0x0000000000067806, 0x000fe200000e0100, USE_WORDS, END_WORDS}},
		/* LDG; CCTL.RML2 [R2]: what lies there is lost */
		{80, CODE_FOLLOWS, {LDG_WORDS, 0x000000000200798f, 0x004fe80005800100, END_WORDS}},
		/* VOTE.ANY R7, PT, P0; I2IP.S8.S32 R6, R7, R6, RZ */
		{75,
		 CODE_BY_VALUE,
		 {0x0000000000077806, 0x000fe200000e0100, 0x0000000607067239, 0x000fe200000010ff,
		  USE_WORDS, END_WORDS}},
		/* ULDC UR8, c[0x3][0x28]; FADD R6, R7, UR8 */
		{90,
		 CODE_BY_VALUE,
		 {0x00c00a0000087ab9, 0x000fe20000000800, 0x0000000807067e21, 0x000fe20008000000,
		  USE_WORDS, END_WORDS}},
		/* DMMA.16x8x8 R0, R8, R4, RZ */
		{90, CODE_BY_VALUE, {0x000000040800723f, 0x004e2400000020ff, USE_WORDS, END_WORDS}},
		/* RET.REL R20: a jump, where nobody called */
		{80, CODE_BY_VALUE, {0x0000000014007950, 0x000fea0003c3ffff, END_WORDS}},
	};

	for (size_t i = 0; i < sizeof(few) / sizeof(*few); i++)
		if (code_reach_of((const unsigned char *)few[i].code, sizeof(few[i].code),
				  few[i].sm) != few[i].reach)
			fail_msg("code %zu reaches differently", i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
