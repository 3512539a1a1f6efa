/* SPDX-License-Identifier: Apache-2.0
 *
 * CuPy's element-wise functions and CUB's reductions of rows: what their blocks say, which of them
 * say nothing, and attention that is spelt with nothing else.
 */
#include "tests/unit/spec_fixture.h"

#include <math.h>
#include <string.h>

#include "shim/rules/function.h"
#include "shim/real/driver.h"
#include "tests/unit/rule_op.h"

#define ARGUMENTS 5
#define HALF	  2
#define FLOAT	  4

/* An argument: an array of [rows,columns] whose strides, in bytes, are these; or a number of so
 * many bytes. */
struct argument {
	uint64_t at;
	int64_t row, column;
	const void *number;
	size_t bytes;
};

#define ARRAY(at, row, column) ((struct argument){at, row, column, NULL, 0})
#define NUMBER(x)	       ((struct argument){0, 0, 0, &(x), sizeof(x)})

static int64_t rows, columns;

/* `count` of them, the result last; the indexer has what the stack held behind. */
static struct op launch(const char *name, unsigned count, const struct argument *argument)
{
	const uint64_t elements = (uint64_t)(rows * columns);
	const uint64_t indexer[5] = {elements, (uint64_t)rows, (uint64_t)columns, 0x7ffd, 12};
	uint64_t block[ARGUMENTS][6];
	const void *value[ARGUMENTS + 1];
	size_t size[ARGUMENTS + 1];

	for (unsigned i = 0; i < count; i++) {
		const struct argument *a = &argument[i];

		memcpy(block[i],
		       (uint64_t[6]){a->at, elements, (uint64_t)rows, (uint64_t)columns,
				     (uint64_t)a->row, (uint64_t)a->column},
		       sizeof(block[i]));
		size[i] = a->number ? a->bytes : 48;
		value[i] = a->number ? a->number : block[i];
	}
	size[count] = 40;
	value[count] = indexer;
	return core_launch(name, count + 1, size, value);
}

#define LAUNCH(name, ...)                                                                          \
	launch(name, sizeof((struct argument[]){__VA_ARGS__}) / sizeof(struct argument),           \
	       (struct argument[]){__VA_ARGS__})

/* The same of all scores as they lie. */
static struct argument whole(uint64_t at, int64_t element)
{
	return ARRAY(at, columns * element, element);
}

static struct argument per_row(uint64_t at, int64_t element)
{
	return ARRAY(at, element, 0);
}

#define MOST_OF_HALVES                                                                             \
	"_ZN3cub43CUB_300102_SM_750_800_860_890_900_1000_12006detail6reduce36"                     \
	"DeviceFixedSizeSegmentedReduceKernelINS1_27fixed_size_segmented_reduce10policy_hubI6__"   \
	"halfiN10select_maxIS6_E4typeEE9Policy500EPS6_SC_iS9_S6_S6_EEvT0_T1_T2_iT3_T4_"
#define MOST_OF_FLOATS                                                                             \
	"_ZN3cub43CUB_300102_SM_750_800_860_890_900_1000_12006detail6reduce36"                     \
	"DeviceFixedSizeSegmentedReduceKernelINS1_27fixed_size_segmented_reduce10policy_hubIfi16"  \
	"nan_handling_maxIfEE9Policy500EPfSA_iS7_ffEEvT0_T1_T2_iT3_T4_"
#define SUM_OF_FLOATS                                                                              \
	"_ZN3cub43CUB_300102_SM_750_800_860_890_900_1000_12006detail6reduce36"                     \
	"DeviceFixedSizeSegmentedReduceKernelINS1_27fixed_size_segmented_reduce10policy_hubIfiN4"  \
	"cuda3std3__44plusIvEEE9Policy500EPfSD_iSA_ffEEvT0_T1_T2_iT3_T4_"

static struct op reduce(const char *name, uint64_t to, uint64_t from, const void *first,
			size_t element)
{
	const int width = (int)columns, count = (int)rows;
	const char operation = 0x5a;

	return core_launch(name, 6, (size_t[]){8, 8, 4, 4, 1, element},
			   (const void *[]){&from, &to, &width, &count, &operation, first});
}

