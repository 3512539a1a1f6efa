/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that the driver or cuBLAS refuses: the program goes on, and its answers say by what. What
 * they would have touched is what it was.
 */
#include "fuzz.h"

#include "tests/apps/aten_blocks.h"

static const size_t far = (size_t)1 << 40;

static void refused(const char *what, int status)
{
	trace("refused: %s, status %d", what, status);
	if (!status)
		die(what, 0, __LINE__);
	record_status(what, status);
	occurs(what);
}

static void by_memory_call(struct happening *h)
{
	const size_t each = h->bytes / 2 / width * width;
	CUDA_MEMCPY2D tile = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = here->spare,
			      .srcPitch = h->bytes,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = h->at,
			      .dstPitch = each,
			      .WidthInBytes = h->bytes,
			      .Height = 2};
	char host[8] = {0};

	switch (below(&h->rng, 9)) {
	case 0:
		refused("fill beyond", cuMemsetD8Async(h->at, 0xff, far, h->stream));
		break;
	case 1:
		refused("fill askew", cuMemsetD32Async(h->at + 1, 7, 1, h->stream));
		break;
	case 2:
		refused("fill of rows",
			cuMemsetD2D8Async(h->at, each, 0xff, h->bytes, 2, h->stream));
		break;
	case 3:
		refused("copy beyond", cuMemcpyDtoDAsync(h->at, here->spare, far, h->stream));
		break;
	case 4:
		refused("copy from nowhere", cuMemcpyDtoDAsync(h->at, 4096, h->bytes, h->stream));
		break;
	case 5:
		refused("copy to beyond", cuMemcpyHtoDAsync(h->at, host, far, h->stream));
		break;
	case 6:
		refused("copy of rows", cuMemcpy2DAsync(&tile, h->stream));
		break;
	case 7:
		refused("copy to nowhere", cuMemcpyDtoDAsync(4096, h->at, h->bytes, h->stream));
		break;
	default:
		refused("copy from beyond", cuMemcpyDtoHAsync(host, h->at, far, h->stream));
	}
}

static void by_launch(struct happening *h)
{
	static const struct {
		unsigned blocks[3], threads[3], shared;
	} shapes[] = {
		{{0, 1, 1}, {64, 1, 1}, 0},	     {{1, 1, 0}, {64, 1, 1}, 0},
		{{1, 65536, 1}, {64, 1, 1}, 0},	     {{1, 1, 1}, {4096, 1, 1}, 0},
		{{1, 1, 1}, {64, 64, 1}, 0},	     {{1, 1, 1}, {1, 1, 65}, 0},
		{{1, 1, 1}, {64, 1, 1}, 300u << 10}, {{1, 1, 1}, {0, 1, 1}, 0},
		{{1, 1, 1}, {64, 1, 1}, 64u << 10},
	};
	const unsigned i = below(&h->rng, sizeof(shapes) / sizeof(*shapes));
	const unsigned *b = shapes[i].blocks, *t = shapes[i].threads;
	struct aten_pointers1 one = {{aten_pointer(h->at)}};
	struct aten_fill_functor functor = {0x3800};
	size_t n = h->bytes / width;
	int count = (int)n;
	float value = 3;
	CUfunction f;

	if (type == F16 && chance(&h->rng, 60)) {
		OK(cuModuleGetFunction(&f, here->module, TEXT(ATEN_FILL)));
		refused("launch by a rule",
			cuLaunchKernel(f, b[0], b[1], b[2], t[0], t[1], t[2], shapes[i].shared,
				       h->stream, (void *[]){&count, &functor, &one}, NULL));
	} else {
		refused("launch", cuLaunchKernel(kernel("fill"), b[0], b[1], b[2], t[0], t[1], t[2],
						 shapes[i].shared, h->stream,
						 (void *[]){&h->at, &value, &n}, NULL));
	}
}

