/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops by hand (core.h).
 */
#include "tests/unit/core.h"

#include <stdlib.h>
#include <string.h>

#include "shim/hazard/held.h"
#include "shim/log/log.h"
#include "shim/gpu/looks.h"
#include "shim/op/memory.h"
#include "shim/rules/shadow.h"
#include "shim/site/site.h"
#include "tests/apps/aten.h"
#include "tests/unit/chain_valid.h"

#define BLOCKS	     64
#define BLOCK_PARAMS 24

static const char tanh_name[] =
	"_ZN2at6native29vectorized_elementwise_kernelILi8EZZZNS0_16tanh_kernel_cudaERNS_"
	"18TensorIterator"
	"BaseEENKUlvE0_clEvENKUlvE1_clEvEUlN3c104HalfEE_St5arrayIPcLm2EEEEviT0_T1_";
static const char log_softmax_name[] = "_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_"
				       "warp_forwardIN3c104HalfES2_fLi7ELb1E"
				       "Lb0EEEvPT0_PKT_iiiPKbib";

/* The same kernels for fp32. */
static const char scale_f32[] =
	"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIfffNS0_15binary_"
	"internal10MulFunctorIfEEEESt5arrayIPcLm2EEEEviT0_T1_";
static const char add_f32[] =
	"_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_15"
	"CUDAFunctor_addIfEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_";
static const char softmax_f32[] = "_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_"
				  "forwardIfffLi9ELb0ELb0EEEvPT0_PKT_iiiPKbib";

struct core core;

static struct block {
	unsigned char bytes[4096];
	void *params[BLOCK_PARAMS];
} blocks[BLOCKS];

static bool fp32(void)
{
	return core.type == CUDA_R_32F;
}

void core_resize(void)
{
	const int64_t element = fp32() ? 4 : 2;

	core.q_bytes = (uint64_t)(core.H * core.Sq * core.D * element);
	core.k_bytes = core.v_bytes = (uint64_t)(core.H * core.Sk * core.D * element);
	core.o_bytes = core.q_bytes;
	core.score_bytes = (uint64_t)(core.H * core.Sq * core.Sk * element);
	core.mask_bytes = (uint64_t)(core.Sq * core.Sk * element);
}

void core_begin(void)
{
	static int tests;

	while (chain_live)
		held_drop(chain_list[0]);
	assert_int_equal(held_count, 0);
	shadow_clear();
	looks_forget();
	memset(log_live()->sites, 0, sizeof(log_live()->sites));
	memset(log_live()->reasons, 0, sizeof(log_live()->reasons));
	memset(sites, 0, sizeof(sites));
	site_count = 0;
	below.scratch = 0;
	below_reset();
	memory_remove(CORE_ARENA, 0);
	memory_remove(CORE_APART, 0);
	memory_add(CORE_ARENA, CORE_ROOM, MEMORY_DEVICE, BELOW_CONTEXT);
	memory_add(CORE_APART, 1 << 20, MEMORY_DEVICE, BELOW_CONTEXT);
	core = (struct core){.H = 3,
			     .Sq = 32,
			     .Sk = 40,
			     .D = 8,
			     .q = CORE_ARENA + 0x11000,
			     .k = CORE_ARENA + 0x21000,
			     .v = CORE_ARENA + 0x31000,
			     .s = CORE_ARENA + 0x41000,
			     .x = CORE_ARENA + 0x51000,
			     .m = CORE_ARENA + 0x41000,
			     .p = CORE_ARENA + 0x61000,
			     .o = CORE_ARENA + 0x71000,
			     .mask = CORE_ARENA + 0x81000,
			     .stream = CU_STREAM_LEGACY,
			     .scale = 0.25f,
			     .math_mode = 16 + tests++,
			     .type = CUDA_R_16F};
	core_resize();
}

static void assert_valid(void)
{
	const char *wrong = chains_wrong();

	if (wrong)
		fail_msg("%s", wrong);
}

bool core_send(struct op op)
{
	const bool taken = flow_before(&op) == FLOW_TAKEN;

	if (!taken)
		flow_after(&op);
	assert_valid();
	return taken;
}

void core_allocate(uint64_t base, uint64_t bytes, enum memory_kind kind)
{
	memory_remove(base, 0);
	memory_add(base, bytes, kind, BELOW_CONTEXT);
}

/* ---- ops
 * ----------------------------------------------------------------------------------------- */

