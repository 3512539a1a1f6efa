/* SPDX-License-Identifier: Apache-2.0
 *
 * The cuBLAS hooks: one body per shape of argument list, one function per row of cublas_hooks.def.
 * A body describes the product as struct op_gemm, offers it to flow_before(), and otherwise calls
 * the real function of the library the call belongs to, with hook_depth raised: the launches and
 * copies that cuBLAS makes inside are its own.
 *
 * Stream, pointer mode and math mode are asked of the handle each time. They are plain reads in
 * cuBLAS, and a copy kept here would be wrong as soon as somebody set them behind our back.
 */
#include <string.h>

#include "shim/base/half.h"
#include "shim/real/cublas_headers.h"
#include "shim/hook/hook_cublas.h"

/* What a handle's getters say. Without them nothing is known about the scalars. false: one of them
 * failed, and the stream is anybody's guess. */
static bool gemm_ask_handle(struct op *op, const struct library *library, cublasHandle_t handle)
{
	__typeof__(&cublasGetStream_v2) get_stream = LIBRARY_ASK(library, cublasGetStream_v2);
	__typeof__(&cublasGetPointerMode_v2) get_pointer_mode =
		LIBRARY_ASK(library, cublasGetPointerMode_v2);
	__typeof__(&cublasGetMathMode) get_math_mode = LIBRARY_ASK(library, cublasGetMathMode);
	cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_DEVICE;
	cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
	cudaStream_t stream = NULL;

	if ((get_stream && get_stream(handle, &stream)) ||
	    (get_pointer_mode && get_pointer_mode(handle, &pointer_mode)) ||
	    (get_math_mode && get_math_mode(handle, &math_mode)))
		return false;
	op->stream = hook_stream((CUstream)stream, false);
	op->gemm.scalars_on_device = pointer_mode != CUBLAS_POINTER_MODE_HOST;
	op->gemm.math_mode = math_mode;
	return true;
}

/* A call of which not even the stream is known: all is as the program believes before it runs, and
 * nothing is made of it. */
static void flush_instead(struct op *op)
{
	flow_flush(op->name);
	op->kind = OP_SYNC;
}

double gemm_scalar(const void *address, int compute_type, cudaDataType ctype)
{
	double d;
	float f;
	int32_t i;
	uint16_t h;

	if (!address)
		return 0;
	switch (compute_type) {
	case CUBLAS_COMPUTE_16F:
	case CUBLAS_COMPUTE_16F_PEDANTIC:
		memcpy(&h, address, sizeof(h));
		return half_value(h);
	case CUBLAS_COMPUTE_64F:
	case CUBLAS_COMPUTE_64F_PEDANTIC:
	case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT:
		memcpy(&d, address, sizeof(d));
		return d;
	case CUBLAS_COMPUTE_32I:
	case CUBLAS_COMPUTE_32I_PEDANTIC:
		if (ctype != CUDA_R_32I)
			break;
		memcpy(&i, address, sizeof(i));
		return i;
	default:
		break;
	}
	memcpy(&f, address, sizeof(f));
	return f;
}

static bool plain_type(cudaDataType type)
{
	return type == CUDA_R_16F || type == CUDA_R_16BF || type == CUDA_R_32F;
}

bool gemm_is_plain(const struct op_gemm *gemm)
{
	switch (gemm->compute_type) {
	case CUBLAS_COMPUTE_16F:
	case CUBLAS_COMPUTE_16F_PEDANTIC:
	case CUBLAS_COMPUTE_32F:
	case CUBLAS_COMPUTE_32F_PEDANTIC:
	case CUBLAS_COMPUTE_32F_FAST_16F:
	case CUBLAS_COMPUTE_32F_FAST_16BF:
	case CUBLAS_COMPUTE_32F_FAST_TF32:
	case CUBLAS_COMPUTE_32F_EMULATED_16BFX9:
		break;
	default:
		return false;
	}
	return plain_type(gemm->atype) && plain_type(gemm->btype) && plain_type(gemm->ctype);
}

bool gemm_may_fail(const struct op_gemm *gemm)
{
	const bool half = gemm->compute_type == CUBLAS_COMPUTE_16F ||
			  gemm->compute_type == CUBLAS_COMPUTE_16F_PEDANTIC;

	if (!plain_type(gemm->atype) && !plain_type(gemm->btype))
		return false;
	return !gemm_is_plain(gemm) || gemm->atype != gemm->btype ||
	       (gemm->ctype != gemm->atype && (half || gemm->ctype != CUDA_R_32F));
}

