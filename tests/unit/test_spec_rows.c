/* SPDX-License-Identifier: Apache-2.0
 *
 * The meaning of what happens to whole rows of scores: a sink put behind them, their largest taken
 * off, softmax spelt out, P copied for nobody; or that a number is put where they are lower. (Safe
 * softmax is in a recorded trace, sdpa_math.)
 */
#include "tests/unit/spec_fixture.h"

#include <string.h>

#include "tests/apps/aten.h"

#define BOTH	(CORE_OTHER + 0x100000) /* scores and sinks */
#define LARGEST (CORE_OTHER + 0x200000) /* of each row, and behind it where it was found */
#define LESS	(CORE_OTHER + 0x300000)
#define SINKS	(CORE_OTHER + 0x400000)
#define RAISED	(CORE_OTHER + 0x500000) /* e to the power of the scores */
#define SUM	(CORE_OTHER + 0x600000) /* of each row */

static unsigned columns(void)
{
	return (unsigned)core.Sk + 1;
}

static void set(unsigned char *block, size_t at, uint32_t word)
{
	memcpy(block + at, &word, 4);
}

/* out = [H,Sq,Sk+1]: in, and for each row the sink of its head (each row its own: `apart`). */
static struct op put_behind(uint64_t out, uint64_t in, uint64_t sinks, unsigned apart)
{
	static const char name[] =
		"_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c19CatArrayBatchedCopyINS1_"
		"10OpaqueTypeILj2EEEjLi4ELi64ELi64EEEvPT_";
	const unsigned H = (unsigned)core.H, Sq = (unsigned)core.Sq, Sk = (unsigned)core.Sk;
	const unsigned shape[3][8] = {
		{1, H, Sq, Sk, H * Sq * Sk, Sq * Sk, Sk, 1},
		{1, H, Sq, 1, 0, apart ? Sq : 1, apart, 1},
		{1, H, Sq, Sk + 1, H * Sq * (Sk + 1), Sq * (Sk + 1), Sk + 1, 1}};
	const unsigned last = 3, step = 1;
	unsigned char inputs[3392] = {0};
	struct op op;

	memcpy(inputs, &in, 8);
	memcpy(inputs + 8, &sinks, 8);
	set(inputs, 8 * 64 + 4, Sk); /* offsets */
	set(inputs, 12 * 64, Sk);    /* sizes of the dimension */
	set(inputs, 12 * 64 + 4, 1);
	set(inputs, 16 * 64, H * Sq * Sk); /* elements */
	set(inputs, 16 * 64 + 4, H * Sq);
	memcpy(inputs + 21 * 64, shape, 64);
	op = core_launch(name, 5, (size_t[]){8, sizeof(inputs), 32, 4, 4},
			 (const void *[]){&out, inputs, shape[2], &last, &step});
	op.launch.grid[1] = 2;
	return op;
}

/* Each row of `width` becomes one number, and perhaps the place of one. */
static struct op reduced(const char *name, unsigned outputs, uint64_t out, uint64_t in,
			 unsigned width)
{
	const unsigned rows = (unsigned)(core.H * core.Sq), inner = 88, outer = 492;
	const uint64_t place = out + 0x10000;
	unsigned char block[1064] = {0};

	set(block, 28, width);
	set(block, 32, rows);
	set(block, inner, 1);
	set(block, inner + 4, width);
	set(block, inner + 304, 2);
	set(block, outer, 1);
	set(block, outer + 4, rows);
	set(block, outer + 304, 2);
	set(block, outer + 308, 2 * width);
	memcpy(block + sizeof(block) - 64, &in, 8);
	memcpy(block + sizeof(block) - 56, &out, 8);
	if (outputs == 2)
		memcpy(block + sizeof(block) - 48, &place, 8);
	set(block, sizeof(block) - 4, outputs);
	return core_launch(name, 1, (size_t[]){sizeof(block)}, (const void *[]){block});
}

/* The largest of each row of `width`, and where it is. */
static struct op largest(uint64_t out, uint64_t in, unsigned width)
{
	return reduced("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIN3c104HalfENS0_"
		       "6MaxOpsIS4_EEjS4_Li4ELi4EEEEEvT1_",
		       2, out, in, width);
}

