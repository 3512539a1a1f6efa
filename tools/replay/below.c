/* SPDX-License-Identifier: Apache-2.0
 *
 * Stand-ins for shim/{resolve,blas,bypass,scratch,fused,compare}.c and the driver (below.h).
 */
#include "tools/replay/below.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/gpu/blas.h"
#include "shim/real/bypass.h"
#include "shim/act/compare.h"
#include "shim/real/image.h"
#include "shim/rules/function.h"
#include "shim/gpu/fused.h"
#include "shim/ask/identify.h"
#include "shim/gpu/looks.h"
#include "shim/ask/measure.h"
#include "shim/gpu/nvtx.h"
#include "shim/ask/overwrite.h"
#include "shim/ask/reach.h"
#include "shim/real/driver.h"
#include "shim/real/resolve.h"
#include "shim/real/library.h"
#include "shim/gpu/scratch.h"
#include "shim/gpu/timing.h"

#define MAX_FUNCTIONS 8192
#define MAX_VARIANTS  256

struct below below;

__thread int hook_depth;
struct driver_calls driver;

static struct played {
	char *name;
	unsigned count;
	size_t offset[FUNCTION_MAX_PARAMS], size[FUNCTION_MAX_PARAMS];
} functions[MAX_FUNCTIONS];
static unsigned function_count = 1; /* 0 is no handle */

static void note(struct act act)
{
	below.count[act.kind]++;
	if (act.kind == ACT_COPY && act.b >= BELOW_SCRATCH)
		below.saved += act.bytes * (act.rows ? act.rows : 1);
	if (below.acts < BELOW_ACTS)
		below.act[below.acts++] = act;
}

void below_reset(void)
{
	const int64_t scratch = below.scratch;

	memset(&below, 0, sizeof(below));
	below.scratch = scratch;
}

/* ---- kernels -----------------------------------------------------------------------------------
 */

CUfunction below_function(const char *name, unsigned params, const size_t *offset,
			  const size_t *size)
{
	struct played *played;

	for (unsigned i = 1; i < function_count; i++)
		if (strcmp(functions[i].name, name) == 0 && functions[i].count == params &&
		    memcmp(functions[i].offset, offset, params * sizeof(*offset)) == 0 &&
		    memcmp(functions[i].size, size, params * sizeof(*size)) == 0)
			return (CUfunction)(uintptr_t)i;
	if (function_count == MAX_FUNCTIONS || params > FUNCTION_MAX_PARAMS)
		return NULL;
	played = &functions[function_count];
	played->name = strdup(name);
	played->count = params;
	memcpy(played->offset, offset, params * sizeof(*offset));
	memcpy(played->size, size, params * sizeof(*size));
	return (CUfunction)(uintptr_t)function_count++;
}

bool below_layout(CUfunction handle, unsigned *params, const size_t **offset, const size_t **size)
{
	const uintptr_t index = (uintptr_t)handle;

	if (!index || index >= function_count)
		return false;
	*params = functions[index].count;
	*offset = functions[index].offset;
	*size = functions[index].size;
	return true;
}

static CUresult function_name(const char **name, CUfunction function)
{
	*name = functions[(uintptr_t)function].name;
	return CUDA_SUCCESS;
}

static CUresult param_info(CUfunction function, size_t index, size_t *offset, size_t *size)
{
	const struct played *played = &functions[(uintptr_t)function];

	if (index >= played->count)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = played->offset[index];
	*size = played->size[index];
	return CUDA_SUCCESS;
}

/* ---- the driver --------------------------------------------------------------------------------
 */

