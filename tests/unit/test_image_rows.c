/* SPDX-License-Identifier: Apache-2.0
 *
 * Biases of an image's rows and columns: when they are laid out anew, when heads become rows of
 * queries, and where each number goes.
 */
#include <string.h>
#include "tests/cmocka.h"
#include "shim/gpu/image_rows.h"
#include "tests/unit/laid_out.h"

enum { B = 4, SIDE = 9, S = SIDE * SIDE, D = 8, AT = 0x80000, ROOM = 16 * B * S * SIDE };

/* Biases as einsum leaves them: the first's rows of queries are the outer dimension. */
static struct attn_args call(void)
{
	struct attn_args args = {.B = B, .H = SIDE, .Sq = SIDE, .Sk = S, .D = D, .Dv = D};
	struct attn_spec *s = &args.spec;

	args.q = args.o = (struct attn_tensor){
		.base = 0x1000, .stride = {S * D, SIDE * D, D, 1}, .dtype = ATTN_F16};
	args.k = args.v = args.q;
	args.k.stride[1] = args.v.stride[1] = 0;
	s->window_left = s->window_right = ATTN_NO_WINDOW;
	s->bias[0] = (struct attn_tensor){.base = 0x2000,
					  .stride = {SIDE * SIDE, B * SIDE * SIDE, SIDE, 1},
					  .dtype = ATTN_F16,
					  .columns = -SIDE};
	s->bias[1] = (struct attn_tensor){.base = 0x9000,
					  .stride = {SIDE * SIDE, SIDE, B * SIDE * SIDE, 1},
					  .dtype = ATTN_F16,
					  .columns = SIDE};
	return args;
}

/* Where the element of the bias for a score lies, from its base on. */
static int64_t place(const struct attn_tensor *t, int b, int h, int i, int j)
{
	return attn_place(b, t->batches) * t->stride[0] + h * t->stride[1] + i * t->stride[2] +
	       attn_place(j, t->columns) * t->stride[3];
}

/* Does each score get the number that it had, from where eight rows are side by side? */
static void check(const struct attn_args *args, bool folded)
{
	static int to[ROOM];
	struct relayout copies[ATTN_MAX_BIAS];
	struct attn_args laid;
	uint64_t end = AT;
	int count = 0;

	assert_true(image_rows_help(args));
	assert_int_equal(image_rows_lay(&laid, copies, args, AT),
			 (args->spec.bias[0].columns != 0) + (args->spec.bias[1].columns != 0));
	assert_int_equal(laid.H, folded ? 1 : args->H);
	assert_int_equal(laid.Sq, folded ? args->H * args->Sq : args->Sq);
	for (int n = 0; n < ATTN_MAX_BIAS; n++) {
		const struct attn_tensor *from = &args->spec.bias[n], *bias = &laid.spec.bias[n];
		const struct relayout *copy = &copies[count];

		if (!from->columns)
			continue;
		count++;
		assert_int_equal(bias->base, end);
		assert_int_equal(bias->stride[2], 1);
		assert_int_equal(copy->out_begin, bias->base);
		assert_int_equal(copy->in_begin, from->base);
		assert_int_equal(copy->dtype, from->dtype);
		assert_int_equal(copy->source, from->dtype);
		laid_out(to, copy);
		for (int b = 0; b < args->B; b++)
			for (int h = 0; h < args->H; h++)
				for (int at_score = 0; at_score < args->Sq * args->Sk; at_score++) {
					const int i = at_score / args->Sk, j = at_score % args->Sk;
					const int64_t at = place(bias, b, folded ? 0 : h,
								 folded ? h * args->Sq + i : i, j);

					assert_in_range(
						at, 0,
						(copy->out_end - copy->out_begin) /
								attn_dtype_size(from->dtype) -
							1);
					assert_int_equal(to[at], place(from, b, h, i, j));
				}
		end = (copy->out_end + 255) / 256 * 256;
	}
	assert_int_equal(image_rows_bytes(args), end - AT);
	/* all else stays */
	laid.H = args->H;
	laid.Sq = args->Sq;
	memcpy(laid.spec.bias, args->spec.bias, sizeof(laid.spec.bias));
	assert_memory_equal(&laid, args, sizeof(laid));
}