static struct op summed(uint64_t out, uint64_t in)
{
	return reduced(
		"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIN3c104HalfENS0_14func_"
		"wrapper_tIS4_ZNS0_11sum_functorIS4_fS4_EclERNS_14TensorIteratorEEUlffE_EEjS4_"
		"Li4ELi8EEEEEvT1_",
		1, out, in, (unsigned)core.Sk);
}

static struct op raised(uint64_t out, uint64_t in)
{
	static const char name[] =
		"_ZN2at6native29vectorized_elementwise_kernelILi8EZZZNS0_15exp_kernel_cudaERNS_"
		"18TensorIteratorBaseEENKUlvE0_clEvENKUlvE1_clEvEUlN3c104HalfEE_"
		"St5arrayIPcLm2EEEEvi"
		"T0_T1_";
	const int n = (int)(core.H * core.Sq * core.Sk);
	const char functor = 0;

	return core_launch(name, 3, (size_t[]){4, 1, 16},
			   (const void *[]){&n, &functor, (uint64_t[]){out, in}});
}

/* out = in / by, one number for each row; `upside_down`: by / in */
static struct op divided(uint64_t out, uint64_t in, uint64_t by, bool upside_down)
{
	const unsigned keys = (unsigned)core.Sk;
	const unsigned strides[2][3] = {
		{2, upside_down ? 0 : 2, upside_down ? 2 : 0},
		{2 * keys, upside_down ? 2 : 2 * keys, upside_down ? 2 * keys : 2}};

	return core_strided(TEXT(ATEN_DIVIDE_STRIDED), 3, 2,
			    (unsigned[]){keys, (unsigned)(core.H * core.Sq)}, &strides[0][0],
			    (uint64_t[]){out, upside_down ? by : in, upside_down ? in : by}, "", 1);
}

/* out = in - largest */
static struct op take_off(uint64_t out, uint64_t in, uint64_t most, unsigned width)
{
	const unsigned strides[2][3] = {{2, 2, 0}, {2 * width, 2 * width, 2}};
	const float less = -1;

	return core_strided(TEXT(ATEN_ADD_STRIDED), 3, 2,
			    (unsigned[]){width, (unsigned)(core.H * core.Sq)}, &strides[0][0],
			    (uint64_t[]){out, in, most}, &less, 4);
}

static struct op softmax_of_both(uint64_t in)
{
	struct op op;

	core.Sk++;
	op = core_softmax(core.p, in);
	core.Sk--;
	return op;
}

/* PV where rows of P are a column longer than there are keys. */
static enum reason end_sliced(struct chain *chain)
{
	struct op op = core_context();

	op.gemm.ldb = columns();
	op.gemm.stride_b = core.Sq * columns();
	return end_with(chain, op, NULL);
}

static void test_sinks(void **state)
{
	for (unsigned apart = 0; apart < 2; apart++) {
		struct chain *chain;
		char text[96];

		core_begin();
		chain = begin();
		join(chain, core_scale(core.x, core.s, 0.25f));
		join(chain, core_add_mask(core.m, core.x, core.mask));
		join(chain, put_behind(BOTH, core.m, SINKS, apart));
		join(chain, largest(LARGEST, BOTH, columns()));
		join(chain, take_off(LESS, BOTH, LARGEST, columns()));
		join(chain, softmax_of_both(LESS));
		assert_int_equal(end_sliced(chain), REASON_NONE);
		assert_true(args.spec.scale == 0.25f);
		assert_int_equal(args.spec.bias[0].base, core.mask);
		assert_int_equal(args.spec.bias[1].base, 0);
		assert_int_equal(args.spec.sinks.base, SINKS);
		assert_int_equal(args.spec.sinks.dtype, ATTN_F16);
		assert_int_equal(args.spec.sinks.stride[1], apart ? core.Sq : 1);
		assert_int_equal(args.spec.sinks.stride[2], apart);
		spec_describe_mask(&args, text, sizeof(text));
		assert_string_equal(text, apart ? "bias [1,1,Sq,Sk] f16 + sinks [1,H,Sq,1] f16"
						: "bias [1,1,Sq,Sk] f16 + sinks [1,H,1,1] f16");
	}
}