static CUresult no(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

static CUresult get_current(CUcontext *context)
{
	*context = BELOW_CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
	(void)stream;
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
	(void)mode;
	return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream)
{
	const bool back = source >= BELOW_SCRATCH && target < BELOW_SCRATCH;

	note((struct act){.kind = back ? ACT_WRITE_BACK : ACT_COPY,
			  .a = source,
			  .b = target,
			  .bytes = bytes,
			  .stream = stream});
	return CUDA_SUCCESS;
}

static CUresult copy_rows(const CUDA_MEMCPY2D *rows, CUstream stream)
{
	if (below.no_rows)
		return CUDA_ERROR_INVALID_VALUE;
	note((struct act){.kind = ACT_COPY,
			  .a = rows->srcDevice,
			  .b = rows->dstDevice,
			  .bytes = rows->WidthInBytes,
			  .rows = rows->Height,
			  .pitch = rows->srcPitch,
			  .stream = stream});
	return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream stream)
{
	(void)stream;
	below.waits++;
	return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned flags)
{
	(void)flags;
	*event = (CUevent)0x10;
	return below.no_order ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	(void)event, (void)stream;
	return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	(void)event;
	return below.unfinished ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult memory_info(size_t *left, size_t *total)
{
	*left = *total = (size_t)1 << 40;
	return CUDA_SUCCESS;
}

static CUresult stream_wait(CUstream stream, CUevent event, unsigned flags)
{
	(void)event, (void)flags;
	note((struct act){.kind = ACT_ORDER, .stream = stream});
	return CUDA_SUCCESS;
}

static CUresult memset32(CUdeviceptr target, unsigned word, size_t count, CUstream stream)
{
	note((struct act){
		.kind = ACT_FILL, .a = target, .b = word, .bytes = 4 * count, .stream = stream});
	return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
		       void **extra)
{
	struct act act = {.kind = ACT_LAUNCH, .function = function, .stream = stream};

	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
	if (functions[(uintptr_t)function].count > 0 && functions[(uintptr_t)function].size[0] == 8)
		memcpy(&act.a, params[0], 8);
	if (functions[(uintptr_t)function].count > 1 && functions[(uintptr_t)function].size[1] == 8)
		memcpy(&act.b, params[1], 8);
	note(act);
	return below.no_rerun ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

int driver_resolve(void)
{
	if (driver.cuCtxGetCurrent)
		return 0;
	driver.cuCtxGetCurrent = get_current;
	driver.cuThreadExchangeStreamCaptureMode = exchange;
	driver.cuFuncGetName = function_name;
	driver.cuFuncGetParamInfo = param_info;
	driver.cuMemcpyDtoDAsync_v2 = copy;
	driver.cuMemcpy2DAsync_v2 = copy_rows;
	driver.cuEventCreate = event_create;
	driver.cuStreamSynchronize = synchronize;
	driver.cuEventRecord = event_record;
	driver.cuEventDestroy_v2 = event_destroy;
	driver.cuEventQuery = event_query;
	driver.cuMemGetInfo_v2 = memory_info;
	driver.cuStreamWaitEvent = stream_wait;
	driver.cuMemsetD32Async = memset32;
	driver.cuLaunchKernel = launch;
	driver.cuStreamIsCapturing = is_capturing;
	/* Whatever else there must be says no. */
#define DRIVER(name)                                                                               \
	if (!driver.name)                                                                          \
		driver.name = (__typeof__(driver.name))(void *)no;
#define DRIVER_OPTIONAL(name)
#include "shim/real/driver_calls.def"
#undef DRIVER
#undef DRIVER_OPTIONAL
	return 0;
}

void *real_dlsym(void *handle, const char *name)
{
	(void)handle, (void)name;
	return NULL;
}

int blas_version(const struct library *library)
{
	(void)library;
	return 130000;
}

/* ---- shim/gpu/blas.c
 * -------------------------------------------------------------------------------
 */

int blas_prepare(const struct library *library, CUcontext context)
{
	(void)library, (void)context;
	return 0;
}

int blas_run(const struct op_gemm *gemm, CUcontext context, CUstream stream, uint64_t a, uint64_t b,
	     uint64_t c)
{
	(void)gemm, (void)context;
	note((struct act){.kind = ACT_GEMM, .a = a, .b = b, .c = c, .stream = stream});
	return below.no_rerun ? -1 : 0;
}

void blas_forget(CUcontext context)
{
	(void)context;
}

/* ---- shim/gpu/scratch.c
 * ----------------------------------------------------------------------------
 */

uint64_t scratch_get(CUcontext context, CUstream stream, uint64_t bytes, bool must)
{
	static uint64_t next = BELOW_SCRATCH;
	uint64_t address = next;

	(void)context, (void)stream;
	if (below.no_scratch && !must)
		return 0;
	if (++below.scratch > below.scratch_most)
		below.scratch_most = below.scratch;
	next += (bytes + 511) & ~511ull;
	return address;
}

void scratch_put(uint64_t address, CUstream stream)
{
	(void)stream;
	if (address)
		below.scratch--;
}

void scratch_forget(CUcontext context)
{
	(void)context;
}

void scratch_stream_gone(CUstream stream)
{
	(void)stream;
}

bool scratch_trim(CUcontext context)
{
	(void)context;
	return false;
}

void scratch_take_leaving(struct scratch_leaving *leaving)
{
	leaving->count = 0;
}

void scratch_free(const struct scratch_leaving *leaving)
{
	(void)leaving;
}

/* ---- shim/gpu/fused.c
 * ------------------------------------------------------------------------------
 */

bool fused_prepared(CUcontext context)
{
	(void)context;
	return true;
}

int fused_prepare(CUcontext context)
{
	(void)context;
	return 0;
}

static const uint8_t *every_kernel(void)
{
	static uint8_t available[MAX_VARIANTS];

	memset(available, 1, sizeof(available));
	return attn_variant_total <= MAX_VARIANTS ? available : NULL;
}

const struct attn_variant *fused_select(CUcontext context, const struct attn_args *args)
{
	(void)context;
	if (below.no_kernel)
		return NULL;
	if (below.odd && args->q.base % 16)
		return below.odd;
	return attn_select_from(args, 90, NULL, every_kernel());
}

const char *fused_chosen_by(CUcontext context, const struct attn_args *args)
{
	(void)context, (void)args;
	return "built_in";
}

static void look(CUcontext context, CUstream stream, const struct attn_variant *variant,
		 const struct attn_args *args)
{
	struct attn_look look;
	bool made = false;

	if (!attn_launch_look(&look, variant, args))
		return;
	looks_get(context, stream, &look, &made);
	below.looks++;
	below.looked += made;
}

static bool loaded[256]; /* of attn_variants */

void below_unload(void)
{
	memset(loaded, 0, sizeof(loaded));
}

int fused_load(CUcontext context, const struct attn_variant *variant)
{
	(void)context;
	loaded[variant - attn_variants] = true;
	return 0;
}

bool fused_loaded(CUcontext context, const struct attn_variant *variant)
{
	(void)context;
	return loaded[variant - attn_variants];
}

int fused_attention(CUcontext context, CUstream stream, const struct attn_variant *variant,
		    const struct attn_args *args)
{
	if (below.no_fused || fused_load(context, variant))
		return -1;
	look(context, stream, variant, args);
	below.args = *args;
	note((struct act){.kind = ACT_FUSED,
			  .a = args->q.base,
			  .b = args->o.base,
			  .c = args->k.base,
			  .stream = stream});
	return 0;
}

int fused_complement(CUcontext context, CUstream stream, const struct complement_args *args)
{
	(void)context;
	if (args->out)
		note((struct act){
			.kind = ACT_COMPLEMENT, .a = args->in, .b = args->out, .stream = stream});
	return 0;
}

int fused_slopes(CUcontext context, CUstream stream, const struct slopes_args *args)
{
	(void)context;
	if (args->out)
		note((struct act){.kind = ACT_SLOPES,
				  .a = args->slopes.base,
				  .b = args->out,
				  .stream = stream});
	return 0;
}

/* Nobody looks at memory here. */
int fused_find_addresses(CUcontext context, CUstream stream, const struct addresses_args *args)
{
	(void)context, (void)stream, (void)args;
	return -1;
}

/* The driver's copy by rows is looked at instead. */
int fused_copy_rows(CUcontext context, CUstream stream, uint64_t to, uint64_t from, uint64_t width,
		    uint64_t pitch, uint64_t rows)
{
	(void)context, (void)stream, (void)to, (void)from, (void)width, (void)pitch, (void)rows;
	return -1;
}

int fused_lay_out(CUcontext context, CUstream stream, const struct relayout *copy)
{
	(void)context;
	note((struct act){.kind = ACT_LAY_OUT,
			  .a = copy->in_begin,
			  .b = copy->out_begin,
			  .bytes = copy->out_end - copy->out_begin,
			  .stream = stream});
	return 0;
}

void fused_forget(CUcontext context)
{
	(void)context;
}

/* ---- shim/ask/overwrite.c
 * ---------------------------------------------------------------------------
 */

void overwrite_refine(struct access_list *list, const struct op *op,
		      const struct function *function, const unsigned char *params)
{
	(void)list, (void)op, (void)function, (void)params;
}

/* ---- shim/ask/reach.c
 * -------------------------------------------------------------------------------
 */

void reach_refine(struct access_list *list, const struct op *op, const struct function *function,
		  bool may_ask)
{
	(void)op, (void)function, (void)may_ask;
	list->far = below.far;
	list->unsettled = below.unsettled;
}

void reach_forget(CUcontext context)
{
	(void)context;
}

/* ---- shim/gpu/nvtx.c
 * --------------------------------------------------------------------------------
 */

void nvtx_look(void)
{
}

bool nvtx_push(const char *what, const struct attn_variant *variant, const struct attn_args *args)
{
	(void)what, (void)variant, (void)args;
	return false;
}

void nvtx_pop(bool pushed)
{
	(void)pushed;
}

/* ---- shim/gpu/timing.c
 * ------------------------------------------------------------------------------
 */

struct timing *timing_begin(CUcontext context, CUstream stream)
{
	(void)context, (void)stream;
	return NULL;
}

void timing_start(struct timing *timing, enum timing_part part)
{
	(void)timing, (void)part;
}

void timing_stop(struct timing *timing)
{
	(void)timing;
}

void timing_drop(struct timing *timing)
{
	(void)timing;
}

/* ---- shim/act/compare.c
 * ----------------------------------------------------------------------------
 */

void compare_start(struct site *site, const struct chain *chain, const struct attn_args *args,
		   const struct attn_tensor *order, const struct attn_variant *variant,
		   struct timing *timing)
{
	(void)order, (void)timing;
	fused_load(chain->context, variant);
	below.verdicts++;
	below.site = site->number;
	below.args = *args;
	site_agrees(site, args->Sk);
	if (++site->passed >= 2)
		site_verify(site);
}

void compare_poll(void)
{
}

void compare_wait(const struct site *site, uint64_t most_ns)
{
	(void)site;
	below.waited_ns = most_ns;
}

void compare_forget(CUcontext context)
{
	(void)context;
}

/* ---- shim/ask
 * ----------------------------------------------------------------------------
 */

/* No kernel runs here: the first of what it may be. */
const char *identify_chain(struct identity *identity, const struct attn_args *args,
			   const struct chain *chain, char *detail, size_t size)
{
	int pointers;
	uint64_t room;
	const uint64_t pointer = identity_pointer(chain, &pointers, &room);

	snprintf(detail, size, "no kernel runs here");
	if (pointers > 1)
		return detail;
	below.guesses = guess_specs(below.guess, GUESSES, args, chain);
	guess_adopt(identity, &below.guess[0], pointer);
	return NULL;
}

/* No kernel runs here: what is not read later counts as an input. */
const char *measure_chain(struct chain *chain, bool *waits)
{
	(void)chain, (void)waits;
	return NULL;
}

/* ---- shim/real/image.c
 * ------------------------------------------------------------------------------
 */

bool image_of(const void *address, struct image *image)
{
	(void)address, (void)image;
	return false;
}

/* ---- shim/real/bypass.c
 * -----------------------------------------------------------------------------
 */

bool bypassed(const char **why)
{
	*why = "";
	return false;
}