bool gemm_is_sane(const struct op_gemm *gemm)
{
	return gemm->m >= 0 && gemm->n >= 0 && gemm->k >= 0 && gemm->batch >= 0 && gemm->lda > 0 &&
	       gemm->ldb > 0 && gemm->ldc > 0;
}

static int64_t at_least_one(int64_t rows)
{
	return rows > 1 ? rows : 1;
}

bool gemm_fits(const struct op_gemm *gemm)
{
	return gemm->transa <= CUBLAS_OP_C && gemm->transb <= CUBLAS_OP_C &&
	       gemm->lda >= at_least_one(gemm->transa ? gemm->k : gemm->m) &&
	       gemm->ldb >= at_least_one(gemm->transb ? gemm->n : gemm->k) &&
	       gemm->ldc >= at_least_one(gemm->m);
}

/* Completes what a body filled in. */
static void gemm_finish(struct op *op, struct library *library, cublasHandle_t handle,
			const void *alpha, const void *beta)
{
	const struct range workspace = library_handle_workspace(handle);
	struct op_gemm *gemm = &op->gemm;

	op->kind = OP_GEMM;
	gemm->workspace = workspace.begin;
	gemm->workspace_bytes = workspace.end - workspace.begin;
	gemm->entry = op->name;
	op->context = hook_context();
	gemm->library = library;
	gemm->handle = handle;
	if (!gemm_ask_handle(op, library, handle)) {
		flush_instead(op);
		return;
	}
	if (gemm->scalars_on_device) {
		gemm->alpha_at = ADDRESS(alpha);
		gemm->beta_at = ADDRESS(beta);
	} else {
		gemm->alpha = gemm_scalar(alpha, gemm->compute_type, gemm->ctype);
		gemm->beta = gemm_scalar(beta, gemm->compute_type, gemm->ctype);
	}
	gemm->may_fail = !alpha || !beta || gemm_may_fail(gemm);
	gemm->plain = alpha && beta && gemm_is_plain(gemm);
}

/* A call that struct op_gemm has no words for. */
static void opaque_finish(struct op *op, const struct library *library, cublasHandle_t handle)
{
	op->kind = OP_OPAQUE;
	op->context = hook_context();
	if (!gemm_ask_handle(op, library, handle))
		flush_instead(op);
}

/* Every body is this: find the real function; offer the op, which `...` fills in; call. */
#define HOOK_BODY(function, handle, arguments, ...)                                                \
	do {                                                                                       \
		cublasStatus_t status;                                                             \
		struct op op = {.name = #function};                                                \
		enum flow flow;                                                                    \
		bool told;                                                                         \
		BLAS_REAL(function, handle, arguments)                                             \
                                                                                                   \
		if (hook_bypassed() || flow_rests())                                               \
			return real arguments;                                                     \
		__VA_ARGS__;                                                                       \
		told = op.kind != OP_GEMM || gemm_is_sane(&op.gemm);                               \
		if (op.kind == OP_GEMM && !gemm_fits(&op.gemm))                                    \
			op.kind = OP_OPAQUE;                                                       \
		flow = told ? flow_before(&op) : FLOW_PASS;                                        \
		if (flow != FLOW_PASS)                                                             \
			return flow == FLOW_TAKEN ? CUBLAS_STATUS_SUCCESS                          \
						  : CUBLAS_STATUS_EXECUTION_FAILED;                \
		hook_depth++;                                                                      \
		status = real arguments;                                                           \
		hook_depth--;                                                                      \
		if (told && status == CUBLAS_STATUS_SUCCESS)                                       \
			flow_after(&op);                                                           \
		return status;                                                                     \
	} while (0)

/* The headers declare the half-precision functions for C++ only; declared here, in the types' C
 * names. */
typedef __half_raw __half;
typedef __nv_bfloat16_raw __nv_bfloat16;

#define FUNCTION(function, ...)                                                                    \
	EXPORT cublasStatus_t function(__VA_ARGS__);                                               \
	cublasStatus_t function(__VA_ARGS__)

/* What all GEMM shapes have in common. */
#define SHAPE                                                                                      \
	.transa = transa, .transb = transb, .m = m, .n = n, .k = k, .a = ADDRESS(A),               \
	.b = ADDRESS(B), .c = ADDRESS(C), .lda = lda, .ldb = ldb, .ldc = ldc
#define STRIDES			.stride_a = strideA, .stride_b = strideB, .stride_c = strideC
#define TYPES(a, b, c, compute) .atype = a, .btype = b, .ctype = c, .compute_type = compute
#define FILL(...)                                                                                  \
	op.gemm = (struct op_gemm){__VA_ARGS__};                                                   \
	gemm_finish(&op, library, handle, alpha, beta)

#define GEMM(function, integer, element, type, compute)                                            \
	FUNCTION(function, cublasHandle_t handle, cublasOperation_t transa,                        \
		 cublasOperation_t transb, integer m, integer n, integer k, const element *alpha,  \
		 const element *A, integer lda, const element *B, integer ldb,                     \
		 const element *beta, element *C, integer ldc)                                     \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc),  \
			  FILL(SHAPE, TYPES(type, type, type, compute), .batch = 1));              \
	}

