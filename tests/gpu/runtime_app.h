/* SPDX-License-Identifier: Apache-2.0
 *
 * One attention chain of a program that uses the CUDA runtime: buffers, stream, cuBLAS handle, and
 * the four steps fill, scores, softmax, values. Any error ends the program with status 2.
 *
 * Output files are records "NAME COUNT\n" followed by COUNT floats.
 */
#ifndef RUNTIME_APP_H
#define RUNTIME_APP_H

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "app_kernels.h"

#define CHECK(call)                                                                                \
	do {                                                                                       \
		int status_ = (int)(call);                                                         \
		if (status_) {                                                                     \
			fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call,         \
				status_);                                                          \
			exit(2);                                                                   \
		}                                                                                  \
	} while (0)

struct chain {
	int batch, size, depth; /* B*H, S, D */
	__half *q, *k, *v, *o;	/* [batch,size,depth] */
	__half *s, *p;		/* [batch,size,size]; p is s when softmax works in place */
	cudaStream_t stream;
	cublasHandle_t blas;
};

static void chain_open(struct chain *c, int batch, int size, int depth, int in_place)
{
	size_t wide = sizeof(__half) * batch * size * size;
	size_t thin = sizeof(__half) * batch * size * depth;

	c->batch = batch;
	c->size = size;
	c->depth = depth;
	CHECK(cudaMalloc((void **)&c->q, thin));
	CHECK(cudaMalloc((void **)&c->k, thin));
	CHECK(cudaMalloc((void **)&c->v, thin));
	CHECK(cudaMalloc((void **)&c->o, thin));
	CHECK(cudaMalloc((void **)&c->s, wide));
	c->p = c->s;
	if (!in_place)
		CHECK(cudaMalloc((void **)&c->p, wide));
	CHECK(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
	CHECK(cublasCreate(&c->blas));
	CHECK(cublasSetStream(c->blas, c->stream));
}

static void chain_fill_one(struct chain *c, __half *to, unsigned seed)
{
	int count = c->batch * c->size * c->depth;

	fill_inputs<<<(count + 255) / 256, 256, 0, c->stream>>>(to, count, seed);
	CHECK(cudaGetLastError());
}

static void chain_fill(struct chain *c, unsigned seed)
{
	chain_fill_one(c, c->q, 3 * seed);
	chain_fill_one(c, c->k, 3 * seed + 1);
	chain_fill_one(c, c->v, 3 * seed + 2);
}

static void chain_scores(struct chain *c)
{
	const float one = 1, zero = 0;
	long long thin = (long long)c->size * c->depth, wide = (long long)c->size * c->size;

	CHECK(cublasGemmStridedBatchedEx(
		c->blas, CUBLAS_OP_T, CUBLAS_OP_N, c->size, c->size, c->depth, &one, c->k,
		CUDA_R_16F, c->depth, thin, c->q, CUDA_R_16F, c->depth, thin, &zero, c->s,
		CUDA_R_16F, c->size, wide, c->batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void chain_softmax(struct chain *c)
{
	own_softmax<<<c->batch * c->size, SOFTMAX_THREADS, 0, c->stream>>>(
		c->s, c->p, c->size, 1.0f / sqrtf((float)c->depth));
	CHECK(cudaGetLastError());
}

static void chain_values(struct chain *c)
{
	const float one = 1, zero = 0;
	long long thin = (long long)c->size * c->depth, wide = (long long)c->size * c->size;

	CHECK(cublasGemmStridedBatchedEx(
		c->blas, CUBLAS_OP_N, CUBLAS_OP_N, c->depth, c->size, c->size, &one, c->v,
		CUDA_R_16F, c->depth, thin, c->p, CUDA_R_16F, c->size, wide, &zero, c->o,
		CUDA_R_16F, c->depth, thin, c->batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static void chain_save(struct chain *c, FILE *out, const char *name, const __half *from,
		       size_t count)
{
	__half *host = (__half *)malloc(count * sizeof(*host));
	float *wide = (float *)malloc(count * sizeof(*wide));

	CHECK(!host || !wide);
	CHECK(cudaMemcpyAsync(host, from, count * sizeof(*host), cudaMemcpyDeviceToHost,
			      c->stream));
	CHECK(cudaStreamSynchronize(c->stream));
	for (size_t i = 0; i < count; i++)
		wide[i] = __half2float(host[i]);
	fprintf(out, "%s %zu\n", name, count);
	CHECK(fwrite(wide, sizeof(*wide), count, out) != count);
	free(host);
	free(wide);
}

static void chain_save_o(struct chain *c, FILE *out, const char *name)
{
	chain_save(c, out, name, c->o, (size_t)c->batch * c->size * c->depth);
}

static void chain_close(struct chain *c)
{
	CHECK(cudaStreamSynchronize(c->stream));
	CHECK(cublasDestroy(c->blas));
	if (c->p != c->s)
		CHECK(cudaFree(c->p));
	CHECK(cudaFree(c->s));
	CHECK(cudaFree(c->q));
	CHECK(cudaFree(c->k));
	CHECK(cudaFree(c->v));
	CHECK(cudaFree(c->o));
	CHECK(cudaStreamDestroy(c->stream));
}

#endif
