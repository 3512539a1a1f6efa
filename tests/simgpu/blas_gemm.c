/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product as a kernel, and its launch.
 *
 * The kernel is found in this very library (cuLibraryLoadFromFile of its own path) and launched by
 * cuLaunchKernelEx with the `extra` form, so whoever watches the driver sees what the real library
 * shows. Sums are kept in float (double for fp64) in the order of k; the result is rounded once.
 */
#include "blas_gemm.h"
#include "tools/base/half.h"
#include "sim_kernel.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 4 /* of D at a time */

size_t blas_type_size(int type)
{
	return type == CUDA_R_64F			   ? 8
	       : type == CUDA_R_32F			   ? 4
	       : type == CUDA_R_16F || type == CUDA_R_16BF ? 2
							   : 0;
}

static inline double load(uint64_t base, int64_t index, int type)
{
	const void *p = (const void *)(uintptr_t)base;

	switch (type) {
	case CUDA_R_16F:
		return f16_to_float(((const uint16_t *)p)[index]);
	case CUDA_R_16BF:
		return bf16_to_float(((const uint16_t *)p)[index]);
	case CUDA_R_32F:
		return ((const float *)p)[index];
	default:
		return ((const double *)p)[index];
	}
}

static inline void store(uint64_t base, int64_t index, int type, double value)
{
	void *p = (void *)(uintptr_t)base;

	switch (type) {
	case CUDA_R_16F:
		((uint16_t *)p)[index] = float_to_f16((float)value);
		break;
	case CUDA_R_16BF:
		((uint16_t *)p)[index] = float_to_bf16((float)value);
		break;
	case CUDA_R_32F:
		((float *)p)[index] = (float)value;
		break;
	default:
		((double *)p)[index] = value;
	}
}

static uint64_t entry(const struct gemm_operand *x, int64_t b)
{
	if (x->by_array)
		return ((const uint64_t *)(uintptr_t)x->base)[b];
	return x->base + (uint64_t)(b * x->batch * (int64_t)blas_type_size(x->type));
}

/* acc[c][i] += a[p][i] * b[c][p] for the columns c of a group. */
#define MULTIPLY(name, type, how)                                                                  \
	how static void name(type *restrict acc, const type *restrict a, const type *restrict b,   \
			     int64_t m, int64_t k)                                                 \
	{                                                                                          \
		for (int64_t p = 0; p < k; p++) {                                                  \
			const type *ap = a + p * m;                                                \
			type b0 = b[p], b1 = b[k + p], b2 = b[2 * k + p], b3 = b[3 * k + p];       \
			for (int64_t i = 0; i < m; i++) {                                          \
				type x = ap[i];                                                    \
				acc[i] += x * b0;                                                  \
				acc[m + i] += x * b1;                                              \
				acc[2 * m + i] += x * b2;                                          \
				acc[3 * m + i] += x * b3;                                          \
			}                                                                          \
		}                                                                                  \
	}
MULTIPLY(multiply_float, float, )
MULTIPLY(multiply_double, double, )
#ifdef __x86_64__
MULTIPLY(multiply_float_wide, float, __attribute__((target("avx2,fma"))))
#endif

static void multiply(int is_double, void *acc, const void *a, const void *b, int64_t m, int64_t k)
{
	if (is_double) {
		multiply_double(acc, a, b, m, k);
		return;
	}
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
		multiply_float_wide(acc, a, b, m, k);
		return;
	}
#endif
	multiply_float(acc, a, b, m, k);
}

static void put(int is_double, void *to, int64_t index, double value)
{
	if (is_double)
		((double *)to)[index] = value;
	else
		((float *)to)[index] = (float)value;
}

/* As cuBLAS rounds alpha times the sum before it adds to it. */
static double rounded(double x, int type)
{
	return type == CUDA_R_16F    ? f16_to_float(float_to_f16((float)x))
	       : type == CUDA_R_16BF ? bf16_to_float(float_to_bf16((float)x))
				     : x;
}

static double finish(const struct gemm_args *g, double sum, uint64_t c, uint64_t bias, int64_t i,
		     int64_t j)
{
	double x = g->alpha * sum;

	if (g->beta != 0)
		x = rounded(x, g->d.type) +
		    g->beta * load(c, i * g->c.row + j * g->c.column, g->c.type);
	if (bias)
		x += load(bias, i, g->bias_type);
	if (g->relu && !(x > 0))
		x = 0;
	if (g->gelu)
		x = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
	return x;
}

static int one_product(const struct gemm_args *g, int64_t batch, void *a, void *b, void *acc,
		       int is_double)
{
	uint64_t at_a = entry(&g->a, batch), at_b = entry(&g->b, batch);
	uint64_t at_c = g->beta != 0 ? entry(&g->c, batch) : 0, at_d = entry(&g->d, batch);
	uint64_t bias = g->bias ? g->bias + (uint64_t)(batch * g->bias_batch *
						       (int64_t)blas_type_size(g->bias_type))
				: 0;

	for (int64_t p = 0; p < g->k; p++)
		for (int64_t i = 0; i < g->m; i++)
			put(is_double, a, p * g->m + i,
			    load(at_a, i * g->a.row + p * g->a.column, g->a.type));
	for (int64_t j = 0; j < g->n; j += COLUMNS) {
		for (int64_t c = 0; c < COLUMNS; c++) {
			for (int64_t p = 0; p < g->k; p++)
				put(is_double, b, c * g->k + p,
				    j + c < g->n ? load(at_b, p * g->b.row + (j + c) * g->b.column,
							g->b.type)
						 : 0);
			for (int64_t i = 0; i < g->m; i++)
				put(is_double, acc, c * g->m + i, 0);
		}
		multiply(is_double, acc, a, b, g->m, g->k);
		for (int64_t c = 0; c < COLUMNS && j + c < g->n; c++)
			for (int64_t i = 0; i < g->m; i++) {
				double sum = is_double ? ((double *)acc)[c * g->m + i]
						       : ((float *)acc)[c * g->m + i];
				store(at_d, i * g->d.row + (j + c) * g->d.column, g->d.type,
				      finish(g, sum, at_c, bias, i, j + c));
			}
	}
	return 0;
}

