/* SPDX-License-Identifier: Apache-2.0
 *
 * The meaning of chains: hand-made ones, step by step, and what the fused kernel would be told in
 * recorded programs.
 */
#include "tests/unit/core.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shim/rules/function.h"
#include "shim/real/driver.h"
#include "shim/spec/spec.h"
#include "tests/apps/aten.h"
#include "tests/unit/child.h"
#include "tests/unit/replay.h"
#include "tests/unit/spec_fixture.h"

/* ---- operands
 * ---------------------------------------------------------------------------------------- */

static void test_operands(void **state)
{
	assert_int_equal(FINISHED(core_scale(core.x, core.s, core.scale)), REASON_NONE);
	assert_false(by_data);
	assert_int_equal(args.B * args.H, core.H);
	assert_int_equal(args.Sq, core.Sq);
	assert_int_equal(args.Sk, core.Sk);
	assert_int_equal(args.D, core.D);
	assert_int_equal(args.Dv, core.D);
	assert_int_equal(args.q.base, core.q);
	assert_int_equal(args.k.base, core.k);
	assert_int_equal(args.v.base, core.v);
	assert_int_equal(args.o.base, core.o);
	assert_stride(&args.q, core.H * core.Sq * core.D, core.Sq * core.D, core.D, 1);
	assert_stride(&args.k, core.H * core.Sk * core.D, core.Sk * core.D, core.D, 1);
	assert_stride(&args.v, core.H * core.Sk * core.D, core.Sk * core.D, core.D, 1);
	assert_stride(&args.o, core.H * core.Sq * core.D, core.Sq * core.D, core.D, 1);
	assert_int_equal(args.q.dtype, ATTN_F16);
	assert_true(args.spec.scale == 0.25f);
	assert_true(args.spec.out_scale == 1);
	assert_true(args.spec.softcap == 0);
	assert_int_equal(args.spec.round_p, ATTN_F16);
	assert_int_equal(args.spec.window_right, ATTN_NO_WINDOW);
	assert_int_equal(args.spec.bias[0].base, 0);
	assert_int_equal(args.spec.mask.base, 0);
}

/* Where the program's own steps round, between QK^T and PV. */
static void test_rounding(void **state)
{
	enum { PLAIN, SCALED, EXACT, BIASED, TANH, ALPHA, CAPPED, CAPPED_LATER, KINDS };
	static const int32_t expected[KINDS] = {
		[PLAIN] = ATTN_ROUND_PRODUCT | ATTN_ROUND_WEIGHTS,
		[SCALED] = ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_WEIGHTS,
		[EXACT] = ATTN_ROUND_PRODUCT | ATTN_ROUND_WEIGHTS,
		[BIASED] = ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_BIASED |
			   ATTN_ROUND_WEIGHTS,
		[TANH] = 0,
		[ALPHA] = ATTN_ROUND_PRODUCT | ATTN_ROUND_WEIGHTS,
		[CAPPED] = ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_CAPPED |
			   ATTN_ROUND_BIASED | ATTN_ROUND_WEIGHTS,
		[CAPPED_LATER] = 0,
	};

	for (int kind = 0; kind < KINDS; kind++) {
		struct op op = core_scores();
		uint64_t x = core.x;
		struct chain *chain;

		core_begin();
		op = core_scores();
		op.gemm.alpha = kind == ALPHA ? 0.3 : 1;
		chain = chain_open(&op);
		if (kind == PLAIN || kind == ALPHA)
			x = core.s;
		else if (kind == TANH)
			join(chain, core_tanh(core.x, core.s));
		else
			join(chain, core_scale(core.x, core.s, kind == EXACT ? -0.5f : 0.3f));
		if (kind == CAPPED || kind == CAPPED_LATER) {
			join(chain, core_scale(core.x, core.x, 0.02f));
			join(chain, core_tanh(core.x, core.x));
			join(chain, core_scale(core.x, core.x, 50));
		}
		if (kind == CAPPED_LATER)
			join(chain, core_scale(core.x, core.x, 0.7f));
		if (kind == BIASED || kind == CAPPED) {
			join(chain, core_add_mask(core.m, core.x, core.mask));
			x = core.m;
		}
		join(chain, core_softmax(core.p, x));
		assert_int_equal(end(chain), REASON_NONE);
		assert_int_equal(args.spec.round_s, expected[kind]);
		assert_true(args.spec.alpha == (float)op.gemm.alpha);
	}
}

