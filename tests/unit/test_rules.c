/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading parameter blocks: the bytes that PyTorch wrote in the recorded programs, and hand-made
 * ones with other garbage in what is never set.
 */
#include "tests/unit/core.h"

#include <math.h>
#include <string.h>

#include "shim/rules/function.h"
#include "shim/op/memory.h"
#include "shim/real/driver.h"
#include "shim/rules/rules.h"
#include "tests/unit/replay.h"
#include "tools/replay/trace.h"

/* ---- recorded programs
 * ----------------------------------------------------------------------------- */

struct sighting {
	const struct function *function;
	struct meaning meaning;
	struct access_list list;
};

struct survey {
	void (*look)(struct survey *survey, const struct op *op, const struct sighting *sighting);
	long launches, ruled, opaque;
	enum rule_role role; /* wanted */
	int skip;	     /* so many of them first */
	struct sighting found;
};

static void take_in(struct op *op, void *argument)
{
	static unsigned char params[FUNCTION_MAX_BYTES];
	static struct sighting sighting;
	struct survey *survey = argument;

	if (op->kind == OP_ALLOC)
		memory_add(op->alloc.range.base, op->alloc.range.bytes, op->alloc.kind,
			   op->context);
	if (op->kind == OP_FREE)
		memory_remove(op->alloc.range.base, 0);
	if (op->kind != OP_LAUNCH)
		return;
	driver_resolve();
	sighting.function = function_get(op->launch.function);
	assert_true(function_read_params(sighting.function, &op->launch, params));
	sighting.list.count = 0;
	sighting.list.opaque = false;
	rules_meaning(sighting.function, &op->launch, params, &sighting.meaning);
	survey->launches++;
	if (rules_access(sighting.function, &op->launch, params, &sighting.list, NULL))
		survey->ruled++;
	survey->look(survey, op, &sighting);
}

static const struct {
	const char *name;
	bool ruled; /* all its kernels should have rules */
} traces[] = {
#define PROGRAM(name, ...)	     {#name, true},
#define BY_RULE(number, name, ...)   {#name, true},
#define BY_DATA(number, name, ...)   {#name, false},
#define DECLINED(number, name, ...)  {#name, true},
#define PASSED_BY(number, name, ...) {#name, false},
#include "tests/traces/traces.def"
};

#define TRACES_COUNT (sizeof(traces) / sizeof(*traces))

/* Whatever a rule says lies inside one allocation: a block misread would soon point beyond. */
static void check_extents(struct survey *survey, const struct op *op,
			  const struct sighting *sighting)
{
	(void)op;
	survey->opaque += sighting->list.opaque;
	for (int i = 0; i < sighting->list.count; i++) {
		const struct access *access = &sighting->list.item[i];
		const struct allocation *allocation = memory_find(access->begin);

		if (!allocation || access->end > allocation->base + allocation->bytes ||
		    access->sure_end < access->begin || access->sure_end > access->end)
			fail_msg("%.80s… reaches out of memory", sighting->function->name);
		if (access->mode != ACCESS_WRITE)
			assert_int_equal(access->sure_end, access->begin);
	}
	if (sighting->meaning.role == ROLE_UNKNOWN) {
		assert_int_equal(sighting->list.count, 0);
		if (sighting->function->rule)
			fail_msg("%s is not read", sighting->function->name);
	}
}

static void test_extents(void **state)
{
	struct survey all = {.look = check_extents};

	for (unsigned i = 0; i < TRACES_COUNT; i++) {
		struct survey survey = {.look = check_extents};

		assert_true(trace_play(trace_path(traces[i].name), take_in, &survey) > 0);
		all.launches += survey.launches;
		all.ruled += survey.ruled;
		all.opaque += survey.opaque;
	}
	print_message("# %ld of %ld launches have rules, %ld touch too much\n", all.ruled,
		      all.launches, all.opaque);
	assert_true(all.opaque < 10);
	assert_true(all.launches > 10000);
	assert_true(all.ruled > all.launches * 9 / 10);
}

