/* SPDX-License-Identifier: Apache-2.0
 *
 * Candidates are made ready when they are first asked for: most never come to be timed.
 */
#include "tools/tune/contest.h"
#include "tools/base/tool.h"
#include "tools/tune/layout.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLD_KEYS 8 /* for each query, from which on K and V are taken to be cold */
#define MOST_SETS 256

/* ---- who takes part ------------------------------------------------------------------------- */

void contest_kernels_of(struct contest_kernels *kernels, int arch)
{
	memset(kernels, 0, sizeof(*kernels));
	kernels->arch = arch;
	for (int n = 0; n < attn_variant_total; n++)
		kernels->available[n] = n < attn_variant_count || attn_variants[n].min_arch == arch;
}

int contest_kernels_here(struct contest_kernels *kernels, const struct gpu *gpu)
{
	memset(kernels, 0, sizeof(*kernels));
	kernels->arch = gpu->arch;
	for (int n = 0; n < attn_variant_total; n++) {
		const char *name = gpu->kernels.fashim_kernels_name(n);

		if (!name || strcmp(name, attn_variants[n].name)) {
			complain("%s is of another version than this command", gpu->library);
			return -ENOENT;
		}
		kernels->available[n] = gpu->kernels.fashim_kernels_present(n) != 0;
	}
	return 0;
}

int contest_candidates(const struct contest_kernels *kernels, const struct attn_args *args,
		       int *candidates, int most)
{
	const struct attn_variant *built_in =
		attn_select_from(args, kernels->arch, NULL, kernels->available);
	int count = 0;

	if (!built_in)
		return 0;
	candidates[count++] = (int)(built_in - attn_variants);
	for (int n = 0; n < attn_variant_total && count < most; n++) {
		const struct attn_variant *v = &attn_variants[n];

		if (v != built_in && v->family != ATTN_LADDER &&
		    attn_select_from(args, kernels->arch, v->name, kernels->available) == v)
			candidates[count++] = n;
	}
	return count;
}

/* ---- operands ------------------------------------------------------------------------------- */

static int count_sets(const struct gpu *gpu, const struct call_form *form, uint64_t bytes)
{
	const double cold = ceil(3 * (double)gpu->cache_bytes / (double)bytes);

	if ((int64_t)form->Sq * COLD_KEYS > form->Sk)
		return 1;
	return (int)fmin(cold, MOST_SETS);
}

/* Normal numbers of the form's dtype, `bytes` of them. */
static int fill_memory(struct contest *contest, const struct call_form *form, uint64_t bytes,
		       uint64_t seed)
{
	const uint64_t numbers = bytes / (uint64_t)attn_dtype_size(form->dtype);
	const struct gpu_shape shape = {.B = 1,
					.H = 1,
					.Sq = 1,
					.Sk = (int)(numbers / 2 / 64 + 1),
					.D = 64,
					.dtype = form->dtype};

	return gpu_operands_make(contest->gpu, &contest->memory, &shape, seed);
}

/* A bias of another dtype than the numbers are of is zero. */
static int clear_bias(const struct gpu *gpu, const struct attn_args *args,
		      const struct attn_tensor *bias)
{
	const int32_t extent[4] = {args->B, args->H, args->Sq, args->Sk};
	uint64_t elements = 1;

	if (!bias->base || bias->dtype == args->q.dtype)
		return 0;
	for (int i = 0; i < 4; i++)
		elements *= bias->stride[i] ? (uint64_t)extent[i] : 1;
	return gpu_check(gpu,
			 gpu->driver.cuMemsetD8(bias->base, 0,
						elements * (uint64_t)attn_dtype_size(bias->dtype)),
			 "clearing a bias");
}

/* Three quarters of the keys count. */
static int fill_lengths(const struct gpu *gpu, const struct attn_args *args)
{
	const struct attn_tensor *lengths = &args->spec.lengths;
	const size_t count = (lengths->stride[0] ? (size_t)args->B : 1) *
			     (lengths->stride[1] ? (size_t)args->H : 1) *
			     (lengths->stride[2] ? (size_t)args->Sq : 1);
	int32_t *values;
	int result;

	if (!lengths->base)
		return 0;
	values = calloc(count, sizeof(*values));
	if (!values) {
		complain("out of memory");
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++)
		values[i] = (3 * args->Sk + 3) / 4;
	result = gpu_check(gpu,
			   gpu->driver.cuMemcpyHtoD(lengths->base, values, count * sizeof(*values)),
			   "filling lengths");
	free(values);
	return result;
}

static int make_sets(struct contest *contest, const struct call_form *form, uint64_t bytes)
{
	struct call_form same = *form;
	int result = 0;

	contest->sets = calloc((size_t)contest->set_count, sizeof(*contest->sets));
	if (!contest->sets) {
		complain("out of memory");
		return -ENOMEM;
	}
	for (int n = 0; !result && n < contest->set_count; n++) {
		struct attn_args *args = &contest->sets[n].args;

		result = tune_layout(args, &same, contest->memory.memory + (uint64_t)n * bytes,
				     &bytes);
		for (int i = 0; !result && i < ATTN_MAX_BIAS; i++)
			result = clear_bias(contest->gpu, args, &args->spec.bias[i]);
		if (!result)
			result = fill_lengths(contest->gpu, args);
	}
	return result;
}

