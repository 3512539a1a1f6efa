/* SPDX-License-Identifier: Apache-2.0
 *
 * V that lies across: when it is laid into rows, and where each of its elements goes.
 */
#include <string.h>
#include "tests/cmocka.h"
#include "shim/gpu/value_rows.h"

enum { B = 2, H = 3, SK = 70, DV = 8, SQ = 64, ROOM = 2 * B * H * SK * DV };

static struct attn_args call(int64_t b, int64_t h)
{
	struct attn_args args = {.B = B, .H = H, .Sq = SQ, .Sk = SK, .D = DV, .Dv = DV};

	args.v = (struct attn_tensor){
		.base = 0x1000, .stride = {b, h, 1, SK + 2}, .dtype = ATTN_BF16};
	args.q.dtype = args.k.dtype = ATTN_BF16;
	return args;
}

/* As kernels/lay_out.cu does it. */
static void lay_out(int *to, const int *from, const struct relayout *copy)
{
	int64_t total = 1;

	for (int d = 0; d < copy->dims; d++)
		total *= copy->dim[d].size;
	for (int64_t n = 0; n < total; n++) {
		int64_t left = n, at = 0;

		for (int d = 0; d < copy->dims; d++) {
			at += left % copy->dim[d].size * copy->dim[d].from;
			left /= copy->dim[d].size;
		}
		to[n] = from[at];
	}
}

static void check(const struct attn_args *args)
{
	static int from[ROOM], to[ROOM];
	const uint64_t at = 0x80000;
	struct attn_args laid;
	struct relayout copy;

	for (int n = 0; n < ROOM; n++)
		from[n] = n;
	assert_true(value_rows_help(args) || value_rows_cast(args));
	value_rows_lay(&laid, &copy, args, at);
	assert_int_equal(copy.in_begin, args->v.base);
	assert_int_equal(copy.out_begin, at);
	assert_int_equal(copy.out_end - at, value_rows_bytes(args));
	assert_int_equal(laid.v.base, at);
	assert_int_equal(laid.v.stride[3], 1);
	lay_out(to, from, &copy);
	for (int b = 0; b < B; b++)
		for (int h = 0; h < H; h++)
			for (int j = 0; j < SK; j++)
				for (int d = 0; d < DV; d++) {
					const int64_t *x = args->v.stride, *y = laid.v.stride;

					assert_int_equal(to[b * y[0] + h * y[1] + j * y[2] + d],
							 b * x[0] + h * x[1] + j * x[2] + d * x[3]);
				}
	assert_int_equal(laid.v.dtype, args->q.dtype);
	assert_int_equal(copy.dtype, args->q.dtype);
	assert_int_equal(copy.source, args->v.dtype);
	laid.v = args->v;
	assert_memory_equal(&laid, args, sizeof(laid));
}

static void test_rows(void **state)
{
	const int64_t head = (SK + 2) * DV;
	struct attn_args args = call(H * head, head);

	check(&args);
	assert_int_equal(value_rows_bytes(&args), 2 * B * H * SK * DV);
	args = call(head, 0); /* heads share V */
	check(&args);
	assert_int_equal(value_rows_bytes(&args), 2 * B * SK * DV);
	args = call(0, head);
	check(&args);
	args = call(head, B * head); /* heads are the outer ones */
	check(&args);
}

/* Of 16 bits beside a Q and a K of fp32, in rows or across. */
static void test_cast(void **state)
{
	struct attn_args args = call(H * (SK + 2) * DV, (SK + 2) * DV);

	assert_false(value_rows_cast(&args));
	args.q.dtype = args.k.dtype = ATTN_F32;
	check(&args);
	assert_int_equal(value_rows_bytes(&args), 4 * B * H * SK * DV);
	args.v.stride[2] = DV;
	args.v.stride[3] = 1;
	args.Sq = 1;
	check(&args);
	args.v.by_array = 1;
	assert_false(value_rows_cast(&args));
	args.v.by_array = 0;
	args.v.dtype = ATTN_F32;
	assert_false(value_rows_cast(&args));
}

static void test_not(void **state)
{
	struct attn_args args;

	for (int n = 0; n < 5; n++) {
		args = call(H * SK * DV, SK * DV);
		if (n == 0)
			args.v.stride[2] = DV, args.v.stride[3] = 1; /* in rows already */
		if (n == 1)
			args.v.dtype = ATTN_F32;
		if (n == 2)
			args.v.by_array = 1;
		if (n == 3)
			args.Sq = 1; /* decoding */
		if (n == 4)
			args.v.stride[2] = 2; /* neither */
		assert_false(value_rows_help(&args));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_cast),
					   cmocka_unit_test(test_not)};

	return cmocka_run_group_tests_name("value_rows", tests, NULL, NULL);
}
