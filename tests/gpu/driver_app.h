/* SPDX-License-Identifier: Apache-2.0
 *
 * One attention chain of a program that uses the driver API, with every CUDA and cuBLAS function
 * reached through `struct api`: a program fills it by linking or by dlopen and dlsym.
 *
 * Output files are records "NAME COUNT\n" followed by COUNT halves' values as floats.
 */
#ifndef DRIVER_APP_H
#define DRIVER_APP_H

#include <cublas_v2.h>
#include <cuda.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The vendor's headers rename some of these (cuMemAlloc is cuMemAlloc_v2); the macros below see the
 * names after renaming, so dlsym gets the right ones too. */
#define DRIVER_FUNCTIONS(F)                                                                        \
	F(cuInit)                                                                                  \
	F(cuDeviceGet)                                                                             \
	F(cuDevicePrimaryCtxRetain)                                                                \
	F(cuDevicePrimaryCtxRelease)                                                               \
	F(cuCtxCreate)                                                                             \
	F(cuCtxDestroy)                                                                            \
	F(cuCtxSetCurrent)                                                                         \
	F(cuModuleLoad)                                                                            \
	F(cuModuleGetFunction)                                                                     \
	F(cuModuleUnload)                                                                          \
	F(cuMemAlloc)                                                                              \
	F(cuMemFree)                                                                               \
	F(cuMemcpyDtoH)                                                                            \
	F(cuMemsetD8)                                                                              \
	F(cuLaunchKernel)                                                                          \
	F(cuStreamCreate)                                                                          \
	F(cuStreamSynchronize)                                                                     \
	F(cuStreamDestroy)
#define BLAS_FUNCTIONS(F)                                                                          \
	F(cublasCreate)                                                                            \
	F(cublasDestroy)                                                                           \
	F(cublasSetStream)                                                                         \
	F(cublasGemmStridedBatchedEx)

struct api {
#define FIELD(name) __typeof__(&name) name;
	DRIVER_FUNCTIONS(FIELD)
	BLAS_FUNCTIONS(FIELD)
#undef FIELD
};

#define CHECK(call)                                                                                \
	do {                                                                                       \
		int status_ = (int)(call);                                                         \
		if (status_) {                                                                     \
			fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call,         \
				status_);                                                          \
			exit(2);                                                                   \
		}                                                                                  \
	} while (0)

static inline double now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

#define SOFTMAX_THREADS 128 /* as in app_kernels.h */

struct chain {
	const struct api *api;
	CUcontext context;
	int batch, size, depth;	      /* B*H, S, D */
	CUdeviceptr q, k, v, o, s, p; /* [batch,size,depth], s and p [batch,size,size] */
	CUmodule module;
	CUfunction softmax, fill;
	CUstream stream;
	cublasHandle_t blas;
};

/* The kernels lie beside the executable. */
static inline void chain_module(struct chain *c)
{
	char path[PATH_MAX], *slash;
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 32);

	CHECK(length < 0);
	path[length] = 0;
	slash = strrchr(path, '/');
	strcpy(slash + 1, "driver_kernels.fatbin");
	CHECK(c->api->cuModuleLoad(&c->module, path));
	CHECK(c->api->cuModuleGetFunction(&c->softmax, c->module, "own_softmax"));
	CHECK(c->api->cuModuleGetFunction(&c->fill, c->module, "fill_inputs"));
}

static inline void chain_open(struct chain *c, const struct api *api, CUcontext context, int batch,
			      int size, int depth)
{
	size_t thin = 2ul * batch * size * depth, wide = 2ul * batch * size * size;

	c->api = api;
	c->context = context;
	c->batch = batch;
	c->size = size;
	c->depth = depth;
	CHECK(api->cuCtxSetCurrent(context));
	chain_module(c);
	CHECK(api->cuMemAlloc(&c->q, thin));
	CHECK(api->cuMemAlloc(&c->k, thin));
	CHECK(api->cuMemAlloc(&c->v, thin));
	CHECK(api->cuMemAlloc(&c->o, thin));
	CHECK(api->cuMemAlloc(&c->s, wide));
	CHECK(api->cuMemAlloc(&c->p, wide));
	CHECK(api->cuStreamCreate(&c->stream, CU_STREAM_DEFAULT));
	CHECK(api->cublasCreate(&c->blas));
	CHECK(api->cublasSetStream(c->blas, c->stream));
}

static inline void chain_fill_one(struct chain *c, CUdeviceptr to, unsigned seed)
{
	int count = c->batch * c->size * c->depth;
	void *parameters[] = {&to, &count, &seed};

	CHECK(c->api->cuCtxSetCurrent(c->context));
	CHECK(c->api->cuLaunchKernel(c->fill, (unsigned)(count + 255) / 256, 1, 1, 256, 1, 1, 0,
				     c->stream, parameters, NULL));
}

static inline void chain_fill(struct chain *c, unsigned seed)
{
	chain_fill_one(c, c->q, 3 * seed);
	chain_fill_one(c, c->k, 3 * seed + 1);
	chain_fill_one(c, c->v, 3 * seed + 2);
}