struct op core_product(int transa, int transb, int64_t m, int64_t n, int64_t k, uint64_t a,
		       int64_t lda, int64_t stride_a, uint64_t b, int64_t ldb, int64_t stride_b,
		       uint64_t c, int64_t ldc, int64_t stride_c, int64_t batch)
{
	return (struct op){.kind = OP_GEMM,
			   .name = "cublasGemmStridedBatchedEx",
			   .context = BELOW_CONTEXT,
			   .stream = core.stream,
			   .gemm = {.entry = "cublasGemmStridedBatchedEx",
				    .transa = transa,
				    .transb = transb,
				    .m = m,
				    .n = n,
				    .k = k,
				    .a = a,
				    .b = b,
				    .c = c,
				    .atype = core.type,
				    .btype = core.type,
				    .ctype = core.type,
				    .lda = lda,
				    .ldb = ldb,
				    .ldc = ldc,
				    .stride_a = stride_a,
				    .stride_b = stride_b,
				    .stride_c = stride_c,
				    .batch = batch,
				    .alpha = 1,
				    .compute_type = 68, /* CUBLAS_COMPUTE_32F */
				    .algo = -1,
				    .math_mode = core.math_mode,
				    .plain = true}};
}

struct op core_scores(void)
{
	struct op op = core_product(1, 0, core.Sk, core.Sq, core.D, core.k, core.D,
				    core.Sk * core.D, core.q, core.D, core.Sq * core.D, core.s,
				    core.Sk, core.Sq * core.Sk, core.H);

	op.gemm.beta = core.beta;
	return op;
}

struct op core_context(void)
{
	return core_product(0, 0, core.D, core.Sq, core.Sk, core.v, core.D, core.Sk * core.D,
			    core.p, core.Sk, core.Sq * core.Sk, core.o, core.D, core.Sq * core.D,
			    core.H);
}

struct op core_launch(const char *name, unsigned count, const size_t *size,
		      const void *const *value)
{
	static unsigned next;
	struct block *block = &blocks[next++ % BLOCKS];
	size_t offset[BLOCK_PARAMS], at = 0;

	for (unsigned i = 0; i < count; i++) {
		const size_t align = size[i] % 8 == 0	? 8
				     : size[i] % 4 == 0 ? 4
				     : size[i] % 2 == 0 ? 2
							: 1;

		at = (at + align - 1) / align * align;
		offset[i] = at;
		block->params[i] = block->bytes + at;
		memcpy(block->bytes + at, value[i], size[i]);
		at += size[i];
	}
	return (struct op){.kind = OP_LAUNCH,
			   .name = "cuLaunchKernel",
			   .context = BELOW_CONTEXT,
			   .stream = core.stream,
			   .launch = {.function = below_function(name, count, offset, size),
				      .grid = {7, 1, 1},
				      .block = {128, 1, 1},
				      .params = block->params}};
}

/* What was never set: other bytes in each launch. */
static void unset(void *bytes, size_t size)
{
	static unsigned garbage = 0x5eed;

	for (size_t i = 0; i < size; i++) {
		garbage = garbage * 1664525u + 1013904223u;
		((unsigned char *)bytes)[i] = (unsigned char)(garbage >> 24);
	}
}

static int scores(void)
{
	return (int)(core.H * core.Sq * core.Sk);
}

struct op core_scale(uint64_t out, uint64_t in, float factor)
{
	const uint64_t pointers[2] = {out, in};
	const int n = scores();
	struct aten_scalar_functor functor;

	unset(&functor, sizeof(functor));
	functor.scalar = factor;
	return core_launch(fp32() ? scale_f32 : TEXT(ATEN_SCALE), 3, (size_t[]){4, 8, 16},
			   (const void *[]){&n, &functor, pointers});
}

struct op core_other(uint64_t out, uint64_t in, float scalar)
{
	static const char name[] =
		"_ZN2at6native29vectorized_elementwise_kernelILi8EZZZNS0_19masked_scale_kernelERNS_"
		"18TensorIteratorBaseEfENKUlvE_clEvENKUlvE_clEvEUlN3c104HalfEE_"
		"St5arrayIPcLm2EEEEviT0_T1_";
	const uint64_t pointers[2] = {out, in};
	const int n = scores();
	struct aten_scalar_functor functor;

	unset(&functor, sizeof(functor));
	functor.scalar = scalar;
	return core_launch(name, 3, (size_t[]){4, 8, 16}, (const void *[]){&n, &functor, pointers});
}

static struct op unary(const char *name, uint64_t out, uint64_t in, int64_t elements)
{
	const uint64_t pointers[2] = {out, in};
	const int n = (int)elements;
	unsigned char functor;

	unset(&functor, 1);
	return core_launch(name, 3, (size_t[]){4, 1, 16}, (const void *[]){&n, &functor, pointers});
}

struct op core_tanh(uint64_t out, uint64_t in)
{
	return unary(tanh_name, out, in, scores());
}