/* out = the first `kept` columns of in, whose rows are `width` wide. */
static struct op keep_columns(uint64_t out, uint64_t in, unsigned kept, unsigned width)
{
	const unsigned strides[2][2] = {{2, 2}, {2 * kept, 2 * width}};

	return core_strided(TEXT(ATEN_COPY_STRIDED), 2, 2,
			    (unsigned[]){kept, (unsigned)(core.H * core.Sq)}, &strides[0][0],
			    (uint64_t[]){out, in}, "", 1);
}

/* What is rounded on the way: the scores less their largest, too, where that is stored in 16 bits.
 */
static void test_rounded(void **state)
{
	const int all = ATTN_ROUND_PRODUCT | ATTN_ROUND_BIASED | ATTN_ROUND_WEIGHTS;

	for (int n = 0; n < 4; n++) {
		const bool sinks = n / 2, less = n % 2;
		struct chain *chain;
		uint64_t last = core.m;

		core_begin();
		chain = begin();
		join(chain, core_scale(core.x, core.s, 0.25f));
		join(chain, core_add_mask(core.m, core.x, core.mask));
		last = core.m;
		if (sinks)
			join(chain, put_behind(last = BOTH, core.m, SINKS, 0));
		const unsigned width = sinks ? columns() : (unsigned)core.Sk;
		if (less) {
			join(chain, largest(LARGEST, last, width));
			join(chain, take_off(LESS, last, LARGEST, width));
			last = LESS;
		}
		join(chain, sinks ? softmax_of_both(last) : core_softmax(core.p, last));
		assert_int_equal(sinks ? end_sliced(chain) : end(chain), REASON_NONE);
		assert_int_equal(args.spec.round_s, less ? all | ATTN_ROUND_LESS : all);
		assert_non_null(attn_select(&args, 90, NULL));
		args.spec.round_s &= ~ATTN_ROUND_WEIGHTS;
		assert_int_equal(attn_select(&args, 90, NULL) != NULL, !less);
	}
	/* a factor behind that is rounded once more, unless it is a power of two */
	for (int n = 0; n < 2; n++) {
		assert_int_equal(FINISHED(largest(LARGEST, core.s, (unsigned)core.Sk),
					  take_off(LESS, core.s, LARGEST, (unsigned)core.Sk),
					  core_scale(core.x, LESS, n ? 3 : 4)),
				 REASON_NONE);
		assert_int_equal(args.spec.round_s,
				 n ? 0 : ATTN_ROUND_PRODUCT | ATTN_ROUND_LESS | ATTN_ROUND_WEIGHTS);
	}
	/* nor is softmax that is spelt out as one that is not */
	assert_int_equal(ENDED(largest(LARGEST, core.s, (unsigned)core.Sk),
			       take_off(core.p, core.s, LARGEST, (unsigned)core.Sk),
			       raised(core.p, core.p), summed(SUM, core.p),
			       divided(core.p, core.p, SUM, false)),
			 REASON_NONE);
	assert_int_equal(args.spec.round_s, 0);
}

/* P is copied without the sink's column: P V has no more of it. */
static void test_sink_left_out(void **state)
{
	(void)state;
	for (unsigned wrong = 0; wrong < 3; wrong++) {
		const unsigned keys = (core_begin(), (unsigned)core.Sk);
		struct chain *chain = begin();
		const uint64_t weights = core.p, sliced = LESS;

		join(chain, put_behind(BOTH, core.s, SINKS, 0));
		join(chain, softmax_of_both(BOTH));
		/* a column later: it would keep the sink's, and leave out the first key's */
		join(chain, keep_columns(sliced, weights + (wrong == 1 ? 2 : 0), keys,
					 wrong == 2 ? keys : columns()));
		core.p = sliced;
		assert_int_equal(end(chain) == REASON_NONE, !wrong);
		if (!wrong)
			assert_int_equal(args.spec.sinks.base, SINKS);
	}
}