/* These have none, all others do. */
static void check_names(struct survey *survey, const struct op *op, const struct sighting *sighting)
{
	static const char *const without[] = {
		"cutlass",
		"flip_kernel_impl",
		"nchwToNhwcKernel",
		"nhwcToNchwKernel",
		"erfinv_kernel_vectorized8_kernel",
		"precomputed_convolve_sgemm",
		"kern_precompute_indices",
		"draw_inputs",
		"convertIf6__half",
		"row_softmax",
		"own_softmax",
		"fill_inputs",
	};

	(void)survey, (void)op;
	if (sighting->function->rule)
		return;
	for (unsigned i = 0; i < sizeof(without) / sizeof(*without); i++)
		if (strstr(sighting->function->name, without[i]))
			return;
	fail_msg("no rule: %s", sighting->function->name);
}

static void test_names(void **state)
{
	for (unsigned i = 0; i < TRACES_COUNT; i++) {
		struct survey survey = {.look = check_names};

		if (!traces[i].ruled)
			continue;
		assert_true(trace_play(trace_path(traces[i].name), take_in, &survey) > 0);
	}
}

static void find_role(struct survey *survey, const struct op *op, const struct sighting *sighting)
{
	(void)op;
	if (sighting->meaning.role == survey->role && survey->skip-- == 0)
		survey->found = *sighting;
}

static struct sighting find(const char *trace, enum rule_role role, int skip)
{
	struct survey survey = {.look = find_role, .role = role, .skip = skip};

	assert_true(trace_play(trace_path(trace), take_in, &survey) > 0);
	if (!survey.found.function)
		fail_msg("no %s in %s", rules_role_name(role), trace);
	return survey.found;
}

/* softmax(q @ k^T * 0.125) @ v, [1,8,512,512] in fp16. */
static void test_naive(void **state)
{
	struct sighting scale = find("naive_512", ROLE_SCALE, 0), softmax;
	int skip = 0;

	while (scale.meaning.elements != 8 * 512 * 512)
		scale = find("naive_512", ROLE_SCALE, ++skip);
	assert_true(scale.meaning.scalar == 0.125);
	assert_int_equal(scale.meaning.view_count, 2);
	assert_int_equal(scale.meaning.views[0].dtype, ATTN_F16);
	assert_int_equal(scale.list.count, 2);
	for (int i = 0; i < 2; i++) {
		assert_true(scale.list.item[i].bounded);
		assert_int_equal(scale.list.item[i].end - scale.list.item[i].begin,
				 2 * 8 * 512 * 512);
	}
	softmax = find("naive_512", ROLE_SOFTMAX, 0);
	assert_int_equal(softmax.meaning.softmax_cols, 512);
	assert_int_equal(softmax.meaning.elements, 8 * 512 * 512);
	assert_int_equal(softmax.meaning.views[0].dtype, ATTN_F16);
	assert_int_equal(softmax.meaning.views[1].dtype, ATTN_F16);
	/* It writes its first parameter and reads its second. */
	for (int i = 0; i < softmax.list.count; i++)
		assert_int_equal(softmax.list.item[i].mode,
				 softmax.list.item[i].where ? ACCESS_READ : ACCESS_WRITE);
	assert_int_equal(softmax.list.count, 2);
}

/* float32 softmax of bf16 scores: casts on both sides. */
static void test_casts(void **state)
{
	const struct sighting softmax = find("einsum_bf16", ROLE_SOFTMAX, 0);
	const int64_t elements =
		2 * 12 * (int64_t)softmax.meaning.softmax_cols * softmax.meaning.softmax_cols;
	bool widened = false, narrowed = false;

	assert_int_equal(softmax.meaning.elements, elements);
	assert_int_equal(softmax.meaning.views[1].dtype, ATTN_F32);
	for (int skip = 0; skip < 40 && !(widened && narrowed); skip++) {
		const struct sighting copy = find("einsum_bf16", ROLE_COPY, skip);

		if (copy.meaning.elements != elements)
			continue;
		if (copy.meaning.views[0].dtype == ATTN_F32 &&
		    copy.meaning.views[1].dtype == ATTN_BF16)
			widened = true;
		if (copy.meaning.views[0].dtype == ATTN_BF16 &&
		    copy.meaning.views[1].dtype == ATTN_F32)
			narrowed = true;
	}
	assert_true(softmax.meaning.views[0].dtype == ATTN_BF16 || narrowed);
	assert_true(widened);
}