#define GEMM_STRIDED(function, integer, element, type, compute)                                    \
	FUNCTION(function, cublasHandle_t handle, cublasOperation_t transa,                        \
		 cublasOperation_t transb, integer m, integer n, integer k, const element *alpha,  \
		 const element *A, integer lda, long long strideA, const element *B, integer ldb,  \
		 long long strideB, const element *beta, element *C, integer ldc,                  \
		 long long strideC, integer batch)                                                 \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, transa, transb, m, n, k, alpha, A, lda, strideA, B, ldb,        \
			   strideB, beta, C, ldc, strideC, batch),                                 \
			  FILL(SHAPE, STRIDES, TYPES(type, type, type, compute), .batch = batch)); \
	}

#define GEMM_BATCHED(function, integer, element, type, compute)                                    \
	FUNCTION(function, cublasHandle_t handle, cublasOperation_t transa,                        \
		 cublasOperation_t transb, integer m, integer n, integer k, const element *alpha,  \
		 const element *const A[], integer lda, const element *const B[], integer ldb,     \
		 const element *beta, element *const C[], integer ldc, integer batch)              \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc,   \
			   batch),                                                                 \
			  FILL(SHAPE, TYPES(type, type, type, compute), .batch = batch,            \
			       .by_array = true));                                                 \
	}

#define GEMM_TYPED_EX(function, integer, scalar)                                                   \
	FUNCTION(function, cublasHandle_t handle, cublasOperation_t transa,                        \
		 cublasOperation_t transb, integer m, integer n, integer k, const scalar *alpha,   \
		 const void *A, cudaDataType atype, integer lda, const void *B,                    \
		 cudaDataType btype, integer ldb, const scalar *beta, void *C, cudaDataType ctype, \
		 integer ldc)                                                                      \
	{                                                                                          \
		HOOK_BODY(                                                                         \
			function, handle,                                                          \
			(handle, transa, transb, m, n, k, alpha, A, atype, lda, B, btype, ldb,     \
			 beta, C, ctype, ldc),                                                     \
			FILL(SHAPE, TYPES(atype, btype, ctype, CUBLAS_COMPUTE_32F), .batch = 1));  \
	}

#define GEMM_EX(function, integer)                                                                 \
	FUNCTION(function, cublasHandle_t handle, cublasOperation_t transa,                        \
		 cublasOperation_t transb, integer m, integer n, integer k, const void *alpha,     \
		 const void *A, cudaDataType atype, integer lda, const void *B,                    \
		 cudaDataType btype, integer ldb, const void *beta, void *C, cudaDataType ctype,   \
		 integer ldc, cublasComputeType_t compute, cublasGemmAlgo_t algo)                  \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, transa, transb, m, n, k, alpha, A, atype, lda, B, btype, ldb,   \
			   beta, C, ctype, ldc, compute, algo),                                    \
			  FILL(SHAPE, TYPES(atype, btype, ctype, compute), .algo = algo,           \
			       .batch = 1));                                                       \
	}