struct op core_kernel_copy(uint64_t out, uint64_t in, int64_t elements)
{
	return unary(TEXT(ATEN_COPY), out, in, elements);
}

struct op core_fill(uint64_t out, int64_t elements)
{
	const int n = (int)elements;
	const uint16_t value = 0x3c00;

	return core_launch(TEXT(ATEN_FILL), 3, (size_t[]){4, 2, 8},
			   (const void *[]){&n, &value, &out});
}

struct op core_cast(uint64_t out, enum core_number to, uint64_t in, enum core_number from,
		    int64_t elements)
{
	const uint64_t pointers[2] = {out, in};
	const uint32_t load[2] = {from, from == CORE_FLOAT || from == CORE_INT ? 4 : 2},
		       store[2] = {to, to == CORE_FLOAT || to == CORE_INT ? 4 : 2};
	const unsigned char nothing = 0;
	const int n = (int)elements;

	return core_launch(
		TEXT(ATEN_CAST), 7, (size_t[]){4, 1, 16, 1, 1, 8, 8},
		(const void *[]){&n, &nothing, pointers, &nothing, &nothing, load, store});
}

struct op core_strided(const char *name, int operands, int dims, const unsigned *size,
		       const unsigned *strides, const uint64_t *pointers, const void *functor,
		       size_t functor_bytes)
{
	unsigned char lambda[1000];
	struct aten_calculator *calculator = (struct aten_calculator *)(void *)lambda;
	const size_t at = (sizeof(*calculator) + (size_t)operands * 100 + 7) & ~(size_t)7;
	const size_t bytes = (at + 8 * (size_t)operands + functor_bytes + 7) & ~(size_t)7;
	int n = 1;

	unset(lambda, sizeof(lambda));
	calculator->dims = dims;
	for (int d = 0; d < dims; d++) {
		calculator->size[d].divisor = size[d];
		n *= (int)size[d];
	}
	memcpy(lambda + sizeof(*calculator), strides, 4 * (size_t)dims * (size_t)operands);
	memcpy(lambda + at, pointers, 8 * (size_t)operands);
	memcpy(lambda + at + 8 * (size_t)operands, functor, functor_bytes);
	return core_launch(name, 2, (size_t[]){4, bytes}, (const void *[]){&n, lambda});
}

struct op core_add_mask(uint64_t out, uint64_t in, uint64_t mask)
{
	const unsigned period = (unsigned)(core.Sq * core.Sk), element = fp32() ? 4 : 2;
	const unsigned all = period * element;
	const unsigned strides[2][3] = {{element, element, element}, {all, all, 0}};
	const float one = 1;

	return core_strided(fp32() ? add_f32 : TEXT(ATEN_ADD_STRIDED), 3, 2,
			    (unsigned[]){period, (unsigned)core.H}, &strides[0][0],
			    (uint64_t[]){out, in, mask}, &one, 4);
}

struct op core_masked_fill(uint64_t out, uint64_t in, uint64_t mask, uint16_t value)
{
	const unsigned period = (unsigned)(core.Sq * core.Sk);
	const unsigned strides[2][3] = {{2, 2, 1}, {period * 2, period * 2, 0}};

	return core_strided(TEXT(ATEN_MASKED_FILL), 3, 2, (unsigned[]){period, (unsigned)core.H},
			    &strides[0][0], (uint64_t[]){out, in, mask}, &value, 2);
}

static struct op softmax(const char *name, uint64_t out, uint64_t in)
{
	const int rows = (int)(core.H * core.Sq), columns = (int)core.Sk;
	const uint64_t mask = 0;
	unsigned char rest[5];

	unset(rest, sizeof(rest));
	return core_launch(
		name, 8, (size_t[]){8, 8, 4, 4, 4, 8, 4, 1},
		(const void *[]){&out, &in, &rows, &columns, &columns, &mask, rest, rest + 4});
}

struct op core_softmax(uint64_t out, uint64_t in)
{
	return softmax(fp32() ? softmax_f32 : TEXT(ATEN_SOFTMAX), out, in);
}

struct op core_spatial_softmax(uint64_t out, uint64_t in)
{
	const int outer = (int)core.H, columns = (int)core.Sk, inner = (int)core.Sq;

	return core_launch(TEXT(ATEN_SOFTMAX_SPATIAL), 5, (size_t[]){8, 8, 4, 4, 4},
			   (const void *[]){&out, &in, &outer, &columns, &inner});
}

struct op core_log_softmax(uint64_t out, uint64_t in)
{
	return softmax(log_softmax_name, out, in);
}

struct op core_named(const char *name, uint64_t a, uint64_t b, float scalar)
{
	return core_launch(name, 3, (size_t[]){8, 8, 4}, (const void *[]){&a, &b, &scalar});
}

