/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of C and C++ engines between the products of attention: what their parameter blocks
 * say, what a chain of them means, and blocks that contradict themselves.
 */
#include "tests/unit/spec_fixture.h"

#include <string.h>

#include "shim/gpu/made_bias.h"
#include "shim/rules/function.h"
#include "shim/rules/rules.h"
#include "shim/rules/shadow.h"
#include "tests/unit/rule_op.h"

/* ---- FasterTransformer ------------------------------------------------------------------------
 */

#define FT_PAIRS                                                                                   \
	"_ZN17fastertransformer20softmax_kernel_h2_v2I6__halfLi1ELi4EEEvPT_PKS2_S5_S5_iiiiS2_"
#define FT_BRAIN                                                                                   \
	"_ZN17fastertransformer17softmax_kernel_h2I13__nv_bfloat16Li2EEEvPT_PKS2_S5_S5_iiiiS2_"
#define FT_SINGLE "_ZN17fastertransformer14softmax_kernelIffLi1EEEvPT_PKT0_PKS1_S7_iiiif"
#define FT_WIDE	  "_ZN17fastertransformer14softmax_kernelI6__halffLi1EEEvPT_PKT0_PKS2_S8_iiiif"

struct masked {
	const char *name;
	uint64_t to, from, mask, slopes;
	int size[4]; /* sequences, heads, queries, keys */
	float factor;
	unsigned threads;
};

static struct op masked(const struct masked *m)
{
	const bool pairs = strstr(m->name, "_h2") != NULL;
	const uint16_t half = strstr(m->name, "bfloat16") ? 0x3f80 : 0x3c00; /* 1 */
	struct op op =
		core_launch(m->name, 9, (size_t[]){8, 8, 8, 8, 4, 4, 4, 4, pairs ? 2 : 4},
			    (const void *[]){&m->to, &m->from, &m->mask, &m->slopes, &m->size[0],
					     &m->size[1], &m->size[2], &m->size[3],
					     pairs ? (const void *)&half : &m->factor});

	op.launch.grid[0] = 8;
	op.launch.grid[1] = (unsigned)m->size[0];
	op.launch.grid[2] = (unsigned)m->size[1];
	op.launch.block[0] = m->threads;
	return op;
}

static struct masked usual(const char *name)
{
	return (struct masked){.name = name,
			       .to = core.s,
			       .from = core.s,
			       .mask = core.mask,
			       .size = {1, (int)core.H, (int)core.Sq, (int)core.Sk},
			       .factor = 1,
			       .threads = 64};
}

static void test_masked_block(void **state)
{
	struct masked m;
	struct op op;
	uint64_t scores, mask;

	core_begin();
	scores = (uint64_t)(core.H * core.Sq * core.Sk);
	mask = (uint64_t)(core.Sq * core.Sk);
	m = usual(FT_PAIRS);
	op = masked(&m);
	assert_true(read_op(&op));
	assert_int_equal(list.count, 3);
	assert_touch(0, ACCESS_WRITE, core.s, 2 * scores);
	assert_touch(1, ACCESS_READ, core.s, 2 * scores);
	assert_touch(2, ACCESS_READ, core.mask, 2 * mask);
	assert_int_equal(meaning.role, ROLE_SOFTMAX);
	assert_int_equal(meaning.summed, ATTN_F16);
	assert_true(meaning.added == -10000 && meaning.factor == 1);
	m = usual(FT_BRAIN);
	op = masked(&m);
	assert_true(read_op(&op));
	assert_int_equal(meaning.summed, ATTN_BF16);
	assert_true(meaning.added == -9984); /* as bf16 has it */
	m = usual(FT_WIDE);
	m.to = core.p;
	op = masked(&m);
	assert_true(read_op(&op));
	assert_touch(0, ACCESS_WRITE, core.p, 2 * scores);
	assert_touch(1, ACCESS_READ, core.s, 4 * scores);
	assert_int_equal(meaning.summed, ATTN_F32);
}

/* Versions before had no slopes; those by pairs worked in place; and there were as many queries as
 * keys. */