/* The largest taken off without a sink, and a sink without that. */
static void test_each_alone(void **state)
{
	struct chain *chain;

	assert_int_equal(FINISHED(largest(LARGEST, core.s, (unsigned)core.Sk),
				  take_off(core.x, core.s, LARGEST, (unsigned)core.Sk)),
			 REASON_NONE);
	assert_int_equal(args.spec.sinks.base, 0);
	assert_int_equal(args.spec.bias[0].base, 0);
	core_begin();
	chain = begin();
	join(chain, put_behind(BOTH, core.s, SINKS, 0));
	join(chain, softmax_of_both(BOTH));
	assert_int_equal(end_sliced(chain), REASON_NONE);
	assert_int_equal(args.spec.sinks.base, SINKS);
}

/* x / 4, of which the largest is taken off, times 4: nothing but the distances that softmax sees.
 */
static void test_distances_scaled(void **state)
{
	static const float factors[] = {4, 0, -4};

	for (unsigned i = 0; i < sizeof(factors) / sizeof(*factors); i++) {
		assert_int_equal(FINISHED(core_add_mask(core.m, core.s, core.mask),
					  core_scale(core.x, core.m, 0.25f),
					  largest(LARGEST, core.x, (unsigned)core.Sk),
					  take_off(LESS, core.x, LARGEST, (unsigned)core.Sk),
					  core_scale(core.x, LESS, factors[i])),
				 i ? REASON_MASK_FORM : REASON_NONE);
		if (i)
			continue;
		assert_true(args.spec.scale == 1);
		assert_int_equal(args.spec.bias[0].base, core.mask);
		assert_true(args.spec.bias_scale[0] == 1);
	}
}

/* exp(x - largest), divided by its sum, is softmax … */
static void test_spelt_out(void **state)
{
	assert_int_equal(
		ENDED(core_scale(core.x, core.s, 0.25f), core_add_mask(core.m, core.x, core.mask),
		      largest(LARGEST, core.m, (unsigned)core.Sk),
		      take_off(LESS, core.m, LARGEST, (unsigned)core.Sk), raised(RAISED, LESS),
		      summed(SUM, RAISED), divided(core.p, RAISED, SUM, false)),
		REASON_NONE);
	assert_true(args.spec.scale == 0.25f);
	assert_int_equal(args.spec.bias[0].base, core.mask);
	assert_int_equal(args.spec.sinks.base, 0);
	/* in place */
	assert_int_equal(ENDED(largest(LARGEST, core.s, (unsigned)core.Sk),
			       take_off(core.p, core.s, LARGEST, (unsigned)core.Sk),
			       raised(core.p, core.p), summed(SUM, core.p),
			       divided(core.p, core.p, SUM, false)),
			 REASON_NONE);
}

/* … and not with a step less, or another one between them. */
static void test_misspelt(void **state)
{
	const unsigned keys = (core_begin(), (unsigned)core.Sk);
	const struct op most = largest(LARGEST, core.s, keys);
	const struct op less = take_off(LESS, core.s, LARGEST, keys);

	/* the largest was not taken off */
	assert_int_equal(ENDED(raised(RAISED, core.s), summed(SUM, RAISED),
			       divided(core.p, RAISED, SUM, false)),
			 REASON_UNKNOWN_KERNEL);
	/* not divided */
	assert_int_equal(ENDED(most, less, raised(core.p, LESS)), REASON_NOT_SOFTMAX);
	/* divided by the largest */
	assert_int_equal(
		ENDED(most, less, raised(RAISED, LESS), divided(core.p, RAISED, LARGEST, false)),
		REASON_MASK_FORM);
	/* the sum of something else: of what the weights were made of */
	assert_int_not_equal(ENDED(most, less, summed(SUM, LESS), raised(RAISED, LESS),
				   divided(core.p, RAISED, SUM, false)),
			     REASON_NONE);
	/* the sum divided by the weights */
	assert_int_equal(ENDED(most, less, raised(RAISED, LESS), summed(SUM, RAISED),
			       divided(core.p, RAISED, SUM, true)),
			 REASON_MASK_FORM);
	/* weights that were changed after they were summed, or before */
	assert_int_equal(ENDED(most, less, raised(RAISED, LESS), summed(SUM, RAISED),
			       core_scale(core.x, RAISED, 2), divided(core.p, core.x, SUM, false)),
			 REASON_MASK_FORM);
	assert_int_equal(ENDED(most, less, raised(RAISED, LESS),
			       core_masked_fill(core.x, RAISED, CORE_OTHER, 0), summed(SUM, core.x),
			       divided(core.p, core.x, SUM, false)),
			 REASON_MASK_FORM);
	/* softmax of the weights */
	assert_int_equal(ENDED(most, less, raised(RAISED, LESS), core_softmax(core.p, RAISED)),
			 REASON_MASK_FORM);
	/* divided twice */
	assert_int_not_equal(ENDED(most, less, raised(RAISED, LESS), summed(SUM, RAISED),
				   divided(core.x, RAISED, SUM, false),
				   divided(core.p, core.x, SUM, false)),
			     REASON_NONE);
	/* scores divided by their largest */
	assert_int_not_equal(FINISHED(most, divided(core.x, core.s, LARGEST, false)), REASON_NONE);
	/* the largest divided by what is no score */
	assert_int_not_equal(FINISHED(most, divided(core.x, CORE_OTHER, LARGEST, true)),
			     REASON_NONE);
}