static void begin_arrays(int64_t r, int64_t c)
{
	core_begin();
	rows = r;
	columns = c;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void test_copy(void **state)
{
	struct op op;

	begin_arrays(4, 8); /* out of rows that are 64 bytes apart, behind one another */
	op = LAUNCH("cupy_copy__float32_float16", ARRAY(CORE_ARENA, 64, 4),
		    whole(CORE_ARENA + 0x1000, HALF));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_COPY);
	assert_int_equal(meaning.elements, 32);
	assert_int_equal(meaning.size[0], 8);
	assert_int_equal(meaning.size[1], 4);
	assert_int_equal(meaning.views[0].dtype, ATTN_F16);
	assert_int_equal(meaning.views[1].dtype, ATTN_F32);
	assert_int_equal(meaning.views[1].stride[1], 64);
	assert_int_equal(list.count, 2);
	assert_touch(0, ACCESS_WRITE, CORE_ARENA + 0x1000, 64);
	assert_touch(1, ACCESS_READ, CORE_ARENA, 3 * 64 + 32);
	op = LAUNCH("cupy_copy__float32_float16", ARRAY(CORE_ARENA, -64, 4), /* backwards */
		    whole(CORE_ARENA + 0x1000, HALF));
	assert_false(read_op(&op));
	op = LAUNCH("cupy_copy__float32_float16_float16", ARRAY(CORE_ARENA, 64, 4),
		    whole(CORE_ARENA + 0x1000, HALF));
	assert_false(read_op(&op));
	op = LAUNCH("cupy_copy__float31_float16", ARRAY(CORE_ARENA, 64, 4),
		    whole(CORE_ARENA + 0x1000, HALF));
	assert_false(read_op(&op));
	assert_int_equal(list.count, 0);
}

static void test_numbers(void **state)
{
	const float eight = 8, none = 0;
	const uint16_t half = 0x3800; /* 0.5 */
	const double wide = 8;
	struct op op;

	begin_arrays(4, 8);
	op = LAUNCH("cupy_true_divide__float32_float_float32", whole(CORE_ARENA, FLOAT),
		    NUMBER(eight), whole(CORE_ARENA + 0x1000, FLOAT));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_SCALE);
	assert_true(meaning.scalar == 0.125);
	assert_int_equal(list.count, 2);
	assert_touch(0, ACCESS_WRITE, CORE_ARENA + 0x1000, 128);
	assert_touch(1, ACCESS_READ, CORE_ARENA, 128);
	op = LAUNCH("cupy_true_divide__float32_float_float32", whole(CORE_ARENA, FLOAT),
		    NUMBER(none), whole(CORE_ARENA + 0x1000, FLOAT));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	op = LAUNCH("cupy_true_divide__float_float32_float32", NUMBER(eight), /* 8 over x */
		    whole(CORE_ARENA, FLOAT), whole(CORE_ARENA + 0x1000, FLOAT));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	op = LAUNCH("cupy_multiply__float_float16_float16", NUMBER(half), whole(CORE_ARENA, HALF),
		    whole(CORE_ARENA + 0x1000, HALF));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_SCALE);
	assert_true(meaning.scalar == 0.5);
	op = LAUNCH("cupy_subtract__float32_float_float32", whole(CORE_ARENA, FLOAT), NUMBER(eight),
		    whole(CORE_ARENA + 0x1000, FLOAT));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_ADD_CONSTANT);
	assert_true(meaning.scalar == -8);
	/* what is computed in another type than it is kept in is none of these */
	op = LAUNCH("cupy_multiply__float16_float_float16", whole(CORE_ARENA, HALF), NUMBER(eight),
		    whole(CORE_ARENA + 0x1000, HALF));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	op = LAUNCH("cupy_multiply__float32_float_float32", whole(CORE_ARENA, FLOAT), NUMBER(wide),
		    whole(CORE_ARENA + 0x1000, FLOAT));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	op = LAUNCH("cupy_multiply__float32_int_float32", whole(CORE_ARENA, FLOAT), NUMBER(eight),
		    whole(CORE_ARENA + 0x1000, FLOAT));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	op = LAUNCH("cupy_multiply__float16_float16_float32", whole(CORE_ARENA, HALF),
		    whole(CORE_ARENA + 0x800, HALF), whole(CORE_ARENA + 0x1000, FLOAT));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	assert_int_equal(list.count, 3);
}