static bool runs_nothing; /* SIMGPU_RUN=none */

static __attribute__((constructor)) void look(void)
{
	const char *value = getenv("SIMGPU_RUN");

	runs_nothing = value && !strcmp(value, "none");
}

static int run(const unsigned grid[3], const unsigned block[3], unsigned shared, void **params)
{
	struct gemm_args g = *(const struct gemm_args *)params[0];
	int is_double = g.a.type == CUDA_R_64F;
	size_t size = is_double ? 8 : 4;

	(void)grid, (void)block, (void)shared;
	if (runs_nothing)
		return 0;
	if (g.alpha_at)
		g.alpha = load(g.alpha_at, 0, g.scale_type);
	if (g.beta_at)
		g.beta = load(g.beta_at, 0, g.scale_type);
	void *a = malloc((size_t)(g.m * g.k) * size + 64);
	void *b = malloc((size_t)(COLUMNS * g.k) * size + 64);
	void *acc = malloc((size_t)(COLUMNS * g.m) * size + 64);
	int result = a && b && acc ? 0 : -1;
	for (int64_t i = 0; !result && i < g.batch; i++)
		result = one_product(&g, i, a, b, acc, is_double);
	free(a);
	free(b);
	free(acc);
	return result;
}

static const size_t parameter_offset[] = {0};
static const size_t parameter_size[] = {sizeof(struct gemm_args)};
extern const struct sim_kernel sim_kernel_nvjet_sim_gemm;
const struct sim_kernel sim_kernel_nvjet_sim_gemm = {
	"nvjet_sim_gemm", 1, parameter_offset, parameter_size, run,
};

/* ---- launch ----------------------------------------------------------------------------- */

static CUkernel kernel;

static void find_kernel(void)
{
	const struct blas_driver *d = blas_driver();
	CUlibrary library;
	Dl_info info;

	if (!d || !dladdr((const void *)&sim_kernel_nvjet_sim_gemm, &info))
		return;
	if (d->library_load(&library, info.dli_fname, NULL, NULL, 0, NULL, NULL, 0))
		return;
	d->library_kernel(&kernel, library, "nvjet_sim_gemm");
}

static int read_scalars(struct gemm_args *g, const void *alpha, const void *beta, int on_device)
{
	if (!alpha || !beta)
		return -1;
	if (on_device) {
		g->alpha_at = (uintptr_t)alpha;
		g->beta_at = (uintptr_t)beta;
	} else {
		g->alpha = load((uintptr_t)alpha, 0, g->scale_type);
		g->beta = load((uintptr_t)beta, 0, g->scale_type);
	}
	return 0;
}

/* What the real library makes when a shape comes for the first time has a destructor, which is then
 * registered later than whatever the program had registered until then; a product after it is the
 * end. Here some products, ever fewer, count as such. */
static atomic_uint products;
static atomic_bool torn_down;

static void tear_down(void)
{
	torn_down = true;
}

static void make_for_shape(void)
{
	const unsigned n = atomic_fetch_add(&products, 1) + 1;

	if (torn_down) {
		fputs("cuBLAS: a product behind the destructors\n", stderr);
		abort();
	}
	if (!(n & (n - 1)))
		atexit(tear_down);
}

cublasStatus_t cublasLt_for_cublas_gemm(struct gemm_args *g, const void *alpha, const void *beta,
					int scalars_on_device, CUstream stream)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t bytes = sizeof(*g);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, g, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};
	CUlaunchConfig config = {0};

	if (read_scalars(g, alpha, beta, scalars_on_device))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (g->a.type != g->b.type || !blas_type_size(g->a.type) || !blas_type_size(g->d.type) ||
	    (g->a.type == CUDA_R_64F) != (g->d.type == CUDA_R_64F))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (!g->m || !g->n || !g->batch)
		return CUBLAS_STATUS_SUCCESS;
	make_for_shape();
	pthread_once(&once, find_kernel);
	if (!kernel)
		return CUBLAS_STATUS_INTERNAL_ERROR;
	config.gridDimX = (unsigned)((g->m + 127) / 128);
	config.gridDimY = (unsigned)((g->n + 127) / 128);
	config.gridDimZ = g->batch < 65535 ? (unsigned)g->batch : 65535;
	config.blockDimX = 384;
	config.blockDimY = 1;
	config.blockDimZ = 1;
	config.hStream = stream;
	return blas_driver()->launch(&config, (CUfunction)kernel, NULL, extra) == CUDA_SUCCESS
		       ? CUBLAS_STATUS_SUCCESS
		       : CUBLAS_STATUS_EXECUTION_FAILED;
}