static void test_denied(void **state)
{
	struct chain *chain;

	core_begin(); /* the largest of other scores */
	chain = begin();
	join(chain, largest(LARGEST, core.s, (unsigned)core.Sk));
	join(chain, core_scale(core.x, core.s, 2));
	join(chain, take_off(core.x, core.x, LARGEST, (unsigned)core.Sk));
	assert_int_not_equal(finish(chain), REASON_NONE);
	/* a mask for scores that stand relative to their largest */
	assert_int_equal(FINISHED(largest(LARGEST, core.s, (unsigned)core.Sk),
				  take_off(core.x, core.s, LARGEST, (unsigned)core.Sk),
				  core_masked_fill(core.x, core.x, CORE_OTHER, 0xfbff)),
			 REASON_MASK_FORM);
	core_begin(); /* where the largest was found, taken for it */
	chain = begin();
	join(chain, largest(LARGEST, core.s, (unsigned)core.Sk));
	join(chain, take_off(core.x, core.s, LARGEST + 0x10000, (unsigned)core.Sk));
	assert_int_not_equal(finish(chain), REASON_NONE);
	core_begin(); /* P of as many columns as there are keys, from scores with a sink */
	chain = begin();
	join(chain, put_behind(BOTH, core.s, SINKS, 0));
	join(chain, softmax_of_both(BOTH));
	assert_int_not_equal(end(chain), REASON_NONE);
	core_begin(); /* a sink behind P */
	chain = begin();
	join(chain, core_softmax(core.m, core.s));
	join(chain, put_behind(core.p, core.m, SINKS, 0));
	assert_int_equal(end_sliced(chain), REASON_MASK_FORM);
	core_begin(); /* a sink beside scores that stand relative to their largest */
	chain = begin();
	join(chain, largest(LARGEST, core.s, (unsigned)core.Sk));
	join(chain, take_off(LESS, core.s, LARGEST, (unsigned)core.Sk));
	join(chain, put_behind(BOTH, LESS, SINKS, 0));
	join(chain, softmax_of_both(BOTH));
	assert_int_equal(end_sliced(chain), REASON_MASK_FORM);
	core_begin(); /* scores with a sink, scaled */
	chain = begin();
	join(chain, put_behind(BOTH, core.s, SINKS, 0));
	core.Sk++;
	join(chain, core_scale(BOTH, BOTH, 2));
	core.Sk--;
	join(chain, softmax_of_both(BOTH));
	assert_int_equal(end_sliced(chain), REASON_MASK_FORM);
}