static void by_product(struct happening *h)
{
	const float one = 1, zero = 0;
	const cudaDataType t = cuda_type(), other = type == F32 ? CUDA_R_16F : CUDA_R_32F;
	const int m = 8, n = (int)(h->bytes / width / 8);
	void *a = (void *)here->ones, *c = (void *)h->at;
	int k = 4, lda = m, ldb = k, ldc = m, rows = m;
	cudaDataType of_a = t, of_b = t;
	cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
	const void *alpha = &one;

	if (n < 1)
		return;
	OK(cublasSetStream(here->blas, (cudaStream_t)h->stream));
	switch (below(&h->rng, 8)) {
	case 0:
		lda = m - 1;
		break;
	case 1:
		ldb = k - 1;
		break;
	case 2:
		ldc = m - 1;
		break;
	case 3:
		rows = -m;
		break;
	case 4:
		of_a = other;
		break;
	case 5:
		of_b = CUDA_R_8I;
		break;
	case 6:
		alpha = NULL;
		break;
	default:
		compute = (cublasComputeType_t)12345;
	}
	refused("product",
		cublasGemmStridedBatchedEx(here->blas, CUBLAS_OP_N, CUBLAS_OP_N, rows, n, k, alpha,
					   a, of_a, lda, 0, a, of_b, ldb, 0, &zero, c, t, ldc, 0, 1,
					   compute, CUBLAS_GEMM_DEFAULT));
}

static void by_lt(struct happening *h)
{
	const float one = 1, zero = 0;
	const cublasLtEpilogue_t with_bias = CUBLASLT_EPILOGUE_BIAS;
	const unsigned way = below(&h->rng, 3);
	const int k = 4, n = (int)(h->bytes / width / 8);
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulDesc_t d;

	if (n < 1)
		return;
	OK(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	if (way == 2) /* and none */
		OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &with_bias,
						  sizeof(with_bias)));
	OK(cublasLtMatrixLayoutCreate(&a, way == 1 ? CUDA_R_8I : cuda_type(), 8, (uint64_t)k, 8));
	OK(cublasLtMatrixLayoutCreate(&b, cuda_type(), (uint64_t)k + !way, (uint64_t)n, k + 1));
	OK(cublasLtMatrixLayoutCreate(&c, cuda_type(), 8, (uint64_t)n, 8));
	refused("product of Lt's",
		cublasLtMatmul(here->lt, d, &one, (void *)here->ones, a, (void *)here->ones, b,
			       &zero, (void *)h->at, c, (void *)h->at, c, NULL, NULL, 0,
			       (cudaStream_t)h->stream));
	OK(cublasLtMatrixLayoutDestroy(a));
	OK(cublasLtMatrixLayoutDestroy(b));
	OK(cublasLtMatrixLayoutDestroy(c));
	OK(cublasLtMatmulDescDestroy(d));
}

static void by_free(struct happening *h)
{
	size_t all;
	CUdeviceptr base = base_of(h->at, &all), p = 0;

	switch (below(&h->rng, 6)) {
	case 0:
		if (h->at != base)
			refused("free within", cuMemFree(h->at));
		break;
	case 1:
		refused("free as the host's", cuMemFreeHost((void *)base));
		break;
	case 2:
		refused("unregister", cuMemHostUnregister((void *)base));
		break;
	case 3:
		if (h->at != base)
			refused("free in order, within", cuMemFreeAsync(h->at, h->stream));
		break;
	case 4:
		if (!h->chain->site->mapping)
			refused("unmap", cuMemUnmap(base, 2 << 20));
		break;
	default:
		refused("allocate", cuMemAlloc(&p, (size_t)1 << 50));
	}
}

static void any(struct happening *h)
{
	static void (*const kinds[])(struct happening *) = {
		by_memory_call, by_memory_call, by_launch, by_product,
		by_product,	by_lt,		by_free,   by_free};
	const struct chain *c = h->chain;

	kinds[below(&h->rng, 8)](h);
	if (chance(&h->rng, 50))
		observe(h->stream, "refused", h->at, h->bytes);
	else if (chance(&h->rng, 50) && is_ours(c->t[P], c->bytes[P]))
		observe(h->stream, "P, something refused", c->t[P], c->bytes[P]);
}

const struct event_kind refusals[] = {
	{"refused over scores", any, SCORES_PART, 14},
	{"refused", any, ANY_PART, 5},
	{NULL, NULL, NOTHING, 0},
};
