/* SPDX-License-Identifier: Apache-2.0
 *
 * The experts of a mixture, as transformers' grouped_mm_experts_forward() launched them on an H200
 * (moe_experts.trace.gz: 768 tokens, each to 2 of 8 experts): places of the largest, sorts,
 * a histogram, running sums, and twice the kernel that prepares a grouped product and the product.
 * What the product touches is known as long as nobody may have written to what was prepared; that
 * its output is overwritten to the last row, as long as every number that counts was counted.
 */
#include "tests/unit/core.h"

#include <string.h>

#include "shim/flow/touch.h"
#include "shim/op/memory.h"
#include "shim/real/driver.h"
#include "shim/rules/function.h"
#include "shim/rules/shadow.h"
#include "tools/replay/trace.h"

#define TOP_K	  "10gatherTopKI"
#define SORT	  "18radixSortKVInPlaceI"
#define CAST	  "LoadWithCast"
#define FILL	  "11FillFunctorIiE"
#define HISTOGRAM "17kernelHistogram1DI"
#define SCAN	  "16DeviceScanKernelI"
#define PREPARE	  "25prepare_grouped_gemm_dataI"
#define PRODUCT	  "GroupProblemShape"
#define COPY	  "cuMemcpyDtoDAsync_v2"
#define IN_PARAMS 112 /* of the product's launch: where its own begin */
#define ROWS	  1536
#define TILES	  (1536 / 128 * 2048 / 256)
#define SMS	  (IN_PARAMS + 1540)
#define GROUPS	  8

enum outcome { UNKNOWN, SOME, WHOLE }; /* of the product: not known; its output is left in part */

/* One thing that differs in the first of the program's two products. */
static const struct change {
	const char *what;
	enum outcome outcome;
	const char *launch; /* the first one of this name … */
	enum { LEFT_OUT, WORD, NOWHERE, GRID, SMALL, RADIX, OVERWRITTEN, ANYTHING } how;
	int where; /* … WORD, NOWHERE: of its parameters; OVERWRITTEN: by the pointer there, behind
		      the launch */
	uint32_t value; /* … OVERWRITTEN: bytes behind the pointer */
} changes[] = {
	{"nothing", WHOLE, "", LEFT_OUT, 0, 0},
	/* what was prepared, for another product or none */
	{"not prepared", UNKNOWN, PREPARE, LEFT_OUT, 0, 0},
	{"anything in between", UNKNOWN, PREPARE, ANYTHING, 0, 0},
	{"addresses of A overwritten", UNKNOWN, PREPARE, OVERWRITTEN, 40, 0},
	{"an address of B overwritten", UNKNOWN, PREPARE, OVERWRITTEN, 48, 56},
	{"addresses of out overwritten", UNKNOWN, PREPARE, OVERWRITTEN, 56, 8},
	{"sizes overwritten", UNKNOWN, PREPARE, OVERWRITTEN, 80, 92},
	{"strides overwritten", UNKNOWN, PREPARE, OVERWRITTEN, 104, 60},
	{"A overwritten", WHOLE, PREPARE, OVERWRITTEN, 0, 0},
	{"ends overwritten, which were read", WHOLE, PREPARE, OVERWRITTEN, 112, 0},
	{"scaled", UNKNOWN, PREPARE, WORD, 24, 0x1000},
	{"no ends", UNKNOWN, PREPARE, NOWHERE, 112, 0},
	{"no place for addresses", UNKNOWN, PREPARE, NOWHERE, 48, 0},
	{"rows that are not told by ends", UNKNOWN, PREPARE, WORD, 120, ROWS},
	{"as many columns as B has not", UNKNOWN, PREPARE, WORD, 124, 1024},
	{"as deep as A is not", UNKNOWN, PREPARE, WORD, 128, 512},
	{"more experts than B has", UNKNOWN, PREPARE, WORD, 232, 9},
	{"output by columns", UNKNOWN, PREPARE, WORD, 192, 2},
	{"no rows", UNKNOWN, PREPARE, WORD, 208, 0},
	{"A by columns", UNKNOWN, PREPARE, WORD, 144, 2},
	{"more than a block", UNKNOWN, PREPARE, GRID, 0, 2},
	{"rows of the output apart", SOME, PREPARE, WORD, 184, 4096},
	{"more rows than ends", SOME, PREPARE, WORD, 208, ROWS + 1},
	/* another product */
	{"of another kind", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 0, 3},
	{"of fewer groups", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 8, 7},
	{"of other sizes", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 16, 0x19d2c0},
	{"of sizes that the host knows", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 24, 1},
	{"of another A", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 656, 0x19d240},
	{"of other strides of B", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 680, 0x19d340},
	{"to another output", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 1432, 0x19d200},
	{"that reads C", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 1416, 0x19d280},
	{"with beta", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 768, 0x3f800000},
	{"with beta in device memory", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 776, 0x19d280},
	{"with alpha in device memory", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 816, 0x19d280},
	{"scheduled by other sizes", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 1688, 0x19d2c0},
	{"scheduled for fewer groups", UNKNOWN, PRODUCT, WORD, IN_PARAMS + 1680, 7},
	{"on as many multiprocessors as there are tiles", WHOLE, PRODUCT, SMALL, 0, TILES},
	{"on one more", WHOLE, PRODUCT, SMALL, 0, TILES + 1},
	{"in more blocks than descriptors", UNKNOWN, PRODUCT, GRID, 0, 133},
	/* what the ends are made of */
	{"no places", SOME, TOP_K, LEFT_OUT, 0, 0},
	{"places in longer rows", SOME, TOP_K, WORD, 216, 9},
	{"places overwritten", SOME, TOP_K, OVERWRITTEN, 464, 8},
	{"places not copied", SOME, COPY, LEFT_OUT, 0, 0},
	{"places sorted, and overwritten", SOME, SORT, OVERWRITTEN, 0, 12280},
	{"the other half of a sort overwritten", WHOLE, SORT, OVERWRITTEN, 232, 0},
	{"places sorted in two passes", WHOLE, SORT, RADIX, 0, ROWS},
	{"but one", SOME, SORT, RADIX, 0, ROWS - 1},
	{"not cast", SOME, CAST, LEFT_OUT, 0, 0},
	{"cast from half as wide", SOME, CAST, WORD, 28, 0x03},
	{"counts begin at 1", SOME, FILL, WORD, 4, 1},
	{"counts not begun", SOME, FILL, LEFT_OUT, 0, 0},
	{"too few counts begun", SOME, FILL, WORD, 0, 7},
	{"not counted", SOME, HISTOGRAM, LEFT_OUT, 0, 0},
	{"counted from 1", SOME, HISTOGRAM, WORD, 1256, 1},
	{"counted to 6", SOME, HISTOGRAM, WORD, 1264, 6},
	{"one not counted", SOME, HISTOGRAM, WORD, 1272, ROWS - 1},
	{"counts overwritten", SOME, HISTOGRAM, OVERWRITTEN, 0, 28},
	{"not summed", SOME, SCAN, LEFT_OUT, 0, 0},
	{"summed but one", SOME, SCAN, WORD, 32, GROUPS - 1},
	{"sums overwritten", SOME, SCAN, OVERWRITTEN, 8, 4},
};

