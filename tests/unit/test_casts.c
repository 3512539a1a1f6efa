/* SPDX-License-Identifier: Apache-2.0
 *
 * QK^T of fp32 numbers that were cast from 16 bits, softmax in fp32, and PV in 16 bits: a fused
 * call reads what was cast, as long as that is as it was; else the program's own ops run.
 */
#include "tests/unit/core.h"

#include "shim/flow/flow.h"
#include "shim/site/site.h"

/* Where 16-bit Q, K and P lie; Q in fp32 before it was laid out for the product. */
#define NARROW_Q (CORE_OTHER + 0x1000)
#define NARROW_K (CORE_OTHER + 0x21000)
#define NARROW_P (CORE_OTHER + 0x41000)
#define WIDE_Q	 (CORE_OTHER + 0x61000)

/* Has `copied` made Q contiguous between cast and product? And the type that was cast. */
static bool copied;
static enum core_number narrow;

/* [H,Sq,D] from [Sq,H,D], in fp32. */
static struct op lay_out(uint64_t out, uint64_t in)
{
	static const char name[] =
		"_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_"
		"23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_"
		"clEvEUlfE_"
		"EEvS4_RKT_EUliE_EEviT1_";
	const unsigned size[3] = {(unsigned)core.D, (unsigned)core.Sq, (unsigned)core.H};
	const unsigned D = 4 * (unsigned)core.D, Sq = (unsigned)core.Sq, H = (unsigned)core.H;
	const unsigned strides[3][2] = {{4, 4}, {D, D * H}, {D * Sq, D}};
	const unsigned char nothing = 0;

	return core_strided(name, 2, 3, size, &strides[0][0], (uint64_t[]){out, in}, &nothing, 1);
}

static struct op context(uint64_t p, uint64_t o)
{
	struct op op = core_context();

	op.gemm.atype = op.gemm.btype = op.gemm.ctype =
		narrow == CORE_HALF ? CUDA_R_16F : CUDA_R_16BF;
	op.gemm.b = p;
	op.gemm.c = o;
	return op;
}

static void begin(bool with_copy, enum core_number type)
{
	core_begin();
	core.type = CUDA_R_32F;
	core.math_mode *= 16; /* the lower bits would say what fp32 products may be */
	core_resize();
	copied = with_copy;
	narrow = type;
}

static void casts(void)
{
	core_send(core_cast(copied ? WIDE_Q : core.q, CORE_FLOAT, NARROW_Q, narrow,
			    core.H * core.Sq * core.D));
	core_send(core_cast(core.k, CORE_FLOAT, NARROW_K, narrow, core.H * core.Sk * core.D));
	if (copied)
		core_send(lay_out(core.q, WIDE_Q));
}

/* From QK^T to what PV reads: how many were kept. */
static int scores(enum core_number type)
{
	const int taken = core_window();

	return taken +
	       core_send(core_cast(NARROW_P, type, core.p, CORE_FLOAT, core.H * core.Sq * core.Sk));
}

/* The same, after the casts. */
static int window(void)
{
	casts();
	return scores(narrow);
}

static int chain(void)
{
	const int taken = window();

	return taken + core_send(context(NARROW_P, core.o));
}

static void learn(void)
{
	for (int i = 0; i < 8 && sites[0].state != SITE_VERIFIED; i++)
		chain();
	assert_int_equal(site_count, 1);
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	below_reset();
}

static void assert_reads_narrow(void)
{
	const int dtype = narrow == CORE_HALF ? ATTN_F16 : ATTN_BF16;
	const int64_t D = core.D;

	assert_int_equal(below.args.q.dtype, dtype);
	assert_int_equal(below.args.k.dtype, dtype);
	assert_int_equal(below.args.v.dtype, dtype);
	assert_int_equal(below.args.q.base, NARROW_Q);
	assert_int_equal(below.args.k.base, NARROW_K);
	assert_int_equal(below.args.q.stride[1], copied ? D : core.Sq * D);
	assert_int_equal(below.args.q.stride[2], copied ? core.H * D : D);
	assert_int_equal(below.args.q.stride[3], 1);
	assert_int_equal(below.args.k.stride[2], D);
	assert_int_equal(below.args.spec.round_p, dtype);
	assert_int_equal(below.args.spec.round_x, ATTN_F32);
}

static void test_read(void **state)
{
	static const enum core_number types[] = {CORE_HALF, CORE_BFLOAT};

	for (int form = 0; form < 4; form++) {
		begin(form % 2, types[form / 2]);
		learn();
		for (int i = 0; i < 4; i++) {
			below_reset();
			assert_int_equal(chain(), 6);
			assert_int_equal(below.count[ACT_FUSED], 1);
			assert_reads_narrow();
		}
	}
}

/* What was cast is another by the time of PV, or of QK^T; or the cast itself was overwritten. The
 * products run as the program wrote them. */
static void test_gone(void **state)
{
	for (int form = 0; form < 8; form++) {
		const struct op over = core_memset(form & 2 ? NARROW_K + 64 : NARROW_Q, 8);

		begin(form & 1, CORE_HALF);
		learn();
		if (form & 4) {
			casts();
			core_send(over);
			scores(CORE_HALF);
		} else {
			assert_int_equal(window(), 5);
			core_send(over);
		}
		assert_false(core_send(context(NARROW_P, core.o)));
		assert_int_equal(below.count[ACT_FUSED], 0);
		assert_int_equal(below.count[ACT_GEMM], 1);
		/* laid out in scratch, where that was held back as well */
		assert_true(copied || core_act(ACT_GEMM, 0)->b == core.q);
		assert_true(below.count[ACT_LAUNCH] >= 4);
		below_reset();
		assert_int_equal(chain(), 6); /* and once more all is well */
		assert_reads_narrow();
	}
}