int contest_make(struct contest *contest, const struct gpu *gpu, const struct call_form *form,
		 const int *variants, int count, uint64_t seed)
{
	struct call_form same = *form;
	struct attn_args args;
	uint64_t bytes;
	int result;

	*contest = (struct contest){.gpu = gpu, .variants = variants, .count = count};
	result = tune_layout(&args, &same, 256, &bytes);
	if (result)
		return result;
	contest->set_count = count_sets(gpu, form, bytes);
	contest->contestants = calloc((size_t)count, sizeof(*contest->contestants));
	if (!contest->contestants) {
		complain("out of memory");
		return -ENOMEM;
	}
	result = fill_memory(contest, form, bytes * (uint64_t)contest->set_count, seed);
	if (!result)
		result = make_sets(contest, form, bytes);
	if (!result)
		result = gpu_check(gpu, gpu->driver.cuEventCreate(&contest->begin, 0),
				   "cuEventCreate");
	if (!result)
		result = gpu_check(gpu, gpu->driver.cuEventCreate(&contest->end, 0),
				   "cuEventCreate");
	if (!result)
		result = gpu_truth_make(&contest->truth, gpu, &contest->sets[0].args);
	return result;
}

void contest_free(struct contest *contest)
{
	for (int i = 0; contest->contestants && i < contest->count; i++) {
		struct contestant *contestant = &contest->contestants[i];

		if (contestant->timed)
			gpu_timer_free(&contestant->timer);
		if (contestant->made)
			gpu_variant_free(&contestant->variant);
	}
	if (contest->begin)
		contest->gpu->driver.cuEventDestroy(contest->begin);
	if (contest->end)
		contest->gpu->driver.cuEventDestroy(contest->end);
	gpu_truth_free(&contest->truth);
	gpu_operands_free(contest->gpu, &contest->memory);
	free(contest->contestants);
	free(contest->sets);
	memset(contest, 0, sizeof(*contest));
}

/* ---- for the sweep -------------------------------------------------------------------------- */

static int make(struct contest *contest, int candidate)
{
	struct contestant *contestant = &contest->contestants[candidate];

	if (contestant->made)
		return 0;
	contestant->made = true;
	return gpu_variant_make(&contestant->variant, contest->gpu, contest->variants[candidate],
				contest->sets, contest->set_count);
}

/* Two launches on the first set, the second one timed. */
static int launch(struct contest *contest, int candidate, double *us)
{
	const struct gpu *gpu = contest->gpu;
	struct gpu_work work = gpu_variant_work(&contest->contestants[candidate].variant);
	float ms = 0;
	CUresult result;
	int error = work.enqueue(work.subject, 0, gpu->stream);

	if (error)
		return error;
	result = gpu->driver.cuEventRecord(contest->begin, gpu->stream);
	if (result == CUDA_SUCCESS)
		error = work.enqueue(work.subject, 0, gpu->stream);
	if (result == CUDA_SUCCESS)
		result = gpu->driver.cuEventRecord(contest->end, gpu->stream);
	if (result == CUDA_SUCCESS)
		result = gpu->driver.cuEventSynchronize(contest->end);
	if (result == CUDA_SUCCESS)
		result = gpu->driver.cuEventElapsedTime(&ms, contest->begin, contest->end);
	*us = 1e3 * (double)ms;
	return error ? error : gpu_check(gpu, result, "running a kernel");
}

/* The distance of neighbouring numbers at the largest true value. */
static double rounding_step(const struct gpu_truth *truth)
{
	const int digits = truth->args.o.dtype == ATTN_F16    ? 11
			   : truth->args.o.dtype == ATTN_BF16 ? 8
							      : 24;
	const int64_t count = (int64_t)truth->rows * truth->args.Dv;
	double most = 0;

	for (int64_t i = 0; i < count; i++)
		most = fmax(most, fabs(truth->values[i]));
	return ldexp(most, 1 - digits);
}

static int check(void *context, int candidate, struct sweep_check *found)
{
	struct contest *contest = context;
	struct gpu_error error;
	int result = make(contest, candidate);

	if (!result)
		result = gpu_truth_spoil(&contest->truth);
	if (!result) /* our stream does not wait for the one that clears O */
		result = gpu_check(contest->gpu, contest->gpu->driver.cuStreamSynchronize(NULL),
				   "clearing O");
	if (!result)
		result = launch(contest, candidate, &found->us);
	if (!result)
		result = gpu_truth_compare(&contest->truth, &error);
	if (result)
		return result == -ENOMEM ? result : -EIO;
	found->error = error.max;
	found->finite = error.nonfinite == 0;
	found->rounding = rounding_step(&contest->truth);
	return 0;
}

static int time_once(void *context, int candidate, double *us)
{
	struct contest *contest = context;
	struct contestant *contestant = &contest->contestants[candidate];
	struct gpu_work work;
	int result = 0;

	if (!contestant->timed) {
		contestant->timed = true;
		work = gpu_variant_work(&contestant->variant);
		result = gpu_timer_make(&contestant->timer, contest->gpu, &work);
	}
	return result ? result : gpu_timer_round(&contestant->timer, us);
}

struct sweep_measure contest_measure(struct contest *contest)
{
	return (struct sweep_measure){check, time_once, contest};
}