struct op core_unknown(uint64_t a, uint64_t b, float scalar)
{
	return core_named("a_kernel_of_somebody", a, b, scalar);
}

static struct op memory_op(enum op_kind kind, const char *name)
{
	return (struct op){
		.kind = kind, .name = name, .context = BELOW_CONTEXT, .stream = core.stream};
}

struct op core_memset(uint64_t begin, uint64_t bytes)
{
	struct op op = memory_op(OP_FILL, "cuMemsetD8Async");

	op.fill = (struct op_fill){.target = {begin, bytes}, .exact = true};
	return op;
}

struct op core_to_host(uint64_t begin, uint64_t bytes)
{
	struct op op = memory_op(OP_COPY, "cuMemcpyDtoH_v2");

	op.copy = (struct op_copy){.source = {begin, bytes}, .exact = true, .to_host = true};
	return op;
}

struct op core_from_host(uint64_t begin, uint64_t bytes)
{
	struct op op = memory_op(OP_COPY, "cuMemcpyHtoD_v2");

	op.copy = (struct op_copy){.target = {begin, bytes}, .exact = true, .from_host = true};
	return op;
}

struct op core_copy(uint64_t from, uint64_t to, uint64_t bytes)
{
	struct op op = memory_op(OP_COPY, "cuMemcpyDtoDAsync_v2");

	op.copy = (struct op_copy){
		.source = {from, bytes}, .target = {to, bytes}, .exact = true, .later = true};
	return op;
}

struct op core_free(uint64_t base)
{
	struct op op = memory_op(OP_FREE, "cuMemFree_v2");

	op.stream = CU_STREAM_LEGACY;
	op.alloc.range.base = base;
	return op;
}

struct op core_event(enum op_kind kind, const char *name)
{
	return memory_op(kind, name);
}

/* ---- chains
 * -------------------------------------------------------------------------------------- */

int core_window(void)
{
	int taken = 0;

	if (core.beta != 0) /* what is added to comes from somewhere */
		assert_false(core_send(core_from_host(core.s, core.score_bytes)));
	taken += core_send(core_scores());
	taken += core_send(core_scale(core.x, core.s, core.scale));
	taken += core_send(core_add_mask(core.m, core.x, core.mask));
	taken += core_send(core_softmax(core.p, core.m));
	return taken;
}

int core_chain(void)
{
	const int taken = core_window();

	return taken + core_send(core_context());
}

void core_learn(void)
{
	for (int i = 0; i < 3; i++)
		assert_int_equal(core_chain(), 0);
	assert_int_equal(site_count, 1);
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	below_reset();
}

struct chain *core_only_chain(void)
{
	assert_int_equal(chain_live, 1);
	return chain_list[0];
}

struct chain *core_replaced(void)
{
	core_begin();
	core_learn();
	assert_int_equal(core_chain(), 5);
	assert_string_equal(core_acts(), "F");
	assert_int_equal(core_act(ACT_FUSED, 0)->a, core.q);
	assert_int_equal(core_act(ACT_FUSED, 0)->b, core.o);
	below_reset();
	return core_only_chain();
}

struct chain *core_waiting(void)
{
	core_begin();
	core_learn();
	while (chain_live)
		held_drop(chain_list[0]);
	assert_int_equal(core_window(), 4);
	assert_string_equal(core_acts(), "");
	return core_only_chain();
}

const char *core_acts(void)
{
	static const char letters[ACT_KINDS] = {
		[ACT_GEMM] = 'G',	[ACT_LAUNCH] = 'L',    [ACT_COPY] = 'C', [ACT_FUSED] = 'F',
		[ACT_WRITE_BACK] = 'S', [ACT_LAY_OUT] = 'T',   [ACT_FILL] = 'M', [ACT_ORDER] = 'O',
		[ACT_SLOPES] = 'A',	[ACT_COMPLEMENT] = '1'};
	static char text[BELOW_ACTS + 1];

	for (int i = 0; i < below.acts; i++)
		text[i] = letters[below.act[i].kind];
	text[below.acts] = '\0';
	return text;
}

const struct act *core_act(enum act_kind kind, int number)
{
	for (int i = 0; i < below.acts; i++)
		if (below.act[i].kind == kind && number-- == 0)
			return &below.act[i];
	fail_msg("no such act in %s", core_acts());
	return NULL;
}

int core_main(const char *name, const struct CMUnitTest *tests, size_t count)
{
	setenv("FASHIM_OUT", "none", 1);
	setenv("FASHIM_BUDGET", "0", 0);
	unsetenv("FASHIM");
	return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}