/* masked_fill(~keep, -inf), the mask [512,512] broadcast over [2,8]. */
static void test_masked_fill(void **state)
{
	const struct sighting fill = find("causal_fill", ROLE_MASKED_FILL, 0);
	const struct meaning *meaning = &fill.meaning;

	assert_int_equal(meaning->elements, 16 * 512 * 512);
	assert_true(isinf(meaning->scalar) && meaning->scalar < 0);
	assert_int_equal(meaning->view_count, 3);
	assert_int_equal(meaning->views[2].dtype, ATTN_BOOL);
	assert_int_equal(meaning->views[2].element, 1);
	assert_int_equal(meaning->size[0], 512 * 512);
	assert_int_equal(meaning->views[2].stride[0], 1);
	assert_int_equal(meaning->views[2].stride[meaning->dims - 1], 0);
	for (int i = 0; i < fill.list.count; i++)
		if (fill.list.item[i].where == meaning->views[2].where)
			assert_int_equal(fill.list.item[i].end - fill.list.item[i].begin,
					 512 * 512);
}

static void test_added_mask(void **state)
{
	struct sighting add;
	int skip = -1;

	do
		add = find("causal_add", ROLE_ADD, ++skip);
	while (add.meaning.elements != 16 * 512 * 512);
	assert_int_equal(add.meaning.view_count, 3);
	assert_true(add.meaning.scalar == 1);
	assert_int_equal(add.meaning.views[2].dtype, ATTN_F16);
	for (int i = 0; i < add.list.count; i++)
		if (add.list.item[i].where == add.meaning.views[2].where)
			assert_int_equal(add.list.item[i].end - add.list.item[i].begin,
					 2 * 512 * 512);
}

/* tanh(x / 2) * 2: division is multiplication by the reciprocal. */
static void test_softcap(void **state)
{
	const int64_t elements = 2 * 8 * 256 * 256;
	double factors[3];
	int count = 0;

	assert_int_equal(find("softcap", ROLE_TANH, 0).meaning.elements, elements);
	for (int skip = 0; count < 3; skip++) {
		const struct sighting scale = find("softcap", ROLE_SCALE, skip);

		if (scale.meaning.elements == elements)
			factors[count++] = scale.meaning.scalar;
	}
	assert_true(factors[0] == 0.125);
	assert_true(factors[1] == 0.5);
	assert_true(factors[2] == 2);
}

static void test_others(void **state)
{
	assert_int_equal(find("log_softmax", ROLE_LOG_SOFTMAX, 0).meaning.softmax_cols, 256);
	assert_true(find("train_dropout", ROLE_DROPOUT, 0).meaning.elements > 0);
	assert_int_equal(find("naive_f32", ROLE_SOFTMAX, 0).meaning.views[0].dtype, ATTN_F32);
	assert_int_equal(find("growing", ROLE_SOFTMAX, 0).meaning.elements,
			 32 * find("growing", ROLE_SOFTMAX, 0).meaning.softmax_cols);
	assert_int_equal(find("growing", ROLE_SOFTMAX, 1).meaning.softmax_cols,
			 1 + find("growing", ROLE_SOFTMAX, 0).meaning.softmax_cols);
}

/* ---- hand-made blocks
 * -------------------------------------------------------------------------------- */

