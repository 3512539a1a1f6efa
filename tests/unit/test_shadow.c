/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host knows of device memory: scalars of a chain that lie there, and arrays of addresses.
 * Known is what the program put there in view; one op that may have changed it, and it is not.
 */
#include "tests/unit/core.h"

#include <string.h>

#include "shim/rules/shadow.h"
#include "shim/site/site.h"

static const char divide_name[] =
	"_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastINS0_"
	"13BinaryFunctorIN3c104HalfES5_S5_NS0_15binary_internal10DivFunctorIfEEEEEEvRNS_"
	"18TensorIteratorBaseERKT_EUliE_EEviT1_";
static const char where_name[] =
	"_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_62_"
	"GLOBAL__N__df9c2f1f_27_TensorCompare_cu_6c1c4ed7_1117where_kernel_implERNS_"
	"14TensorIteratorEENKUlvE_clEvENKUlvE8_clEvEUlbN3c104HalfESA_E_EEvRNS_"
	"18TensorIteratorBaseERKT_EUliE_EEviT1_";

#define SCALAR CORE_OTHER

/* A copy of `bytes` from host memory that is there to be read. */
static struct op upload(uint64_t to, const void *host, uint64_t bytes)
{
	struct op op = core_from_host(to, bytes);

	op.copy.host = host;
	return op;
}

/* X = S / scalar */
static struct op divide(void)
{
	const unsigned n = (unsigned)(core.H * core.Sq * core.Sk), strides[3] = {2, 2, 0};
	const unsigned char empty = 0;

	return core_strided(divide_name, 3, 1, &n, strides, (uint64_t[]){core.x, core.s, SCALAR},
			    &empty, 1);
}

/* X = mask ? X : scalar */
static struct op choose(void)
{
	const unsigned period = (unsigned)(core.Sq * core.Sk);
	const unsigned strides[2][4] = {{2, 1, 2, 0}, {period * 2, 0, period * 2, 0}};
	const unsigned char empty = 0;

	return core_strided(where_name, 4, 2, (unsigned[]){period, (unsigned)core.H},
			    &strides[0][0], (uint64_t[]){core.x, core.mask, core.x, SCALAR}, &empty,
			    1);
}

/* One chain of `middle` between S and softmax; ops kept. The scalar is put there within, as
 * torch.full() does; 0: nobody knows it. */
static int chain_with(struct op (*middle)(void), uint16_t scalar)
{
	int taken = core_send(core_scores());

	if (scalar)
		assert_false(core_send(upload(SCALAR, &scalar, 2)));
	if (middle != divide)
		taken += core_send(core_scale(core.x, core.s, core.scale));
	taken += core_send(middle());
	taken += core_send(core_softmax(core.p, core.x));
	return taken + core_send(core_context());
}

static void test_divisor(void **state)
{
	core_begin();
	for (int i = 0; i < 3; i++)
		assert_int_equal(chain_with(divide, 0x4800), 0); /* 8 */
	assert_int_equal(chain_with(divide, 0x4800), 4);
	assert_true(below.args.spec.scale == 0.125f);
	below_reset();
	chain_with(divide, 0x4400); /* 4: another function */
	assert_int_equal(below.count[ACT_FUSED], 0);
	assert_int_equal(site_count, 2);
	for (int i = 0; i < 4; i++) /* while the other is learned nothing is held back */
		chain_with(divide, 0x4800);
	assert_int_equal(chain_with(divide, 0x4800), 4);
}

/* A divisor that the host does not know is read where it lies, by the fused kernel. */
static void test_unknown_divisor(void **state)
{
	const struct attn_spec *spec = &below.args.spec;

	core_begin();
	for (int i = 0; i < 3; i++)
		assert_int_equal(chain_with(divide, 0), 0);
	assert_int_equal(chain_with(divide, 0), 4);
	assert_int_equal(site_count, 1);
	assert_int_equal(spec->scales.base, SCALAR);
	assert_int_equal(spec->scales.stride[0] | spec->scales.stride[1] | spec->scales.stride[2] |
				 spec->scales.stride[3],
			 0);
	assert_true(spec->scales_divide);
	assert_true(spec->scale == 1);
}

static void test_where(void **state)
{
	core_begin();
	for (int i = 0; i < 3; i++)
		assert_int_equal(chain_with(choose, 0xfbff), 0);
	assert_int_equal(chain_with(choose, 0xfbff), 5);
	assert_int_equal(below.args.spec.mask.base, core.mask);
	assert_int_equal(below.args.spec.mask_keeps, 1);
	assert_true(below.args.spec.mask_value == -65504.0f);
	assert_true(below.args.spec.scale == 0.25f);
}