static void test_masked_before(void **state)
{
	static const char *const names[] = {
		"_ZN17fastertransformer17softmax_kernel_v4ILi2E6__halffEEvPT0_PKT1_PKS2_iiiS2_",
		"_ZN17fastertransformer23softmax_kernel_v4_half2I6__halfLi1EEEvPT_PKS2_iiiiS2_"};
	const uint16_t quarter = 0x3400;
	int size[4];
	struct op op;

	core_begin();
	size[0] = 1;
	size[1] = (int)core.H;
	size[2] = size[3] = (int)core.Sk;
	for (int n = 0; n < 2; n++) {
		const uint64_t scores = (uint64_t)(core.H * core.Sk * core.Sk);

		op = n ? core_launch(names[n], 7, (size_t[]){8, 8, 4, 4, 4, 4, 2},
				     (const void *[]){&core.s, &core.mask, &size[0], &size[1],
						      &size[2], &size[3], &quarter})
		       : core_launch(names[n], 7, (size_t[]){8, 8, 8, 4, 4, 4, 2},
				     (const void *[]){&core.p, &core.s, &core.mask, &size[0],
						      &size[1], &size[2], &quarter});
		op.launch.grid[1] = 1;
		op.launch.grid[2] = (unsigned)core.H;
		assert_true(read_op(&op));
		assert_int_equal(list.count, 3);
		assert_touch(0, ACCESS_WRITE, n ? core.s : core.p, 2 * scores);
		assert_touch(1, ACCESS_READ, core.s, (n ? 2 : 4) * scores);
		assert_touch(2, ACCESS_READ, core.mask, 2 * (uint64_t)(core.Sk * core.Sk));
		assert_true(meaning.factor == 0.25);
		assert_int_equal(meaning.summed, n ? ATTN_F16 : ATTN_F32);
		assert_int_equal(meaning.views[1].dtype, n ? ATTN_F16 : ATTN_F32);
	}
}

static void test_masked_refused(void **state)
{
	struct masked m;
	struct op op;

	core_begin();
	for (int n = 0; n < 6; n++) {
		m = usual(FT_PAIRS);
		if (n == 0)
			m.slopes = CORE_OTHER; /* ALiBi */
		if (n == 1)
			m.threads = 8; /* would leave keys out */
		if (n == 2)
			m.size[3]--; /* no pairs */
		if (n == 3)
			m.mask = 0;
		if (n == 4)
			m.size[2] = 0;
		op = masked(&m);
		if (n == 5)
			op.launch.grid[1] = 2; /* more sequences than there are */
		assert_false(read_op(&op));
		assert_int_equal(list.count, 0);
	}
}

/* The bias is made: (1 - mask) * -10000, in the type in which the kernel adds it. */
static void test_masked_chain(void **state)
{
	static const struct {
		const char *name;
		cudaDataType type;
		int summed;
		float weight;
	} forms[] = {{FT_PAIRS, CUDA_R_16F, ATTN_F16, -10000},
		     {FT_SINGLE, CUDA_R_32F, ATTN_F32, -10000}};

	for (int n = 0; n < 2; n++) {
		struct chain *chain;
		struct masked m;
		struct op op;

		core_begin();
		core.type = forms[n].type;
		core_resize();
		m = usual(forms[n].name);
		chain = begin();
		join(chain, masked(&m));
		op = core_context();
		op.gemm.b = core.s; /* P lies where S did */
		assert_int_equal(end_with(chain, op, NULL), REASON_NONE);
		assert_false(by_data);
		assert_int_equal(args.H, core.H);
		assert_int_equal(args.spec.bias[0].dtype, forms[n].summed);
		assert_int_equal(args.spec.round_x, forms[n].summed);
		assert_stride(&args.spec.bias[0], 0, 0, core.Sk, 1);
		assert_true(args.spec.bias_scale[0] == 1);
		assert_int_equal(args.spec.bias[1].base, 0);
		assert_true(made_bias_place(chain, &args, NULL));
		assert_int_equal(chain->complement.in, core.mask);
		assert_int_equal(chain->complement.count, core.Sq * core.Sk);
		assert_int_equal(chain->complement.in_dtype, forms[n].summed);
		assert_int_equal(chain->complement.out_dtype, forms[n].summed);
		assert_true(chain->complement.weight == forms[n].weight);
		assert_int_equal(args.spec.bias[0].base, chain->complement.out);
		assert_int_equal(below.scratch, 1);
		assert_int_equal(made_bias_write(chain), 0);
		assert_string_equal(core_acts(), "1");
		made_bias_put(chain);
		assert_int_equal(below.scratch, 0);
		below.no_scratch = true;
		assert_false(made_bias_place(chain, &args, NULL));
		below.no_scratch = false;
	}
}