static bool read_op(const struct op *op, struct meaning *meaning, struct access_list *list)
{
	static unsigned char params[FUNCTION_MAX_BYTES];
	const struct function *function;
	bool known;

	driver_resolve();
	function = function_get(op->launch.function);
	assert_true(function_read_params(function, &op->launch, params));
	memset(list, 0, sizeof(*list));
	known = rules_access(function, &op->launch, params, list, NULL);
	rules_meaning(function, &op->launch, params, meaning);
	return known;
}

/* The builders put other garbage in each block. */
static void same_twice(struct op first, struct op second)
{
	static struct meaning meaning[2];
	static struct access_list list[2];

	assert_true(read_op(&first, &meaning[0], &list[0]));
	assert_true(read_op(&second, &meaning[1], &list[1]));
	assert_memory_equal(&meaning[0], &meaning[1], sizeof(meaning[0]));
	assert_int_equal(list[0].count, list[1].count);
	for (int i = 0; i < list[0].count; i++) { /* the struct has gaps */
		const struct access *a = &list[0].item[i], *b = &list[1].item[i];

		assert_int_equal(a->begin, b->begin);
		assert_int_equal(a->end, b->end);
		assert_int_equal(a->sure_end, b->sure_end);
		assert_int_equal(a->mode, b->mode);
		assert_int_equal(a->bounded, b->bounded);
		assert_int_equal(a->where, b->where);
	}
	assert_int_not_equal(meaning[0].role, ROLE_OPAQUE);
}

static void test_garbage(void **state)
{
	core_begin();
	for (int i = 0; i < 20; i++) {
		same_twice(core_scale(core.x, core.s, 0.5f), core_scale(core.x, core.s, 0.5f));
		same_twice(core_tanh(core.x, core.s), core_tanh(core.x, core.s));
		same_twice(core_add_mask(core.m, core.x, core.mask),
			   core_add_mask(core.m, core.x, core.mask));
		same_twice(core_masked_fill(core.m, core.x, core.mask, 0xfc00),
			   core_masked_fill(core.m, core.x, core.mask, 0xfc00));
		same_twice(core_softmax(core.p, core.m), core_softmax(core.p, core.m));
		same_twice(core_kernel_copy(core.p, core.m, 100),
			   core_kernel_copy(core.p, core.m, 100));
	}
}

/* Only what is read decides: each scalar, size and stride, one by one. */
static void test_scalars(void **state)
{
	struct meaning meaning;
	struct access_list list;
	struct op op;

	core_begin();
	op = core_scale(core.x, core.s, 0.37f);
	assert_true(read_op(&op, &meaning, &list));
	assert_true(meaning.scalar == (double)0.37f);
	assert_int_equal(meaning.views[0].base, core.x);
	assert_int_equal(meaning.views[1].base, core.s);
	op = core_masked_fill(core.m, core.x, core.mask, 0x4248); /* 3.140625 */
	assert_true(read_op(&op, &meaning, &list));
	assert_true(meaning.scalar == 3.140625);
	op = core_masked_fill(core.m, core.x, core.mask, 0xfbff); /* the least fp16 */
	assert_true(read_op(&op, &meaning, &list));
	assert_true(meaning.scalar == -65504);
	op = core_masked_fill(core.m, core.x, core.mask, 0x0001); /* denormal */
	assert_true(read_op(&op, &meaning, &list));
	assert_true(meaning.scalar == 0x1p-24);
	op = core_masked_fill(core.m, core.x, core.mask, 0x7e00);
	assert_true(read_op(&op, &meaning, &list));
	assert_true(isnan(meaning.scalar));
}

