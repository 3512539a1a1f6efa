/* SPDX-License-Identifier: Apache-2.0
 *
 * Module loading and launching. Everything goes through the driver API: no runtime library.
 */
#include "shim/gpu/fused.h"

#include <errno.h>
#include <string.h>

#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "kernels/images.h"
#include "kernels/launch.h"
#include "shim/gpu/looks.h"
#include "shim/base/message.h"
#include "shim/gpu/prepared.h"
#include "shim/chain/relayout.h"
#include "shim/real/driver.h"
#include "shim/gpu/scratch.h"
#include "shim/gpu/tuned.h"
#include "shim/gpu/value_rows.h"

#define CONTEXTS  16
#define VARIANTS  192
#define STEPS	  8	  /* kernels that come before another */
#define PARTS	  24	  /* of an image */
#define SOMEWHERE 0x10000 /* as aligned as any scratch */

_Static_assert(VIEW_DIMS <= LAY_OUT_DIMS, "a copy has too many dimensions to be made");

enum helper {
	HELPER_REFERENCE,
	HELPER_DRIFT,
	HELPER_DRIFT_SAMPLED,
	HELPER_ADDRESSES,
	HELPER_UNWRITTEN,
	HELPER_SLOPES,
	HELPER_COMPLEMENT,
	HELPER_LAY_OUT,
	HELPER_COPY_ROWS,
	HELPER_COUNT
};

static const char *const helper_symbols[HELPER_COUNT] = {
	"fashim_reference",	 "fashim_drift",	   "fashim_drift_sampled",
	"fashim_find_addresses", "fashim_count_unwritten", "fashim_slopes",
	"fashim_complement",	 "fashim_lay_out",	   "fashim_copy_rows",
};

static struct loaded {
	CUcontext context;
	int arch;
	const struct kernel_image *image;
	CUmodule module; /* its helpers; NULL: loading failed, do not try again */
	struct {
		const void *data; /* NULL: free */
		CUmodule module;  /* NULL: the same */
	} parts[PARTS];		  /* loaded so far */
	CUfunction helpers[HELPER_COUNT];
	CUfunction variants[VARIANTS];
	struct {
		const char *symbol; /* NULL: free */
		CUfunction function;
	} steps[STEPS];
	uint8_t available[VARIANTS]; /* of attn_variants: is it in the image? */
	struct attn_device device;
	const struct tuned *tuned; /* NULL: only the built-in choice */
} loaded[CONTEXTS];
static int loaded_count;

static struct loaded *find(CUcontext context)
{
	for (int i = 0; i < loaded_count; i++)
		if (loaded[i].context == context)
			return &loaded[i];
	return NULL;
}

/* The module that a kernel is in, loaded when the first of its kernels is asked for. NULL: it
 * cannot be loaded. */
static CUmodule module_of(struct loaded *slot, const char *symbol)
{
	const void *data = kernel_image_part(slot->image, symbol);
	int at = 0;

	if (!data)
		return slot->module;
	while (at < PARTS && slot->parts[at].data && slot->parts[at].data != data)
		at++;
	if (at == PARTS)
		return NULL;
	if (!slot->parts[at].data) {
		slot->parts[at].data = data;
		if (driver.cuModuleLoadData(&slot->parts[at].module, data) != CUDA_SUCCESS)
			slot->parts[at].module = NULL;
	}
	return slot->parts[at].module;
}

static int function_of(CUfunction *function, struct loaded *slot, const char *symbol)
{
	const CUmodule module = module_of(slot, symbol);

	return module && driver.cuModuleGetFunction(function, module, symbol) == CUDA_SUCCESS
		       ? 0
		       : -EIO;
}

