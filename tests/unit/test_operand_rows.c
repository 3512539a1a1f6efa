/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands that lie across, or start anywhere: when they are laid into rows, and where each of
 * their elements goes.
 */
#include <string.h>
#include "tests/cmocka.h"
#include "shim/gpu/operand_rows.h"
#include "tests/unit/laid_out.h"

enum { B = 2, H = 3, SK = 70, DV = 8, SQ = 64, ROOM = 2 * B * H * SK * DV };

/* V across, with these strides of batches and heads; Q in rows. */
static struct attn_args call(int64_t b, int64_t h)
{
	struct attn_args args = {.B = B, .H = H, .Sq = SQ, .Sk = SK, .D = DV, .Dv = DV};

	args.v = (struct attn_tensor){
		.base = 0x1000, .stride = {b, h, 1, SK + 2}, .dtype = ATTN_BF16};
	args.q = args.k = (struct attn_tensor){
		.base = 0x9000, .stride = {H * SQ * DV, SQ * DV, DV, 1}, .dtype = ATTN_BF16};
	return args;
}

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + 255) / 256 * 256;
}

/* Is each of the operand's `rows` where the laid one's is? */
static void check_copy(const struct attn_args *args, const struct attn_tensor *t,
		       const struct attn_tensor *laid, int rows, const struct relayout *copy)
{
	static int to[ROOM];
	const int64_t *x = t->stride, *y = laid->stride;

	assert_int_equal(copy->in_begin, t->base);
	assert_int_equal(copy->out_begin, laid->base);
	assert_int_equal(copy->out_end - copy->out_begin,
			 (t->stride[0] ? B : 1) * (t->stride[1] ? H : 1) * rows * DV *
				 attn_dtype_size(args->q.dtype));
	assert_int_equal(laid->stride[3], 1);
	laid_out(to, copy);
	for (int b = 0; b < B; b++)
		for (int h = 0; h < H; h++)
			for (int j = 0; j < rows; j++)
				for (int d = 0; d < DV; d++)
					assert_int_equal(to[b * y[0] + h * y[1] + j * y[2] + d],
							 b * x[0] + h * x[1] + j * x[2] + d * x[3]);
	assert_int_equal(laid->dtype, args->q.dtype);
	assert_int_equal(copy->dtype, args->q.dtype);
	assert_int_equal(copy->source, t->dtype);
}

/* Of V, and of Q where that lies across. */
static void check(const struct attn_args *args)
{
	const uint64_t at = 0x80000, end = at + operand_rows_bytes(args, ROWS_QUERY_VALUE);
	const bool query = args->q.stride[3] != 1;
	struct relayout copies[OPERAND_ROWS];
	struct attn_args laid;

	assert_true(operand_rows_help(args, ROWS_QUERY_VALUE) || operand_rows_cast(args));
	assert_int_equal(operand_rows_lay(&laid, copies, args, ROWS_QUERY_VALUE, at), 1 + query);
	assert_int_equal(copies[0].out_begin, at);
	assert_int_equal(aligned(copies[query].out_end), end);
	check_copy(args, &args->v, &laid.v, SK, &copies[query]);
	if (query) {
		check_copy(args, &args->q, &laid.q, SQ, &copies[0]);
		assert_int_equal(laid.v.base, aligned(copies[0].out_end));
	}
	laid.v = args->v;
	laid.q = args->q;
	assert_memory_equal(&laid, args, sizeof(laid));
}

static void test_rows(void **state)
{
	const int64_t head = (SK + 2) * DV;
	struct attn_args args = call(H * head, head);

	check(&args);
	assert_int_equal(operand_rows_bytes(&args, ROWS_QUERY_VALUE), aligned(2 * B * H * SK * DV));
	args = call(head, 0); /* heads share V */
	check(&args);
	assert_int_equal(operand_rows_bytes(&args, ROWS_QUERY_VALUE), aligned(2 * B * SK * DV));
	args = call(0, head);
	check(&args);
	args = call(head, B * head); /* heads are the outer ones */
	check(&args);
	args.q.stride[2] = 1; /* and Q lies across */
	args.q.stride[3] = SQ;
	check(&args);
	args.Sq = 63;
	assert_false(operand_rows_help(&args, ROWS_QUERY_VALUE));
}