/* A strided output with a hole is written, but not every byte of its extent. */
static void test_strided_output(void **state)
{
	static const char add[] = "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_"
				  "impl_nocastINS0_15CUDAFunctor_"
				  "addIN3c104HalfEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_";
	const unsigned size[2] = {8, 4};
	const unsigned dense[2][3] = {{2, 2, 2}, {16, 16, 0}},
		       gaps[2][3] = {{2, 2, 2}, {32, 16, 0}};
	const unsigned swapped[2][3] = {{8, 2, 2}, {2, 16, 0}};
	const uint64_t at[3] = {CORE_ARENA, CORE_ARENA + 0x1000, CORE_ARENA + 0x2000};
	const float one = 1, two = 2;
	struct access_list list;
	struct meaning meaning;
	struct op op;

	core_begin();
	op = core_strided(add, 3, 2, size, &dense[0][0], at, &one, 4);
	assert_true(read_op(&op, &meaning, &list));
	assert_int_equal(list.item[0].mode, ACCESS_WRITE);
	assert_int_equal(list.item[0].end, at[0] + 64);
	assert_int_equal(list.item[0].sure_end, at[0] + 64);
	assert_int_equal(list.item[2].end, at[2] + 16);
	op = core_strided(add, 3, 2, size, &gaps[0][0], at, &two, 4);
	assert_true(read_op(&op, &meaning, &list));
	assert_int_equal(meaning.role, ROLE_ADD_SCALED);
	assert_true(meaning.scalar == 2);
	assert_int_equal(list.item[0].end, at[0] + 3 * 32 + 16);
	assert_int_equal(list.item[0].sure_end, at[0]);
	op = core_strided(add, 3, 2, size, &swapped[0][0], at, &one, 4); /* transposed, yet dense */
	assert_true(read_op(&op, &meaning, &list));
	assert_int_equal(list.item[0].sure_end, at[0] + 64);
}

/* Where a kernel casts, the operands' types follow its functor, however large that is. */
static void test_strided_casts(void **state)
{
	static const char copy[] = "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_"
				   "implIZZZNS0_23direct_copy_kernel_cudaE_EUliE_EEviT1_";
	static const char add[] = "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_"
				  "implINS0_15CUDAFunctor_addIfEEEEv_EUliE_EEviT1_";
	static const char power[] = "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_"
				    "implIZZZNS0_24pow_tensor_tensor_kernelE_EUliE_EEviT1_";
	const unsigned char copied[3] = {0x77, 5, 4};		    /* half = int64 */
	const unsigned char added[7] = {0, 0, 0x80, 0x3f, 6, 5, 6}; /* float = half + float */
	const unsigned char raised[11] = {1, 2, 3, 4, 5, 6, 7, 8, 6, 6, 3}; /* behind what? */
	const unsigned size[1] = {32}, strides[3] = {4, 2, 4}, wide[2] = {2, 8};
	const uint64_t at[3] = {CORE_ARENA, CORE_ARENA + 0x1000, CORE_ARENA + 0x2000};
	struct access_list list;
	struct meaning meaning;
	struct op op;

	core_begin();
	op = core_strided(copy, 2, 1, size, wide, at, copied, sizeof(copied));
	assert_true(read_op(&op, &meaning, &list));
	assert_int_equal(meaning.role, ROLE_COPY);
	assert_int_equal(list.item[0].sure_end, at[0] + 64);
	assert_int_equal(list.item[1].end, at[1] + 256);
	op = core_strided(add, 3, 1, size, strides, at, added, sizeof(added));
	assert_true(read_op(&op, &meaning, &list));
	assert_int_equal(meaning.role, ROLE_ADD);
	assert_int_equal(meaning.views[1].dtype, ATTN_F16);
	assert_int_equal(list.item[0].sure_end, at[0] + 128);
	assert_int_equal(list.item[1].end, at[1] + 64);
	op = core_strided(power, 3, 1, size, strides, at, raised, sizeof(raised));
	assert_true(read_op(&op, &meaning, &list));
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	for (int i = 0; i < list.count; i++) { /* the widest number of PyTorch's has 16 bytes */
		assert_true(list.item[i].bounded);
		assert_int_equal(list.item[i].end, at[i] + 31 * strides[i] + 16);
		assert_int_equal(list.item[i].sure_end, at[i]);
	}
}

