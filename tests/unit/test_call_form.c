/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms of calls: as text and back, from a call, and back to a call that has the same form.
 */
#include "tests/cmocka.h"

#include <errno.h>
#include <string.h>

#include "shim/gpu/call_form.h"
#include "tools/tune/layout.h"

#define BASE 4096

static int parse(struct call_form *form, const char *text)
{
	return call_form_parse(form, text, strlen(text));
}

/* What a form is called where it is written in the usual way. */
static const char *const usual_texts[] = {
	"1,8,512,512,64,f16",
	"1,8,512,512,64,bf16,causal",
	"2,3,5,8,64,f32",
	"1,8,1,2048,128,f16,dv=64,causal",
	"1,1,1,1,8,f16",
	"4,12,384,384,64,f16,bias=B:f16",
	"4,12,384,384,64,f16,bias=Bqk:f32,bias2=Hqk:f16",
	"4,12,384,384,64,f16,mask=k",
	"4,12,384,384,64,f16,mask=BHqk,softcap,k_down",
	"4,12,384,384,64,f16,bias=-:bf16",
	"4,12,384,384,64,f16,lengths=B,sinks=H",
	"1,8,512,512,64,f16,window=127:0:0",
	"1,8,512,512,64,f16,window=-:3:-5",
	"1,8,512,512,64,f16,window=8:-:0",
	"4,8,512,512,64,f16,kv_shared",
	"4,8,512,512,64,f16,pointers",
	"4,8,512,512,64,f16,unaligned=qkv",
	"4,8,512,512,64,f16,k_down,unaligned=k",
	"2147483646,1,1,1,8,f16",
};

static void test_text_and_back(void **state)
{
	for (size_t i = 0; i < sizeof(usual_texts) / sizeof(*usual_texts); i++) {
		struct call_form form;
		char text[FORM_TEXT];

		assert_int_equal(parse(&form, usual_texts[i]), 0);
		assert_string_equal(call_form_text(&form, text), usual_texts[i]);
	}
}