/* The number in another type, which a cast of one element made of it. */
static int chain_with_cast(enum core_number from, const void *number, uint64_t bytes)
{
	struct op cast = core_cast(SCALAR, CORE_HALF, SCALAR + 256, from, 1);
	int taken = core_send(core_scores());

	cast.launch.grid[0] = 1;
	taken += core_send(upload(SCALAR + 256, number, bytes));
	taken += core_send(cast);
	taken += core_send(core_scale(core.x, core.s, core.scale));
	taken += core_send(choose());
	taken += core_send(core_softmax(core.p, core.x));
	return taken + core_send(core_context());
}

static void test_cast_number(void **state)
{
	static const float low = -3e4f;

	core_begin();
	for (int i = 0; i < 3; i++)
		assert_int_equal(chain_with_cast(CORE_FLOAT, &low, 4), 0);
	assert_true(chain_with_cast(CORE_FLOAT, &low, 4) > 0);
	assert_true(below.args.spec.mask_value == -30000.0f);
}

/* ---- what makes it unknown ------------------------------------------------------------------ */

static bool known(void)
{
	uint16_t word;

	return shadow_get(SCALAR, &word, 2);
}

static void test_forgotten(void **state)
{
	static const uint16_t eight = 0x4800;
	struct op op;

	core_begin();
#define KEPT(what, expected)                                                                       \
	do {                                                                                       \
		core.math_mode++;	  /* an opener that has not led nowhere yet */             \
		core_send(core_scores()); /* somebody must be looking */                           \
		assert_false(core_send(upload(SCALAR, &eight, 2)));                                \
		assert_true(known());                                                              \
		core_send(what);                                                                   \
		if (known() != (expected))                                                         \
			fail_msg("%s", #what);                                                     \
	} while (0)
	KEPT(core_memset(CORE_OTHER + 64, 64), true);
	KEPT(core_to_host(SCALAR, 2), true);
	KEPT(core_kernel_copy(CORE_OTHER + 64, SCALAR, 1), true);
	KEPT(core_event(OP_SYNC, "cuCtxSynchronize"), true);
	KEPT(core_memset(SCALAR, 1), false);
	KEPT(core_copy(core.q, SCALAR - 2, 4), false);
	KEPT(core_kernel_copy(SCALAR, core.q, 1), false);
	KEPT(core_unknown(SCALAR - 4096, 0, 1), false);
	KEPT(core_from_host(SCALAR, 2), false); /* from where, nobody can tell */
	KEPT(core_event(OP_OPAQUE, "cuSomethingNew"), false);
	KEPT(core_event(OP_GRAPH_LAUNCH, "cuGraphLaunch"), false);
	KEPT(core_event(OP_TEARDOWN, "cuModuleUnload"), false);
	KEPT(core_free(CORE_ARENA), false);
#undef KEPT
	core_begin();
	core_send(core_scores());
	assert_false(core_send(upload(SCALAR, &eight, 2)));
	flow_flush("cuSomethingNew");
	assert_false(known());
	assert_false(core_send(upload(SCALAR, &eight, 2)));
	while (chain_live) /* and when nobody looks any more */
		core_send(core_free(CORE_ARENA));
	assert_false(known());
	core_begin(); /* pinned memory is read later than it seems */
	core_allocate((uint64_t)(uintptr_t)&eight & ~4095ull, 8192, MEMORY_HOST);
	core_send(core_scores());
	op = upload(SCALAR, &eight, 2);
	op.copy.later = true;
	core_send(op);
	assert_false(known());
}

/* The host may write these without a call, or another process. */
static void test_written_unseen(void **state)
{
	static const enum memory_kind kinds[] = {MEMORY_MANAGED, MEMORY_HOST, MEMORY_SHARED};
	static const uint16_t eight = 0x4800;

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		core_begin();
		core_send(core_scores());
		assert_false(core_send(upload(SCALAR, &eight, 2)));
		assert_true(known());
		core_allocate(CORE_ARENA, CORE_ROOM, kinds[i]); /* as it is given to others */
		assert_false(known());
	}
}

/* ---- arrays of addresses -------------------------------------------------------------------- */

#define MOST_HEADS 6

/* Heads of A, of B, of C. */
static struct op by_array(struct op op, const uint64_t *table)
{
	struct op_gemm *gemm = &op.gemm;
	const uint64_t bytes = 8 * (uint64_t)gemm->batch;

	assert_false(core_send(upload(CORE_APART, table, 3 * bytes)));
	gemm->by_array = true;
	gemm->a = CORE_APART;
	gemm->b = CORE_APART + bytes;
	gemm->c = CORE_APART + 2 * bytes;
	gemm->stride_a = gemm->stride_b = gemm->stride_c = 0;
	return op;
}

