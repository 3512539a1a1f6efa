/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace player: a parser of trace lines, a driver that only says yes, and comparisons that pass.
 */
#include "replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/compare.h"
#include "shim/flow.h"
#include "shim/fused.h"
#include "shim/held.h"
#include "shim/log.h"
#include "shim/resolve.h"
#include "shim/scratch.h"
#include "shim/site.h"

#define MAX_FUNCTIONS 1024
#define MAX_WORDS     64
#define CONTEXT       ((CUcontext)0x1000)

/* ---- a driver that only says yes ----------------------------------------------------------------- */

__thread int hook_depth;
struct driver_calls driver;

static struct played_function {
	char name[4096];
	unsigned count;
	size_t offset[FUNCTION_MAX_PARAMS], size[FUNCTION_MAX_PARAMS];
} *functions;

static CUresult no(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

static CUresult get_current(CUcontext *context)
{
	*context = CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
	(void)mode;
	return CUDA_SUCCESS;
}

static CUresult function_name(const char **name, CUfunction function)
{
	*name = functions[(uintptr_t)function].name;
	return CUDA_SUCCESS;
}

static CUresult param_info(CUfunction function, size_t index, size_t *offset, size_t *size)
{
	const struct played_function *played = &functions[(uintptr_t)function];

	if (index >= played->count)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = played->offset[index];
	*size = played->size[index];
	return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream)
{
	(void)target, (void)source, (void)bytes, (void)stream;
	return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned flags)
{
	(void)flags;
	*event = (CUevent)0x10;
	return CUDA_SUCCESS;
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

static CUresult stream_wait(CUstream stream, CUevent event, unsigned flags)
{
	(void)stream, (void)event, (void)flags;
	return CUDA_SUCCESS;
}

static CUresult memset32(CUdeviceptr target, unsigned word, size_t count, CUstream stream)
{
	(void)target, (void)word, (void)count, (void)stream;
	return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                       void **extra)
{
	(void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
	(void)stream, (void)params, (void)extra;
	return CUDA_SUCCESS;
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
	driver.cuEventCreate = event_create;
	driver.cuEventRecord = event_record;
	driver.cuEventDestroy_v2 = event_destroy;
	driver.cuStreamWaitEvent = stream_wait;
	driver.cuMemsetD32Async = memset32;
	driver.cuLaunchKernel = launch;
	driver.cuMemGetAddressRange_v2 = (__typeof__(driver.cuMemGetAddressRange_v2))(void *)no;
	driver.cuCtxGetDevice = (__typeof__(driver.cuCtxGetDevice))(void *)no;
	driver.cuDriverGetVersion = (__typeof__(driver.cuDriverGetVersion))(void *)no;
	return 0;
}

void *real_dlsym(void *handle, const char *name)
{
	(void)handle, (void)name;
	return NULL;
}

int blas_version(const struct blas_library *library)
{
	(void)library;
	return 130000;
}

/* ---- actions: counted, not done ------------------------------------------------------------------ */

static struct replay *counts;

int blas_prepare(const struct blas_library *library, CUcontext context);
int blas_run(const struct op_gemm *gemm, CUcontext context, CUstream stream, uint64_t a, uint64_t b,
             uint64_t c);
void blas_forget(CUcontext context);

int blas_prepare(const struct blas_library *library, CUcontext context)
{
	(void)library, (void)context;
	return 0;
}

int blas_run(const struct op_gemm *gemm, CUcontext context, CUstream stream, uint64_t a, uint64_t b,
             uint64_t c)
{
	(void)gemm, (void)context, (void)stream, (void)a, (void)b, (void)c;
	return 0;
}

void blas_forget(CUcontext context)
{
	(void)context;
}

uint64_t scratch_get(CUcontext context, CUstream stream, uint64_t bytes, bool must)
{
	static uint64_t next = 0xff000000000000;

	(void)context, (void)stream, (void)must;
	next += (bytes + 511) & ~511ull;
	return next;
}

void scratch_put(uint64_t address, CUstream stream)
{
	(void)address, (void)stream;
}

void scratch_forget(CUcontext context)
{
	(void)context;
}

void scratch_stream_gone(CUstream stream)
{
	(void)stream;
}

int fused_prepare(CUcontext context)
{
	(void)context;
	return 0;
}

const struct attn_variant *fused_select(CUcontext context, const struct attn_args *args)
{
	(void)context;
	return attn_select(args, 90, NULL);
}

int fused_attention(CUcontext context, CUstream stream, const struct attn_variant *variant,
                    const struct attn_args *args)
{
	(void)context, (void)stream, (void)variant, (void)args;
	counts->fused++;
	return 0;
}

int fused_canary_set(CUcontext context, CUstream stream, uint64_t begin, uint64_t end)
{
	(void)context, (void)stream, (void)begin, (void)end;
	return 0;
}

int fused_copy_standing(CUcontext context, CUstream stream, uint64_t target, uint64_t source,
                        uint64_t bytes, bool use_canary)
{
	(void)context, (void)stream, (void)target, (void)source, (void)bytes, (void)use_canary;
	return 0;
}

void fused_forget(CUcontext context)
{
	(void)context;
}

struct timing *timing_begin(CUcontext context)
{
	(void)context;
	return NULL;
}

void timing_start(struct timing *timing, CUstream stream)
{
	(void)timing, (void)stream;
}

void timing_stop(struct timing *timing, CUstream stream)
{
	(void)timing, (void)stream;
}

void timing_drop(struct timing *timing)
{
	(void)timing;
}

void compare_start(struct site *site, const struct chain *chain, const struct attn_args *args,
                   const struct attn_variant *variant, const struct attn_spec *guess, int guesses,
                   struct timing *timing)
{
	(void)chain, (void)args, (void)variant, (void)timing;
	if (guesses) {
		site->spec = guess[0];
		site->identified = true;
	} else if (++site->passed >= 2) {
		site_verify(site);
	}
}

void compare_poll(void)
{
}

void compare_wait(const struct site *site)
{
	(void)site;
}

void compare_forget(CUcontext context)
{
	(void)context;
}

/* ---- trace lines ----------------------------------------------------------------------------------- */

static uint64_t hex(const char *word)
{
	return strtoull(word, NULL, 16);
}

static int64_t dec(const char *word)
{
	return strtoll(word, NULL, 10);
}

static CUstream stream_of(const char *word)
{
	return (CUstream)(uintptr_t)(0x100 + dec(word));
}

static void play(struct op *op)
{
	op->context = CONTEXT;
	counts->ops++;
	if (flow_before(op) == FLOW_TAKEN)
		counts->taken++;
	else
		flow_after(op);
}

static void play_function(char **word, int words)
{
	struct played_function *function = &functions[dec(word[1]) % MAX_FUNCTIONS];

	snprintf(function->name, sizeof(function->name), "%s", word[2]);
	function->count = 0;
	for (int i = 3; i < words && function->count < FUNCTION_MAX_PARAMS; i++) {
		function->offset[function->count] = (size_t)dec(word[i]);
		function->size[function->count++] = (size_t)dec(strchr(word[i], ':') + 1);
	}
}

static void play_launch(char **word, int words)
{
	static unsigned char bytes[FUNCTION_MAX_BYTES * 2];
	const struct played_function *function = &functions[dec(word[1]) % MAX_FUNCTIONS];
	void *params[FUNCTION_MAX_PARAMS];
	struct op op = {.kind = OP_LAUNCH, .name = "cuLaunchKernel", .stream = stream_of(word[2])};
	const char *at = words > 6 ? word[6] : "";

	for (unsigned i = 0; i < function->count; i++) {
		params[i] = bytes + function->offset[i];
		for (size_t k = 0; k < function->size[i]; k++, at += 2) {
			unsigned byte = 0;

			sscanf(at, "%2x", &byte);
			bytes[function->offset[i] + k] = (unsigned char)byte;
		}
		at += *at == ',';
	}
	op.launch.function = (CUfunction)(uintptr_t)(dec(word[1]) % MAX_FUNCTIONS);
	op.launch.params = params;
	sscanf(word[3], "%u,%u,%u", &op.launch.grid[0], &op.launch.grid[1], &op.launch.grid[2]);
	sscanf(word[4], "%u,%u,%u", &op.launch.block[0], &op.launch.block[1], &op.launch.block[2]);
	op.launch.shared_bytes = (unsigned)dec(word[5]);
	counts->launches++;
	play(&op);
}

static void play_gemm(char **word)
{
	struct op op = {.kind = OP_GEMM, .name = strdup(word[1]), .stream = stream_of(word[2])};
	struct op_gemm *g = &op.gemm;

	*g = (struct op_gemm){
		.entry = op.name,
		.transa = (int)dec(word[3]), .transb = (int)dec(word[4]),
		.m = dec(word[5]), .n = dec(word[6]), .k = dec(word[7]),
		.a = hex(word[8]), .atype = (cudaDataType)dec(word[9]), .lda = dec(word[10]),
		.stride_a = dec(word[11]),
		.b = hex(word[12]), .btype = (cudaDataType)dec(word[13]), .ldb = dec(word[14]),
		.stride_b = dec(word[15]),
		.c = hex(word[16]), .ctype = (cudaDataType)dec(word[17]), .ldc = dec(word[18]),
		.stride_c = dec(word[19]),
		.batch = dec(word[20]), .alpha = strtod(word[21], NULL), .beta = strtod(word[22], NULL),
		.compute_type = (int)dec(word[23]), .algo = (int)dec(word[24]),
		.math_mode = (int)dec(word[25]), .plain = dec(word[26]) != 0,
		.by_array = dec(word[27]) != 0, .scalars_on_device = dec(word[28]) != 0,
		.extra = hex(word[29]), .extra_bytes = (uint64_t)dec(word[30]), .d = hex(word[31]),
	};
	counts->gemms++;
	play(&op);
}

static void play_memory(char **word)
{
	struct op op = {.name = strdup(word[1])};

	switch (word[0][0]) {
	case 'A':
	case 'D':
		op.kind = word[0][0] == 'A' ? OP_ALLOC : OP_FREE;
		op.stream = CU_STREAM_LEGACY;
		op.alloc.range.base = hex(word[1]);
		op.alloc.range.bytes = word[0][0] == 'A' ? (uint64_t)dec(word[2]) : 0;
		op.alloc.kind = word[0][0] == 'A' ? (enum memory_kind)dec(word[3]) : MEMORY_DEVICE;
		break;
	case 'C':
		op.kind = OP_COPY;
		op.stream = stream_of(word[2]);
		op.copy = (struct op_copy){.source = {hex(word[3]), (uint64_t)dec(word[4])},
		                           .target = {hex(word[5]), (uint64_t)dec(word[6])},
		                           .exact = dec(word[7]) != 0,
		                           .from_host = dec(word[8]) != 0,
		                           .to_host = dec(word[9]) != 0};
		break;
	default:
		op.kind = OP_FILL;
		op.stream = stream_of(word[2]);
		op.fill = (struct op_fill){.target = {hex(word[3]), (uint64_t)dec(word[4])},
		                           .exact = dec(word[5]) != 0};
		break;
	}
	play(&op);
}

static void play_event(char **word)
{
	struct op op = {.name = strdup(word[1]), .stream = CU_STREAM_LEGACY};

	switch (word[0][0]) {
	case 'B':
		op.kind = OP_CAPTURE_BEGIN;
		break;
	case 'E':
		op.kind = OP_CAPTURE_END;
		break;
	case 'P':
		op.kind = OP_GRAPH_LAUNCH;
		break;
	case 'T':
		op.kind = OP_TEARDOWN;
		break;
	case 'Y':
		op.kind = OP_SYNC;
		break;
	default:
		op.kind = OP_OPAQUE;
		break;
	}
	if (strchr("BEP", word[0][0]))
		op.stream = stream_of(word[1]);
	play(&op);
}

static void play_line(char *line)
{
	char *word[MAX_WORDS + 1], *rest = NULL;
	int words = 0;

	for (char *at = strtok_r(line, " \n", &rest); at && words < MAX_WORDS;
	     at = strtok_r(NULL, " \n", &rest))
		word[words++] = at;
	word[words] = NULL;
	if (words < 2 || word[0][0] == '#')
		return;
	switch (word[0][0]) {
	case 'F':
		play_function(word, words);
		break;
	case 'L':
		play_launch(word, words);
		break;
	case 'G':
		if (words >= 32)
			play_gemm(word);
		break;
	case 'A':
	case 'D':
	case 'C':
	case 'S':
		play_memory(word);
		break;
	default:
		play_event(word);
		break;
	}
}

int replay_trace(const char *path, struct replay *result)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;

	if (!file) {
		int error = errno;

		fprintf(stderr, "%s: %s\n", path, strerror(error));
		return -error;
	}
	memset(result, 0, sizeof(*result));
	counts = result;
	functions = calloc(MAX_FUNCTIONS, sizeof(*functions));
	while (functions && getline(&line, &size, file) > 0)
		play_line(line);
	free(line);
	fclose(file);
	result->sites = (uint64_t)site_count;
	for (int i = 0; i < site_count; i++) {
		result->verified += sites[i].state == SITE_VERIFIED;
		result->declined += sites[i].state == SITE_DECLINED;
		result->seen += sites[i].live->seen;
		result->replaced += sites[i].live->replaced;
		result->materialised += sites[i].live->materialised;
		result->snapshots += sites[i].live->snapshots;
	}
	return 0;
}