/* From which q.k on S is an infinity, once GEMM1 has stored it: for what is computed by rules, or
 * by kernels that do with it as ours. */
#define BELOW_65520 0x1.ffdffep+15f
static void test_overflow(void **state)
{
	enum { PLAIN, ALPHA, BELOW, SCALED, ADDED_TO, SUMS_F16, STORES_F32, BF16, UNKNOWN, KINDS };
	static const float expected[KINDS] = {[PLAIN] = BELOW_65520,
					      [ALPHA] = 4 * BELOW_65520,
					      [BELOW] = 2 * BELOW_65520,
					      [SCALED] = BELOW_65520};
	struct identity given = {0};

	for (int kind = 0; kind < KINDS; kind++) {
		struct op op;
		struct chain *chain;
		enum reason reason;

		core_begin();
		op = core_scores();
		op.gemm.alpha = kind == ALPHA ? 0.25 : kind == BELOW ? -0.5 : 1;
		if (kind == ADDED_TO)
			op.gemm.beta = 1;
		if (kind == SUMS_F16)
			op.gemm.compute_type = 64; /* CUBLAS_COMPUTE_16F */
		if (kind == STORES_F32)
			op.gemm.ctype = CUDA_R_32F;
		if (kind == BF16)
			op.gemm.atype = op.gemm.btype = op.gemm.ctype = CUDA_R_16BF;
		chain = chain_open(&op);
		if (kind == SCALED)
			join(chain, core_scale(core.x, core.s, 0.125f));
		if (kind == UNKNOWN)
			join(chain, core_unknown(core.s, 0, 0.375f));
		else
			join(chain, core_softmax(core.p, kind == SCALED ? core.x : core.s));
		op = core_context();
		if (kind == BF16)
			op.gemm.atype = op.gemm.btype = op.gemm.ctype = CUDA_R_16BF;
		if (kind == UNKNOWN)
			op.gemm.b = core.s;
		reason = end_with(chain, op, NULL);
		if (fabsf(args.spec.overflow - expected[kind]) > 1 || reason != REASON_NONE)
			fail_msg("kind %d: reason %d, %g", kind, reason,
				 (double)args.spec.overflow);
		if (kind != UNKNOWN)
			continue;
		given.spec = args.spec;
		given.pointers = 0;
		assert_int_equal(spec_of_chain(&args, chain, &given, &by_data, detail),
				 REASON_NONE);
		assert_true(args.spec.overflow == 0);
		given.overflows = true;
		assert_int_equal(spec_of_chain(&args, chain, &given, &by_data, detail),
				 REASON_NONE);
		assert_true(args.spec.overflow == BELOW_65520);
	}
}

/* [B,S,H,D] in memory, K transposed, Dv unlike D, O transposed with P the first operand. */
static void test_layouts(void **state)
{
	const int64_t row = 3 * 8, Dv = 16;
	struct chain *chain;
	struct op op;

	core_begin();
	op = core_scores();
	op.gemm.transa = 0; /* K as [H,D,Sk] */
	op.gemm.lda = core.Sk;
	op.gemm.ldb = row; /* Q as [Sq,H,D] */
	op.gemm.stride_b = core.D;
	chain = chain_open(&op);
	join(chain, core_scale(core.x, core.s, core.scale));
	join(chain, core_softmax(core.p, core.x));
	op = core_product(1, 1, core.Sq, Dv, core.Sk, core.p, core.Sk, core.Sq * core.Sk, core.v,
			  Dv, core.Sk * Dv, core.o, core.Sq, core.Sq * Dv, core.H);
	assert_int_equal(end_with(chain, op, NULL), REASON_NONE);
	assert_int_equal(args.Dv, Dv);
	assert_int_equal(args.D, core.D);
	assert_stride(&args.k, core.H * core.Sk * core.D, core.Sk * core.D, 1, core.Sk);
	assert_stride(&args.q, core.H * core.D, core.D, row, 1);
	assert_stride(&args.v, core.H * core.Sk * Dv, core.Sk * Dv, Dv, 1);
	assert_stride(&args.o, core.H * core.Sq * Dv, core.Sq * Dv, 1, core.Sq);
}

