/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs of this folder share: memory, inputs, the row softmax that their kernels are
 * made of, output, and a main that runs chain after chain on fresh inputs. Each program repeats the
 * call sequence of one inference engine with kernels of its own.
 *
 *     PROGRAM OUT CHAINS CASE
 *
 * Output files are records "NAME COUNT\n" followed by COUNT floats. Any error ends the program with
 * status 2.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                \
	do {                                                                                       \
		int status_ = (int)(call);                                                         \
		if (status_) {                                                                     \
			fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call,         \
				status_);                                                          \
			exit(2);                                                                   \
		}                                                                                  \
	} while (0)

#define THREADS 128

enum { B = 2, H = 8, S = 512, D = 64 };
static const long long THIN = (long long)S * D, WIDE = (long long)S * S;
static const float ONE = 1, ZERO = 0, SCALE = 0.125f; /* 1/sqrt(D) */

struct engine {
	const char *which; /* the case */
	cudaStream_t stream;
	cublasHandle_t blas;
	FILE *out;
};

/* What a program defines: its buffers, and one chain on inputs that depend on `seed`. */
static void open_engine(struct engine *e);
static void chain(struct engine *e, unsigned seed);

/* Device memory, cleared. */
static inline void *room(size_t bytes)
{
	void *memory;

	CHECK(cudaMalloc(&memory, bytes));
	CHECK(cudaMemset(memory, 0, bytes));
	CHECK(cudaDeviceSynchronize()); /* other streams may use it at once */
	return memory;
}

static inline __half *halves(long long count)
{
	return (__half *)room(sizeof(__half) * (size_t)count);
}

static inline float *floats(long long count)
{
	return (float *)room(sizeof(float) * (size_t)count);
}

template <typename T> __global__ void draw_inputs(T *to, long long count, unsigned seed)
{
	long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
	unsigned x = (unsigned)i * 2654435761u + seed * 40503u + 12345u;

	if (i >= count)
		return;
	x ^= x >> 16;
	x *= 0x85ebca6bu;
	x ^= x >> 13;
	x *= 0xc2b2ae35u;
	x ^= x >> 16;
	to[i] = (T)(((float)(x >> 8) / 8388608.0f - 1.0f) * 1.7f);
}

static inline unsigned blocks(long long count)
{
	return (unsigned)((count + THREADS - 1) / THREADS);
}

/* `count` numbers of about unit variance, the same for the same seed. */
template <typename T>
static inline void draw(struct engine *e, T *to, long long count, unsigned seed)
{
	draw_inputs<<<blocks(count), THREADS, 0, e->stream>>>(to, count, seed);
	CHECK(cudaGetLastError());
}

/* Sum, or maximum, over a block of THREADS. */
static __device__ inline float over_block(float x, bool largest)
{
	__shared__ float part[THREADS];
	int me = (int)threadIdx.x;

	part[me] = x;
	__syncthreads();
	for (int half = THREADS / 2; half > 0; half /= 2) {
		if (me < half)
			part[me] = largest ? fmaxf(part[me], part[me + half])
					   : part[me] + part[me + half];
		__syncthreads();
	}
	x = part[0];
	__syncthreads();
	return x;
}

/* store(j, exp(score(j) - max) / (sum + more)) for j < end, by one block. */
template <typename Score, typename Store>
static __device__ inline void softmax_row(int end, float more, Score score, Store store)
{
	float top = -INFINITY, sum = 0;

	for (int j = (int)threadIdx.x; j < end; j += THREADS)
		top = fmaxf(top, score(j));
	top = over_block(top, true);
	for (int j = (int)threadIdx.x; j < end; j += THREADS)
		sum += expf(score(j) - top);
	sum = over_block(sum, false) + more;
	for (int j = (int)threadIdx.x; j < end; j += THREADS)
		store(j, expf(score(j) - top) / sum);
}