/* ---- ggml ------------------------------------------------------------------------------------ */

#define GGML_SOFTMAX   "_Z12soft_max_f32ILb1ELi0ELi0EfEvPKfPKT2_S1_Pf15soft_max_params"
#define GGML_SOFTMAX_H "_Z12soft_max_f32ILb1ELi512ELi512E6__halfEvPKfPKT2_S2_Pf15soft_max_params"
#define GGML_BEFORE    "_Z12soft_max_f32ILb1ELi0ELi0EfEvPKfPKT2_Pfiiffffj"
#define GGML_CONVERT   "_Z13convert_unaryIf6__halfEvPKvPT0_lll5uint3lll"
#define GGML_FOUR      "_Z23convert_unary_cont_vec4If6__halfEvPKvPT0_l"
#define GGML_POINTERS  "_Z22k_compute_batched_ptrsPKvS0_PcPS0_PPvlllmmmmmmll"

struct params {
	int64_t heads;
	uint32_t log2, unset;
	int64_t columns, rows_x, rows_y, size[4], mask_stride[3], mask_size[2];
	float scale, slope, m0, m1;
};

static struct params soft_max_params(void)
{
	const int64_t row = 4 * core.Sk;

	return (struct params){.heads = core.H,
			       .log2 = 2,
			       .columns = core.Sk,
			       .rows_x = core.H * core.Sq,
			       .rows_y = core.Sq,
			       .size = {core.Sk, core.Sq, core.H, 1},
			       .mask_stride = {row, row * core.Sq, row * core.Sq},
			       .mask_size = {1, 1},
			       .scale = 0.125f,
			       .m0 = 1,
			       .m1 = 1};
}

static struct op soft_max(const char *name, uint64_t mask, uint64_t sinks, const struct params *p)
{
	struct op op = core_launch(name, 5, (size_t[]){8, 8, 8, 8, 128},
				   (const void *[]){&core.s, &mask, &sinks, &core.x, p});

	for (int d = 0; d < 3; d++)
		op.launch.grid[d] = (unsigned)p->size[d + 1];
	return op;
}

static struct op convert_four(uint64_t to, uint64_t from, int64_t elements)
{
	const int64_t quarters = elements / 4;

	return core_launch(GGML_FOUR, 3, (size_t[]){8, 8, 8},
			   (const void *[]){&from, &to, &quarters});
}