/* GEMM1 makes S^T [Sk,Sq], softmax is over its rows, and the product takes P from there. */
static void test_transposed(void **state)
{
	const unsigned strides[2][3] = {{2, 2, 2}, {64, 64, 0}}; /* a number a query */
	const unsigned sizes[2] = {32, 40 * 3};
	const float one = 1;
	struct chain *chain;
	struct op op;

	for (int biased = 0; biased < 2; biased++) {
		core_begin();
		op = core_product(1, 0, core.Sq, core.Sk, core.D, core.q, core.D, core.Sq * core.D,
				  core.k, core.D, core.Sk * core.D, core.s, core.Sq,
				  core.Sq * core.Sk, core.H);
		chain = chain_open(&op);
		if (biased)
			join(chain,
			     core_strided(TEXT(ATEN_ADD_STRIDED), 3, 2, sizes, &strides[0][0],
					  (uint64_t[]){core.x, core.s, core.mask}, &one, 4));
		else
			join(chain, core_scale(core.x, core.s, core.scale));
		join(chain, core_spatial_softmax(core.p, core.x));
		op = core_product(0, 1, core.D, core.Sq, core.Sk, core.v, core.D, core.Sk * core.D,
				  core.p, core.Sq, core.Sq * core.Sk, core.o, core.D,
				  core.Sq * core.D, core.H);
		assert_int_equal(end_with(chain, op, NULL), REASON_NONE);
		assert_int_equal(args.Sq, core.Sq);
		assert_int_equal(args.Sk, core.Sk);
		assert_int_equal(args.q.base, core.q);
		assert_int_equal(args.k.base, core.k);
		assert_stride(&args.q, core.H * core.Sq * core.D, core.Sq * core.D, core.D, 1);
		assert_stride(&args.k, core.H * core.Sk * core.D, core.Sk * core.D, core.D, 1);
		assert_stride(&args.o, core.H * core.Sq * core.D, core.Sq * core.D, core.D, 1);
	}
	assert_stride(&args.spec.bias[0], 0, 0, 1, 0);
	core_begin(); /* softmax over the queries, as in the backward pass */
	op = core_product(1, 0, core.Sq, core.Sk, core.D, core.q, core.D, core.Sq * core.D, core.k,
			  core.D, core.Sk * core.D, core.s, core.Sq, core.Sq * core.Sk, core.H);
	chain = chain_open(&op);
	core.Sk = 32;
	core.Sq = 40;
	join(chain, core_softmax(core.p, core.s));
	core.Sk = 40;
	core.Sq = 32;
	op = core_product(0, 1, core.D, core.Sq, core.Sk, core.v, core.D, core.Sk * core.D, core.p,
			  core.Sq, core.Sq * core.Sk, core.o, core.D, core.Sq * core.D, core.H);
	assert_false(chain_close(chain, &op));
}

static void test_snapshots(void **state)
{
	struct chain *chain;
	struct op op;

	core_begin();
	chain = begin();
	join(chain, core_add_mask(core.x, core.s, core.mask));
	join(chain, core_softmax(core.p, core.x));
	chain->inputs[0].snapshot = BELOW_SCRATCH;
	chain->inputs[1].snapshot = BELOW_SCRATCH + 0x10000;
	chain->inputs[2].snapshot = BELOW_SCRATCH + 0x20000;
	op = core_context();
	assert_int_equal(chain_add_input(chain, core.v, core.v + core.v_bytes), 3);
	chain->inputs[3].snapshot = BELOW_SCRATCH + 0x30000;
	assert_int_equal(end_with(chain, op, NULL), REASON_NONE);
	assert_int_equal(args.k.base, BELOW_SCRATCH);
	assert_int_equal(args.q.base, BELOW_SCRATCH + 0x10000);
	assert_int_equal(args.spec.bias[0].base, BELOW_SCRATCH + 0x20000);
	assert_int_equal(args.v.base, BELOW_SCRATCH + 0x30000);
}