/* As many successive heads have one A as `shared` says. */
static void fill(uint64_t *table, const struct op_gemm *gemm, int64_t shared)
{
	const int64_t heads = gemm->batch;

	for (int64_t i = 0; i < heads; i++) {
		table[i] = gemm->a + (uint64_t)(i / shared * gemm->stride_a * 2);
		table[heads + i] = gemm->b + (uint64_t)(i * gemm->stride_b * 2);
		table[2 * heads + i] = gemm->c + (uint64_t)(i * gemm->stride_c * 2);
	}
}

static void test_arrays(void **state)
{
	uint64_t table[9];
	struct op op;

	core_begin();
	core_send(core_scores());
	op = core_scores();
	fill(table, &op.gemm, 1);
	op = by_array(op, table);
	shadow_resolve_arrays(&op.gemm);
	assert_true(shadow_wanted());
	assert_false(op.gemm.by_array);
	assert_memory_equal(&op.gemm, &(struct op[]){core_scores()}[0].gemm, sizeof(op.gemm));
	op = core_scores();
	fill(table, &op.gemm, 1);
	table[2] -= 2; /* not evenly spaced */
	op = by_array(op, table);
	shadow_resolve_arrays(&op.gemm);
	assert_true(op.gemm.by_array);
	table[2] += 2;
	table[8] -= 2; /* C is not */
	op = by_array(core_scores(), table);
	shadow_resolve_arrays(&op.gemm);
	assert_true(op.gemm.by_array);
	table[8] += 2;
	op = by_array(core_scores(), table);
	core_send(core_memset(CORE_APART + 64, 1));
	shadow_resolve_arrays(&op.gemm);
	assert_true(op.gemm.by_array);
}

/* at::arange(), by which PyTorch makes the arrays for a batch of triangles to solve, in place. */
static struct op range_of(uint64_t out, uint64_t first, uint64_t step, int count)
{
	const uint64_t functor[3] = {first, step, 0x34eb3240};

	return core_launch(
		"_ZN50_GLOBAL__N__fa15d16e_17_RangeFactories_cu_38772b0829elementwise_kernel_with_"
		"indexIiZZZN2at6native15arange_cuda_outERKN3c106ScalarES6_S6_RNS1_6TensorEENKUlvE_"
		"clEvENKUlvE2_clEvEUllE_EEvT_T0_PN15function_traitsISD_E11result_typeE",
		3, (size_t[]){4, 24, 8}, (const void *[]){&count, functor, &out});
}

static void test_ranges(void **state)
{
	const uint64_t triangle = CORE_OTHER, side = CORE_OTHER + 0x100000;
	struct op op = core_scores(), solve;
	uint64_t word;

	core_begin();
	core_send(core_scores());
	solve = op;
	solve.gemm = (struct op_gemm){.entry = "cublasStrsmBatched",
				      .handle = op.gemm.handle,
				      .library = op.gemm.library,
				      .m = 64,
				      .n = 192,
				      .k = 64,
				      .a = CORE_APART,
				      .b = CORE_APART + 4096,
				      .c = CORE_APART + 4096,
				      .lda = 64,
				      .ldb = 64,
				      .ldc = 64,
				      .batch = 360 / 30,
				      .by_array = true,
				      .alpha = 1,
				      .atype = CUDA_R_32F,
				      .btype = CUDA_R_32F,
				      .ctype = CUDA_R_32F,
				      .besides = "triangles"};
	op = solve;
	shadow_resolve_arrays(&op.gemm); /* says that they are wanted */
	assert_true(op.gemm.by_array);
	core_send(range_of(CORE_APART, triangle, 64 * 64 * 4, 12));
	core_send(range_of(CORE_APART + 4096, side, 64 * 192 * 4, 12));
	assert_true(shadow_get(CORE_APART + 4096 + 11 * 8, &word, 8));
	assert_int_equal(word, side + 11 * 64 * 192 * 4);
	op = solve;
	shadow_resolve_arrays(&op.gemm);
	assert_false(op.gemm.by_array);
	assert_int_equal(op.gemm.a, triangle);
	assert_int_equal(op.gemm.stride_a, 64 * 64);
	assert_int_equal(op.gemm.c, side);
	assert_int_equal(op.gemm.stride_c, 64 * 192);
	core_send(range_of(CORE_APART, triangle, 4, 3000)); /* more than is kept */
	assert_false(shadow_get(CORE_APART, &word, 8));
}