/* The product reads memory that was written behind the cast: other numbers. */
static void test_other_numbers(void **state)
{
	for (int with_copy = 0; with_copy < 2; with_copy++) {
		begin(with_copy, CORE_HALF);
		learn();
		casts();
		core_send(core_memset(core.q + 16, 16));
		scores(CORE_HALF);
		assert_false(core_send(context(NARROW_P, core.o)));
		assert_int_equal(below.count[ACT_FUSED], 0);
	}
	begin(true, CORE_HALF); /* between the cast and the copy */
	learn();
	core_send(core_cast(WIDE_Q, CORE_FLOAT, NARROW_Q, CORE_HALF, core.H * core.Sq * core.D));
	core_send(core_cast(core.k, CORE_FLOAT, NARROW_K, CORE_HALF, core.H * core.Sk * core.D));
	core_send(core_memset(WIDE_Q + 4, 4));
	core_send(lay_out(core.q, WIDE_Q));
	scores(CORE_HALF);
	assert_false(core_send(context(NARROW_P, core.o)));
	assert_int_equal(below.count[ACT_FUSED], 0);
}

/* O is written over what was cast. */
static void test_output_over_original(void **state)
{
	begin(false, CORE_HALF);
	learn();
	assert_int_equal(window(), 5);
	assert_false(core_send(context(NARROW_P, NARROW_Q)));
	assert_int_equal(below.count[ACT_FUSED], 0);
	assert_int_equal(below.count[ACT_GEMM], 1);
}

/* They are read as they are, then, and V is cast. */
static void assert_reads_wide(void)
{
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	assert_int_equal(below.count[ACT_FUSED], 1);
	assert_int_equal(below.args.q.dtype, ATTN_F32);
	assert_int_equal(below.args.k.dtype, ATTN_F32);
	assert_int_equal(below.args.v.dtype, ATTN_F16);
	assert_int_equal(below.args.o.dtype, ATTN_F16);
	assert_int_equal(below.args.q.base, core.q);
	assert_int_equal(below.args.v.base, core.v);
}

/* Nobody knows what they were cast from: not from anything, in the end. */
static void test_never_cast(void **state)
{
	begin(false, CORE_HALF);
	for (int i = 0; i < 14; i++) {
		flow_waits();
		below_reset();
		scores(CORE_HALF);
		core_send(context(NARROW_P, core.o));
		assert_true(i >= 7 || !sites[0].passed);
	}
	assert_reads_wide();
}

/* The kernels are not loaded yet when that is found: the site waits for them. */
static void test_never_cast_kernels_later(void **state)
{
	begin(false, CORE_HALF);
	for (int i = 0; i < 18; i++) {
		flow_waits();
		below_reset();
		below.kernels_later = i == 7 ? 9 : 0;
		scores(CORE_HALF);
		core_send(context(NARROW_P, core.o));
	}
	assert_reads_wide();
}

/* Cast from another type than PV's. */
static void test_other_type(void **state)
{
	begin(false, CORE_HALF);
	for (int i = 0; i < 14; i++) {
		flow_waits();
		narrow = CORE_BFLOAT;
		casts();
		narrow = CORE_HALF;
		below_reset();
		scores(CORE_HALF);
		core_send(context(NARROW_P, core.o));
		assert_true(i >= 7 || !sites[0].passed);
	}
	assert_reads_wide();
}

/* All of it in fp32, though Q and K were cast: 16-bit kernels would round P. It is learned with the
 * third, and replaced once the program has waited: until then a site might follow of which it is
 * not known what may move its operands. */
static void all_fp32(void (*ends)(void))
{
	begin(false, CORE_HALF);
	for (int i = 0; i < 6; i++) {
		casts();
		assert_int_equal(core_chain(), 0);
	}
	assert_int_equal(sites[0].state, SITE_VERIFIED);
	ends();
	for (int i = 0; i < 4; i++) {
		below_reset();
		casts();
		assert_int_equal(core_chain(), 5);
		assert_int_equal(below.count[ACT_FUSED], 1);
		assert_int_equal(below.args.q.dtype, ATTN_F32);
		assert_int_equal(below.args.q.base, core.q);
	}
}

static void wait(void)
{
	flow_waits();
}

static void test_all_fp32(void **state)
{
	all_fp32(wait);
}

/* It is told when what it has copied to the host is there. */
static void test_all_fp32_fetched(void **state)
{
	all_fp32(flow_fetches);
}

/* Copies of results, and the wait for them, end one round; without an occurrence since, too. */
static void test_rounds(void **state)
{
	unsigned before;

	all_fp32(wait);
	before = site_rounds();
	flow_fetches();
	flow_fetches();
	flow_waits();
	assert_int_equal(site_rounds(), before + 1);
	flow_waits();
	assert_int_equal(site_rounds(), before + 2);
	flow_fetches();
	core_chain();
	flow_fetches();
	assert_int_equal(site_rounds(), before + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_other_numbers),
		cmocka_unit_test(test_output_over_original),
		cmocka_unit_test(test_never_cast),
		cmocka_unit_test(test_never_cast_kernels_later),
		cmocka_unit_test(test_other_type),
		cmocka_unit_test(test_all_fp32),
		cmocka_unit_test(test_all_fp32_fetched),
		cmocka_unit_test(test_rounds),
	};

	return CORE_MAIN("casts", tests);
}