/* ---- what is not attention
 * ---------------------------------------------------------------------------- */

static void test_not_softmax(void **state)
{
	struct chain *chain;
	struct op op;

	/* linear attention */
	assert_int_equal(ENDED(core_scale(core.p, core.s, 0.25f)), REASON_NOT_SOFTMAX);
	core_begin(); /* nothing between the products at all */
	chain = begin();
	op = core_context();
	op.gemm.b = core.s;
	assert_int_equal(end_with(chain, op, NULL), REASON_NOT_SOFTMAX);
	assert_int_equal(ENDED(core_log_softmax(core.p, core.s)), REASON_NOT_SOFTMAX);
	assert_string_equal(detail, "log_softmax");
	assert_int_equal(FINISHED(core_softmax(core.x, core.s)), REASON_NOT_SOFTMAX);
	core_begin(); /* over rows of another length */
	chain = begin();
	core.Sq *= 2;
	core.Sk /= 2;
	op = core_softmax(core.p, core.s);
	core.Sq /= 2;
	core.Sk *= 2;
	join(chain, op);
	assert_int_equal(end(chain), REASON_NOT_SOFTMAX);
}

/* A step reads an older version, or the product does: somebody's other path through the scores. */
static void test_dataflow(void **state)
{
	struct chain *chain;
	struct op op;

	assert_int_equal(ENDED(core_scale(core.x, core.s, 0.25f), core_softmax(core.p, core.s)),
			 REASON_SCORES_READ_BY);
	/* a copy of P that is not used */
	assert_int_equal(ENDED(core_softmax(core.p, core.s), core_scale(core.x, core.p, 0.25f)),
			 REASON_SCORES_READ_BY);
	core_begin();
	chain = begin();
	join(chain, core_softmax(core.p, core.s));
	op = core_context();
	op.gemm.b = core.s; /* P is made, S is used */
	assert_int_equal(end_with(chain, op, NULL), REASON_SCORES_READ_BY);
}

static void test_part_of_the_scores(void **state)
{
	struct chain *chain;
	struct op op;

	core_begin();
	chain = begin();
	core.H--;
	op = core_scale(core.s, core.s, 2); /* all heads but one */
	core.H++;
	join(chain, op);
	join(chain, core_softmax(core.p, core.s));
	if (!chain_close(chain, (struct op[]){core_context()}))
		return; /* already no chain */
	assert_int_not_equal(spec_of_chain(&args, chain, NULL, &by_data, detail), REASON_NONE);
}

/* dP = dO V^T has QK^T's form, dQ = dS K has PV's; softmax's backward lies between. */
static void test_backward(void **state)
{
	static const char name[] = "_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6321softmax_warp_"
				   "backwardIN3c104HalfES2_fLi8E"
				   "Lb0ELb0EEEvPT0_PKT_S7_iiiPKb";
	const int rows = 3 * 32, columns = 40;
	const uint64_t p = CORE_OTHER, none = 0;
	const size_t offset[7] = {0, 8, 16, 24, 28, 32, 40}, size[7] = {8, 8, 8, 4, 4, 4, 8};
	struct chain *chain;
	struct op op;
	void *words[7];

	core_begin();
	chain = begin();
	op = core_event(OP_LAUNCH, "cuLaunchKernel");
	op.launch.function = below_function(name, 7, offset, size);
	op.launch.grid[0] = 12;
	op.launch.grid[1] = op.launch.grid[2] = 1;
	op.launch.block[0] = 128;
	op.launch.block[1] = op.launch.block[2] = 1;
	words[0] = (void *)(uintptr_t)&core.p;
	words[1] = (void *)(uintptr_t)&core.s;
	words[2] = (void *)(uintptr_t)&p;
	words[3] = (void *)(uintptr_t)&rows;
	words[4] = words[5] = (void *)(uintptr_t)&columns;
	words[6] = (void *)(uintptr_t)&none;
	op.launch.params = words;
	join(chain, op);
	assert_int_not_equal(end(chain), REASON_NONE);
	assert_non_null(strstr(detail, "softmax_warp_backward"));
}