static void test_folded(void **state)
{
	static const int batches[] = {0, 1, 2, 3, 9, -1, -2, -3, -9};
	struct attn_args args = call();

	check(&args, true);
	args.Sk -= 2; /* the last row of keys is not whole */
	check(&args, true);
	args.spec.bias[1].stride[1] = 0; /* the same for all rows of queries */
	check(&args, true);
	args.spec.bias[1].columns = 0; /* a number for each score */
	args.spec.bias[1].stride[1] = SIDE * S;
	args.spec.bias[1].stride[2] = S;
	check(&args, true);
	args.spec.bias[1].base = 0;
	check(&args, true);
	args.spec.bias[0].dtype = ATTN_F32;
	args.spec.bias[0].stride[0] = 0; /* and for all images */
	check(&args, true);
	for (size_t n = 0; n < sizeof(batches) / sizeof(batches[0]); n++) {
		args = call();
		args.spec.bias[n % 2].batches = batches[n];
		check(&args, true);
	}
	args = call();
	args.q.stride[2] = args.o.stride[2] = 3 * D; /* between others' heads */
	args.q.stride[1] = args.o.stride[1] = SIDE * 3 * D;
	check(&args, true);
}

/* What one head of all rows could not say. */
static void test_heads(void **state)
{
	const struct attn_tensor other = {
		.base = 0x7000, .stride = {0, 1, 0, 0}, .dtype = ATTN_F16};

	for (int n = 0; n < 14; n++) {
		struct attn_args args = call();
		struct attn_spec *s = &args.spec;

		switch (n) {
		case 0:
			args.H = 1;
			break;
		case 1:
			args.k.stride[1] = D;
			break;
		case 2:
			args.v.stride[1] = D;
			break;
		case 3:
			args.q.stride[1]++;
			break;
		case 4:
			args.o.stride[1] += D;
			break;
		case 5:
			args.q.by_array = 1;
			break;
		case 6:
			args.k.by_array = 1;
			break;
		case 7:
			args.v.by_array = 1;
			break;
		case 8:
			s->mask = other;
			break;
		case 9:
			s->lengths = other;
			break;
		case 10:
			s->sinks = other;
			break;
		case 11:
			s->scales = other;
			break;
		case 12:
			s->window_right = 0;
			break;
		default: /* of both, one has a number for each score, which is no row of one head */
			s->bias[1].columns = 0;
		}
		assert_false(image_rows_help(&args)); /* of nine queries */
		args.Sq = 64;
		args.H = n ? 2 : 1;
		check(&args, false);
		args.spec.bias[0].stride[1] = 0; /* heads share it */
		check(&args, false);
		args.Sq--;
		assert_false(image_rows_help(&args));
	}
}

static void test_left_alone(void **state)
{
	for (int n = 0; n < 4; n++) {
		struct attn_args args = call(), laid;
		struct relayout copies[ATTN_MAX_BIAS];
		struct attn_spec *s = &args.spec;

		if (n == 0) /* few keys */
			args.Sk = 63;
		if (n == 1)
			s->bias[0].by_array = s->bias[1].by_array = 1;
		if (n == 2)
			s->bias[0].columns = s->bias[1].columns = 0;
		if (n == 3)
			s->bias[0].base = s->bias[1].base = 0;
		assert_false(image_rows_help(&args));
		assert_int_equal(image_rows_bytes(&args), 0);
		assert_int_equal(image_rows_lay(&laid, copies, &args, AT), 0);
		assert_memory_equal(&laid, &args, sizeof(args));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_heads),
		cmocka_unit_test(test_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