#define GEMM_STRIDED_EX(function, integer)                                                         \
	FUNCTION(function, cublasHandle_t handle, cublasOperation_t transa,                        \
		 cublasOperation_t transb, integer m, integer n, integer k, const void *alpha,     \
		 const void *A, cudaDataType atype, integer lda, long long strideA, const void *B, \
		 cudaDataType btype, integer ldb, long long strideB, const void *beta, void *C,    \
		 cudaDataType ctype, integer ldc, long long strideC, integer batch,                \
		 cublasComputeType_t compute, cublasGemmAlgo_t algo)                               \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, transa, transb, m, n, k, alpha, A, atype, lda, strideA, B,      \
			   btype, ldb, strideB, beta, C, ctype, ldc, strideC, batch, compute,      \
			   algo),                                                                  \
			  FILL(SHAPE, STRIDES, TYPES(atype, btype, ctype, compute), .algo = algo,  \
			       .batch = batch));                                                   \
	}

#define GEMM_BATCHED_EX(function, integer)                                                         \
	FUNCTION(function, cublasHandle_t handle, cublasOperation_t transa,                        \
		 cublasOperation_t transb, integer m, integer n, integer k, const void *alpha,     \
		 const void *const A[], cudaDataType atype, integer lda, const void *const B[],    \
		 cudaDataType btype, integer ldb, const void *beta, void *const C[],               \
		 cudaDataType ctype, integer ldc, integer batch, cublasComputeType_t compute,      \
		 cublasGemmAlgo_t algo)                                                            \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, transa, transb, m, n, k, alpha, A, atype, lda, B, btype, ldb,   \
			   beta, C, ctype, ldc, batch, compute, algo),                             \
			  FILL(SHAPE, TYPES(atype, btype, ctype, compute), .algo = algo,           \
			       .batch = batch, .by_array = true));                                 \
	}

/* y = alpha op(A) x + beta y, told as the product of one row: y^T[1,M] = x^T[1,K] op(A)^T[K,M],
 * with the vectors' increments as leading dimensions. Counted, never replaced. */
#define VECTOR_SHAPE                                                                               \
	.transb = trans == CUBLAS_OP_N ? CUBLAS_OP_T : CUBLAS_OP_N, .m = 1,                        \
	.n = trans == CUBLAS_OP_N ? m : n, .k = trans == CUBLAS_OP_N ? n : m, .a = ADDRESS(x),     \
	.b = ADDRESS(A), .c = ADDRESS(y), .lda = incx < 0 ? -incx : incx, .ldb = lda,              \
	.ldc = incy < 0 ? -incy : incy
#define FILL_COUNTED(...)                                                                          \
	FILL(__VA_ARGS__);                                                                         \
	op.gemm.besides = "vectors";                                                               \
	op.gemm.plain = false

#define GEMV_BATCHED(function, integer, scalar, input, output, in, out, compute)                   \
	FUNCTION(function, cublasHandle_t handle, cublasOperation_t trans, integer m, integer n,   \
		 const scalar *alpha, const input *const A[], integer lda, const input *const x[], \
		 integer incx, const scalar *beta, output *const y[], integer incy, integer batch) \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, trans, m, n, alpha, A, lda, x, incx, beta, y, incy, batch),     \
			  FILL_COUNTED(VECTOR_SHAPE, TYPES(in, in, out, compute), .batch = batch,  \
				       .by_array = true));                                         \
	}

#define GEMV_STRIDED(function, integer, scalar, input, output, in, out, compute)                   \
	FUNCTION(function, cublasHandle_t handle, cublasOperation_t trans, integer m, integer n,   \
		 const scalar *alpha, const input *A, integer lda, long long strideA,              \
		 const input *x, integer incx, long long stridex, const scalar *beta, output *y,   \
		 integer incy, long long stridey, integer batch)                                   \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, trans, m, n, alpha, A, lda, strideA, x, incx, stridex, beta, y, \
			   incy, stridey, batch),                                                  \
			  FILL_COUNTED(VECTOR_SHAPE, .stride_a = stridex, .stride_b = strideA,     \
				       .stride_c = stridey, TYPES(in, in, out, compute),           \
				       .batch = batch));                                           \
	}

/* op(A) X = alpha B, or X op(A) = alpha B, where X takes B's place: told as the product with A's
 * inverse, which is as large as A. Counted, never replaced. */
#define SOLVE_SHAPE                                                                                \
	.m = m, .n = n, .k = side == CUBLAS_SIDE_LEFT ? m : n,                                     \
	.a = side == CUBLAS_SIDE_LEFT ? ADDRESS(A) : ADDRESS(B),                                   \
	.b = side == CUBLAS_SIDE_LEFT ? ADDRESS(B) : ADDRESS(A), .c = ADDRESS(B),                  \
	.lda = side == CUBLAS_SIDE_LEFT ? lda : ldb, .ldb = side == CUBLAS_SIDE_LEFT ? ldb : lda,  \
	.ldc = ldb