template <typename To, typename From>
__global__ void convert(To *to, const From *from, long long count)
{
	long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		to[i] = (To)(float)from[i];
}

template <typename T>
static inline void save(struct engine *e, const char *name, const T *from, long long count)
{
	float *wide = floats(count), *host = (float *)malloc(sizeof(float) * (size_t)count);

	CHECK(!host);
	convert<<<blocks(count), THREADS, 0, e->stream>>>(wide, from, count);
	CHECK(cudaGetLastError());
	CHECK(cudaStreamSynchronize(e->stream));
	CHECK(cudaMemcpy(host, wide, sizeof(float) * (size_t)count, cudaMemcpyDeviceToHost));
	fprintf(e->out, "%s %lld\n", name, count);
	CHECK(fwrite(host, sizeof(float), (size_t)count, e->out) != (size_t)count);
	CHECK(cudaFree(wide));
	free(host);
}

static inline bool is(const struct engine *e, const char *which)
{
	return !strcmp(e->which, which);
}

/* A product of B*H heads, types and strides as cuBLAS takes them, in half precision with float
 * accumulation unless said. */
struct product {
	cublasOperation_t ta, tb;
	int m, n, k;
	const void *a, *b;
	void *c;
	int lda, ldb, ldc;
	long long sa, sb, sc;
	float alpha;
	cudaDataType_t type, c_type;
	cublasComputeType_t compute;
};

/* scores[h] = alpha Q[h] K[h]^T, contiguous operands */
static inline struct product scores_of(const void *q, const void *k, void *s, float alpha)
{
	struct product x = {};

	x.ta = CUBLAS_OP_T;
	x.m = x.n = x.ldc = S;
	x.k = x.lda = x.ldb = D;
	x.a = k;
	x.b = q;
	x.c = s;
	x.sa = x.sb = THIN;
	x.sc = WIDE;
	x.alpha = alpha;
	x.type = x.c_type = CUDA_R_16F;
	x.compute = CUBLAS_COMPUTE_32F;
	return x;
}

/* o[h] = P[h] V[h], contiguous operands */
static inline struct product values_of(const void *p, const void *v, void *o)
{
	struct product x = scores_of(p, v, o, 1);

	x.ta = CUBLAS_OP_N;
	x.m = x.lda = x.ldc = D;
	x.k = x.ldb = S;
	x.sb = WIDE;
	x.sc = THIN;
	return x;
}

static inline void multiply(struct engine *e, const struct product *x)
{
	__half alpha = __float2half(x->alpha), zero = __float2half(0);
	bool half = x->compute == CUBLAS_COMPUTE_16F;

	CHECK(cublasGemmStridedBatchedEx(
		e->blas, x->ta, x->tb, x->m, x->n, x->k,
		half ? (const void *)&alpha : (const void *)&x->alpha, x->a, x->type, x->lda, x->sa,
		x->b, x->type, x->ldb, x->sb, half ? (const void *)&zero : (const void *)&ZERO,
		x->c, x->c_type, x->ldc, x->sc, B * H, x->compute, CUBLAS_GEMM_DEFAULT));
}

int main(int argc, char **argv)
{
	struct engine e = {};
	int chains;

	if (argc < 4 || !(e.out = fopen(argv[1], "wb"))) {
		fprintf(stderr, "usage: %s OUT CHAINS CASE\n", argv[0]);
		return 1;
	}
	chains = atoi(argv[2]);
	e.which = argv[3];
	CHECK(cudaStreamCreateWithFlags(&e.stream, cudaStreamNonBlocking));
	CHECK(cublasCreate(&e.blas));
	CHECK(cublasSetStream(e.blas, e.stream));
	open_engine(&e);
	for (int n = 0; n < chains; n++)
		chain(&e, 10 * (unsigned)n);
	CHECK(cudaDeviceSynchronize());
	CHECK(cublasDestroy(e.blas));
	CHECK(fclose(e.out));
	printf("%d chains\n", chains);
	return 0;
}

#endif