static void test_added_number(void **state)
{
	static const char name[] = "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_"
				   "impl_nocastINS0_21CUDAFunctorOnSelf_addIfEE";
	const unsigned size[1] = {32}, strides[2] = {4, 4};
	const uint64_t at[2] = {CORE_ARENA, CORE_ARENA + 0x1000};
	const float functor[2] = {3, -0.5f}; /* the number, its factor */
	struct access_list list;
	struct meaning meaning;
	struct op op;

	core_begin();
	op = core_strided(name, 2, 1, size, strides, at, functor, sizeof(functor));
	assert_true(read_op(&op, &meaning, &list));
	assert_int_equal(meaning.role, ROLE_ADD_CONSTANT);
	assert_true(meaning.scalar == -1.5);
}

/* Another parameter layout under a known name is an unknown kernel, never a misread one. */
static void test_changed_layout(void **state)
{
	static unsigned char zeros[4096];
	static void *params[16];
	static const struct {
		const char *name;
		unsigned count;
		size_t size[8];
	} layouts[] = {
		{"29vectorized_elementwise_kernelILi4E", 2, {4, 24}},
		{"29vectorized_elementwise_kernelILi4E", 3, {8, 8, 16}},
		{"29vectorized_elementwise_kernelILi4E", 3, {4, 8, 48}},
		{"18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastI", 2, {4, 200}},
		{"18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastI", 3, {4, 648, 8}},
		{"20softmax_warp_forwardIN3c104HalfES4_fLi7ELb0ELb0EE", 4, {8, 8, 4, 4}},
		{"20softmax_warp_forwardIN3c104HalfES4_fLi7ELb0ELb0EE", 7, {8, 8, 8, 4, 4, 8, 4}},
		{"22cunn_SoftMaxForwardRegIN3c104HalfEfS4_", 2, {8, 8}},
		{"28vectorized_layer_norm_kernelIN3c104HalfEfEE", 5, {4, 4, 8, 8, 8}},
		{"13reduce_kernelILi512ELi1E", 1, {512}},
		{"CatArrayBatchedCopy", 3, {8, 100, 8}},
		{"24vectorized_gather_kernelILi16E", 2, {8, 8}},
		{"24fused_dropout_kernel_vecI", 3, {216, 216, 216}},
		{"cupy_copy__float32_float16", 3, {32, 32, 24}},
		{"cupy_copy__float32_float16", 3, {16, 16, 8}},
		{"cupy_copy__float32_float16", 2, {32, 32}},
	};

	core_begin();
	for (int i = 0; i < 16; i++)
		params[i] = zeros;
	for (unsigned i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		size_t offset[8], at = 0;
		struct op op = {.kind = OP_LAUNCH, .launch = {.grid = {1, 1, 1}, .params = params}};
		struct access_list list;
		struct meaning meaning;

		for (unsigned p = 0; p < layouts[i].count; p++) {
			offset[p] = at;
			at += (layouts[i].size[p] + 7) & ~(size_t)7;
		}
		op.launch.function =
			below_function(layouts[i].name, layouts[i].count, offset, layouts[i].size);
		if (read_op(&op, &meaning, &list) || meaning.role != ROLE_UNKNOWN || list.count)
			fail_msg("%s with %u parameters", layouts[i].name, layouts[i].count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_garbage),	       cmocka_unit_test(test_scalars),
		cmocka_unit_test(test_strided_output), cmocka_unit_test(test_strided_casts),
		cmocka_unit_test(test_added_number),   cmocka_unit_test(test_changed_layout),
		cmocka_unit_test(test_extents),	       cmocka_unit_test(test_names),
		cmocka_unit_test(test_naive),	       cmocka_unit_test(test_casts),
		cmocka_unit_test(test_masked_fill),    cmocka_unit_test(test_added_mask),
		cmocka_unit_test(test_softcap),	       cmocka_unit_test(test_others),
	};

	return CORE_MAIN("rules", tests);
}
