/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the cuBLAS hooks share: both versions of the libraries, three matrices, and
 * what the probe saw of a call.
 */
#ifndef FASHIM_TESTS_BLAS_FIXTURE_H
#define FASHIM_TESTS_BLAS_FIXTURE_H

#include "harness.h"

#include <cublasLt.h>
#include <cublas_api.h>
#include <dlfcn.h>

#include "probe.h"

#define PROBE "libprobe.so"

#define SYMBOL(library, name) ((__typeof__(&name))dlsym(library, #name))

extern struct probe *seen;
extern void *blas[2], *lt[2]; /* 12, 13 */
extern float *a, *b, *c;      /* 64 x 64 of device memory */

/* Starts the program anew under the probe, and finds it, a context and the matrices. false: no
 * such. No cuBLAS is loaded yet. */
bool blas_start(char **argv);

/* Loads both versions. */
bool blas_load(void);

/* Before each test. */
int begin(void **state);

/* The one GEMM seen: before and after, nothing of what cuBLAS did inside. */
const struct op_gemm *the_gemm(void);

cublasHandle_t new_handle(int which);

#endif