static void test_gemm_forms(void **state)
{
	struct chain *chain;
	struct op op;

	core_begin();
	op = core_scores();
	op.gemm.scalars_on_device = true;
	chain = chain_open(&op);
	join(chain, core_softmax(core.p, core.s));
	assert_int_equal(end(chain), REASON_SCALARS_ON_DEVICE);
	core_begin();
	chain = begin();
	join(chain, core_softmax(core.p, core.s));
	op = core_context();
	op.gemm.scalars_on_device = true;
	assert_int_equal(end_with(chain, op, NULL), REASON_SCALARS_ON_DEVICE);
	core_begin();
	chain = begin();
	join(chain, core_softmax(core.p, core.s));
	op = core_context();
	op.gemm.beta = 0.5;
	assert_int_equal(end_with(chain, op, NULL), REASON_BETA);
	core_begin();
	chain = begin();
	join(chain, core_softmax(core.p, core.s));
	op = core_context();
	op.gemm.d = CORE_OTHER;
	assert_int_equal(end_with(chain, op, NULL), REASON_EPILOGUE);
	core_begin();
	chain = begin();
	join(chain, core_softmax(core.p, core.s));
	op = core_context();
	op.gemm.atype = op.gemm.btype = CUDA_R_16BF;
	assert_int_equal(end_with(chain, op, NULL), REASON_DTYPE);
	core_begin();
	core.D = 264;
	chain = begin();
	join(chain, core_softmax(core.p, core.s));
	assert_int_equal(end(chain), REASON_NO_KERNEL);
}

/* ---- steps without a rule
 * -------------------------------------------------------------------------------- */

static void test_by_data(void **state)
{
	struct attn_spec guesses[GUESSES];
	struct identity given;
	struct chain *chain;
	bool scale = false, causal = false;
	struct op op;
	int count;

	core_begin();
	chain = begin();
	join(chain, core_unknown(core.s, 0, 0.375f)); /* scale, mask and softmax in one, in place */
	op = core_context();
	op.gemm.b = core.s;
	assert_int_equal(end_with(chain, op, NULL), REASON_NONE);
	assert_true(by_data);
	assert_int_equal(args.q.base, core.q);
	count = guess_specs(guesses, GUESSES, &args, chain);
	assert_true(count > 2 && count <= GUESSES);
	for (int i = 0; i < count; i++) {
		scale = scale || guesses[i].scale == 0.375f;
		causal = causal || (guesses[i].scale == 0.375f && guesses[i].window_right == 0);
	}
	assert_true(scale);
	assert_true(causal);
	assert_int_equal(guess_specs(guesses, 3, &args, chain),
			 3); /* no more than there is room for */
	guess_adopt(&given, &guesses[0], 0);
	given.spec.scale = 0.75f;
	given.spec.window_right = 0;
	given.spec.window_shift = 1;
	assert_int_equal(spec_of_chain(&args, chain, &given, &by_data, detail), REASON_NONE);
	assert_true(args.spec.scale == 0.75f);
	assert_int_equal(args.spec.window_shift, core.Sk - core.Sq);
	/* where a value ends that lies in the midst of another is not known */
	core_begin();
	chain = begin();
	join(chain, core_unknown(core.s, core.s + core.score_bytes / 2, 1));
	assert_int_equal(end_with(chain, op, NULL), REASON_UNACCOUNTED_POINTER);
}

/* ---- words
 * ------------------------------------------------------------------------------------------------
 */

static void test_words(void **state)
{
	struct attn_args a = {.B = 2, .H = 3, .Sq = 4, .Sk = 5};
	char text[128];

	a.spec.window_right = ATTN_NO_WINDOW;
	spec_describe_mask(&a, text, sizeof(text));
	assert_string_equal(text, "none");
	a.spec.window_right = 0;
	spec_describe_mask(&a, text, sizeof(text));
	assert_string_equal(text, "causal");
	a.spec.bias[0] =
		(struct attn_tensor){.base = 1, .stride = {5, 0, 0, 1}, .dtype = ATTN_BF16};
	spec_describe_mask(&a, text, sizeof(text));
	assert_string_equal(text, "bias [B,1,1,Sk] bf16 + causal");
	a.spec.window_right = ATTN_NO_WINDOW;
	a.spec.mask = (struct attn_tensor){.base = 1, .stride = {60, 20, 5, 1}, .dtype = ATTN_BOOL};
	spec_describe_mask(&a, text, sizeof(text));
	assert_string_equal(text, "bias [B,1,1,Sk] bf16 + mask [B,H,Sq,Sk] bool");
	spec_describe_mask(&a, text, 8); /* cut, not overrun */
	assert_int_equal(strlen(text), 7);
}