/* Q alone. */
static void test_query(void **state)
{
	struct attn_args args = call(0, 0), laid;
	struct relayout copies[OPERAND_ROWS];

	args.v = args.k;
	assert_false(operand_rows_help(&args, ROWS_QUERY_VALUE));
	assert_int_equal(operand_rows_bytes(&args, ROWS_QUERY_VALUE), 0);
	args.q.stride[2] = 1;
	args.q.stride[3] = SQ;
	assert_true(operand_rows_help(&args, ROWS_QUERY_VALUE));
	assert_int_equal(operand_rows_lay(&laid, copies, &args, ROWS_QUERY_VALUE, 0x80000), 1);
	check_copy(&args, &args.q, &laid.q, SQ, &copies[0]);
	assert_memory_equal(&laid.v, &args.v, sizeof(laid.v));
}

/* K, which most kernels take as it is; and operands that are no pieces of 16 bytes. */
static void test_all(void **state)
{
	struct attn_args args = call(H * SK * DV, SK * DV), laid;
	struct relayout copies[OPERAND_ROWS];

	args.v = args.k;
	assert_false(operand_rows_help(&args, ROWS_ALL));
	assert_false(operand_rows_scattered(&args));
	args.k.stride[0] = (int64_t)H * DV * (SK + 2);
	args.k.stride[1] = (int64_t)DV * (SK + 2);
	args.k.stride[2] = 1;
	args.k.stride[3] = SK + 2;
	assert_false(operand_rows_help(&args, ROWS_QUERY_VALUE));
	assert_true(operand_rows_help(&args, ROWS_ALL));
	assert_false(operand_rows_scattered(&args));
	assert_int_equal(operand_rows_lay(&laid, copies, &args, ROWS_QUERY_VALUE, 0x80000), 0);
	assert_int_equal(operand_rows_lay(&laid, copies, &args, ROWS_ALL, 0x80000), 1);
	check_copy(&args, &args.k, &laid.k, SK, &copies[0]);
	for (int n = 0; n < 5; n++) {
		struct attn_tensor *const v = &args.v;

		args = call(H * SK * DV, SK * DV);
		*v = args.k;
		args.Sq = 256;
		if (n == 0)
			v->base += 2;
		if (n == 1)
			v->stride[2]++;
		if (n == 2)
			v->stride[1] += 4;
		if (n == 3)
			v->stride[2] = 1, v->stride[3] = SK + 1;
		if (n == 4)
			v->stride[3] = 2, v->stride[2] *= 2, v->stride[1] *= 2, v->stride[0] *= 2;
		assert_true(operand_rows_scattered(&args));
		assert_int_equal(operand_rows_lay(&laid, copies, &args, ROWS_ALL, 0x80000), 1);
		check_copy(&args, v, &laid.v, SK, &copies[0]);
		args.Dv = 7; /* rows would be no better */
		assert_false(operand_rows_scattered(&args));
		args.Dv = DV;
		args.Sq = 255;
		assert_false(operand_rows_scattered(&args));
		assert_true(operand_rows_help(&args, ROWS_ALL));
	}
}

/* Of 16 bits beside a Q and a K of fp32, in rows or across. */
static void test_cast(void **state)
{
	struct attn_args args = call(H * (SK + 2) * DV, (SK + 2) * DV);

	assert_false(operand_rows_cast(&args));
	args.q.dtype = args.k.dtype = ATTN_F32;
	check(&args);
	assert_int_equal(operand_rows_bytes(&args, ROWS_QUERY_VALUE), aligned(4 * B * H * SK * DV));
	args.v.stride[2] = DV;
	args.v.stride[3] = 1;
	args.Sq = 1;
	check(&args);
	args.v.by_array = 1;
	assert_false(operand_rows_cast(&args));
	args.v.by_array = 0;
	args.v.dtype = ATTN_F32;
	assert_false(operand_rows_cast(&args));
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
		assert_false(operand_rows_help(&args, ROWS_QUERY_VALUE));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),
					   cmocka_unit_test(test_query), cmocka_unit_test(test_all),
					   cmocka_unit_test(test_cast), cmocka_unit_test(test_not)};

	return cmocka_run_group_tests_name("operand_rows", tests, NULL, NULL);
}