static const struct change *change;
static bool changed;
static int products;

static void note(struct op *op, const struct function *function, const unsigned char *params)
{
	static struct access_list list;
	const struct sight sight = {
		.op = op, .list = &list, .function = function, .params = params};

	touch_accesses(&sight);
	shadow_note(&sight);
}

static void overwrite(const unsigned char *params)
{
	struct op op = {.kind = OP_FILL, .name = "cuMemsetD8Async"};

	memcpy(&op.fill.target.base, params + change->where, 8);
	op.fill.target.base += change->value;
	op.fill.target.bytes = 4;
	note(&op, NULL, NULL);
}

/* The keys of a sort in place, by CUB's instead: to another buffer, and back. */
static void sort_by_passes(const unsigned char *params)
{
	const uint64_t scratch = CORE_ARENA, count = scratch + 0x10000, none = 0,
		       sums = scratch + 0x20000, apart[2] = {scratch + 0x30000, scratch + 0x40000};
	const uint64_t places = CORE_ARENA + 0x50000;
	const int items = (int)change->value, bits[2] = {0, 8};
	const unsigned char empty = 0;
	static unsigned char copy[FUNCTION_MAX_BYTES];
	uint64_t keys;

	memcpy(&keys, params, 8);
	for (int pass = 0; pass < 2; pass++) {
		struct op op = core_launch(
			"_ZN14at_cuda_detail3cub6detail10radix_"
			"sort29DeviceRadixSortOnesweepKernelINS1_"
			"5radix10policy_"
			"hubIlN2at4cuda3cub6detail10OpaqueTypeILi8EEEyE10Policy1000ELNS0_"
			"9SortOrderE0ElSB_yiiNS1_21identity_decomposer_tEEEvPT5_SH_PT3_PKSI_PT1_"
			"PKSM_PT2_"
			"PKSQ_T4_iiT6_",
			12, (size_t[]){8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 1},
			(const void *[]){&scratch, &count, &none, &sums, pass ? &keys : &apart[0],
					 pass ? &apart[0] : &keys, pass ? &places : &apart[1],
					 pass ? &apart[1] : &places, &items, &bits[0], &bits[1],
					 &empty});
		const struct function *function = function_get(op.launch.function);

		assert_true(function_read_params(function, &op.launch, copy));
		note(&op, function, copy);
	}
}

static uint64_t word(const unsigned char *params, unsigned at)
{
	uint64_t word;

	memcpy(&word, params + at, 8);
	return word;
}

static void expect(const struct access_list *list, uint64_t begin, uint64_t bytes,
		   enum access_mode mode, bool sure)
{
	for (int i = 0; i < list->count; i++) {
		const struct access *access = &list->item[i];

		if (access->begin != begin || access->mode != mode)
			continue;
		assert_true(access->bounded && access->grade == GRADE_RULED);
		assert_int_equal(access->end - begin, bytes);
		assert_int_equal(access->sure_end - begin, sure ? bytes : 0);
		return;
	}
	fail_msg("%s: nothing at %llx", change->what, (unsigned long long)begin);
}