/* ---- recorded programs
 * ------------------------------------------------------------------------------------ */

static const struct told {
	const char *name;
	int B, H, Sq, Sk, D, dtype;
	float scale, softcap;
	const char *mask;
} told[] = {
	{"naive_512", 1, 8, 512, 512, 64, ATTN_F16, 0.125f, 0, "none"},
	{"naive_odd", 3, 5, 197, 197, 40, ATTN_F16, 0.158203125f, 0, "none"},
	{"causal_fill", 2, 8, 512, 512, 64, ATTN_F16, 0.125f, 0, "mask [1,1,Sq,Sk] bool"},
	{"causal_add", 2, 8, 512, 512, 64, ATTN_F16, 0.125f, 0, "bias [1,1,Sq,Sk] f16"},
	{"softcap", 2, 8, 256, 256, 64, ATTN_F16, 0.125f, 2, "none"},
	{"einsum_bf16", 2, 12, 1024, 1024, 64, ATTN_BF16, 0.125f, 0, "none"},
	{"growing", 2, 16, 1, 0, 64, ATTN_F16, 0.125f, 0, "none"},
	{"naive_f32", 1, 8, 512, 512, 64, ATTN_F32, 0.125f, 0, "none"},
	{"inductor_25", 2, 8, 512, 512, 64, ATTN_F32, 1, 0, "bias [1,H,Sq,Sk] f32"},
	{"t5", 8, 12, 512, 512, 64, ATTN_F32, 1, 0, "bias [1,H,Sq,Sk] f32 + bias [B,1,Sq,Sk] f32"},
};

static void replay_told(void *argument)
{
	const struct told *row = argument;
	struct replay result;
	char mask[96];

	CHECK(replay_trace(trace_path(row->name), 6, &result) == 0);
	CHECK(result.fused > 0);
	args = below.args;
	spec_describe_mask(&args, mask, sizeof(mask));
	fprintf(stderr, "B %d H %d Sq %d Sk %d D %d dtype %d scale %.9g softcap %g %s\n", args.B,
		args.H, args.Sq, args.Sk, args.D, args.q.dtype, (double)args.spec.scale,
		(double)args.spec.softcap, mask);
	/* Batches and heads may be told as one where no operand sets them apart. */
	CHECK(args.B * args.H == row->B * row->H);
	CHECK(args.Sq == row->Sq);
	CHECK(!row->Sk || args.Sk == row->Sk);
	CHECK(args.D == row->D && args.Dv == row->D);
	CHECK(args.q.dtype == row->dtype);
	CHECK(fabsf(args.spec.scale - row->scale) < 1e-3f * row->scale);
	CHECK(args.spec.softcap == row->softcap);
	CHECK(strcmp(mask, row->mask) == 0);
}

static void test_told(void **state)
{
	const char *const environment[] = {"FASHIM_OUT=none", NULL};
	static struct child child;

	for (unsigned i = 0; i < sizeof(told) / sizeof(*told); i++) {
		child_run(&child, environment, replay_told, (void *)(uintptr_t)&told[i]);
		if (!child_passed(&child))
			fail_msg("%s", told[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_told), /* first: in processes that know nothing yet */
		cmocka_unit_test(test_operands),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_overflow),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_transposed),
		cmocka_unit_test(test_snapshots),
		cmocka_unit_test(test_not_softmax),
		cmocka_unit_test(test_dataflow),
		cmocka_unit_test(test_part_of_the_scores),
		cmocka_unit_test(test_backward),
		cmocka_unit_test(test_gemm_forms),
		cmocka_unit_test(test_by_data),
		cmocka_unit_test(test_words),
	};

	return CORE_MAIN("spec", tests);
}
