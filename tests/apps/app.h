/* SPDX-License-Identifier: Apache-2.0
 *
 * What the test programs share: a driver-API and cuBLAS program in its plainest form. Nothing here
 * knows that anybody may be watching.
 *
 * Every value that a program looks at goes through app_observe(), which prints a line with its
 * name, a hash of its bytes and a checksum. With APP_DUMP=FILE the values also go to FILE,
 * which is begun anew, as float32, in the order of the lines, for comparison within a tolerance.
 * The element-wise kernels and softmax are launched in ATen's shape (app_aten.h), with
 * APP_KERNELS=own as kernels that nobody has heard of; results are the same.
 */
#ifndef FASHIM_APP_H
#define FASHIM_APP_H

#include <cuda.h>
#include <cublas_v2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Ends the program with status 2 when a call fails: the tests compare what is printed before. */
void app_fail(const char *call, int status) __attribute__((noreturn));
#define CHECK(call)                                                                                \
	do {                                                                                       \
		int status_ = (int)(call);                                                         \
		if (status_)                                                                       \
			app_fail(#call, status_);                                                  \
	} while (0)

/* The cuBLAS functions in use: linked, or found by dlsym. */
struct app_blas {
	__typeof__(&cublasCreate) create;
	__typeof__(&cublasDestroy) destroy;
	__typeof__(&cublasSetStream) set_stream;
	__typeof__(&cublasGemmStridedBatchedEx) gemm;
};

/* One context with its module, handle and stream. */
struct app {
	CUcontext context;
	CUmodule module;
	CUfunction scale, add_mask, softmax, copy, split_heads, fill, ramp, mean_heads, accumulate,
		softmax_sums;
	struct {
		CUfunction scale, copy, fill, add_strided, copy_strided, softmax;
		CUfunction masked_fill; /* NULL until it is needed */
		bool used;		/* the launches below go to these */
	} aten;
	struct app_blas call;
	cublasHandle_t blas;
	CUstream stream; /* of the handle and of every launch below */
	bool per_thread; /* launches by cuLaunchKernel_ptsz */
	CUevent mark;	 /* launches trigger it; NULL: none */
};

/* Initialises the driver, makes the primary context of device 0 current, loads PROGRAM.kernels
 * from beside the program, creates the cuBLAS handle. library: NULL uses the cuBLAS the program is
 * linked with, else dlopen of that name; false when it is not there (nothing else done). */
bool app_open(struct app *app, const char *library);
/* The same in the current context, which the caller made. */
void app_open_here(struct app *app);
void app_load_functions(struct app *app);
CUmodule app_load_module(void);
void app_set_stream(struct app *app, CUstream stream);
void app_close(struct app *app);

/* ---- memory ----------------------------------------------------------------------------- */

CUdeviceptr app_alloc(size_t bytes);
/* n numbers of a uniform distribution in [-1,1), the same for the same seed, as fp16 or fp32. */
void app_random_f16(uint16_t *out, size_t n, uint64_t seed);
void app_random_f32(float *out, size_t n, uint64_t seed);
/* Bytes that are on the device when it returns. */
void app_upload(CUdeviceptr to, const void *data, size_t bytes);
/* Writes random fp16 to device memory by a synchronous copy. */
void app_upload_random(CUdeviceptr to, size_t n, uint64_t seed);
/* Causal mask [rows,columns] in fp16: 0 or -inf. */
void app_upload_causal(CUdeviceptr to, int rows, int columns);

/* ---- launches, on app->stream ----------------------------------------------------------- */

void app_launch(struct app *app, CUfunction f, unsigned blocks, unsigned threads, void **params);
void app_scale(struct app *app, CUdeviceptr out, CUdeviceptr in, float factor, size_t n);
void app_add_mask(struct app *app, CUdeviceptr out, CUdeviceptr in, CUdeviceptr mask, size_t n,
		  size_t period);
void app_softmax(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t rows, int columns);
void app_copy(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t n);
void app_split_heads(struct app *app, CUdeviceptr out, CUdeviceptr in, int rows, int heads,
		     int depth);
/* To every other element from `out` on. */
void app_interleave(struct app *app, CUdeviceptr out, CUdeviceptr in, size_t n);
/* [heads,rows,depth] from one head's [rows,depth]. */
void app_repeat_head(struct app *app, CUdeviceptr out, CUdeviceptr in, int rows, int heads,
		     int depth);
void app_fill(struct app *app, CUdeviceptr out, float value, size_t n);
void app_ramp(struct app *app, CUdeviceptr out, float start, float step, size_t n);
void app_mean_heads(struct app *app, CUdeviceptr out, CUdeviceptr in, int heads, size_t n);

/* ---- one attention, fp16, contiguous [heads,rows,depth] --------------------------------- */

struct app_shape {
	int heads, rows, columns, depth; /* H, Sq, Sk, D */
};

/* S[h,i,j] = sum_d Q[h,i,d] K[h,j,d] */
void app_scores(struct app *app, struct app_shape shape, CUdeviceptr q, CUdeviceptr k,
		CUdeviceptr s);
/* O[h,i,d] = sum_j P[h,i,j] V[h,j,d] */
void app_context(struct app *app, struct app_shape shape, CUdeviceptr p, CUdeviceptr v,
		 CUdeviceptr o);

/* ---- observation ------------------------------------------------------------------------ */

/* A thread's own record, printed by app_report in an order of the program's choosing. */
struct app_report {
	FILE *text;
	char *text_bytes;
	size_t text_size;
	float *values;
	size_t count, room;
};

/* `n` fp16 (or fp32) values in host memory, under a name and the number of the repetition. */
void app_observe_host(struct app_report *r, const char *name, int repetition, const uint16_t *data,
		      size_t n);
void app_observe_f32(struct app_report *r, const char *name, int repetition, const float *data,
		     size_t n);
/* The same from device memory, by a synchronous copy. */
void app_observe(struct app_report *r, const char *name, int repetition, CUdeviceptr data,
		 size_t n);
void app_report(struct app_report *r);

#endif
