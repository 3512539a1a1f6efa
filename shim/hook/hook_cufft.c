/* SPDX-License-Identifier: Apache-2.0
 *
 * cuFFT: the making of plans (fft_plan.h), and their execution. Plans with callbacks or of several
 * devices are not understood.
 */
#include "shim/operands/fft_plan.h"
#include "shim/hook/hook_library.h"

/* ---- plans ---------------------------------------------------------------------------------- */

static void keep_layout(const struct library *library, cufftHandle number,
			const struct fft_layout *layout, bool known)
{
	struct fft_plan *plan;

	fft_plan_lock();
	plan = fft_plan_get(library, number);
	if (plan) {
		plan->known = known;
		if (known)
			plan->layout = *layout;
	}
	fft_plan_unlock();
}

/* Fills sizes and, unless both are NULL, the embedding arrays. false: a layout without words. */
#define FILL_LAYOUT(layout, rank_, n, batch_, in, istride, idist, on, ostride, odist)              \
	({                                                                                         \
		bool fits = rank_ > 0 && rank_ <= FFT_RANK && n && !in == !on;                     \
                                                                                                   \
		(layout)->rank = rank_;                                                            \
		(layout)->batch = batch_;                                                          \
		(layout)->input.stride = istride;                                                  \
		(layout)->input.distance = idist;                                                  \
		(layout)->output.stride = ostride;                                                 \
		(layout)->output.distance = odist;                                                 \
		(layout)->input.basic = (layout)->output.basic = !in;                              \
		for (int i = 0; fits && i < rank_; i++) {                                          \
			(layout)->size[i] = n[i];                                                  \
			(layout)->input.embed[i] = in ? in[i] : 0;                                 \
			(layout)->output.embed[i] = on ? on[i] : 0;                                \
		}                                                                                  \
		fits;                                                                              \
	})

/* `...` fills `layout` and sets `known`. */
#define PLAN_HOOK(function, parameters, arguments, number, ...)                                    \
	LIBRARY_FUNCTION(cufftResult, function, parameters)                                        \
	{                                                                                          \
		struct fft_layout layout = {.rank = 0};                                            \
		bool known = false;                                                                \
		cufftResult status;                                                                \
		LIBRARY_REAL(cufftResult, function, NULL, arguments, 5)                            \
                                                                                                   \
		status = real arguments;                                                           \
		if ((int)status != 0 || hook_bypassed())                                           \
			return status;                                                             \
		__VA_ARGS__;                                                                       \
		keep_layout(library, number, &layout, known);                                      \
		return status;                                                                     \
	}

#define PACKED(rank, batch, ...)                                                                   \
	const int size[] = {__VA_ARGS__}, *sizes = size, *none = NULL;                             \
	known = fft_layout_of_type(&layout, (int)type) &&                                          \
		FILL_LAYOUT(&layout, rank, sizes, batch, none, 0, 0, none, 0, 0)
#define EMBEDDED                                                                                   \
	known = fft_layout_of_type(&layout, (int)type) &&                                          \
		FILL_LAYOUT(&layout, rank, n, batch, inembed, istride, idist, onembed, ostride,    \
			    odist)

PLAN_HOOK(cufftPlan1d, (cufftHandle * plan, int nx, cufftType type, int batch),
	  (plan, nx, type, batch), *plan, PACKED(1, batch, nx))
PLAN_HOOK(cufftPlan2d, (cufftHandle * plan, int nx, int ny, cufftType type), (plan, nx, ny, type),
	  *plan, PACKED(2, 1, nx, ny))
PLAN_HOOK(cufftPlan3d, (cufftHandle * plan, int nx, int ny, int nz, cufftType type),
	  (plan, nx, ny, nz, type), *plan, PACKED(3, 1, nx, ny, nz))
PLAN_HOOK(cufftPlanMany,
	  (cufftHandle * plan, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
	   int ostride, int odist, cufftType type, int batch),
	  (plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch), *plan,
	  EMBEDDED)
PLAN_HOOK(cufftMakePlan1d, (cufftHandle plan, int nx, cufftType type, int batch, size_t *bytes),
	  (plan, nx, type, batch, bytes), plan, PACKED(1, batch, nx))
PLAN_HOOK(cufftMakePlan2d, (cufftHandle plan, int nx, int ny, cufftType type, size_t *bytes),
	  (plan, nx, ny, type, bytes), plan, PACKED(2, 1, nx, ny))
PLAN_HOOK(cufftMakePlan3d,
	  (cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t *bytes),
	  (plan, nx, ny, nz, type, bytes), plan, PACKED(3, 1, nx, ny, nz))
PLAN_HOOK(cufftMakePlanMany,
	  (cufftHandle plan, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
	   int ostride, int odist, cufftType type, int batch, size_t *bytes),
	  (plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, bytes),
	  plan, EMBEDDED)