static inline void chain_scores(struct chain *c)
{
	const float one = 1, zero = 0;
	long long thin = (long long)c->size * c->depth, wide = (long long)c->size * c->size;

	CHECK(c->api->cuCtxSetCurrent(c->context));
	CHECK(c->api->cublasGemmStridedBatchedEx(
		c->blas, CUBLAS_OP_T, CUBLAS_OP_N, c->size, c->size, c->depth, &one,
		(const void *)c->k, CUDA_R_16F, c->depth, thin, (const void *)c->q, CUDA_R_16F,
		c->depth, thin, &zero, (void *)c->s, CUDA_R_16F, c->size, wide, c->batch,
		CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

static inline void chain_softmax(struct chain *c)
{
	float scale = 1.0f / sqrtf((float)c->depth);
	void *parameters[] = {&c->s, &c->p, &c->size, &scale};

	CHECK(c->api->cuCtxSetCurrent(c->context));
	CHECK(c->api->cuLaunchKernel(c->softmax, (unsigned)(c->batch * c->size), 1, 1,
				     SOFTMAX_THREADS, 1, 1, 0, c->stream, parameters, NULL));
}

static inline void chain_values(struct chain *c)
{
	const float one = 1, zero = 0;
	long long thin = (long long)c->size * c->depth, wide = (long long)c->size * c->size;

	CHECK(c->api->cuCtxSetCurrent(c->context));
	CHECK(c->api->cublasGemmStridedBatchedEx(
		c->blas, CUBLAS_OP_N, CUBLAS_OP_N, c->depth, c->size, c->size, &one,
		(const void *)c->v, CUDA_R_16F, c->depth, thin, (const void *)c->p, CUDA_R_16F,
		c->size, wide, &zero, (void *)c->o, CUDA_R_16F, c->depth, thin, c->batch,
		CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/* Value of an IEEE half, exactly. */
static inline float half_value(uint16_t bits)
{
	int exponent = bits >> 10 & 31, fraction = bits & 1023;
	float value = exponent == 31 ? (fraction ? NAN : INFINITY)
		      : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
				     : ldexpf((float)fraction, -24);

	return bits >> 15 ? -value : value;
}

static inline void chain_save(struct chain *c, FILE *out, const char *name, CUdeviceptr from,
			      size_t count)
{
	uint16_t *host = malloc(count * sizeof(*host));
	float *wide = malloc(count * sizeof(*wide));

	CHECK(!host || !wide);
	CHECK(c->api->cuCtxSetCurrent(c->context));
	CHECK(c->api->cuStreamSynchronize(c->stream));
	CHECK(c->api->cuMemcpyDtoH(host, from, count * sizeof(*host)));
	for (size_t i = 0; i < count; i++)
		wide[i] = half_value(host[i]);
	fprintf(out, "%s %zu\n", name, count);
	CHECK(fwrite(wide, sizeof(*wide), count, out) != count);
	free(host);
	free(wide);
}

static inline void chain_save_o(struct chain *c, FILE *out, const char *name)
{
	chain_save(c, out, name, c->o, (size_t)c->batch * (size_t)c->size * (size_t)c->depth);
}

static inline void chain_close(struct chain *c)
{
	CHECK(c->api->cuCtxSetCurrent(c->context));
	CHECK(c->api->cuStreamSynchronize(c->stream));
	CHECK(c->api->cublasDestroy(c->blas));
	CHECK(c->api->cuMemFree(c->q));
	CHECK(c->api->cuMemFree(c->k));
	CHECK(c->api->cuMemFree(c->v));
	CHECK(c->api->cuMemFree(c->o));
	CHECK(c->api->cuMemFree(c->s));
	CHECK(c->api->cuMemFree(c->p));
	CHECK(c->api->cuStreamDestroy(c->stream));
	CHECK(c->api->cuModuleUnload(c->module));
}

/* One context, one stream: CHAINS chains, then P is read after Q and K were overwritten. */
static inline int single_chain_program(const struct api *api, int argc, char **argv)
{
	struct chain c;
	CUcontext context;
	CUdevice device;
	int chains = argc > 2 ? atoi(argv[2]) : 40;
	FILE *out;

	if (argc < 2 || !(out = fopen(argv[1], "wb"))) {
		fprintf(stderr, "usage: %s OUT [CHAINS]\n", argv[0]);
		return 1;
	}
	CHECK(api->cuInit(0));
	CHECK(api->cuDeviceGet(&device, 0));
	CHECK(api->cuDevicePrimaryCtxRetain(&context, device));
	chain_open(&c, api, context, 8, 256, 64);
	for (int n = 0; n < chains; n++) {
		chain_fill(&c, (unsigned)n);
		chain_scores(&c);
		chain_softmax(&c);
		chain_values(&c);
		chain_save_o(&c, out, "o");
	}
	CHECK(api->cuMemsetD8(c.q, 0xff, 2ul * 8 * 256 * 64));
	chain_fill_one(&c, c.k, 4711);
	chain_save(&c, out, "P", c.p, 8ul * 256 * 256);
	chain_close(&c);
	CHECK(api->cuDevicePrimaryCtxRelease(device));
	CHECK(fclose(out));
	printf("%d chains\n", chains);
	return 0;
}

#endif