static void test_soft_max_block(void **state)
{
	struct params p;
	uint64_t scores, sinks = CORE_OTHER;
	struct op op;

	core_begin();
	_Static_assert(sizeof(p) == 128, "soft_max_params");
	scores = (uint64_t)(core.H * core.Sq * core.Sk);
	p = soft_max_params();
	op = soft_max(GGML_SOFTMAX, core.mask, 0, &p);
	assert_true(read_op(&op));
	assert_int_equal(list.count, 3);
	assert_touch(0, ACCESS_WRITE, core.x, 4 * scores);
	assert_touch(1, ACCESS_READ, core.s, 4 * scores);
	assert_touch(2, ACCESS_READ, core.mask, 4 * (uint64_t)(core.Sq * core.Sk));
	assert_true(meaning.factor == 0.125 && meaning.added == 1);
	assert_int_equal(meaning.views[2].dtype, ATTN_F32);
	p.mask_stride[0] = 2 * core.Sk;
	op = soft_max(GGML_SOFTMAX_H, core.mask, 0, &p);
	assert_true(read_op(&op));
	assert_int_equal(meaning.views[2].dtype, ATTN_F16);
	assert_touch(2, ACCESS_READ, core.mask, 2 * (uint64_t)(core.Sq * core.Sk));
	op = soft_max(GGML_SOFTMAX, 0, 0, &p);
	assert_true(read_op(&op));
	assert_int_equal(list.count, 2);
	op = soft_max(GGML_SOFTMAX_H, core.mask, sinks, &p);
	assert_true(read_op(&op));
	assert_touch(3, ACCESS_READ, sinks, 4 * (uint64_t)core.H);
	/* sinks without a mask, slopes, a grid that is another, a mask of two matrices for three */
	op = soft_max(GGML_SOFTMAX, 0, sinks, &p);
	assert_false(read_op(&op));
	p.slope = 8;
	op = soft_max(GGML_SOFTMAX, core.mask, 0, &p);
	assert_false(read_op(&op));
	p.slope = 0;
	op = soft_max(GGML_SOFTMAX, core.mask, 0, &p);
	op.launch.grid[0]++;
	assert_false(read_op(&op));
	p.mask_size[0] = 2;
	op = soft_max(GGML_SOFTMAX, core.mask, 0, &p);
	assert_false(read_op(&op));
}

/* S in fp32, P in fp32, P in fp16; the mask's rows are farther apart than they are long. */
static void test_soft_max_chain(void **state)
{
	const int64_t apart = 64;
	struct chain *chain;
	struct params p;
	struct op op;

	core_begin();
	p = soft_max_params();
	p.mask_stride[0] = 4 * apart;
	op = core_scores();
	op.gemm.ctype = CUDA_R_32F;
	chain = chain_open(&op);
	join(chain, soft_max(GGML_SOFTMAX, core.mask, 0, &p));
	join(chain, convert_four(core.p, core.x, core.H * core.Sq * core.Sk));
	assert_int_equal(end(chain), REASON_NONE);
	assert_false(by_data);
	assert_true(args.spec.scale == 0.125f);
	assert_int_equal(args.spec.bias[0].base, core.mask);
	assert_int_equal(args.spec.bias[0].dtype, ATTN_F32);
	assert_stride(&args.spec.bias[0], 0, 0, apart, 1);
	assert_int_equal(args.spec.round_x, ATTN_F32);
	assert_true(args.spec.bias_scale[0] == 1);
	assert_true(made_bias_place(chain, &args, NULL)); /* nothing to make */
	assert_int_equal(below.scratch, 0);
}

/* A number for each head stands beside a row's scores. */
static void test_sinks(void **state)
{
	struct chain *chain;
	struct params p;
	struct op op;

	core_begin();
	p = soft_max_params();
	op = core_scores();
	op.gemm.ctype = CUDA_R_32F;
	chain = chain_open(&op);
	join(chain, soft_max(GGML_SOFTMAX, core.mask, CORE_OTHER, &p));
	join(chain, convert_four(core.p, core.x, core.H * core.Sq * core.Sk));
	assert_int_equal(end(chain), REASON_NONE);
	assert_int_equal(args.spec.sinks.base, CORE_OTHER);
	assert_int_equal(args.spec.sinks.dtype, ATTN_F32);
	assert_int_equal(args.spec.sinks.stride[1], 1);
	assert_int_equal(args.spec.sinks.stride[2], 0);
	assert_int_equal(args.spec.bias[0].base, core.mask);
}

