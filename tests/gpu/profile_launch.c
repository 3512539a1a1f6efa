/* SPDX-License-Identifier: Apache-2.0
 *
 * One launch for each row of a table of variants and calls that stand for what they are made for:
 * what profile_kernels.py puts under the profiler.
 *
 *     profile_launch [WORD...]      only rows whose variant or call contains one of the words
 *
 * Prints a line for each row launched: variant, kernel symbol, call, floating-point operations,
 * bytes moved at least; tabs between. Variants that are not in this GPU's image are left out. Exit
 * status 1 when a row names no variant, a variant does not take its call, or nothing was launched.
 */
#include <stdio.h>
#include <string.h>

#include "kernel_operands.h"
#include "kernels/bench_abi.h"

struct row {
	const char *variant; /* "NAME*": all that begin so */
	struct kernel_case call;
};

/* clang-format off */
static const struct row rows[] = {
	{"tma_f16_d64_r192", {IN_F16, SHAPE(2, 16, 4096, 4096, 64)}},
	{"tma_f16_d64_r128", {IN_F16, SHAPE(2, 16, 4096, 4096, 64), .causal = 1}},
	{"tma_f16_d64_down", {IN_F16, SHAPE(4, 16, 2048, 2048, 64), .down = 1}},
	{"tma_f16_d64_bias", {IN_F16, SHAPE(8, 16, 512, 512, 64), ADD(BATCH, F16)}},
	{"tma_f16_d64_mask", {IN_F16, SHAPE(8, 16, 512, 512, 64), MASK(PADDING, TAIL)}},
	{"tma_f16_d96", {IN_F16, SHAPE(2, 16, 2048, 2048, 96)}},
	{"tma_f16_d128", {IN_F16, SHAPE(2, 16, 4096, 4096, 128)}},
	{"tma_bf16_d128_bias", {IN_BF16, SHAPE(2, 16, 2048, 2048, 128), ADD(SQUARE, BF16)}},
	{"tma_f16_d128_mask", {IN_F16, SHAPE(2, 16, 2048, 2048, 128), MASK(SQUARE, TRIANGLE)}},
	{"tma_f16_d192", {IN_F16, SHAPE(2, 8, 2048, 2048, 192)}},
	{"tma_f16_d256", {IN_F16, SHAPE(2, 8, 4096, 4096, 256)}},
	{"split_f16_d64_p1", {IN_F16, SHAPE(8, 12, 128, 128, 64)}},
	{"split_f16_d64_p2", {IN_F16, SHAPE(1, 8, 512, 512, 64)}},
	{"split_f16_d128_p2", {IN_F16, SHAPE(1, 8, 512, 512, 128)}},
	{"sm90_f16_d64", {IN_F16, SHAPE(8, 16, 512, 512, 64), ADD(HEAD, F16), .second = 1}},
	{"sm90_f16_d128", {IN_F16, SHAPE(4, 16, 1024, 1024, 128), ADD(HEAD, F32)}},
	{"sm90_f32_d64_plain", {.dtype = ATTN_F32, SHAPE(4, 16, 2048, 2048, 64)}},
	{"sm90_f32_d64", {.dtype = ATTN_F32, SHAPE(8, 12, 512, 512, 64), ADD(HEAD, F32)}},
	{"sm90_f32_d128_plain", {.dtype = ATTN_F32, SHAPE(2, 16, 2048, 2048, 128)}},
	{"f32_d64", {.dtype = ATTN_F32, SHAPE(2, 12, 512, 512, 64), .storage = ODD_ROWS}},
	{"wmma_f16_d64_r128", {IN_F16, SHAPE(4, 16, 2048, 2048, 64)}},
	{"wmma_f16_d128_r128", {IN_F16, SHAPE(2, 16, 2048, 2048, 128)}},
	{"wmma_f16_d256_r64", {IN_F16, SHAPE(2, 8, 2048, 2048, 256)}},
	{"decode_f16_d128_p1", {IN_F16, SHAPE(4, 32, 1, 4096, 128)}},
	{"decode_f16_d128_p8", {IN_F16, SHAPE(1, 32, 1, 4096, 128)}},
	{"few_f16_d128_p8", {IN_F16, SHAPE(1, 32, 16, 4096, 128)}},
	{"ladder*", {IN_F16, SHAPE(1, 8, 512, 512, 64)}},
};
/* clang-format on */

static int is_named(const struct row *r, int n)
{
	const char *name = fashim_kernels_name(n), *star = strchr(r->variant, '*');

	return star ? !strncmp(name, r->variant, (size_t)(star - r->variant))
		    : !strcmp(name, r->variant);
}

static int is_wanted(const char *variant, const char *call, char **words)
{
	for (char **word = words; *word; word++)
		if (strstr(variant, *word) || strstr(call, *word))
			return 1;
	return !*words;
}

/* Of both products; a window leaves half. */
static double operations(const struct kernel_case *c)
{
	return (c->causal ? 2.0 : 4.0) * c->B * c->H * c->Sq * (double)c->Sk * c->D;
}

/* Q, K, V, O, and what is added or masked, each once. */
static double bytes_moved(const struct kernel_case *c, const struct operands *x)
{
	const double size = attn_dtype_size(c->dtype);

	return 2.0 * size * c->B * c->H * ((double)c->Sq + c->Sk) * c->D +
	       (double)(x->bias[0].bytes + x->bias[1].bytes + x->mask.bytes);
}

/* Launches variant n on a row's call. 0, or -1 having said why not. */
static int launch(const struct row *r, const char *call_name, int n)
{
	struct operands x = operands_make(&r->call);
	struct fashim_call *call;

	if (fashim_kernels_select(&x.args, fashim_kernels_name(n), 0) != n) {
		fprintf(stderr, "profile_launch: %s does not take %s\n", fashim_kernels_name(n),
			call_name);
		return -1;
	}
	if (fashim_kernels_prepare(&call, n, &x.args) || fashim_kernels_launch(call, NULL)) {
		fprintf(stderr, "profile_launch: %s\n", fashim_kernels_error());
		return -1;
	}
	CHECK(cuCtxSynchronize());
	printf("%s\t%s\t%s\t%.0f\t%.0f\n", attn_variants[n].name, attn_variants[n].symbol,
	       call_name, operations(&r->call), bytes_moved(&r->call, &x));
	fashim_kernels_free(call);
	operands_free(&x);
	return 0;
}

int main(int argc, char **argv)
{
	int launched = 0, failed = 0;
	CUcontext context;
	CUdevice device;

	if (argc > 1 && argv[1][0] == '-') {
		fprintf(stderr, "usage: profile_launch [WORD...]\n");
		return 2;
	}
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	operands_tight = 1;
	if (fashim_kernels_open(NULL)) {
		fprintf(stderr, "profile_launch: %s\n", fashim_kernels_error());
		return 1;
	}
	for (int i = 0; i < COUNT(rows); i++) {
		char name[160];
		int known = 0;

		kernel_case_name(&rows[i].call, name, sizeof(name));
		for (int n = 0; n < attn_variant_total; n++) {
			if (!is_named(&rows[i], n))
				continue;
			known++;
			if (!fashim_kernels_present(n) ||
			    !is_wanted(attn_variants[n].name, name, argv + 1))
				continue;
			if (launch(&rows[i], name, n))
				failed++;
			else
				launched++;
		}
		if (!known) {
			fprintf(stderr, "profile_launch: no variant is called %s\n",
				rows[i].variant);
			failed++;
		}
	}
	return failed || !launched;
}
