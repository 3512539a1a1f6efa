/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel launches, compiled twice like stream_calls.c.
 *
 * Both argument forms are understood: `kernelParams`, one pointer for each parameter, and `extra`,
 * one buffer laid out as the kernel's own parameter block. Either is copied inside the call, so the
 * caller may reuse its memory at once. Limits are those of the simulated device and refused in the
 * call, before anything runs.
 */
#include "sim_graph.h"

#include <string.h>

#define NAME(handle) sim_stream_name(handle, SIM_STANDARD)

struct launch_work {
	struct sim_work work;
	CUfunction function;
	const struct sim_kernel *kernel;
	unsigned grid[3], block[3], shared;
	void **params;
	char *block_bytes;
	void *storage[];
};

struct shape {
	unsigned grid[3], block[3], shared;
};

static CUresult run_launch(struct sim_work *work)
{
	struct launch_work *l = (struct launch_work *)work;

	return l->kernel->run(l->grid, l->block, l->shared, l->params) ? CUDA_ERROR_LAUNCH_FAILED
								       : CUDA_SUCCESS;
}

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
CUresult sim_launch_params(const struct sim_work *work, CUDA_KERNEL_NODE_PARAMS *params)
{
	const struct launch_work *l = (const struct launch_work *)work;

	*params = (CUDA_KERNEL_NODE_PARAMS){
		.func = l->function,
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared,
		.kernelParams = l->params,
	};
	return CUDA_SUCCESS;
}
#endif

static size_t parameter_bytes(const struct sim_kernel *k)
{
	size_t end = 0;

	for (unsigned i = 0; i < k->param_count; i++)
		if (k->param_offset[i] + k->param_size[i] > end)
			end = k->param_offset[i] + k->param_size[i];
	return end;
}

/* The buffer and its size from the `extra` list; false where the list is malformed. */
static bool read_extra(void **extra, const char **buffer, size_t *bytes)
{
	*buffer = NULL;
	*bytes = 0;
	for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			*buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			*bytes = *(size_t *)extra[1];
		else
			return false;
	}
	return *buffer != NULL;
}

static bool fits(const struct sim_function *f, const struct shape *s)
{
	uint64_t threads = (uint64_t)s->block[0] * s->block[1] * s->block[2];

	return s->grid[0] && s->grid[1] && s->grid[2] && threads && threads <= 1024 &&
	       s->block[2] <= 64 && s->grid[0] <= 0x7fffffff && s->grid[1] <= 65535 &&
	       s->grid[2] <= 65535 && (int)s->shared <= f->max_dynamic_shared;
}

static CUresult launch(CUfunction handle, const struct shape *shape, CUstream where, void **params,
		       void **extra)
{
	struct sim_function *f = sim_function(handle);
	const char *buffer = NULL;
	struct launch_work *l;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	SIM_STREAM_OR_RETURN(stream, where);
	const struct sim_kernel *k = f->kernel;
	size_t bytes = parameter_bytes(k), given = 0;
	if (!fits(f, shape) || (params && extra))
		return CUDA_ERROR_INVALID_VALUE;
	if (extra && (!read_extra(extra, &buffer, &given) || given < bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (k->param_count && !params && !extra)
		return CUDA_ERROR_INVALID_VALUE;
	size_t words = (bytes + 15) / 16 * 2 + 2;
	l = sim_work_new(sizeof(*l) + (k->param_count + words) * sizeof(void *), run_launch,
			 CU_GRAPH_NODE_TYPE_KERNEL);
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->function = handle;
	l->kernel = k;
	memcpy(l->grid, shape->grid, sizeof(l->grid));
	memcpy(l->block, shape->block, sizeof(l->block));
	l->shared = shape->shared;
	l->params = l->storage;
	l->block_bytes = (char *)(((uintptr_t)(l->storage + k->param_count) + 15) & ~(uintptr_t)15);
	for (unsigned i = 0; i < k->param_count; i++) {
		char *to = l->block_bytes + k->param_offset[i];
		memcpy(to, buffer ? buffer + k->param_offset[i] : params[i], k->param_size[i]);
		l->params[i] = to;
	}
	return sim_submit(stream, &l->work, false);
}

#define LOG_LAUNCH(f, s, stream, extra)                                                            \
	SIM_ENTER(" function=%s stream=%s grid=%u,%u,%u block=%u,%u,%u shared=%u via=%s",          \
		  sim_function(f) ? sim_function(f)->name : "invalid", NAME(stream), (s).grid[0],  \
		  (s).grid[1], (s).grid[2], (s).block[0], (s).block[1], (s).block[2], (s).shared,  \
		  (extra) ? "extra" : "params")

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
				unsigned int bx, unsigned int by, unsigned int bz,
				unsigned int shared, CUstream stream, void **params, void **extra)
{
	struct shape shape = {{gx, gy, gz}, {bx, by, bz}, shared};

	LOG_LAUNCH(f, shape, stream, extra);
	return launch(f, &shape, stream, params, extra);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy,
					   unsigned int gz, unsigned int bx, unsigned int by,
					   unsigned int bz, unsigned int shared, CUstream stream,
					   void **params)
{
	struct shape shape = {{gx, gy, gz}, {bx, by, bz}, shared};

	LOG_LAUNCH(f, shape, stream, NULL);
	return launch(f, &shape, stream, params, NULL);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params,
				  void **extra)
{
	struct shape shape;

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	shape = (struct shape){{c->gridDimX, c->gridDimY, c->gridDimZ},
			       {c->blockDimX, c->blockDimY, c->blockDimZ},
			       c->sharedMemBytes};
	LOG_LAUNCH(f, shape, c->hStream, extra);
	CUresult result = launch(f, &shape, c->hStream, params, extra);
	for (unsigned i = 0; i < c->numAttrs && result == CUDA_SUCCESS; i++)
		if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
			result = cuEventRecord(c->attrs[i].value.programmaticEvent.event,
					       c->hStream);
	return result;
}