static void test_words_in_any_order(void **state)
{
	struct call_form a, b;

	assert_int_equal(parse(&a, "4,12,384,384,64,f16,mask=kB,softcap,causal"), 0);
	assert_int_equal(parse(&b, "4,12,384,384,64,softcap,causal,mask=Bk"), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_int_equal(parse(&a, "1,8,16,64,64,causal"), 0);
	assert_int_equal(a.window_shift, 48);
	assert_int_equal(a.window_right, 0);
	assert_int_equal(a.window_left, ATTN_NO_WINDOW);
}

static void test_what_is_no_form(void **state)
{
	static const char *const texts[] = {
		"",
		"1",
		"1,8,512,512",
		"1,8,512,512,",
		"0,8,512,512,64",
		"-1,8,512,512,64",
		"1,8,512,512,64,",
		"1,8,512,512,64,f64",
		"1,8,512,512,64,f",
		"1,8,512,512,64,causall",
		"1,8,512,512,64 ,f16",
		"1,8,512,512,64,dv=",
		"1,8,512,512,64,dv=0",
		"1,8,512,512,64,dv=-3",
		"1,8,512,512,64,dv=64x",
		"1,8,512,512,64,window=",
		"1,8,512,512,64,window=1:2",
		"1,8,512,512,64,window=1:2:3:4",
		"1,8,512,512,64,window=--:2:3",
		"1,8,512,512,64,window=x:2:3",
		"1,8,512,512,64,bias=Bqk",
		"1,8,512,512,64,bias=Bxk:f16",
		"1,8,512,512,64,bias=B:f17",
		"1,8,512,512,64,bias=B:f16:",
		"1,8,512,512,64,mask=z",
		"1,8,512,512,64,mask=B:f16",
		"1,8,512,512,64,unaligned=o",
		"1,8,512,512,99999999999999999999",
		"2147483647,8,512,512,64",
		"x,8,512,512,64",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct call_form form;

		if (parse(&form, texts[i]) != -EINVAL)
			fail_msg("taken for a form: '%s'", texts[i]);
	}
}

/* A text is read no further than its length. */
static void test_length(void **state)
{
	const char *text = "1,8,512,512,64,causal";
	struct call_form form;

	assert_int_equal(call_form_parse(&form, text, strlen("1,8,512,512,6")), 0);
	assert_int_equal(form.D, 6);
	assert_int_equal(form.window_right, ATTN_NO_WINDOW);
	assert_int_equal(call_form_parse(&form, text, strlen("1,8,512,512,64,caus")), -EINVAL);
	assert_int_equal(call_form_parse(&form, text, 0), -EINVAL);
}

static void test_call_and_back(void **state)
{
	for (size_t i = 0; i < sizeof(usual_texts) / sizeof(*usual_texts); i++) {
		struct call_form form, again;
		struct attn_args args;
		char text[FORM_TEXT], expected[FORM_TEXT];
		uint64_t bytes;

		if (strstr(usual_texts[i], "pointers"))
			continue;
		assert_int_equal(parse(&form, usual_texts[i]), 0);
		again = form;
		assert_int_equal(tune_layout(&args, &again, BASE, &bytes), 0);
		assert_string_equal(call_form_text(&again, text), call_form_text(&form, expected));
		assert_true(bytes > 0 && bytes % 256 == 0);
	}
}

/* No two operands of a call overlap. */
static void test_operands_lie_apart(void **state)
{
	const char *text = "2,3,16,32,64,f16,dv=128,bias=BHqk:f32,bias2=qk:f16,mask=Bk,lengths=B,"
			   "sinks=H,unaligned=qk";
	struct call_form form;
	struct attn_args args;
	uint64_t bytes, at[9], size[9];

	assert_int_equal(parse(&form, text), 0);
	assert_int_equal(tune_layout(&args, &form, BASE, &bytes), 0);
	at[0] = args.q.base, size[0] = 2 * 3 * 16 * 64 * 2;
	at[1] = args.k.base, size[1] = 2 * 3 * 32 * 64 * 2;
	at[2] = args.v.base, size[2] = 2 * 3 * 32 * 128 * 2;
	at[3] = args.o.base, size[3] = 2 * 3 * 16 * 128 * 2;
	at[4] = args.spec.bias[0].base, size[4] = 2 * 3 * 16 * 32 * 4;
	at[5] = args.spec.bias[1].base, size[5] = 16 * 32 * 2;
	at[6] = args.spec.mask.base, size[6] = 2 * 32;
	at[7] = args.spec.lengths.base, size[7] = 2 * 4;
	at[8] = args.spec.sinks.base, size[8] = 3 * 2;
	for (int i = 0; i < 9; i++) {
		assert_true(at[i] >= BASE && at[i] + size[i] <= BASE + bytes);
		for (int k = 0; k < i; k++)
			assert_true(at[i] + size[i] <= at[k] || at[k] + size[k] <= at[i]);
	}
	assert_int_equal(args.q.base % 16, 2);
	assert_int_equal(args.v.base % 16, 0);
}

static void test_of_a_call(void **state)
{
	struct attn_args args = {
		.q = {.base = BASE, .stride = {512 * 8 * 64, 64, 8 * 64, 1}, .dtype = ATTN_F16},
		.k = {.base = BASE, .stride = {512 * 8 * 64, 64 * 512, 1, 512}, .dtype = ATTN_F16},
		.v = {.base = BASE, .stride = {512 * 8 * 64, 64, 8 * 64, 1}, .dtype = ATTN_F16},
		.B = 2,
		.H = 8,
		.Sq = 512,
		.Sk = 512,
		.D = 64,
		.Dv = 64,
		.spec = {.window_left = ATTN_NO_WINDOW,
			 .window_right = ATTN_NO_WINDOW,
			 .window_shift = 99, /* means nothing without a window */
			 .bias[0] = {.base = BASE, .stride = {512, 0, 0, 1}, .dtype = ATTN_F16}},
	};
	struct call_form form;
	char text[FORM_TEXT];

	call_form_of(&form, &args);
	assert_string_equal(call_form_text(&form, text), "2,8,512,512,64,f16,bias=Bk:f16,k_down");
	args.v.base += 2;
	args.spec.softcap = 1.0f;
	args.B = 1; /* a stride along one batch is no difference */
	call_form_of(&form, &args);
	assert_string_equal(call_form_text(&form, text),
			    "1,8,512,512,64,f16,bias=k:f16,softcap,k_down,unaligned=v");
	args.q.by_array = 1;
	call_form_of(&form, &args);
	assert_string_equal(call_form_text(&form, text),
			    "1,8,512,512,64,f16,bias=k:f16,softcap,k_down,pointers");
	assert_int_equal(tune_layout(&args, &form, BASE, &(uint64_t){0}), -ENOTSUP);
}

/* Rows of an odd length cannot all start on 16 bytes. */
static void test_unlucky_lengths(void **state)
{
	struct call_form form;
	struct attn_args args;
	char text[FORM_TEXT];
	uint64_t bytes;

	assert_int_equal(parse(&form, "1,12,197,197,64,k_down"), 0);
	assert_int_equal(tune_layout(&args, &form, BASE, &bytes), 0);
	assert_string_equal(call_form_text(&form, text), "1,12,197,197,64,f16,k_down,unaligned=k");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text_and_back),
		cmocka_unit_test(test_words_in_any_order),
		cmocka_unit_test(test_what_is_no_form),
		cmocka_unit_test(test_length),
		cmocka_unit_test(test_call_and_back),
		cmocka_unit_test(test_of_a_call),
		cmocka_unit_test(test_operands_lie_apart),
		cmocka_unit_test(test_unlucky_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