/* Not the scores, but the largest of each row, less what is no score. */
static void test_largest_instead(void **state)
{
	const unsigned keys = (core_begin(), (unsigned)core.Sk),
		       rows = (unsigned)(core.H * core.Sq);
	const unsigned strides[2][3] = {{2, 0, 2}, {2 * keys, 2, 2 * keys}};
	const float less = -1;
	struct chain *chain = begin();

	join(chain, largest(LARGEST, core.s, keys));
	join(chain,
	     core_strided(TEXT(ATEN_ADD_STRIDED), 3, 2, (unsigned[]){keys, rows}, &strides[0][0],
			  (uint64_t[]){core.x, LARGEST, CORE_OTHER}, &less, 4));
	assert_int_equal(finish(chain), REASON_MASK_FORM);
}

/* A copy of P that no op of the chain reads is no part of it; one that is read is. */
static void test_copies(void **state)
{
	const int64_t elements = core.H * core.Sq * core.Sk;
	struct chain *chain;

	assert_int_equal(
		ENDED(core_softmax(core.p, core.s), core_kernel_copy(BOTH, core.p, elements)),
		REASON_NONE);
	assert_int_equal(
		ENDED(core_softmax(core.m, core.s), core_kernel_copy(core.p, core.m, elements)),
		REASON_NONE);
	/* … though by a copy of the driver's */
	assert_int_equal(ENDED(core_kernel_copy(core.x, core.s, elements),
			       core_copy(core.x, core.m, core.score_bytes),
			       core_softmax(core.p, core.m)),
			 REASON_NONE);
	core_begin(); /* what is read further on is no longer what was copied */
	chain = begin();
	join(chain, core_kernel_copy(BOTH, core.s, elements));
	join(chain, core_scale(core.x, core.s, 2));
	join(chain, core_softmax(core.p, BOTH));
	assert_int_not_equal(end(chain), REASON_NONE);
}

/* A copy of the scores in three dimensions, of which the first is a row of so many elements and the
 * others lie so far apart in `in`. */
static struct op turned(uint64_t out, uint64_t in, unsigned row, const unsigned *size,
			const unsigned *from)
{
	const unsigned sizes[3] = {row, size[0], size[1]};
	const unsigned strides[6] = {2, 2, 2 * row, 2 * from[0], 2 * row * size[0], 2 * from[1]};
	const float nothing = 0;

	return core_strided(TEXT(ATEN_COPY_STRIDED), 2, 3, sizes, strides, (uint64_t[]){out, in},
			    &nothing, 4);
}

/* einsum may count P's entries in another order than S's. */
static void test_turned(void **state)
{
	const int64_t Sq = core.Sq, Sk = core.Sk, D = core.D;
	const unsigned entry = (unsigned)(Sq * Sk), keys = (unsigned)Sk;
	const unsigned two_three[2] = {2, 3}, apart[2] = {3 * entry, entry};
	struct chain *chain;
	float one = 1;

#define SIX(...)                                                                                   \
	(core_begin(), core.H = 6,                                                                 \
	 end(chain_of((struct op[]){__VA_ARGS__},                                                  \
		      sizeof((struct op[]){__VA_ARGS__}) / sizeof(struct op))))
	assert_int_equal(
		SIX(core_softmax(core.m, core.s), turned(core.p, core.m, entry, two_three, apart)),
		REASON_NONE);
	assert_true(args.B == 2 && args.H == 3);
	assert_stride(&args.q, 3 * Sq * D, Sq * D, D, 1);
	assert_stride(&args.k, 3 * Sk * D, Sk * D, D, 1);
	assert_stride(&args.v, Sk * D, 2 * Sk * D, D, 1);
	assert_stride(&args.o, Sq * D, 2 * Sq * D, D, 1);

	/* there and back: twice is one too many */
	assert_int_equal(SIX(core_softmax(core.m, core.s),
			     turned(core.x, core.m, entry, two_three, apart),
			     turned(core.p, core.x, entry, (unsigned[]){3, 2},
				    (unsigned[]){2 * entry, entry})),
			 REASON_LAYOUT);
	/* before softmax a mask would be in the new order */
	assert_int_equal(
		SIX(turned(core.x, core.s, entry, two_three, apart), core_softmax(core.p, core.x)),
		REASON_LAYOUT);
	/* rows among entries, entries that are left out, and queries and keys turned over */
	assert_int_equal(SIX(core_softmax(core.m, core.s),
			     turned(core.p, core.m, keys, (unsigned[]){6, (unsigned)Sq},
				    (unsigned[]){entry, keys})),
			 REASON_LAYOUT);
	assert_int_equal(SIX(core_softmax(core.m, core.s), turned(core.p, core.m, entry, two_three,
								  (unsigned[]){2 * entry, entry})),
			 REASON_LAYOUT);
	assert_int_equal(SIX(core_softmax(core.m, core.s),
			     turned(core.p, core.m, entry, two_three, (unsigned[]){3 * entry, 0})),
			 REASON_LAYOUT);
#undef SIX
	/* heads that a mask tells of: the same, or another number; and with a copy in order */
	for (unsigned heads = 1; heads <= 3; heads++) {
		const unsigned of = heads > 1 ? heads : 2;

		core_begin();
		core.H = 6;
		chain = begin();
		join(chain,
		     core_strided(TEXT(ATEN_ADD_STRIDED), 3, 3, (unsigned[]){entry, of, 6 / of},
				  (unsigned[]){2, 2, 2, 2 * entry, 2 * entry, 0, 2 * entry * of,
					       2 * entry * of, 2 * entry},
				  (uint64_t[]){core.x, core.s, core.mask}, &one, 4));
		join(chain, core_softmax(core.m, core.x));
		join(chain, heads > 1 ? turned(core.p, core.m, entry, two_three, apart)
				      : core_kernel_copy(core.p, core.m, 6 * (int64_t)entry));
		assert_int_equal(end(chain), heads == 2 ? REASON_LAYOUT : REASON_NONE);
		if (heads == 1)
			assert_true(args.B == 3 && args.H == 2);
	}
	assert_stride(&args.spec.bias[0], Sq * Sk, 0, Sk, 1);
	assert_stride(&args.v, Sk * D, 2 * Sk * D, D, 1);
}

