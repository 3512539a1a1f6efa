/* SPDX-License-Identifier: Apache-2.0
 *
 * The types of the libraries' interfaces: the vendor's where their headers are at hand, else just
 * as much of them as calling takes. Handles are pointers and enumerators are ints, whoever declares
 * them.
 */
#ifndef FASHIM_LIBRARY_TYPES_H
#define FASHIM_LIBRARY_TYPES_H

#include <cuComplex.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/real/cublas_headers.h"

enum {
#define WORD(name, vendor, value) name = (value),
#include "shim/real/library_words.def"
};

#ifndef FASHIM_OWN_TYPES
#if __has_include(<cudnn.h>) && __has_include(<cudnn_version.h>)
#include <cudnn_version.h>
#if CUDNN_MAJOR >= 9
#define HAVE_CUDNN
#endif
#endif
#if __has_include(<cufftXt.h>)
#define HAVE_CUFFT
#endif
#if __has_include(<cusolverDn.h>)
#define HAVE_CUSOLVER
#endif
#if __has_include(<cusparse.h>)
#define HAVE_CUSPARSE
#endif
#if __has_include(<nccl.h>)
#define HAVE_NCCL
#endif
#endif

#ifdef HAVE_CUDNN
#include <cudnn.h>
#else
typedef int cudnnStatus_t;
typedef void *cudnnHandle_t, *cudnnBackendDescriptor_t, *cudnnTensorDescriptor_t,
	*cudnnFilterDescriptor_t, *cudnnConvolutionDescriptor_t, *cudnnPoolingDescriptor_t,
	*cudnnActivationDescriptor_t, *cudnnLRNDescriptor_t, *cudnnTensorTransformDescriptor_t,
	*cudnnOpTensorDescriptor_t, *cudnnReduceTensorDescriptor_t;
typedef int cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t,
	cudnnDataType_t, cudnnTensorFormat_t, cudnnConvolutionFwdAlgo_t,
	cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t, cudnnLRNMode_t,
	cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t;
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream);
cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensor, int wanted,
					 cudnnDataType_t *type, int *rank, int dim[], int stride[]);
cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t filter, int wanted,
					 cudnnDataType_t *type, cudnnTensorFormat_t *format,
					 int *rank, int dim[]);
#endif

#ifdef HAVE_CUFFT
#include <cufft.h>
#include <cufftXt.h>
#else
typedef int cufftResult, cufftHandle, cufftType, cufftXtCallbackType;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;
cufftResult cufftGetSize(cufftHandle plan, size_t *bytes);
#endif

#ifdef HAVE_CUSOLVER
#define DISABLE_CUSOLVER_DEPRECATED
#include <cusolverDn.h>
#else
typedef int cusolverStatus_t, cusolverEigMode_t;
typedef void *cusolverDnHandle_t, *cusolverDnParams_t;
cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t *stream);
cusolverStatus_t cusolverDnSgetrf_bufferSize(cusolverDnHandle_t handle, int m, int n, float *A,
					     int lda, int *count);
cusolverStatus_t cusolverDnDgetrf_bufferSize(cusolverDnHandle_t handle, int m, int n, double *A,
					     int lda, int *count);
cusolverStatus_t cusolverDnCgetrf_bufferSize(cusolverDnHandle_t handle, int m, int n, cuComplex *A,
					     int lda, int *count);
cusolverStatus_t cusolverDnZgetrf_bufferSize(cusolverDnHandle_t handle, int m, int n,
					     cuDoubleComplex *A, int lda, int *count);
#endif

#ifdef HAVE_CUSPARSE
#define DISABLE_CUSPARSE_DEPRECATED
#include <cusparse.h>
#else
typedef int cusparseStatus_t, cusparseOperation_t, cusparseSpMMAlg_t, cusparseSpMVAlg_t,
	cusparseFormat_t, cusparseIndexType_t, cusparseIndexBase_t, cusparseOrder_t,
	cusparsePointerMode_t;
typedef void *cusparseHandle_t, *cusparseSpMatDescr_t, *cusparseDnMatDescr_t, *cusparseDnVecDescr_t;
typedef const void *cusparseConstSpMatDescr_t, *cusparseConstDnMatDescr_t,
	*cusparseConstDnVecDescr_t;
cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t *stream);
cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t *mode);
cusparseStatus_t cusparseSpMatGetFormat(cusparseConstSpMatDescr_t matrix, cusparseFormat_t *format);
cusparseStatus_t cusparseSpMatGetStridedBatch(cusparseConstSpMatDescr_t matrix, int *batch);
cusparseStatus_t cusparseCsrGet(cusparseSpMatDescr_t matrix, int64_t *rows, int64_t *columns,
				int64_t *stored, void **offsets, void **indices, void **values,
				cusparseIndexType_t *offset_type, cusparseIndexType_t *index_type,
				cusparseIndexBase_t *base, cudaDataType *type);
cusparseStatus_t cusparseCooGet(cusparseSpMatDescr_t matrix, int64_t *rows, int64_t *columns,
				int64_t *stored, void **row_indices, void **column_indices,
				void **values, cusparseIndexType_t *index_type,
				cusparseIndexBase_t *base, cudaDataType *type);
cusparseStatus_t cusparseDnMatGet(cusparseDnMatDescr_t matrix, int64_t *rows, int64_t *columns,
				  int64_t *ld, void **values, cudaDataType *type,
				  cusparseOrder_t *order);
cusparseStatus_t cusparseDnMatGetStridedBatch(cusparseConstDnMatDescr_t matrix, int *batch,
					      int64_t *stride);
cusparseStatus_t cusparseDnVecGet(cusparseDnVecDescr_t vector, int64_t *size, void **values,
				  cudaDataType *type);
cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t handle, cusparseOperation_t opA,
					 cusparseOperation_t opB, const void *alpha,
					 cusparseConstSpMatDescr_t A, cusparseConstDnMatDescr_t B,
					 const void *beta, cusparseDnMatDescr_t C,
					 cudaDataType compute, cusparseSpMMAlg_t algo,
					 size_t *bytes);
cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t handle, cusparseOperation_t opA,
					 const void *alpha, cusparseConstSpMatDescr_t A,
					 cusparseConstDnVecDescr_t x, const void *beta,
					 cusparseDnVecDescr_t y, cudaDataType compute,
					 cusparseSpMVAlg_t algo, size_t *bytes);
#endif

#ifdef HAVE_NCCL
#include <nccl.h>
#else
typedef int ncclResult_t, ncclDataType_t, ncclRedOp_t;
typedef struct ncclComm *ncclComm_t;
typedef void ncclSimInfo_t;
ncclResult_t ncclCommCount(const ncclComm_t comm, int *count);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);
#endif

#endif
