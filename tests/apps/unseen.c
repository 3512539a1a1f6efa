/* SPDX-License-Identifier: Apache-2.0
 *
 *     unseen CASE
 *
 * Attention with kernels nobody has a rule for in the middle (unseen.cu). B sequences of H heads,
 * one batched product for all, fresh operands and a fresh mask each time; each tensor in its own
 * allocation.
 */
#include "app.h"
#include "tools/base/half.h"

#include <math.h>
#include <string.h>

enum { B = 2, H = 3, Z = B * H, ROWS = 40, KEYS = 40, DEPTH = 32, REPETITIONS = 14 };
enum { BEYOND = 24 }; /* keys of a larger square than the scores */
enum { NQ = Z * ROWS * DEPTH, NK = Z * KEYS * DEPTH, SCORES = Z * ROWS * KEYS };

/* What lies in the further input, and what the products are. */
enum filling {
	NOTHING,
	LENGTHS,
	FULL_LENGTHS,
	SEQUENCES,
	HIDDEN_KEYS,
	CAUSAL_PAIRS, /* later on, by a large bias, and rows see nothing */
	RANDOM,
	SHOWN,
	SHOWN_WIDE, /* in fp32; later on, some half of it */
	SLOPES,
	HALF_SLOPES,
	ZEROS,
	KEPT_BYTES, /* of keys; later on, a sequence sees nothing */
	KEPT_WORDS,
	KEPT_LONGS,
	LONGS_BEFORE_LENGTHS, /* that are somebody else's */
	COUNTED_LONGS,	      /* later on, some are 2 */
	HIDDEN_LATER,	      /* bytes of keys: none of the first sequence */
	HIDING_ONES,	      /* bytes of keys; later on there are others that hide nothing … */
	SHOWING_ABOVE,	      /* … or that show nothing */
	HIDDEN_BYTES,	      /* of pairs */
	KEPT_FLOATS,	      /* of pairs; later on, some are other numbers */
	KEPT_CORNER,	      /* the same, in the corner of a larger square of halves */
	HIDDEN_HALVES	      /* of keys; later on, some are other numbers */
};

/* Where O is written, and what becomes of the input. */
enum place {
	APART,
	OVER_Q,
	BEHIND,	 /* masks that move, in their allocation */
	REPLACED /* later on, the next call's input is there before the second product */
};

static const struct example {
	const char *name, *kernel;
	enum filling filling;
	enum place place;
	float alpha;
} examples[] = {
	{"bent", NULL, NOTHING, APART, 1},
	{"bent_over_k", NULL, NOTHING, APART, 1},
	{"wider_again", NULL, NOTHING, APART, 1},
	{"in_three", NULL, NOTHING, APART, 1},
	{"in_two", NULL, HIDDEN_KEYS, APART, 0.25f},
	{"scaled_sums", NULL, CAUSAL_PAIRS, APART, 1},
	{"rounded_scores", NULL, NOTHING, APART, 1},
	{"by_sequences", NULL, NOTHING, APART, 0.25f},
	{"by_sequences_over", NULL, NOTHING, APART, 0.25f},
	{"fp32_products", NULL, NOTHING, APART, 1},
	{"lengths", "by_length", LENGTHS, APART, 0.25f},
	{"full_lengths", "by_length", FULL_LENGTHS, APART, 0.25f},
	{"sequences", "by_sequence", SEQUENCES, APART, 1},
	{"hidden_keys", "add_keys", HIDDEN_KEYS, APART, 1},
	{"moving_mask", "add_keys", HIDDEN_KEYS, BEHIND, 1},
	{"bias_over_q", "add_heads", RANDOM, OVER_Q, 0.25f},
	{"shared_keys", "add_pairs", RANDOM, APART, 0.25f},
	{"shown", "hide", SHOWN, APART, 0.25f},
	{"shown_wide", "hide_wide", SHOWN_WIDE, APART, 0.25f},
	{"slopes", "slope_heads", SLOPES, APART, 1},
	{"slopes_over_q", "slope_each", HALF_SLOPES, OVER_Q, 0.25f},
	{"slopes_replaced", "slope_heads", SLOPES, REPLACED, 1},
	{"own_slopes", "slope_powers", NOTHING, APART, 1},
	{"usual_slopes", "slope_usual", HIDDEN_KEYS, APART, 1},
	{"odd_slopes", "slope_odd", NOTHING, APART, 1},
	{"bent_slopes", "slope_bent", NOTHING, APART, 1},
	{"two_slopes", "slope_sides", SLOPES, APART, 1},
	{"turned", "add_turned", RANDOM, APART, 0.25f},
	{"zeros", "add_keys", ZEROS, APART, 1},
	{"every_other", "every_other", NOTHING, APART, 0.25f},
	{"squares", "squares", NOTHING, APART, 0.25f},
	{"cut", "cut", NOTHING, APART, 1},
	{"kept_bytes", "where_keys", KEPT_BYTES, APART, 1},
	{"near_bytes", "where_near", KEPT_BYTES, APART, 1},
	{"hidden_later", "hide_keys", HIDDEN_LATER, APART, 1},
	{"hiding_ones", "hide_ones", HIDING_ONES, APART, 1},
	{"hiding_near", "hide_near", HIDING_ONES, APART, 1},
	{"showing_above", "where_above", SHOWING_ABOVE, APART, 1},
	{"hidden_bytes", "hide_pairs", HIDDEN_BYTES, APART, 1},
	{"kept_words", "add_ints", KEPT_WORDS, APART, 1},
	{"kept_longs", "add_words", KEPT_LONGS, APART, 1},
	{"kept_triangle", "add_triangle", KEPT_LONGS, APART, 1},
	{"lowest_triangle", "add_lowest", KEPT_LONGS, APART, 1},
	{"kept_window", "where_window", KEPT_BYTES, APART, 1},
	{"longs_before_lengths", "add_words", LONGS_BEFORE_LENGTHS, APART, 1},
	{"half_longs", "half_words", KEPT_LONGS, APART, 1},
	{"counted_longs", "count_words", COUNTED_LONGS, APART, 1},
	{"kept_floats", "where_floats", KEPT_FLOATS, APART, 1},
	{"kept_corner", "where_corner", KEPT_CORNER, APART, 1},
	{"hidden_halves", "where_halves", HIDDEN_HALVES, APART, 1},
	{"counted_floats", "count_floats", KEPT_FLOATS, APART, 1},
	{"half_floats", "half_floats", KEPT_FLOATS, APART, 1},
};