static int load(struct loaded *slot)
{
	const struct kernel_image *image;
	int major = 0, minor = 0, multiprocessors = 0, cache = 0, version = 0;
	char name[128] = "";
	CUfunction function;
	bool is_for_this; /* architecture: with the kernels that need it */
	CUdevice device;
	CUmodule module;

	if (driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
		return -EIO;
	driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	slot->arch = major * 10 + minor;
	driver.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
				    device);
	driver.cuDeviceGetAttribute(&cache, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
	slot->device.multiprocessors = multiprocessors > 0 ? multiprocessors : 1;
	slot->device.cache_bytes = cache;
	slot->device.encode = driver.cuTensorMapEncodeTiled;
	image = kernel_image_for(slot->arch);
	if (!image)
		return -ENOENT;
	if (driver.cuModuleLoadData(&module, kernel_image_part(image, KERNEL_HELPERS)) !=
	    CUDA_SUCCESS)
		return -EIO;
	for (int i = 0; i < HELPER_COUNT; i++)
		if (driver.cuModuleGetFunction(&slot->helpers[i], module, helper_symbols[i]) !=
		    CUDA_SUCCESS) {
			driver.cuModuleUnload(module);
			return -EIO;
		}
	is_for_this =
		driver.cuModuleGetFunction(&function, module, KERNEL_FOR_ARCH) == CUDA_SUCCESS;
	for (int i = 0; i < attn_variant_total && i < VARIANTS; i++) {
		const struct attn_variant *v = &attn_variants[i];

		slot->available[i] = i < attn_variant_count || v->family == ATTN_LADDER ||
				     (is_for_this && slot->arch == v->min_arch &&
				      (!(v->needs & ATTN_NEEDS_MAPS) || slot->device.encode));
	}
	slot->image = image;
	slot->module = module;
	driver.cuDeviceGetName(name, sizeof(name), device);
	driver.cuDriverGetVersion(&version);
	slot->tuned = tuned_open(name, version, image->data, image->size);
	return 0;
}

bool fused_prepared(CUcontext context)
{
	return find(context) != NULL;
}

int fused_prepare(CUcontext context)
{
	struct loaded *slot = find(context);
	int error;

	if (slot)
		return slot->module ? 0 : -ENOENT;
	if (loaded_count == CONTEXTS)
		return -ENOENT;
	COST(PURPOSE_IMAGES);
	slot = &loaded[loaded_count++];
	memset(slot, 0, sizeof(*slot));
	slot->context = context;
	error = load(slot);
	if (error)
		message_warn("no kernels for this GPU (compute capability %d.%d)", slot->arch / 10,
			     slot->arch % 10);
	return error;
}

/* The variant for a call, and in *by what decided. */
static const struct attn_variant *choose(const struct loaded *slot, const struct attn_args *args,
					 const char **by)
{
	const struct attn_variant *variant = NULL;
	const char *name = config()->kernel;

	*by = "forced";
	if (name[0])
		return attn_select_from(args, slot->arch, name, slot->available);
	*by = "tuned";
	name = tuned_kernel(slot->tuned, args);
	if (name)
		variant = attn_select_from(args, slot->arch, name, slot->available);
	if (variant)
		return variant;
	*by = "built_in";
	return attn_select_from(args, slot->arch, NULL, slot->available);
}

/* Is it of those for any GPU and any layout? */
static int is_general(const struct attn_variant *v)
{
	return v->family == ATTN_WMMA || v->family == ATTN_MMA;
}

/* Where only the general kernels take V as it lies, may another take it in rows? */
static const struct attn_variant *choose_for_rows(const struct loaded *slot,
						  const struct attn_args *args,
						  const struct attn_variant *found, const char **by)
{
	const struct attn_variant *variant;
	struct relayout copy;
	struct attn_args laid;
	const char *why;

	if (!found || !is_general(found) || !value_rows_help(args))
		return found;
	value_rows_lay(&laid, &copy, args, SOMEWHERE);
	variant = choose(slot, &laid, &why);
	if (!variant || is_general(variant))
		return found;
	*by = why;
	return variant;
}

const struct attn_variant *fused_select(CUcontext context, const struct attn_args *args)
{
	const struct loaded *slot = find(context);
	const char *by;

	return slot && slot->module ? choose_for_rows(slot, args, choose(slot, args, &by), &by)
				    : NULL;
}

const char *fused_chosen_by(CUcontext context, const struct attn_args *args)
{
	const struct loaded *slot = find(context);
	const char *by = "built_in";

	if (slot && slot->module)
		choose_for_rows(slot, args, choose(slot, args, &by), &by);
	return by;
}

static int launch(CUfunction function, CUstream stream, const unsigned grid[3], unsigned threads,
		  unsigned shared, const void *args)
{
	void *params[] = {(void *)(uintptr_t)args};

	return driver.cuLaunchKernel(function, grid[0], grid[1], grid[2], threads, 1, 1, shared,
				     stream, params, NULL) == CUDA_SUCCESS
		       ? 0
		       : -EIO;
}

/* A kernel that comes before another. */
static CUfunction step_function(struct loaded *slot, const char *symbol)
{
	CUfunction function;
	int at = 0;

	while (at < STEPS && slot->steps[at].symbol && strcmp(slot->steps[at].symbol, symbol) != 0)
		at++;
	if (at < STEPS && slot->steps[at].symbol)
		return slot->steps[at].function;
	if (function_of(&function, slot, symbol))
		return NULL;
	if (at < STEPS) {
		slot->steps[at].symbol = symbol;
		slot->steps[at].function = function;
	}
	return function;
}

/* What must come before a launch, by kernels found as they are needed. */
static int launch_steps(struct loaded *slot, CUstream stream, const struct attn_launch *what)
{
	for (int i = 0; i < what->before_count; i++) {
		const struct attn_step *step = &what->before[i];
		const CUfunction function = step_function(slot, step->symbol);

		if (!function ||
		    launch(function, stream, step->grid, step->threads, 0, &step->parameter))
			return -EIO;
	}
	return 0;
}

static bool is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Memory for the steps before a launch. */
struct room {
	uint64_t address; /* 0: none */
	bool kept;	  /* by looks.h: not to be given back */
	bool looked;	  /* the only step was made before, its result lies there */
};

static struct room room_for(CUcontext context, CUstream stream, const struct attn_variant *variant,
			    const struct attn_args *args)
{
	const uint64_t bytes = attn_launch_scratch(variant, args);
	struct room room = {0};
	struct attn_look look;

	/* a captured launch is replayed when the scratch is somebody else's */
	if (!bytes || is_capturing(stream))
		return room;
	if (attn_launch_look(&look, variant, args))
		room.address = looks_get(context, stream, &look, &room.looked);
	room.kept = room.address != 0;
	if (!room.address)
		room.address = scratch_get(context, stream, bytes, false);
	return room;
}

bool fused_loaded(CUcontext context, const struct attn_variant *variant)
{
	const struct loaded *slot = find(context);
	const int index = (int)(variant - attn_variants);

	return slot && slot->module && index < VARIANTS && slot->variants[index];
}

int fused_load(CUcontext context, const struct attn_variant *variant)
{
	struct loaded *slot = find(context);
	const int index = (int)(variant - attn_variants);
	CUfunction function;

	if (!slot || !slot->module || index >= VARIANTS)
		return -EIO;
	if (slot->variants[index])
		return 0;
	COST(PURPOSE_IMAGES);
	if (function_of(&function, slot, variant->symbol))
		return -EIO;
	if (variant->shared_bytes > 48 * 1024 &&
	    driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
				      variant->shared_bytes) != CUDA_SUCCESS)
		return -EIO;
	/* otherwise some drivers only do so at its first launch */
	if (driver.cuFuncLoad && driver.cuFuncLoad(function) != CUDA_SUCCESS)
		return -EIO;
	slot->variants[index] = function;
	return 0;
}