PLAN_HOOK(cufftMakePlanMany64,
	  (cufftHandle plan, int rank, long long int *n, long long int *inembed,
	   long long int istride, long long int idist, long long int *onembed,
	   long long int ostride, long long int odist, cufftType type, long long int batch,
	   size_t *bytes),
	  (plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, bytes),
	  plan, EMBEDDED)
PLAN_HOOK(cufftXtMakePlanMany,
	  (cufftHandle plan, int rank, long long int *n, long long int *inembed,
	   long long int istride, long long int idist, cudaDataType input_type,
	   long long int *onembed, long long int ostride, long long int odist,
	   cudaDataType output_type, long long int batch, size_t *bytes, cudaDataType execution),
	  (plan, rank, n, inembed, istride, idist, input_type, onembed, ostride, odist, output_type,
	   batch, bytes, execution),
	  plan, layout.input.type = input_type;
	  layout.output.type = output_type;
	  known = FILL_LAYOUT(&layout, rank, n, batch, inembed, istride, idist, onembed, ostride,
			      odist))

/* `...` changes `entry`. */
#define CHANGE_HOOK(function, parameters, arguments, ...)                                          \
	LIBRARY_FUNCTION(cufftResult, function, parameters)                                        \
	{                                                                                          \
		struct fft_plan *entry;                                                            \
		cufftResult status;                                                                \
		LIBRARY_REAL(cufftResult, function, NULL, arguments, 5)                            \
                                                                                                   \
		status = real arguments;                                                           \
		if ((int)status != 0 || hook_bypassed())                                           \
			return status;                                                             \
		fft_plan_lock();                                                                   \
		entry = fft_plan_get(library, plan);                                               \
		if (entry) {                                                                       \
			__VA_ARGS__;                                                               \
		}                                                                                  \
		fft_plan_unlock();                                                                 \
		return status;                                                                     \
	}

CHANGE_HOOK(cufftSetStream, (cufftHandle plan, cudaStream_t stream), (plan, stream),
	    entry->stream = (CUstream)stream)
CHANGE_HOOK(cufftSetWorkArea, (cufftHandle plan, void *work), (plan, work),
	    __typeof__(&cufftGetSize) get = LIBRARY_ASK(library, cufftGetSize);
	    size_t bytes = 0; entry->work = work;
	    if (work && (!get || (int)get(plan, &bytes) != 0)) entry->known = false;
	    entry->work_bytes = bytes)
CHANGE_HOOK(cufftXtSetCallback,
	    (cufftHandle plan, void **routine, cufftXtCallbackType type, void **information),
	    (plan, routine, type, information), entry->odd = true)
CHANGE_HOOK(cufftXtSetJITCallback,
	    (cufftHandle plan, const char *name, const void *image, size_t bytes,
	     cufftXtCallbackType type, void **information),
	    (plan, name, image, bytes, type, information), entry->odd = true)
CHANGE_HOOK(cufftXtSetWorkArea, (cufftHandle plan, void **work), (plan, work), entry->odd = true)
CHANGE_HOOK(cufftXtSetGPUs, (cufftHandle plan, int count, int *devices), (plan, count, devices),
	    entry->odd = true)

LIBRARY_FUNCTION(cufftResult, cufftDestroy, (cufftHandle plan))
{
	LIBRARY_REAL(cufftResult, cufftDestroy, NULL, (plan), 5)

	/* Forgotten first: another thread may be given the same number as soon as it is free. */
	if (!hook_bypassed())
		fft_plan_forget(library, plan);
	return real(plan);
}

/* ---- execution ------------------------------------------------------------------------------ */

/* The layout must be of the type that the function executes; 0: of any. */
static void describe(struct library_call *call, const struct library *library, cufftHandle plan,
		     const void *input, const void *output, int type)
{
	struct fft_layout types;
	CUstream stream = NULL;

	fft_plan_operands(library, plan, fft_layout_of_type(&types, type) ? &types : NULL, input,
			  output, &call->operands, &stream);
	call->op.stream = hook_stream(stream, false);
}

#define FFT(function, from, to, type)                                                              \
	LIBRARY_HOOK(cufftResult, function, (cufftHandle plan, from * input, to * output),         \
		     (plan, input, output), NULL, 5,                                               \
		     describe(&call, library, plan, input, output, type))
#define FFT_DIRECTED(function, from, to, type)                                                     \
	LIBRARY_HOOK(cufftResult, function,                                                        \
		     (cufftHandle plan, from * input, to * output, int direction),                 \
		     (plan, input, output, direction), NULL, 5,                                    \
		     describe(&call, library, plan, input, output, type))
#include "shim/real/cufft_hooks.def"
