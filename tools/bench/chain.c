/* SPDX-License-Identifier: Apache-2.0
 *
 * S = scale Q K^T, its softmax in place, O = P V: three launches.
 */
#include "tools/bench/chain.h"

const struct ladder_step *chain_step(void)
{
	int n = 0;

	while (!ladder_steps[n].library)
		n++;
	return &ladder_steps[n];
}

static int64_t scores_of(const struct attn_args *args)
{
	return (int64_t)args->Sq * args->Sk;
}

static int find_softmax(struct chain *chain)
{
	const struct gpu *gpu = chain->blas->gpu;

	chain->step = chain_step();
	return gpu_check_kernels(
		gpu, gpu->kernels.fashim_kernels_function(&chain->softmax, chain->step->symbol));
}

int chain_make(struct chain *chain, const struct blas *blas, const struct gpu_operands *operands,
	       int sets)
{
	const struct gpu *gpu = blas->gpu;
	const struct attn_args *args = &operands->args;
	const size_t bytes = (size_t)args->B * (size_t)args->H * (size_t)scores_of(args) *
			     (size_t)attn_dtype_size(args->q.dtype);
	int result;

	*chain = (struct chain){.blas = blas, .operands = operands, .sets = sets};
	result = find_softmax(chain);
	if (!result)
		result = gpu_check(gpu, gpu->driver.cuMemAlloc(&chain->scores, bytes),
				   "allocating the scores");
	return result;
}

void chain_free(struct chain *chain)
{
	if (chain->scores)
		chain->blas->gpu->driver.cuMemFree(chain->scores);
	chain->scores = 0;
}

static struct blas_matrix operand(const struct attn_tensor *tensor, bool transposed)
{
	return (struct blas_matrix){tensor->base, tensor->stride[2], tensor->stride[1], transposed};
}

static int enqueue_softmax(const struct chain *chain, const struct attn_args *args, CUstream stream)
{
	const struct gpu *gpu = chain->blas->gpu;
	const struct ladder_step *step = chain->step;
	struct ladder_scores parameter = {.attn = *args, .scores = chain->scores};
	void *parameters[] = {&parameter};

	return gpu_check(gpu,
			 gpu->driver.cuLaunchKernel(
				 chain->softmax,
				 (unsigned)((args->Sq + step->rows - 1) / step->rows),
				 (unsigned)args->H, (unsigned)args->B, (unsigned)step->threads, 1,
				 1, (unsigned)step->shared_bytes, stream, parameters, NULL),
			 step->symbol);
}

static int enqueue_chain(void *subject, int n, CUstream stream)
{
	const struct chain *chain = subject;
	const struct attn_args *args = &chain->operands[n].args;
	const struct blas_matrix q = operand(&args->q, false), k = operand(&args->k, true);
	const struct blas_matrix v = operand(&args->v, false), o = operand(&args->o, false);
	const struct blas_matrix scores = {chain->scores, args->Sk, scores_of(args), false};
	const int batch = args->B * args->H;
	int result = blas_product(chain->blas, &q, &k, &scores, args->Sq, args->Sk, args->D, batch,
				  args->spec.scale, args->q.dtype);

	if (!result)
		result = enqueue_softmax(chain, args, stream);
	if (!result)
		result = blas_product(chain->blas, &scores, &v, &o, args->Sq, args->Dv, args->Sk,
				      batch, 1, args->q.dtype);
	return result;
}

struct gpu_work chain_work(struct chain *chain)
{
	return (struct gpu_work){enqueue_chain, chain, chain->sets};
}