static int launch_attention(CUcontext context, CUstream stream, const struct attn_variant *variant,
			    const struct attn_args *args)
{
	struct loaded *slot = find(context);
	const int index = (int)(variant - attn_variants);
	const struct attn_launch *what;
	struct room room;
	int error = -EIO;

	room = room_for(context, stream, variant, args);
	what = prepared_launch(variant, args, &slot->device, room.address);
	if (what && (room.looked || !launch_steps(slot, stream, what)))
		error = launch(slot->variants[index], stream, what->grid, what->threads,
			       what->shared_bytes, &what->parameter);
	if (!room.kept)
		scratch_put(room.address, stream);
	else if (error)
		looks_forget();
	return error;
}

int fused_attention(CUcontext context, CUstream stream, const struct attn_variant *variant,
		    const struct attn_args *args)
{
	struct loaded *slot = find(context);
	struct relayout copy;
	struct attn_args laid;
	uint64_t rows;
	int error;

	if (fused_load(context, variant))
		return -EIO;
	if (!value_rows_help(args) ||
	    attn_select_from(args, slot->arch, variant->name, slot->available) == variant)
		return launch_attention(context, stream, variant, args);
	/* a captured launch is replayed when the scratch is somebody else's */
	rows = is_capturing(stream) ? 0
				    : scratch_get(context, stream, value_rows_bytes(args), false);
	if (!rows)
		return -EIO;
	value_rows_lay(&laid, &copy, args, rows);
	error = fused_lay_out(context, stream, &copy);
	if (!error)
		error = launch_attention(context, stream, variant, &laid);
	scratch_put(rows, stream);
	return error;
}

static int launch_helper(CUcontext context, CUstream stream, enum helper helper, uint64_t blocks,
			 unsigned threads, const void *args)
{
	struct loaded *slot = find(context);
	const unsigned grid[3] = {(unsigned)(blocks < 1 ? 1 : blocks), 1, 1};

	if (!slot || !slot->module)
		return -EIO;
	return launch(slot->helpers[helper], stream, grid, threads, 0, args);
}

int fused_reference(CUcontext context, CUstream stream, const struct reference_args *args)
{
	return launch_helper(context, stream, HELPER_REFERENCE, (uint64_t)args->rows,
			     REFERENCE_THREADS, args);
}