static void test_where(void **state)
{
	const float fill = -1e9f;
	struct op op;

	begin_arrays(4, 8);
	op = LAUNCH("cupy_where__bool_float32_float_float32", ARRAY(CORE_ARENA + 0x2000, 0, 1),
		    whole(CORE_ARENA, FLOAT), NUMBER(fill), whole(CORE_ARENA + 0x1000, FLOAT));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_MASKED_FILL);
	assert_true(meaning.keeps);
	assert_true(meaning.scalar == (double)fill);
	assert_int_equal(meaning.views[1].base, CORE_ARENA);
	assert_int_equal(meaning.views[2].base, CORE_ARENA + 0x2000);
	assert_int_equal(meaning.views[2].dtype, ATTN_BOOL);
	assert_int_equal(meaning.views[2].stride[1], 0);
	op = LAUNCH("cupy_where__bool_float_float32_float32", ARRAY(CORE_ARENA + 0x2000, 0, 1),
		    NUMBER(fill), whole(CORE_ARENA, FLOAT), whole(CORE_ARENA + 0x1000, FLOAT));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_MASKED_FILL);
	assert_false(meaning.keeps);
	op = LAUNCH("cupy_where__bool_float32_float32_float32", ARRAY(CORE_ARENA + 0x2000, 0, 1),
		    whole(CORE_ARENA, FLOAT), ARRAY(CORE_ARENA + 0x3000, 0, 0),
		    whole(CORE_ARENA + 0x1000, FLOAT));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_WHERE);
	assert_int_equal(meaning.view_count, 4);
	op = LAUNCH("cupy_where__bool_bool_bool_bool", ARRAY(CORE_ARENA + 0x2000, 0, 1),
		    whole(CORE_ARENA, 1), whole(CORE_ARENA + 0x800, 1),
		    whole(CORE_ARENA + 0x1000, 1));
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	assert_touch(0, ACCESS_WRITE, CORE_ARENA + 0x1000, 32);
}

/* Who makes masks says nothing of scores, but where it writes. */
static void test_makers(void **state)
{
	const int32_t width = 8, diagonal = 0;
	const uint64_t array[4] = {CORE_ARENA, 32, 32, 1}, indexer[3] = {32, 32, 77};
	const uint64_t gaps[4] = {CORE_ARENA, 32, 32, 16};
	const unsigned char one = 1;
	struct op op;

	begin_arrays(4, 8);
	op = core_launch("cupy_tri", 4, (size_t[]){4, 4, 32, 24},
			 (const void *[]){&width, &diagonal, array, indexer});
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	assert_int_equal(list.count, 1);
	assert_touch(0, ACCESS_WRITE, CORE_ARENA, 32);
	op = core_launch("cupy_tri", 4, (size_t[]){4, 4, 32, 24},
			 (const void *[]){&width, &diagonal, gaps, indexer});
	assert_false(read_op(&op));
	op = core_launch("cupy_fill", 3, (size_t[]){1, 32, 24},
			 (const void *[]){&one, array, indexer});
	assert_true(read_op(&op));
	assert_touch(0, ACCESS_WRITE, CORE_ARENA, 32);
	op = core_launch("cupy_fill", 3, (size_t[]){32, 32, 24}, /* with an array */
			 (const void *[]){array, array, indexer});
	assert_false(read_op(&op));
	op = core_launch("my_cupy_fill", 3, (size_t[]){1, 32, 24},
			 (const void *[]){&one, array, indexer});
	assert_false(read_op(&op));
}

static void test_rows(void **state)
{
	const float lowest = -INFINITY, zero = 0, one = 1;
	const uint16_t lowest_half = 0xfc00;
	struct op op;

	begin_arrays(4, 8);
	op = reduce(MOST_OF_FLOATS, CORE_ARENA + 0x1000, CORE_ARENA, &lowest, FLOAT);
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_ROW_MAX);
	assert_int_equal(meaning.softmax_cols, 8);
	assert_int_equal(meaning.elements, 32);
	assert_int_equal(list.count, 2);
	assert_touch(0, ACCESS_READ, CORE_ARENA, 128);
	assert_touch(1, ACCESS_WRITE, CORE_ARENA + 0x1000, 16);
	op = reduce(MOST_OF_FLOATS, CORE_ARENA + 0x1000, CORE_ARENA, &zero, FLOAT);
	assert_true(read_op(&op)); /* the largest, or 0 */
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	op = reduce(MOST_OF_HALVES, CORE_ARENA + 0x1000, CORE_ARENA, &lowest_half, HALF);
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_ROW_MAX);
	assert_int_equal(meaning.views[0].dtype, ATTN_F16);
	assert_touch(0, ACCESS_READ, CORE_ARENA, 64);
	op = reduce(SUM_OF_FLOATS, CORE_ARENA + 0x1000, CORE_ARENA, &zero, FLOAT);
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_ROW_SUM);
	op = reduce(SUM_OF_FLOATS, CORE_ARENA + 0x1000, CORE_ARENA, &one, FLOAT);
	assert_true(read_op(&op)); /* and one more */
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	op = reduce(MOST_OF_HALVES, CORE_ARENA + 0x1000, CORE_ARENA, &lowest, FLOAT);
	assert_false(read_op(&op));
	columns = 0;
	op = reduce(MOST_OF_FLOATS, CORE_ARENA + 0x1000, CORE_ARENA, &lowest, FLOAT);
	assert_false(read_op(&op));
	columns = 8; /* what it counts in is a double */
	op = reduce("36DeviceFixedSizeSegmentedReduceKernelINS1_27fixed_size_segmented_reduce10"
		    "policy_hubIfi16nan_handling_maxIfEE9Policy500EPfSA_iS7_fdEEvT0_T1_T2_iT3_T4_",
		    CORE_ARENA + 0x1000, CORE_ARENA, &lowest, FLOAT);
	assert_false(read_op(&op));
}