/* The form of years before: (x, mask, out, columns, rows of the mask, scale, …). */
static void test_soft_max_before(void **state)
{
	int columns, once;
	const float scale = 0.5f, none = 0, one = 1;
	const unsigned log2 = 2;
	struct op op;

	core_begin();
	columns = (int)core.Sk;
	once = (int)core.Sq;
	for (int n = 0; n < 2; n++) {
		op = core_launch(GGML_BEFORE, 10, (size_t[]){8, 8, 8, 4, 4, 4, 4, 4, 4, 4},
				 (const void *[]){&core.s, &core.mask, &core.x, &columns, &once,
						  &scale, &none, &one, &one, &log2});
		op.launch.grid[0] = (unsigned)(core.H * core.Sq);
		assert_int_equal(read_op(&op), n == 0);
		once++; /* does not divide the rows */
	}
}

static void test_convert_block(void **state)
{
	const int64_t size[3] = {8, 32, 3}, stride[3] = {24, 8, 768};
	const uint32_t third[3] = {1, 2, 3};
	struct op op;

	core_begin();
	op = core_launch(GGML_CONVERT, 9, (size_t[]){8, 8, 8, 8, 8, 12, 8, 8, 8},
			 (const void *[]){&core.q, &core.k, &size[0], &size[1], &size[2], third,
					  &stride[0], &stride[1], &stride[2]});
	assert_true(read_op(&op));
	assert_touch(0, ACCESS_WRITE, core.k, 2 * 8 * 32 * 3);
	assert_touch(1, ACCESS_READ, core.q, 4 * (31 * 24 + 2 * 8 + 8));
	assert_int_equal(meaning.role, ROLE_COPY);
	assert_int_equal(meaning.views[0].stride[2], 2 * 8 * 32);
	assert_int_equal(meaning.views[1].stride[2], 4 * 8);
	op.launch.block[0] = 4; /* seven blocks of them */
	assert_true(read_op(&op));
	op.launch.grid[0] = 1;
	assert_false(read_op(&op));
}

/* A softcap in one kernel or in three, of now and before. Another's scale_f32() is nobody's that is
 * known. */
static void test_softcap(void **state)
{
	static const char softcap[] = "_Z11softcap_f32PKfPfffi";
	static const char scale[] = "_Z9scale_f32IfEvPKT_PS0_ffl", before[] = "_Z9scale_f32PKfPffi";
	static const char tanh[] = "_Z15unary_op_kernelIXadL_ZN4here7op_tanhEfEEfEvPKT0_PS1_i";
	static const char gelu[] = "_Z15unary_op_kernelIXadL_ZN4here7op_geluEfEEfEvPKT0_PS1_i";
	const float inner = 0.05f, cap = 20, none = 0;
	struct chain *chain;
	struct params p;
	struct op op;
	int64_t count;
	int elements;

	for (int n = 0; n < 3; n++) {
		core_begin();
		count = core.H * core.Sq * core.Sk;
		elements = (int)count;
		p = soft_max_params();
		p.scale = 1;
		op = core_scores();
		op.gemm.ctype = CUDA_R_32F;
		chain = chain_open(&op);
		if (n == 2) {
			join(chain,
			     core_launch(before, 4, (size_t[]){8, 8, 4, 4},
					 (const void *[]){&core.s, &core.s, &inner, &elements}));
			join(chain, core_launch(tanh, 3, (size_t[]){8, 8, 4},
						(const void *[]){&core.s, &core.s, &elements}));
			join(chain,
			     core_launch(before, 4, (size_t[]){8, 8, 4, 4},
					 (const void *[]){&core.s, &core.s, &cap, &elements}));
		} else if (n) {
			join(chain, core_launch(scale, 5, (size_t[]){8, 8, 4, 4, 8},
						(const void *[]){&core.s, &core.s, &inner, &none,
								 &count}));
			join(chain, core_launch(tanh, 3, (size_t[]){8, 8, 4},
						(const void *[]){&core.s, &core.s, &elements}));
			join(chain,
			     core_launch(scale, 5, (size_t[]){8, 8, 4, 4, 8},
					 (const void *[]){&core.s, &core.s, &cap, &none, &count}));
		} else {
			join(chain, core_launch(softcap, 5, (size_t[]){8, 8, 4, 4, 4},
						(const void *[]){&core.s, &core.s, &inner, &cap,
								 &elements}));
		}
		join(chain, soft_max(GGML_SOFTMAX, core.mask, 0, &p));
		join(chain, convert_four(core.p, core.x, count));
		assert_int_equal(end(chain), REASON_NONE);
		assert_true(args.spec.scale == 0.05f * 20);
		assert_true(args.spec.softcap == 20);
	}
	op = core_launch(gelu, 3, (size_t[]){8, 8, 4},
			 (const void *[]){&core.s, &core.x, &elements});
	assert_true(read_op(&op));
	assert_int_equal(meaning.role, ROLE_OPAQUE);
	assert_touch(0, ACCESS_WRITE, core.x, 4 * (uint64_t)elements);
	op = core_launch("_Z9scale_f32PfPKffi", 4, (size_t[]){8, 8, 4, 4},
			 (const void *[]){&core.s, &core.x, &cap, &elements});
	assert_null(function_get(op.launch.function)->rule);
}