int fused_drift(CUcontext context, CUstream stream, const struct drift_args *args)
{
	uint64_t elements =
		(uint64_t)args->B * (uint64_t)args->H * (uint64_t)args->Sq * (uint64_t)args->Dv;
	uint64_t blocks = (elements + 8 * DRIFT_THREADS - 1) / (8 * DRIFT_THREADS);

	return launch_helper(context, stream, HELPER_DRIFT, blocks > 1024 ? 1024 : blocks,
			     DRIFT_THREADS, args);
}

int fused_drift_sampled(CUcontext context, CUstream stream, const struct drift_sampled_args *args)
{
	return launch_helper(context, stream, HELPER_DRIFT_SAMPLED, (uint64_t)args->rows,
			     DRIFT_THREADS, args);
}

static uint64_t inspect_blocks(uint64_t items)
{
	const uint64_t blocks = items / (64 * INSPECT_THREADS) + 1;

	return blocks > 2048 ? 2048 : blocks;
}

int fused_find_addresses(CUcontext context, CUstream stream, const struct addresses_args *args)
{
	return launch_helper(context, stream, HELPER_ADDRESSES, inspect_blocks(args->bytes / 8),
			     INSPECT_THREADS, args);
}

int fused_count_unwritten(CUcontext context, CUstream stream, const struct unwritten_args *args)
{
	return launch_helper(context, stream, HELPER_UNWRITTEN, inspect_blocks(args->bytes),
			     INSPECT_THREADS, args);
}

int fused_slopes(CUcontext context, CUstream stream, const struct slopes_args *args)
{
	struct loaded *slot = find(context);
	const unsigned grid[3] = {
		((unsigned)args->Sk + SLOPES_THREADS - 1) / SLOPES_THREADS,
		(unsigned)args->H,
		(unsigned)args->B,
	};

	if (!args->out)
		return 0;
	if (!slot || !slot->module)
		return -EIO;
	return launch(slot->helpers[HELPER_SLOPES], stream, grid, SLOPES_THREADS, 0, args);
}

int fused_complement(CUcontext context, CUstream stream, const struct complement_args *args)
{
	const uint64_t blocks =
		((uint64_t)args->count + 8 * COMPLEMENT_THREADS - 1) / (8 * COMPLEMENT_THREADS);

	return args->out ? launch_helper(context, stream, HELPER_COMPLEMENT,
					 blocks < 4096 ? blocks : 4096, COMPLEMENT_THREADS, args)
			 : 0;
}

int fused_copy_rows(CUcontext context, CUstream stream, uint64_t to, uint64_t from, uint64_t width,
		    uint64_t pitch, uint64_t rows)
{
	const struct copy_rows_args args = {.to = to,
					    .from = from,
					    .count = width / 16 * rows,
					    .width = (uint32_t)(width / 16),
					    .pitch = (uint32_t)(pitch / 16)};
	const uint64_t blocks = (args.count + 4 * COPY_ROWS_THREADS - 1) / (4 * COPY_ROWS_THREADS);

	if ((to | from | width | pitch) % 16 || pitch / 16 > INT32_MAX || args.count > INT32_MAX)
		return -EINVAL;
	return launch_helper(context, stream, HELPER_COPY_ROWS, blocks < 4096 ? blocks : 4096,
			     COPY_ROWS_THREADS, &args);
}

/* In units of 16 bytes where neighbours are neighbours on both sides. */
static void widen(struct lay_out_args *args)
{
	const int64_t wide = 16 / args->element;

	if (args->stride[0] != 1 || args->size[0] % wide || (args->to | args->from) % 16)
		return;
	for (int d = 1; d < args->dims; d++)
		if (args->stride[d] % wide)
			return;
	for (int d = 1; d < args->dims; d++)
		args->stride[d] /= wide;
	args->size[0] /= wide;
	args->count /= wide;
	args->element = 16;
}

int fused_lay_out(CUcontext context, CUstream stream, const struct relayout *copy)
{
	struct lay_out_args args = {.to = copy->out_begin,
				    .from = copy->in_begin,
				    .count = 1,
				    .element = attn_dtype_size(copy->dtype),
				    .dims = copy->dims};
	uint64_t blocks;

	for (int d = 0; d < copy->dims; d++) {
		args.size[d] = copy->dim[d].size;
		args.stride[d] = copy->dim[d].from;
		args.count *= copy->dim[d].size;
	}
	widen(&args);
	blocks = ((uint64_t)args.count + LAY_OUT_THREADS - 1) / LAY_OUT_THREADS;
	return launch_helper(context, stream, HELPER_LAY_OUT, blocks < 4096 ? blocks : 4096,
			     LAY_OUT_THREADS, &args);
}

void fused_forget(CUcontext context)
{
	prepared_forget();
	for (int i = loaded_count - 1; i >= 0; i--)
		if (loaded[i].context == context)
			loaded[i] = loaded[--loaded_count];
}