/* ---- attention ------------------------------------------------------------------------------- */

/* where(keep, S / 8, -1e9) before a softmax that is spelt out, all of it in fp32. `fill` in the
 * mask's place or behind: which of both is kept. */
static enum reason spelt(bool keeps)
{
	const uint64_t most = CORE_OTHER, sum = CORE_OTHER + 0x10000, less = CORE_OTHER + 0x20000;
	const uint64_t powers = CORE_OTHER + 0x40000, mask = CORE_OTHER + 0x60000;
	const float eight = 8, fill = -1e9f, lowest = -INFINITY, zero = 0;
	struct chain *chain;

	core_begin();
	core.type = CUDA_R_32F;
	core_resize();
	chain = begin();
	rows = core.H * core.Sq;
	columns = core.Sk;
	join(chain, LAUNCH("cupy_true_divide__float32_float_float32", whole(core.s, FLOAT),
			   NUMBER(eight), whole(core.x, FLOAT)));
	join(chain, keeps ? LAUNCH("cupy_where__bool_float32_float_float32", whole(mask, 1),
				   whole(core.x, FLOAT), NUMBER(fill), whole(core.m, FLOAT))
			  : LAUNCH("cupy_where__bool_float_float32_float32", whole(mask, 1),
				   NUMBER(fill), whole(core.x, FLOAT), whole(core.m, FLOAT)));
	join(chain, reduce(MOST_OF_FLOATS, most, core.m, &lowest, FLOAT));
	join(chain, LAUNCH("cupy_subtract__float32_float32_float32", whole(core.m, FLOAT),
			   per_row(most, FLOAT), whole(less, FLOAT)));
	join(chain, LAUNCH("cupy_exp__float32_float32", whole(less, FLOAT), whole(powers, FLOAT)));
	join(chain, reduce(SUM_OF_FLOATS, sum, powers, &zero, FLOAT));
	join(chain, LAUNCH("cupy_true_divide__float32_float32_float32", whole(powers, FLOAT),
			   per_row(sum, FLOAT), whole(core.p, FLOAT)));
	return end(chain);
}

static void test_attention(void **state)
{
	for (int keeps = 0; keeps < 2; keeps++) {
		assert_int_equal(spelt(keeps), REASON_NONE);
		assert_false(by_data);
		assert_true(args.spec.scale == 0.125f);
		assert_int_equal(args.spec.mask.base, CORE_OTHER + 0x60000);
		assert_int_equal(args.spec.mask_keeps, keeps);
		assert_true(args.spec.mask_value == -1e9f);
		assert_int_equal(args.spec.round_p, ATTN_F32);
	}
}

/* P was a number of 16 bits, whatever it is multiplied in: so exact is the program's O. */
static void test_widened(void **state)
{
	const uint64_t narrow = CORE_OTHER;
	struct chain *chain;

	core_begin();
	core.type = CUDA_R_32F;
	core_resize();
	rows = core.H * core.Sq;
	columns = core.Sk;
	chain = begin();
	join(chain, core_softmax(core.x, core.s));
	join(chain,
	     LAUNCH("cupy_copy__float32_float16", whole(core.x, FLOAT), whole(narrow, HALF)));
	join(chain,
	     LAUNCH("cupy_copy__float16_float32", whole(narrow, HALF), whole(core.p, FLOAT)));
	assert_int_equal(end(chain), REASON_NONE);
	assert_int_equal(args.v.dtype, ATTN_F32);
	assert_int_equal(args.spec.round_p, ATTN_F16);
	/* scores of 16 bits are not P */
	core_begin();
	core.type = CUDA_R_32F;
	core_resize();
	chain = begin();
	join(chain,
	     LAUNCH("cupy_copy__float32_float16", whole(core.s, FLOAT), whole(narrow, HALF)));
	join(chain,
	     LAUNCH("cupy_copy__float16_float32", whole(narrow, HALF), whole(core.x, FLOAT)));
	join(chain, core_softmax(core.p, core.x));
	assert_int_equal(end(chain), REASON_NONE);
	assert_int_equal(args.spec.round_p, ATTN_F32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy),	cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_where),	cmocka_unit_test(test_makers),
		cmocka_unit_test(test_rows),	cmocka_unit_test(test_attention),
		cmocka_unit_test(test_widened),
	};

	return CORE_MAIN("rules_cupy", tests);
}
