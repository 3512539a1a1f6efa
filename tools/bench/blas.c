/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLAS counts columns first: its C^T = B^T A^T is our C = A B, row by row, so operands change
 * places and every matrix is what it is.
 */
#include "tools/bench/blas.h"
#include "tools/base/tool.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define QUOTE(name)	#name
#define SYMBOL_OF(name) QUOTE(name)

enum { WORKSPACE = 32 << 20 }; /* what NVIDIA advises for Hopper; a capture must not allocate */

static int check(const struct blas *blas, cublasStatus_t status, const char *what)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return 0;
	complain("cuBLAS: %s: %s", what, blas->calls.cublasGetStatusString(status));
	return -EIO;
}

static void *open_library(const char *path)
{
	static const char *const names[] = {"libcublas.so.13", "libcublas.so.12",
					    "/usr/local/cuda/lib64/libcublas.so.13",
					    "/usr/local/cuda/lib64/libcublas.so.12"};
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	if (path) {
		if (!library)
			complain("%s", dlerror());
		return library;
	}
	for (size_t i = 0; !library && i < sizeof(names) / sizeof(*names); i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		complain("no libcublas.so.13 or .12 here: name one by --cublas");
	return library;
}

static int find_calls(struct blas *blas, void *library)
{
	const struct {
		const char *symbol;
		void **at;
	} entries[] = {
#define CALL(name) {SYMBOL_OF(name), (void **)&blas->calls.name},
		BLAS_CALLS(CALL)
#undef CALL
	};

	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
		*entries[i].at = dlsym(library, entries[i].symbol);
		if (!*entries[i].at) {
			complain("libcublas lacks %s: it is too old", entries[i].symbol);
			return -ENOENT;
		}
	}
	return 0;
}

static void read_version(struct blas *blas)
{
	int part[3] = {0};

	for (int i = 0; i < 3; i++)
		blas->calls.cublasGetProperty((libraryPropertyType)i, &part[i]);
	snprintf(blas->version, sizeof(blas->version), "%d.%d.%d", part[0], part[1], part[2]);
}

int blas_open(struct blas *blas, const struct gpu *gpu, const char *path)
{
	void *library = open_library(path);
	int result;

	memset(blas, 0, sizeof(*blas));
	blas->gpu = gpu;
	if (!library)
		return -ENOENT;
	result = find_calls(blas, library);
	if (!result)
		result = check(blas, blas->calls.cublasCreate(&blas->handle), "cublasCreate");
	if (!result)
		result = gpu_check(gpu, gpu->driver.cuMemAlloc(&blas->workspace, WORKSPACE),
				   "allocating cuBLAS's workspace");
	if (!result)
		result = check(blas,
			       blas->calls.cublasSetStream(blas->handle, (cudaStream_t)gpu->stream),
			       "cublasSetStream");
	if (!result)
		result = check(blas,
			       blas->calls.cublasSetWorkspace(blas->handle, (void *)blas->workspace,
							      WORKSPACE),
			       "cublasSetWorkspace");
	if (!result)
		read_version(blas);
	return result;
}

void blas_close(struct blas *blas)
{
	if (blas->handle)
		blas->calls.cublasDestroy(blas->handle);
	if (blas->workspace)
		blas->gpu->driver.cuMemFree(blas->workspace);
	memset(blas, 0, sizeof(*blas));
}

static cublasOperation_t operation(const struct blas_matrix *matrix)
{
	return matrix->transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

int blas_product(const struct blas *blas, const struct blas_matrix *a, const struct blas_matrix *b,
		 const struct blas_matrix *c, int m, int n, int k, int batch, float alpha,
		 int dtype)
{
	const cudaDataType type = dtype == ATTN_F16 ? CUDA_R_16F : CUDA_R_16BF;
	const float zero = 0;

	return check(blas,
		     blas->calls.cublasGemmStridedBatchedEx(
			     blas->handle, operation(b), operation(a), n, m, k, &alpha,
			     (const void *)b->base, type, (int)b->line, b->step,
			     (const void *)a->base, type, (int)a->line, a->step, &zero,
			     (void *)c->base, type, (int)c->line, c->step, batch,
			     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
		     "cublasGemmStridedBatchedEx");
}