/* Five chains of products by these arrays; how many ops of the last were kept. */
static int chains_by_arrays(const uint64_t *first, const uint64_t *second)
{
	int taken = 0;

	for (int i = 0; i < 5; i++) {
		taken = core_send(by_array(core_scores(), first));
		taken += core_send(core_scale(core.x, core.s, core.scale));
		taken += core_send(core_softmax(core.p, core.x));
		taken += core_send(by_array(core_context(), second));
	}
	assert_int_equal(site_count, 1);
	return taken;
}

/* The whole chain by arrays, in one place for both products. */
static void test_chain_by_arrays(void **state)
{
	uint64_t first[9], second[9];
	struct op op;

	core_begin();
	op = core_scores();
	fill(first, &op.gemm, 1);
	op = core_context();
	fill(second, &op.gemm, 1);
	assert_int_equal(chains_by_arrays(first, second), 4);
	assert_int_equal(below.args.k.base, core.k);
	assert_int_equal(below.args.k.stride[1], core.Sk * core.D);
	assert_int_equal(below.args.k.by_array, 0);
}

static struct op resolved(struct op op, const uint64_t *table)
{
	op = by_array(op, table);
	shadow_resolve_arrays(&op.gemm);
	return op;
}

/* Heads in runs: with one A, or with matrices beside one another and a gap after each run. */
static void test_runs(void **state)
{
	uint64_t table[3 * MOST_HEADS];
	struct op op;

	core_begin();
	core.H = 6;
	core_resize();
	core_send(core_scores());
	op = core_scores();
	fill(table, &op.gemm, 3);
	op = resolved(op, table);
	assert_false(op.gemm.by_array);
	assert_int_equal(op.gemm.run, 3);
	assert_int_equal(op.gemm.inner_a, 0);
	assert_int_equal(op.gemm.stride_a, core.Sk * core.D);
	assert_int_equal(op.gemm.inner_b, core.Sq * core.D);
	assert_int_equal(op.gemm.stride_b, 3 * core.Sq * core.D);
	assert_int_equal(op.gemm.inner_c, core.Sq * core.Sk);
	assert_int_equal(op.gemm.stride_c, 3 * core.Sq * core.Sk);
	for (int i = 3; i < 6; i++) /* Q: the second sequence elsewhere */
		table[6 + i] += 4096;
	op = resolved(core_scores(), table);
	assert_int_equal(op.gemm.run, 3);
	assert_int_equal(op.gemm.stride_b, 3 * core.Sq * core.D + 2048);
	table[5] += 2; /* of a run, one */
	assert_true(resolved(core_scores(), table).gemm.by_array);
	op = core_scores();
	fill(table, &op.gemm, 4); /* the last run would be shorter */
	assert_true(resolved(core_scores(), table).gemm.by_array);
	fill(table, &op.gemm, 2);
	for (int i = 3; i < 6; i++) /* two kinds of runs */
		table[6 + i] += 4096;
	assert_true(resolved(core_scores(), table).gemm.by_array);
	fill(table, &op.gemm, 6); /* one for all: no runs */
	op = resolved(core_scores(), table);
	assert_int_equal(op.gemm.run, 0);
	assert_int_equal(op.gemm.stride_a, 0);
}

/* Three heads for each K and V: as many batches as there are of these. */
static void test_chain_of_shared_heads(void **state)
{
	uint64_t first[3 * MOST_HEADS], second[3 * MOST_HEADS];
	struct op op;

	core_begin();
	core.H = 6;
	core_resize();
	op = core_scores();
	fill(first, &op.gemm, 3);
	op = core_context();
	fill(second, &op.gemm, 3);
	assert_int_equal(chains_by_arrays(first, second), 4);
	assert_int_equal(below.args.B, 2);
	assert_int_equal(below.args.H, 3);
	assert_int_equal(below.args.k.stride[0], core.Sk * core.D);
	assert_int_equal(below.args.k.stride[1], 0);
	assert_int_equal(below.args.v.stride[0], core.Sk * core.D);
	assert_int_equal(below.args.v.stride[1], 0);
	assert_int_equal(below.args.q.stride[0], 3 * core.Sq * core.D);
	assert_int_equal(below.args.q.stride[1], core.Sq * core.D);
	assert_int_equal(below.args.o.stride[0], 3 * core.Sq * core.D);
	assert_int_equal(below.args.o.stride[1], core.Sq * core.D);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_divisor),
		cmocka_unit_test(test_unknown_divisor),
		cmocka_unit_test(test_where),
		cmocka_unit_test(test_cast_number),
		cmocka_unit_test(test_forgotten),
		cmocka_unit_test(test_written_unseen),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_chain_by_arrays),
		cmocka_unit_test(test_chain_of_shared_heads),
	};

	return CORE_MAIN("shadow", tests);
}
