/* SPDX-License-Identifier: Apache-2.0
 *
 * What every run needs, opened in the order in which its lack is told best.
 */
#include "tools/bench/bench.h"
#include "tools/base/tool.h"
#include "tools/gpu/gpu_clock.h"

#include <errno.h>
#include <string.h>

static int open_referee(struct bench *bench)
{
	const struct bench_options *options = bench->options;
	char why[256];

	if (options->no_python)
		return 0;
	if (referee_start(&bench->referee, options->python, options->script, why, sizeof(why))) {
		complain("no PyTorch to compare with (%s): against the cuBLAS chain alone", why);
		return 0;
	}
	bench->has_torch = true;
	return referee_shape(&bench->referee, &options->shape, bench->set_count, options->seed);
}

/* A missing PyTorch is one line on stderr, anything else missing is -errno and a line. For
 * close_all() in any case. */
static int open_all(struct bench *bench, const struct bench_options *options)
{
	int result;

	memset(bench, 0, sizeof(*bench));
	bench->options = options;
	result = gpu_open(&bench->gpu, options->library);
	if (!result)
		result = blas_open(&bench->blas, &bench->gpu, options->cublas);
	if (result)
		return result;
	bench->set_count = gpu_operand_sets(&bench->gpu, &options->shape);
	bench->sets =
		gpu_operands_array(&bench->gpu, &options->shape, bench->set_count, options->seed);
	return bench->sets ? open_referee(bench) : -ENOMEM;
}

static void close_all(struct bench *bench)
{
	referee_stop(&bench->referee);
	gpu_operands_array_free(&bench->gpu, bench->sets, bench->set_count);
	blas_close(&bench->blas);
	gpu_close(&bench->gpu);
}

/* A hash of the file that the kernels are in tells one build from another (FNV-1a). */
static void hash_file(const char *path, char *text, size_t size)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	FILE *in = fopen(path, "rb");
	int c;

	*text = '\0';
	if (!in)
		return;
	while ((c = getc_unlocked(in)) != EOF)
		hash = (hash ^ (uint64_t)c) * UINT64_C(0x100000001b3);
	fclose(in);
	snprintf(text, size, "%016llx", (unsigned long long)hash);
}

/* What was measured on and with; null where unknown. */
static json_t *describe_machine(const struct bench *bench)
{
	const struct gpu *gpu = &bench->gpu;
	const json_t *torch = bench->referee.identity;
	char driver[96], cuda[32], kernels[32];

	gpu_driver_version(driver, sizeof(driver));
	snprintf(cuda, sizeof(cuda), "%d.%d", gpu->cuda_version / 1000,
		 gpu->cuda_version % 1000 / 10);
	hash_file(gpu->library, kernels, sizeof(kernels));
	return json_pack("{s:s,s:s,s:i,s:i,s:I,s:s,s:s,s:s,s:O?,s:O?,s:s,s:s}", "gpu", gpu->name,
			 "uuid", gpu->uuid, "arch", gpu->arch, "multiprocessors",
			 gpu->multiprocessors, "cache_bytes", (json_int_t)gpu->cache_bytes,
			 "driver", driver, "cuda", cuda, "cublas", bench->blas.version, "torch",
			 json_object_get(torch, "torch"), "cudnn", json_object_get(torch, "cudnn"),
			 "fashim", FASHIM_VERSION, "kernels", kernels);
}

static json_t *describe_shape(const struct gpu_shape *shape)
{
	static const char *const dtypes[] = {"f16", "bf16"};
	char text[96];

	return json_pack("{s:s,s:i,s:i,s:i,s:i,s:i,s:s,s:b,s:f}", "text",
			 gpu_shape_text(text, sizeof(text), shape), "B", shape->B, "H", shape->H,
			 "Sq", shape->Sq, "Sk", shape->Sk, "D", shape->D, "dtype",
			 dtypes[shape->dtype], "causal", shape->causal, "flops",
			 gpu_shape_flops(shape));
}

/* The largest difference that counts as correct is below this. */
static double tolerance_of(int dtype)
{
	return dtype == ATTN_F16 ? 1e-3 : 8e-3;
}

json_t *bench_run(const struct bench_options *options, const char *format, int rounds,
		  int (*measure)(struct bench *bench, json_t *document, int rounds))
{
	struct bench bench;
	json_t *document = NULL;
	int result = open_all(&bench, options);

	rounds = options->rounds ? options->rounds : rounds;
	if (!result) {
		document = json_pack("{s:s,s:i,s:o,s:o,s:I,s:i,s:f}", "format", format, "version",
				     1, "machine", describe_machine(&bench), "shape",
				     describe_shape(&options->shape), "seed",
				     (json_int_t)options->seed, "rounds", rounds, "tolerance",
				     tolerance_of(options->shape.dtype));
		result = measure(&bench, document, rounds);
	}
	close_all(&bench);
	if (!result)
		return document;
	json_decref(document);
	return NULL;
}
