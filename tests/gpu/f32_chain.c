/* SPDX-License-Identifier: Apache-2.0
 *
 * The chain of a program, by cuBLAS: see f32_chain.h.
 */
#include "f32_chain.h"

#include <dlfcn.h>
#include <stddef.h>

enum { N, T }; /* cublasOperation_t */

typedef int gemm_fn(void *handle, int opa, int opb, int m, int n, int k, const float *alpha,
		    const void *a, int lda, long long stride_a, const void *b, int ldb,
		    long long stride_b, const float *beta, void *c, int ldc, long long stride_c,
		    int count);
static int (*create)(void **handle);
static gemm_fn *gemm;
static void *handle;
static CUfunction softmax_warp, softmax_block;
static CUdeviceptr scores;

/* One operand of a product: its op, leading dimension, distance of heads. */
struct side {
	int op, ld;
	long long stride;
};

static int side_of(struct side *s, const struct attn_args *a, const struct attn_tensor *t)
{
	const int64_t head = a->H > 1 ? t->stride[1] : t->stride[0];

	if (t->by_array || (a->H > 1 && a->B > 1 && t->stride[0] != a->H * t->stride[1]))
		return 0;
	s->stride = head;
	s->op = t->stride[3] == 1 ? N : T;
	s->ld = (int)t->stride[s->op == N ? 2 : 3];
	return t->stride[3] == 1 || t->stride[2] == 1;
}

int f32_chain_open(const struct attn_args *a, CUmodule module)
{
	struct side side;
	const size_t heads = (size_t)a->B * (size_t)a->H;
	void *library;

	if (!handle) {
		library = dlopen("libcublas.so.13", RTLD_NOW);
		library = library ? library : dlopen("libcublas.so.12", RTLD_NOW);
		if (!library)
			return 0;
		*(void **)&create = dlsym(library, "cublasCreate_v2");
		*(void **)&gemm = dlsym(library, "cublasSgemmStridedBatched");
		if (!create || !gemm || create(&handle))
			return 0;
	}
	if (!side_of(&side, a, &a->q) || side.op != N || !side_of(&side, a, &a->k) ||
	    !side_of(&side, a, &a->v) || !side_of(&side, a, &a->o) || side.op != N)
		return 0;
	if (cuModuleGetFunction(&softmax_warp, module, "fashim_f32_softmax_warp") ||
	    cuModuleGetFunction(&softmax_block, module, "fashim_f32_softmax_block"))
		return 0;
	return cuMemAlloc(&scores, heads * (size_t)a->Sq * (size_t)a->Sk * sizeof(float)) ==
	       CUDA_SUCCESS;
}

void f32_chain_run(const struct attn_args *a)
{
	const int heads = a->B * a->H;
	const long long square = (long long)a->Sq * a->Sk;
	const float one = 1.0f, none = 0.0f;
	struct f32_softmax_args s = {.scores = (float *)(uintptr_t)scores,
				     .bias = (const float *)(uintptr_t)a->spec.bias[0].base,
				     .rows = (int64_t)heads * a->Sq,
				     .bias_rows = (int64_t)a->H * a->Sq,
				     .Sk = a->Sk};
	void *params[] = {&s};
	struct side q, k, v, o;
	const int is_short = a->Sk <= F32_SOFTMAX_KEYS;
	const int64_t blocks =
		is_short ? (s.rows + F32_SOFTMAX_ROWS - 1) / F32_SOFTMAX_ROWS : s.rows;

	(void)side_of(&q, a, &a->q);
	(void)side_of(&k, a, &a->k);
	(void)side_of(&v, a, &a->v);
	(void)side_of(&o, a, &a->o);
	/* column by column, as cuBLAS sees them, everything is transposed */
	(void)gemm(handle, k.op == N ? T : N, N, a->Sk, a->Sq, a->D, &a->spec.scale,
		   (const void *)(uintptr_t)a->k.base, k.ld, k.stride,
		   (const void *)(uintptr_t)a->q.base, q.ld, q.stride, &none,
		   (void *)(uintptr_t)scores, a->Sk, square, heads);
	(void)cuLaunchKernel(is_short ? softmax_warp : softmax_block, (unsigned)blocks, 1, 1,
			     is_short ? 32 * F32_SOFTMAX_ROWS : 256, 1, 1, 0, NULL, params, NULL);
	(void)gemm(handle, v.op, N, a->Dv, a->Sq, a->Sk, &one, (const void *)(uintptr_t)a->v.base,
		   v.ld, v.stride, (const void *)(uintptr_t)scores, a->Sk, square, &none,
		   (void *)(uintptr_t)a->o.base, o.ld, o.stride, heads);
}

void f32_chain_close(void)
{
	(void)cuMemFree(scores);
}