/* out = the larger of `in` and a number that the functor holds. */
static struct op at_least(uint64_t out, uint64_t in, uint16_t number)
{
	static const char name[] =
		"_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_"
		"13AUnaryFunctorIN3c104HalfES4_"
		"S4_ZZZNS0_19maximum_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE0_clEvENKUlvE1_"
		"clEvEUlS4_S4_E_EESt5arrayIPcLm2EEEEviT0_T1_";
	const int n = (int)(core.H * core.Sq * core.Sk);
	const uint16_t functor[2] = {0xffff, number};

	return core_launch(name, 3, (size_t[]){4, 4, 16},
			   (const void *[]){&n, functor, (uint64_t[]){out, in}});
}

/* A sum that fp16 cannot hold is not -inf. */
static void test_floor(void **state)
{
	const uint16_t lowest = 0xfbff;

	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, core.mask),
				  at_least(core.x, core.x, lowest)),
			 REASON_NONE);
	assert_int_equal(args.spec.round_x, ATTN_F16_FLOORED);
	assert_int_equal(args.spec.round_s,
			 ATTN_ROUND_PRODUCT | ATTN_ROUND_BIASED | ATTN_ROUND_WEIGHTS);
	assert_non_null(attn_select(&args, 80, NULL)); /* rounded.cu */
	args.spec.round_s = 0;
	assert_non_null(attn_select(&args, 80, NULL));
	assert_non_null(attn_select(&args, 90, NULL));
	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, core.mask),
				  at_least(core.x, core.x, lowest - 1)),
			 REASON_MASK_FORM); /* a number as others are */
	assert_int_equal(FINISHED(at_least(core.x, core.s, lowest)), REASON_MASK_FORM);
	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, core.mask),
				  at_least(core.x, core.x, lowest),
				  core_add_mask(core.x, core.x, CORE_OTHER)),
			 REASON_MASK_FORM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sinks),
		cmocka_unit_test(test_rounded),
		cmocka_unit_test(test_sink_left_out),
		cmocka_unit_test(test_each_alone),
		cmocka_unit_test(test_distances_scaled),
		cmocka_unit_test(test_denied),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_turned),
		cmocka_unit_test(test_largest_instead),
		cmocka_unit_test(test_spelt_out),
		cmocka_unit_test(test_misspelt),
		cmocka_unit_test(test_floor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