#define FILL_SOLVED(...)                                                                           \
	const void *const beta = NULL;                                                             \
	FILL(SOLVE_SHAPE, __VA_ARGS__);                                                            \
	op.gemm.besides = "triangles";                                                             \
	op.gemm.plain = false

#define SOLVE(function, integer, element, type, compute)                                           \
	FUNCTION(function, cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo,    \
		 cublasOperation_t trans, cublasDiagType_t diag, integer m, integer n,             \
		 const element *alpha, const element *A, integer lda, element *B, integer ldb)     \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, side, uplo, trans, diag, m, n, alpha, A, lda, B, ldb),          \
			  FILL_SOLVED(TYPES(type, type, type, compute), .batch = 1));              \
	}

#define SOLVE_BATCHED(function, integer, element, type, compute)                                   \
	FUNCTION(function, cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo,    \
		 cublasOperation_t trans, cublasDiagType_t diag, integer m, integer n,             \
		 const element *alpha, const element *const A[], integer lda, element *const B[],  \
		 integer ldb, integer batch)                                                       \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, side, uplo, trans, diag, m, n, alpha, A, lda, B, ldb, batch),   \
			  FILL_SOLVED(TYPES(type, type, type, compute), .batch = batch,            \
				      .by_array = true));                                          \
	}

/* Groups of differing shapes have no struct op_gemm. */
#define FILL_OPAQUE(function) opaque_finish(&op, library, handle)

#define GROUPED(function, integer, scalar)                                                         \
	FUNCTION(function, cublasHandle_t handle, const cublasOperation_t transa[],                \
		 const cublasOperation_t transb[], const integer m[], const integer n[],           \
		 const integer k[], const scalar alpha[], const scalar *const A[],                 \
		 const integer lda[], const scalar *const B[], const integer ldb[],                \
		 const scalar beta[], scalar *const C[], const integer ldc[], integer count,       \
		 const integer size[])                                                             \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc,   \
			   count, size),                                                           \
			  FILL_OPAQUE(function));                                                  \
	}

#define GROUPED_EX(function, integer)                                                              \
	FUNCTION(function, cublasHandle_t handle, const cublasOperation_t transa[],                \
		 const cublasOperation_t transb[], const integer m[], const integer n[],           \
		 const integer k[], const void *alpha, const void *const A[],                      \
		 cudaDataType_t atype, const integer lda[], const void *const B[],                 \
		 cudaDataType_t btype, const integer ldb[], const void *beta, void *const C[],     \
		 cudaDataType_t ctype, const integer ldc[], integer count, const integer size[],   \
		 cublasComputeType_t compute)                                                      \
	{                                                                                          \
		HOOK_BODY(function, handle,                                                        \
			  (handle, transa, transb, m, n, k, alpha, A, atype, lda, B, btype, ldb,   \
			   beta, C, ctype, ldc, count, size, compute),                             \
			  FILL_OPAQUE(function));                                                  \
	}

#define SPECIAL(function)
#include "shim/real/cublas_hooks.def"

BLAS_HANDLE(cublasCreate_v2, cublasDestroy_v2, cublasHandle_t)

/* ---- what products work in ---------------------------------------------------------------------
 *
 * Not a product: what the real function does to memory is seen as ever. */

#define WORKSPACE(function, parameters, arguments, begin, bytes)                                   \
	EXPORT cublasStatus_t function parameters                                                  \
	{                                                                                          \
		cublasStatus_t status;                                                             \
		BLAS_REAL(function, handle, arguments)                                             \
                                                                                                   \
		status = real arguments;                                                           \
		if (status == CUBLAS_STATUS_SUCCESS)                                               \
			library_handle_set_workspace(handle,                                       \
						     (struct range){begin, (begin) + (bytes)});    \
		return status;                                                                     \
	}
WORKSPACE(cublasSetWorkspace_v2, (cublasHandle_t handle, void *workspace, size_t bytes),
	  (handle, workspace, bytes), ADDRESS(workspace), bytes)
/* Whichever the stream: back to the library's own. */
WORKSPACE(cublasSetStream_v2, (cublasHandle_t handle, cudaStream_t stream), (handle, stream), 0, 0)
