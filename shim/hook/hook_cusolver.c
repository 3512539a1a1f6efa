/* SPDX-License-Identifier: Apache-2.0
 *
 * cuSOLVER's dense factorisations, solutions and decompositions whose sizes are plain arguments.
 * Matrices are column-major. What is updated may be a triangle of its matrix, or may be done in
 * several steps, so nothing counts as wholly overwritten but what says how it went.
 */
#include "shim/hook/hook_library.h"

static void add_matrix(struct operands *operands, const void *address, int64_t rows,
		       int64_t columns, int64_t ld, uint64_t element, enum operand_use use)
{
	const struct tensor matrix = {
		.rank = 2, .dim = {rows, columns}, .stride = {1, ld}, .element = element};

	if (ld < rows || ld < 1)
		operands->unknown = true;
	else
		operands_add_tensor(operands, address, &matrix, use);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The words of an operand list. */
#define MATRIX(address, rows, columns, ld, element, use)                                           \
	add_matrix(&call.operands, address, rows, columns, ld, element, OPERAND_##use)
#define VECTOR(address, count, element, use)                                                       \
	operands_add_array(&call.operands, address, count, element, OPERAND_##use)
#define INFO VECTOR(info, 1, sizeof(int), WRITTEN)

#define SOLVER(name, parameters, arguments, ...)                                                   \
	LIBRARY_HOOK(cusolverStatus_t, name, parameters, arguments, handle, 1, {                   \
		LIBRARY_STREAM(call, library, cusolverDnGetStream, handle);                        \
		INFO;                                                                              \
		__VA_ARGS__;                                                                       \
	})

#define WORK(element) VECTOR(work, lwork, sizeof(element), WRITTEN)

#define POTRF(name, element)                                                                       \
	SOLVER(name,                                                                               \
	       (cusolverDnHandle_t handle, cublasFillMode_t uplo, int n, element *A, int lda,      \
		element *work, int lwork, int *info),                                              \
	       (handle, uplo, n, A, lda, work, lwork, info), WORK(element);                        \
	       MATRIX(A, n, n, lda, sizeof(element), UPDATED))
#define POTRI(name, element) POTRF(name, element)

#define POTRS(name, element)                                                                       \
	SOLVER(name,                                                                               \
	       (cusolverDnHandle_t handle, cublasFillMode_t uplo, int n, int nrhs,                 \
		const element *A, int lda, element *B, int ldb, int *info),                        \
	       (handle, uplo, n, nrhs, A, lda, B, ldb, info),                                      \
	       MATRIX(A, n, n, lda, sizeof(element), READ);                                        \
	       MATRIX(B, n, nrhs, ldb, sizeof(element), UPDATED))

/* The workspace comes without its size, which the library tells. */
#define GETRF(name, element)                                                                       \
	SOLVER(name,                                                                               \
	       (cusolverDnHandle_t handle, int m, int n, element *A, int lda, element *work,       \
		int *pivots, int *info),                                                           \
	       (handle, m, n, A, lda, work, pivots, info),                                         \
	       __typeof__(&name##_bufferSize) size = LIBRARY_ASK(library, name##_bufferSize);      \
	       int lwork = -1;                                                                     \
	       if (!size || (int)size(handle, m, n, A, lda, &lwork) != 0) lwork = -1;              \
	       WORK(element); VECTOR(pivots, least(m, n), sizeof(int), WRITTEN);                   \
	       MATRIX(A, m, n, lda, sizeof(element), UPDATED))

#define GETRS(name, element)                                                                       \
	SOLVER(name,                                                                               \
	       (cusolverDnHandle_t handle, cublasOperation_t trans, int n, int nrhs,               \
		const element *A, int lda, const int *pivots, element *B, int ldb, int *info),     \
	       (handle, trans, n, nrhs, A, lda, pivots, B, ldb, info),                             \
	       MATRIX(A, n, n, lda, sizeof(element), READ);                                        \
	       VECTOR(pivots, n, sizeof(int), READ);                                               \
	       MATRIX(B, n, nrhs, ldb, sizeof(element), UPDATED))

#define GEQRF(name, element)                                                                       \
	SOLVER(name,                                                                               \
	       (cusolverDnHandle_t handle, int m, int n, element *A, int lda, element *tau,        \
		element *work, int lwork, int *info),                                              \
	       (handle, m, n, A, lda, tau, work, lwork, info), WORK(element);                      \
	       VECTOR(tau, least(m, n), sizeof(element), WRITTEN);                                 \
	       MATRIX(A, m, n, lda, sizeof(element), UPDATED))

#define ORGQR(name, element)                                                                       \
	SOLVER(name,                                                                               \
	       (cusolverDnHandle_t handle, int m, int n, int k, element *A, int lda,               \
		const element *tau, element *work, int lwork, int *info),                          \
	       (handle, m, n, k, A, lda, tau, work, lwork, info), WORK(element);                   \
	       VECTOR(tau, k, sizeof(element), READ);                                              \
	       MATRIX(A, m, n, lda, sizeof(element), UPDATED))

#define ORMQR(name, element)                                                                       \
	SOLVER(name,                                                                               \
	       (cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t trans, int m,  \
		int n, int k, const element *A, int lda, const element *tau, element *C, int ldc,  \
		element *work, int lwork, int *info),                                              \
	       (handle, side, trans, m, n, k, A, lda, tau, C, ldc, work, lwork, info),             \
	       WORK(element);                                                                      \
	       VECTOR(tau, k, sizeof(element), READ);                                              \
	       MATRIX(A, (int)side == SIDE_LEFT ? m : n, k, lda, sizeof(element), READ);           \
	       MATRIX(C, m, n, ldc, sizeof(element), UPDATED))

#define SYEVD(name, element, real_type)                                                            \
	SOLVER(name,                                                                               \
	       (cusolverDnHandle_t handle, cusolverEigMode_t jobz, cublasFillMode_t uplo, int n,   \
		element *A, int lda, real_type *W, element *work, int lwork, int *info),           \
	       (handle, jobz, uplo, n, A, lda, W, work, lwork, info), WORK(element);               \
	       VECTOR(W, n, sizeof(real_type), WRITTEN);                                           \
	       MATRIX(A, n, n, lda, sizeof(element), UPDATED))

/* U and VT are looked at where their jobs ask for them. */
#define GESVD(name, element, real_type)                                                            \
	SOLVER(name,                                                                               \
	       (cusolverDnHandle_t handle, signed char jobu, signed char jobvt, int m, int n,      \
		element *A, int lda, real_type *S, element *U, int ldu, element *VT, int ldvt,     \
		element *work, int lwork, real_type *rwork, int *info),                            \
	       (handle, jobu, jobvt, m, n, A, lda, S, U, ldu, VT, ldvt, work, lwork, rwork, info), \
	       WORK(element);                                                                      \
	       VECTOR(S, least(m, n), sizeof(real_type), WRITTEN);                                 \
	       VECTOR(rwork, least(m, n), sizeof(real_type), WRITTEN);                             \
	       MATRIX(A, m, n, lda, sizeof(element), UPDATED); if (jobu == 'A' || jobu == 'S')     \
		       MATRIX(U, m, jobu == 'A' ? m : least(m, n), ldu, sizeof(element), WRITTEN); \
	       if (jobvt == 'A' || jobvt == 'S') MATRIX(VT, jobvt == 'A' ? n : least(m, n), n,     \
							ldvt, sizeof(element), WRITTEN))

#include "shim/real/cusolver_hooks.def"

/* ---- the 64-bit interface ------------------------------------------------------------------- */

#define BYTES(type) operands_type_bytes(type)
#define BUFFERS                                                                                    \
	cudaDataType compute, void *work, size_t work_bytes, void *host_work,                      \
		size_t host_work_bytes, int *info
#define BUFFER_ARGUMENTS compute, work, work_bytes, host_work, host_work_bytes, info
#define DEVICE_BUFFER	 operands_add(&call.operands, work, work_bytes, OPERAND_WRITTEN)

SOLVER(cusolverDnXpotrf,
       (cusolverDnHandle_t handle, cusolverDnParams_t params, cublasFillMode_t uplo, int64_t n,
	cudaDataType type, void *A, int64_t lda, BUFFERS),
       (handle, params, uplo, n, type, A, lda, BUFFER_ARGUMENTS), DEVICE_BUFFER;
       MATRIX(A, n, n, lda, BYTES(type), UPDATED))

SOLVER(cusolverDnXpotrs,
       (cusolverDnHandle_t handle, cusolverDnParams_t params, cublasFillMode_t uplo, int64_t n,
	int64_t nrhs, cudaDataType type, const void *A, int64_t lda, cudaDataType btype, void *B,
	int64_t ldb, int *info),
       (handle, params, uplo, n, nrhs, type, A, lda, btype, B, ldb, info),
       MATRIX(A, n, n, lda, BYTES(type), READ);
       MATRIX(B, n, nrhs, ldb, BYTES(btype), UPDATED))

SOLVER(cusolverDnXgetrf,
       (cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m, int64_t n,
	cudaDataType type, void *A, int64_t lda, int64_t *pivots, BUFFERS),
       (handle, params, m, n, type, A, lda, pivots, BUFFER_ARGUMENTS), DEVICE_BUFFER;
       VECTOR(pivots, least(m, n), sizeof(int64_t), WRITTEN);
       MATRIX(A, m, n, lda, BYTES(type), UPDATED))

SOLVER(cusolverDnXgetrs,
       (cusolverDnHandle_t handle, cusolverDnParams_t params, cublasOperation_t trans, int64_t n,
	int64_t nrhs, cudaDataType type, const void *A, int64_t lda, const int64_t *pivots,
	cudaDataType btype, void *B, int64_t ldb, int *info),
       (handle, params, trans, n, nrhs, type, A, lda, pivots, btype, B, ldb, info),
       MATRIX(A, n, n, lda, BYTES(type), READ);
       VECTOR(pivots, n, sizeof(int64_t), READ); MATRIX(B, n, nrhs, ldb, BYTES(btype), UPDATED))

SOLVER(cusolverDnXgeqrf,
       (cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m, int64_t n,
	cudaDataType type, void *A, int64_t lda, cudaDataType tau_type, void *tau, BUFFERS),
       (handle, params, m, n, type, A, lda, tau_type, tau, BUFFER_ARGUMENTS), DEVICE_BUFFER;
       VECTOR(tau, least(m, n), BYTES(tau_type), WRITTEN);
       MATRIX(A, m, n, lda, BYTES(type), UPDATED))

SOLVER(cusolverDnXsyevd,
       (cusolverDnHandle_t handle, cusolverDnParams_t params, cusolverEigMode_t jobz,
	cublasFillMode_t uplo, int64_t n, cudaDataType type, void *A, int64_t lda,
	cudaDataType value_type, void *W, BUFFERS),
       (handle, params, jobz, uplo, n, type, A, lda, value_type, W, BUFFER_ARGUMENTS),
       DEVICE_BUFFER;
       VECTOR(W, n, BYTES(value_type), WRITTEN); MATRIX(A, n, n, lda, BYTES(type), UPDATED))