static const struct example *example;
static cublasHandle_t blas;
static CUmodule module;
static bool wide;	   /* products in fp32 */
static CUdeviceptr arrays; /* of addresses that the products take; 0: matrices lie evenly */

static bool is(const char *name)
{
	return !strcmp(example->name, name);
}

static void launch(const char *name, unsigned blocks, unsigned threads, void **params)
{
	CUfunction function;

	CHECK(cuModuleGetFunction(&function, module, name));
	CHECK(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, params, NULL));
}

/* The heads of a sequence share the first operand. */
static void product_by_arrays(cublasOperation_t transa, int m, int n, int k, float alpha,
			      CUdeviceptr a, CUdeviceptr b, CUdeviceptr c)
{
	const size_t each = Z * sizeof(void *);
	CUdeviceptr to = arrays + (transa == CUBLAS_OP_N ? 3 * each : 0);
	long long size_a = (long long)m * k, size_b = (long long)n * k, size_c = (long long)m * n;
	float zero = 0;
	int shared = H;

	launch("point", 1, Z, (void *[]){&to, &a, &b, &c, &size_a, &size_b, &size_c, &shared});
	CHECK(cublasGemmBatchedEx(blas, transa, CUBLAS_OP_N, m, n, k, &alpha,
				  (const void *const *)to, CUDA_R_16F,
				  transa == CUBLAS_OP_N ? m : k, (const void *const *)(to + each),
				  CUDA_R_16F, k, &zero, (void *const *)(to + 2 * each), CUDA_R_16F,
				  m, Z, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/* A sequence at a time, and what lies between the products does all of them at once. */
static void product_by_sequences(cublasOperation_t transa, int m, int n, int k, float alpha,
				 CUdeviceptr a, CUdeviceptr b, CUdeviceptr c)
{
	float zero = 0;

	for (CUdeviceptr i = 0; i < B; i++)
		CHECK(cublasGemmStridedBatchedEx(
			blas, transa, CUBLAS_OP_N, m, n, k, &alpha,
			(void *)(a + i * (CUdeviceptr)(H * m * k * 2)), CUDA_R_16F,
			transa == CUBLAS_OP_N ? m : k, m * k,
			(void *)(b + i * (CUdeviceptr)(H * n * k * 2)), CUDA_R_16F, k, n * k, &zero,
			(void *)(c + i * (CUdeviceptr)(H * m * n * 2)), CUDA_R_16F, m, m * n, H,
			CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void product(cublasOperation_t transa, int m, int n, int k, float alpha, CUdeviceptr a,
		    CUdeviceptr b, CUdeviceptr c)
{
	const cudaDataType type = wide ? CUDA_R_32F : CUDA_R_16F;
	float zero = 0;

	if (is("by_sequences") || is("by_sequences_over")) {
		product_by_sequences(transa, m, n, k, alpha, a, b, c);
		return;
	}
	if (arrays) {
		product_by_arrays(transa, m, n, k, alpha, a, b, c);
		return;
	}
	CHECK(cublasGemmStridedBatchedEx(blas, transa, CUBLAS_OP_N, m, n, k, &alpha, (void *)a,
					 type, transa == CUBLAS_OP_N ? m : k, m * k, (void *)b,
					 type, k, n * k, &zero, (void *)c, type, m, m * n, Z,
					 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void upload(CUdeviceptr to, size_t n, uint64_t seed)
{
	static float data[NQ > NK ? NQ : NK];

	if (!wide) {
		app_upload_random(to, n, seed);
		return;
	}
	app_random_f32(data, n, seed);
	CHECK(cuMemcpyHtoD(to, data, n * 4));
}

/* S of every fifth query overflows at the first key. */
static void raise_rows(CUdeviceptr q, CUdeviceptr k)
{
	for (int n = 0; n < Z * ROWS; n++)
		if (n % ROWS % 5 == 1)
			CHECK(cuMemsetD16(q + (CUdeviceptr)(n * DEPTH * 2), 0x5400, DEPTH));
	for (int n = 0; n < Z * KEYS; n += KEYS)
		CHECK(cuMemsetD16(k + (CUdeviceptr)(n * DEPTH * 2), 0x5400, DEPTH)); /* 64 */
}

/* Zeros and ones, of so many bytes each. */
static void upload_flags(CUdeviceptr to, int r)
{
	static unsigned char flags[ROWS * KEYS];
	static int32_t words[B * KEYS];
	static int64_t longs[B * KEYS + KEYS];

	for (int i = 0; i < KEYS && example->filling == LONGS_BEFORE_LENGTHS; i++)
		longs[B * KEYS + i] = i;
	for (int i = 0; i < ROWS * KEYS; i++)
		flags[i] = i % KEYS && (i % KEYS * 7 + i / KEYS * 5 + r) % 4 == 0;
	for (int i = 0; i < B * KEYS; i++) {
		const bool seen = i % KEYS <= KEYS - 9 - i / KEYS * 5 - r;

		longs[i] = words[i] = seen && (i < KEYS || r < REPETITIONS - 3);
		if (example->filling == KEPT_BYTES)
			flags[i] = longs[i] != 0;
		if (example->filling == HIDING_ONES || example->filling == SHOWING_ABOVE) {
			const bool other = r >= REPETITIONS - 3 && i % 7 == 3;

			flags[i] = example->filling == HIDING_ONES ? (other ? 2 : !longs[i])
								   : (other ? 0x81 : longs[i] != 0);
		}
		if (example->filling == HIDDEN_LATER)
			flags[i] = i >= KEYS && !longs[i] && r < REPETITIONS - 3;
		if (example->filling == COUNTED_LONGS && r >= REPETITIONS - 3 && i % 7 == 3)
			longs[i] *= 2;
	}
	if (example->filling >= KEPT_LONGS && example->filling <= COUNTED_LONGS)
		CHECK(cuMemcpyHtoD(to, longs, sizeof(longs)));
	else if (example->filling == KEPT_WORDS)
		CHECK(cuMemcpyHtoD(to, words, sizeof(words)));
	else
		CHECK(cuMemcpyHtoD(to, flags, sizeof(flags)));
}

static void upload_floating_flags(CUdeviceptr to, int r)
{
	static const float others[4] = {0.5f, -3, 0x1p-20f, -0.0f};
	static uint16_t halves[ROWS * (KEYS + BEYOND)];
	static float floats[ROWS * KEYS];
	const int columns = KEYS + (example->filling == KEPT_CORNER ? BEYOND : 0);

	for (int i = 0; i < ROWS * columns; i++) {
		const bool late = r >= REPETITIONS - 3;
		const int row = i / columns, column = i % columns;
		float flag = column <= row + r % 3;

		if (example->filling == HIDDEN_HALVES)
			flag = column > KEYS - 9 - row * 5 - r;
		if (late && i % 11 == 5 && column)
			flag = others[i / 11 % 4];
		if (example->filling == KEPT_FLOATS)
			floats[i] = flag;
		halves[i] = float_to_f16(flag);
	}
	if (example->filling == KEPT_FLOATS)
		CHECK(cuMemcpyHtoD(to, floats, sizeof(floats)));
	else
		CHECK(cuMemcpyHtoD(to, halves, sizeof(halves)));
}

/* What the kernels read besides; another one each time. */
static void upload_input(CUdeviceptr to, int r)
{
	static uint16_t halves[SCORES];
	static float floats[B * ROWS * KEYS];
	static int32_t words[Z * ROWS];
	float slopes[Z];

	if (example->filling >= KEPT_FLOATS) {
		upload_floating_flags(to, r);
		return;
	}
	if (example->filling >= KEPT_BYTES) {
		upload_flags(to, r);
		return;
	}
	memset(halves, 0, sizeof(halves));
	for (int i = 0; i < Z * ROWS; i++) {
		const int whole = i < H * ROWS ? KEYS - r % 3 : KEYS - 11 - r;

		words[i] = i % ROWS < whole ? i % ROWS + 1 : whole;
		if (example->filling == FULL_LENGTHS)
			words[i] = KEYS;
		if (example->filling == SEQUENCES)
			words[i] = KEYS - 3 - 5 * (i % 2) - r;
	}
	if (example->filling == RANDOM)
		app_random_f16(halves, SCORES, 1000 + (uint64_t)r);
	for (int i = 0; i < Z; i++)
		slopes[i] = 0.25f / (float)(1 << i) + 0.03125f * (float)(r % 5);
	for (int i = 0; i < Z && example->filling == HALF_SLOPES; i++)
		halves[i] = float_to_f16(slopes[i]);
	for (int i = 0; i < B * KEYS; i++)
		if (example->filling == HIDDEN_KEYS && i % KEYS > KEYS - 9 - i / KEYS * 5 - r)
			halves[i] = 0xfbff; /* the lowest number */
	for (int i = 0; i < ROWS * KEYS && example->filling == CAUSAL_PAIRS; i++)
		if (i % KEYS > i / KEYS - (r < REPETITIONS / 2 ? 0 : ROWS / 2))
			halves[i] = float_to_f16(r < REPETITIONS / 2 ? -INFINITY : -10000);
	for (int i = 0; i < B * ROWS * KEYS; i++)
		if (example->filling <= SHOWN_WIDE && example->filling >= SHOWN &&
		    i % KEYS < KEYS - 9 - i / KEYS / ROWS * 5 - r) {
			halves[i] = 0x3c00;
			floats[i] = r >= REPETITIONS - 3 && i % 11 == 5 ? 0.5f : 1;
		} else {
			floats[i] = 0;
		}
	if (example->filling == LENGTHS || example->filling == FULL_LENGTHS ||
	    example->filling == SEQUENCES)
		CHECK(cuMemcpyHtoD(to, words, sizeof(words)));
	else if (example->filling == SHOWN_WIDE)
		CHECK(cuMemcpyHtoD(to, floats, sizeof(floats)));
	else if (example->filling == SLOPES)
		CHECK(cuMemcpyHtoD(to, slopes, sizeof(slopes)));
	else
		CHECK(cuMemcpyHtoD(to, halves, sizeof(halves)));
}

/* From S (in s) to P; where P is. */
static CUdeviceptr middle(CUdeviceptr s, CUdeviceptr p, CUdeviceptr m, CUdeviceptr x, CUdeviceptr y)
{
	const unsigned rows = Z * ROWS, blocks = SCORES / 32;
	int columns = KEYS, heads = H, queries = ROWS, pairs = ROWS * KEYS;
	float factor = 0.25f, third = 0.3f, one = 1;
	double scale = 0.25, cap = 1.5;
	long long n = SCORES, per = SCORES / B;

	if (is("bent") || is("bent_over_k")) {
		launch("to_wide", blocks, 32, (void *[]){&s, &x, &n});
		launch("bend", blocks, 32, (void *[]){&x, &y, &n, &scale, &cap});
		launch("to_half", blocks, 32, (void *[]){&y, &s, &n});
		launch("rows16", rows, 32, (void *[]){&s, &p, &columns, &one});
		return p;
	}
	if (is("wider_again")) { /* over S, and twice as long */
		launch("to_wide", blocks, 32, (void *[]){&s, &x, &n});
		launch("bend", blocks, 32, (void *[]){&x, &s, &n, &scale, &cap});
		launch("to_half", blocks, 32, (void *[]){&s, &y, &n});
		launch("rows16", rows, 32, (void *[]){&y, &p, &columns, &one});
		return p;
	}
	if (is("in_three")) {
		launch("k0", rows, 32, (void *[]){&factor, &columns, &x, &s});
		launch("k1", rows, 32, (void *[]){&x, &factor, &s, &y, &columns});
		launch("k2", rows, 32, (void *[]){&columns, &y, &p, &x, &s, &factor});
		return p;
	}
	if (is("in_two")) {
		launch("plus_keys", blocks, 32, (void *[]){&s, &m, &x, &n, &columns, &per});
		launch("rows16", rows, 32, (void *[]){&x, &p, &columns, &one});
		return p;
	}
	if (is("scaled_sums")) {
		launch("plus_keys", blocks, 32, (void *[]){&s, &m, &x, &n, &pairs, &n});
		launch("rows16", rows, 32, (void *[]){&x, &p, &columns, &third});
		return p;
	}
	if (is("by_sequences") || is("by_sequences_over")) {
		p = is("by_sequences") ? p : s;
		launch("rows16", rows, 32, (void *[]){&s, &p, &columns, &one});
		return p;
	}
	if (is("rounded_scores")) {
		launch("times", blocks, 32, (void *[]){&s, &x, &n, &third});
		launch("rows16", rows, 32, (void *[]){&x, &p, &columns, &one});
		return p;
	}
	if (is("fp32_products")) {
		launch("to_half", blocks, 32, (void *[]){&s, &x, &n});
		launch("rows16", rows, 32, (void *[]){&x, &y, &columns, &factor});
		launch("to_wide", blocks, 32, (void *[]){&y, &p, &n});
		return p;
	}
	if (example->filling == NOTHING)
		m = s;
	launch(example->kernel, rows, 32, (void *[]){&s, &m, &columns, &heads, &queries});
	return s;
}

int main(int argc, char **argv)
{
	struct app_report report = {0};
	static float result[NQ];
	CUcontext context;
	CUdevice device;

	for (unsigned i = 0; i < sizeof(examples) / sizeof(*examples) && argc > 1; i++)
		if (!strcmp(argv[1], examples[i].name))
			example = &examples[i];
	if (!example)
		return 1;
	wide = is("fp32_products") || is("shown_wide");
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	module = app_load_module();
	CHECK(cublasCreate(&blas));
	CUdeviceptr q = app_alloc(NQ * 4), k = app_alloc(NK * 4), v = app_alloc(NK * 4);
	CUdeviceptr s = app_alloc(SCORES * 4), p = app_alloc(SCORES * 4), m = app_alloc(SCORES * 4);
	CUdeviceptr x = app_alloc(SCORES * 4), y = app_alloc(SCORES * 4), o = app_alloc(NQ * 4);
	CUdeviceptr masks = app_alloc(SCORES * 4), mask = m;
	if (example->place == OVER_Q)
		o = q;
	else if (example->place == BEHIND)
		o = masks + SCORES * 4 - NQ * 2;
	if (is("bent_over_k")) /* in the midst of X, twice as long as S */
		k = x + SCORES * 2;
	if (is("shared_keys"))
		arrays = app_alloc(6 * Z * sizeof(void *));
	for (int r = 0; r < REPETITIONS; r++) {
		upload(q, NQ, 3 * (uint64_t)r + 1);
		upload(k, NK, 3 * (uint64_t)r + 2);
		upload(v, NK, 3 * (uint64_t)r + 3);
		if (is("cut") && r >= REPETITIONS - 3)
			raise_rows(q, k);
		if (example->place == BEHIND)
			mask = masks + (CUdeviceptr)(r % 4 * 512);
		upload_input(mask, r);
		product(CUBLAS_OP_T, KEYS, ROWS, DEPTH, example->alpha, k, q, s);
		CUdeviceptr weights = middle(s, p, mask, x, y);
		if (example->place == REPLACED && r >= REPETITIONS / 2)
			upload_input(mask, r + 1);
		product(CUBLAS_OP_N, DEPTH, ROWS, KEYS, 1, v, weights, o);
		if (is("bent_over_k") && r >= REPETITIONS - 2)
			app_observe(&report, "X", r, k, SCORES);
		CHECK(cuMemcpyDtoH(result, o, NQ * (wide ? 4 : 2)));
		if (wide)
			app_observe_f32(&report, "O", r, result, NQ);
		else
			app_observe_host(&report, "O", r, (uint16_t *)result, NQ);
	}
	app_report(&report);
	CHECK(cublasDestroy(blas));
	return 0;
}