/* ---- arrays of addresses ----------------------------------------------------------------------
 */

static void test_pointers(void **state)
{
	enum { ENTRIES = 4, OUTER = 2, ALL = ENTRIES * OUTER };
	const uint64_t arrays = CORE_OTHER, last = CORE_OTHER + 0x1000;
	int64_t number[3] = {ENTRIES, OUTER, ALL}, apart[6] = {64, 1024, 256, 4096, 128, 2048};
	int64_t shared[2] = {2, 1};
	uint64_t word[2 * ALL];
	static unsigned char params[FUNCTION_MAX_BYTES];
	const struct function *function;
	struct op op, arrayed = core_scores();

	core_begin();
	arrayed.gemm.by_array = true;
	shadow_resolve_arrays(&arrayed.gemm); /* from here on they are of interest */
	op = core_launch(GGML_POINTERS, 16,
			 (size_t[]){8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8},
			 (const void *[]){&core.k, &core.q, &core.s, &arrays, &last, &number[0],
					  &number[1], &number[2], &apart[0], &apart[1], &apart[2],
					  &apart[3], &apart[4], &apart[5], &shared[0], &shared[1]});
	op.launch.block[0] = op.launch.block[1] = 16;
	assert_true(read_op(&op));
	assert_int_equal(list.count, 2);
	assert_touch(0, ACCESS_WRITE, arrays, 16 * ALL);
	assert_touch(1, ACCESS_WRITE, last, 8 * ALL);
	function = function_get(op.launch.function);
	assert_true(function_read_params(function, &op.launch, params));
	shadow_note(
		&(struct sight){.op = &op, .list = &list, .function = function, .params = params});
	assert_true(shadow_get(arrays, word, sizeof(word)));
	for (int n = 0; n < ALL; n++) {
		const uint64_t inner = (uint64_t)n % ENTRIES, outer = (uint64_t)n / ENTRIES;

		assert_int_equal(word[n], core.k + inner / 2 * 64 + outer * 1024);
		assert_int_equal(word[ALL + n], core.q + inner * 256 + outer * 4096);
	}
	assert_true(shadow_get(last, word, 8 * ALL));
	assert_int_equal(word[ALL - 1], core.s + 3 * 128 + 2048);
	number[2]++;
	memcpy(op.launch.params[7], &number[2], 8);
	assert_false(read_op(&op));
	number[2]--;
	memcpy(op.launch.params[7], &number[2], 8);
	op.launch.grid[1] = 0; /* too few threads for all */
	assert_false(read_op(&op));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_masked_block),	cmocka_unit_test(test_masked_refused),
		cmocka_unit_test(test_masked_before),	cmocka_unit_test(test_masked_chain),
		cmocka_unit_test(test_soft_max_block),	cmocka_unit_test(test_soft_max_chain),
		cmocka_unit_test(test_soft_max_before), cmocka_unit_test(test_convert_block),
		cmocka_unit_test(test_pointers),	cmocka_unit_test(test_sinks),
		cmocka_unit_test(test_softcap),
	};

	return CORE_MAIN("rules_engines", tests);
}