/* Which arrays and operands, as the preparing launch had them. */
static void check_product(const struct access_list *list, const unsigned char *prepared,
			  const unsigned char *params, enum outcome outcome, bool again)
{
	const uint64_t n = again ? 1024 : 2048, k = 1024, rows = word(prepared, 208);
	uint32_t sms;

	memcpy(&sms, params + SMS, 4);
	if (outcome == UNKNOWN) {
		if (!list->count || list->item[0].grade != GRADE_UNKNOWN)
			fail_msg("%s: known", change->what);
		return;
	}
	if (list->count != 12)
		fail_msg("%s: %d accesses", change->what, list->count);
	assert_false(list->opaque);
	for (unsigned at = 40; at <= 104; at += 8)
		if (at < 64 || at > 72)
			expect(list, word(prepared, at), GROUPS * (at == 80 ? 12 : 8), ACCESS_READ,
			       false);
	expect(list, word(prepared, 0), rows * k * 2, ACCESS_READ, false);
	expect(list, word(prepared, 8), GROUPS * k * n * 2, ACCESS_READ, false);
	if (outcome == WHOLE)
		expect(list, word(prepared, 16), rows * n * 2, ACCESS_WRITE, true);
	for (unsigned at = 648; at <= 1408; at += 1408 - 648)
		expect(list, word(params, IN_PARAMS + at), sms * 2 * 128,
		       sms <= TILES ? ACCESS_WRITE : ACCESS_UNKNOWN, sms <= TILES);
	for (int i = 0; i < list->count; i++)
		if (list->item[i].mode == ACCESS_WRITE && outcome == SOME)
			assert_int_equal(list->item[i].sure_end, list->item[i].begin);
}

static void each(struct op *op, void *argument)
{
	static unsigned char params[FUNCTION_MAX_BYTES], prepared[FUNCTION_MAX_BYTES];
	static struct access_list list;
	const struct function *function = NULL;
	const char *name = op->name;
	bool here;

	(void)argument;
	if (op->kind == OP_ALLOC) {
		memory_add(op->alloc.range.base, op->alloc.range.bytes, op->alloc.kind,
			   op->context);
		return;
	}
	if (op->kind == OP_LAUNCH) {
		function = function_get(op->launch.function);
		name = function->name;
		assert_true(function_read_params(function, &op->launch, params));
	}
	if (!changed && change->how == RADIX && strstr(name, SORT)) {
		changed = true;
		sort_by_passes(params);
		return;
	}
	here = !changed && *change->launch && strstr(name, change->launch);
	changed |= here;
	/* the same places are copied twice, and for all copies the first says it */
	if (change->how == LEFT_OUT &&
	    (here || (!strcmp(change->launch, COPY) && op->kind == OP_COPY && !products)))
		return;
	if (here && change->how == WORD)
		memcpy(params + change->where, &change->value, 4);
	if (here && change->how == NOWHERE)
		memset(params + change->where, 0, 8);
	if (here && (change->how == GRID || change->how == SMALL))
		op->launch.grid[0] = change->value;
	if (here && change->how == SMALL)
		memcpy(params + SMS, &change->value, 4);
	if (strstr(name, PREPARE))
		memcpy(prepared, params, sizeof(prepared));
	if (strstr(name, PRODUCT)) {
		touch_accesses(&(struct sight){
			.op = op, .list = &list, .function = function, .params = params});
		if (products++ == 0)
			check_product(&list, prepared, params, change->outcome, false);
		else if (change == changes)
			check_product(&list, prepared, params, WHOLE, true);
	}
	note(op, function, function ? params : NULL);
	if (here && change->how == OVERWRITTEN)
		overwrite(params);
	if (here && change->how == ANYTHING)
		note(&(struct op){.kind = OP_OPAQUE, .name = "cuAnything"}, NULL, NULL);
}

static void test_products(void **state)
{
	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		change = &changes[i];
		changed = false;
		products = 0;
		core_begin();
		shadow_clear();
		driver_resolve();
		assert_true(trace_play(MOE_EXPERTS, each, NULL) > 0);
		assert_int_equal(products, 2);
		if (!changed && *change->launch)
			fail_msg("%s: no such launch", change->what);
	}
}

/* Memory into which the host may write unseen. */
static void each_managed(struct op *op, void *argument)
{
	if (op->kind == OP_ALLOC)
		op->alloc.kind = MEMORY_MANAGED;
	each(op, argument);
}

static void test_managed(void **state)
{
	static const struct change managed = {"managed memory", UNKNOWN, "", LEFT_OUT, 0, 0};

	change = &managed;
	changed = true;
	products = 0;
	core_begin();
	shadow_clear();
	driver_resolve();
	assert_true(trace_play(MOE_EXPERTS, each_managed, NULL) > 0);
	assert_int_equal(products, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_products),
					   cmocka_unit_test(test_managed)};

	return CORE_MAIN("grouped", tests);
}
