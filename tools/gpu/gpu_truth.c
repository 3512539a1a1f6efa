/* SPDX-License-Identifier: Apache-2.0
 *
 * The double-precision kernel does the arithmetic; the comparison is made here, element by element,
 * from a copy of O.
 */
#include "tools/gpu/gpu_truth.h"
#include "tools/base/tool.h"

#include "tools/base/half.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MOST = 4096 };

static int64_t rows_of(const struct attn_args *args)
{
	return (int64_t)args->B * args->H * args->Sq;
}

/* O is contiguous. */
static size_t bytes_of_o(const struct attn_args *args)
{
	return (size_t)rows_of(args) * (size_t)args->Dv * (size_t)attn_dtype_size(args->o.dtype);
}

static int compute(struct gpu_truth *truth, size_t bytes)
{
	const struct gpu *gpu = truth->gpu;
	const struct gpu_driver *driver = &gpu->driver;
	struct reference_args reference = {.attn = truth->args, .rows = truth->rows};
	CUdeviceptr scratch = 0, out = 0;
	int result;

	result = gpu_check(
		gpu,
		driver->cuMemAlloc(&scratch,
				   (size_t)truth->rows * (size_t)truth->args.Sk * sizeof(double)),
		"allocating the reference");
	if (!result)
		result =
			gpu_check(gpu, driver->cuMemAlloc(&out, bytes), "allocating the reference");
	reference.scratch = scratch;
	reference.out = out;
	if (!result)
		result = gpu_check_kernels(gpu, gpu->kernels.fashim_kernels_reference(&reference));
	if (!result)
		result = gpu_check(gpu, driver->cuMemcpyDtoH(truth->values, out, bytes),
				   "reading the reference");
	if (scratch)
		driver->cuMemFree(scratch);
	if (out)
		driver->cuMemFree(out);
	return result;
}

int gpu_truth_make(struct gpu_truth *truth, const struct gpu *gpu, const struct attn_args *args)
{
	const int64_t rows = rows_of(args);
	size_t bytes;

	*truth = (struct gpu_truth){.gpu = gpu, .args = *args};
	truth->rows = rows < ROWS_MOST ? (int)rows : ROWS_MOST;
	bytes = (size_t)truth->rows * (size_t)args->Dv * sizeof(double);
	truth->values = malloc(bytes);
	if (!truth->values) {
		complain("out of memory");
		return -ENOMEM;
	}
	return compute(truth, bytes);
}

void gpu_truth_free(struct gpu_truth *truth)
{
	free(truth->values);
	truth->values = NULL;
}

int gpu_truth_spoil(const struct gpu_truth *truth)
{
	const struct gpu *gpu = truth->gpu;

	return gpu_check(gpu,
			 gpu->driver.cuMemsetD8(truth->args.o.base, 0xff, bytes_of_o(&truth->args)),
			 "clearing O");
}

static double widen(const char *at, int dtype)
{
	uint16_t half;
	float single;

	if (dtype == ATTN_F32) {
		memcpy(&single, at, sizeof(single));
		return (double)single;
	}
	memcpy(&half, at, sizeof(half));
	return (double)(dtype == ATTN_F16 ? f16_to_float(half) : bf16_to_float(half));
}

static void compare(const struct gpu_truth *truth, const char *o, struct gpu_error *error)
{
	const struct attn_args *args = &truth->args;
	const size_t size = (size_t)attn_dtype_size(args->o.dtype);
	double squares = 0;
	int64_t finite = 0;

	for (int r = 0; r < truth->rows; r++) {
		const int64_t row = attn_sample_row(r, truth->rows, rows_of(args));

		for (int d = 0; d < args->Dv; d++) {
			const double want = truth->values[(int64_t)r * args->Dv + d];
			const double got =
				widen(o + (size_t)(row * args->Dv + d) * size, args->o.dtype);
			const double off = fabs(got - want);

			if (!isfinite(off)) {
				error->nonfinite += isfinite(want) || isfinite(got);
				continue;
			}
			error->max = fmax(error->max, off);
			squares += off * off;
			finite++;
		}
	}
	error->rms = finite ? sqrt(squares / (double)finite) : 0;
}

int gpu_truth_compare(const struct gpu_truth *truth, struct gpu_error *error)
{
	const struct gpu *gpu = truth->gpu;
	const size_t bytes = bytes_of_o(&truth->args);
	char *o = malloc(bytes);
	int result;

	*error = (struct gpu_error){0};
	if (!o) {
		complain("out of memory");
		return -ENOMEM;
	}
	result = gpu_check(gpu, gpu->driver.cuStreamSynchronize(gpu->stream), "running a kernel");
	if (!result)
		result = gpu_check(gpu, gpu->driver.cuMemcpyDtoH(o, truth->args.o.base, bytes),
				   "reading O");
	if (!result)
		compare(truth, o, error);
	free(o);
	return result;
}

void gpu_error_widen(struct gpu_error *most, const struct gpu_error *error)
{
	most->max = fmax(most->max, error->max);
	most->rms = fmax(most->rms, error->rms);
	most->nonfinite += error->nonfinite;
}
