/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills, compiled twice like stream_calls.c. All are one shape: rows of bytes with a
 * pitch on either side, rows times slices of them.
 *
 * Both ends are checked against the live allocations before anything moves. Synchronous copies run
 * on stream 0 and return when they have run; device-to-device ones and fills return early, as on a
 * GPU. Asynchronous copies from pageable host memory are staged inside the call, those to pageable
 * memory wait, as drivers do.
 */
#include "sim_graph.h"

#include <stdlib.h>
#include <string.h>

#define NAME(handle) sim_stream_name(handle, SIM_STANDARD)

struct side {
	uint64_t address;
	size_t pitch, slice; /* bytes from row to row, from slice to slice */
	bool host;	     /* the caller says host, or unified and not device memory */
};

struct copy_work {
	struct sim_work work;
	struct side to, from;
	size_t width, rows, slices;
	unsigned char staged[];
};

static CUresult run_copy(struct sim_work *work)
{
	const struct copy_work *c = (struct copy_work *)work;

	for (size_t z = 0; z < c->slices; z++)
		for (size_t y = 0; y < c->rows; y++)
			memmove((void *)(uintptr_t)(c->to.address + z * c->to.slice +
						    y * c->to.pitch),
				(void *)(uintptr_t)(c->from.address + z * c->from.slice +
						    y * c->from.pitch),
				c->width);
	return CUDA_SUCCESS;
}

static size_t extent(const struct side *side, size_t width, size_t rows, size_t slices)
{
	return (slices - 1) * side->slice + (rows - 1) * side->pitch + width;
}

static bool side_valid(const struct side *side, size_t bytes)
{
	if (side->host)
		return side->address && !sim_is_device_address(side->address);
	return sim_valid(side->address, bytes);
}

static bool pageable(const struct side *side, size_t bytes)
{
	return side->host && !sim_valid(side->address, bytes);
}

enum wait { RETURN_EARLY, RETURN_DONE };

static CUresult copy(CUstream handle, enum wait wait, struct side to, struct side from,
		     size_t width, size_t rows, size_t slices)
{
	SIM_STREAM_OR_RETURN(stream, handle);
	if (wait == RETURN_DONE) {
		CUresult permitted = sim_capture_permits();
		if (permitted != CUDA_SUCCESS)
			return permitted;
	}
	if (!width || !rows || !slices)
		return CUDA_SUCCESS;
	size_t out_bytes = extent(&to, width, rows, slices);
	size_t in_bytes = extent(&from, width, rows, slices);
	if (!side_valid(&to, out_bytes) || !side_valid(&from, in_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	bool stage =
		sim_async && wait == RETURN_EARLY && !stream->capture && pageable(&from, in_bytes);
	if (pageable(&to, out_bytes))
		wait = RETURN_DONE;
	if (!from.host && !to.host)
		wait = RETURN_EARLY;
	struct copy_work *c = sim_work_new(sizeof(*c) + (stage ? in_bytes : 0), run_copy,
					   CU_GRAPH_NODE_TYPE_MEMCPY);
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->to = to;
	c->from = from;
	c->width = width;
	c->rows = rows;
	c->slices = slices;
	if (stage) {
		memcpy(c->staged, (void *)(uintptr_t)from.address, in_bytes);
		c->from.address = (uintptr_t)c->staged;
	}
	return sim_submit(stream, &c->work, wait == RETURN_DONE);
}

static struct side device_side(CUdeviceptr address)
{
	return (struct side){.address = address};
}

static struct side host_side(const void *p)
{
	return (struct side){.address = (uintptr_t)p, .host = true};
}

static struct side unified_side(CUdeviceptr address)
{
	return (struct side){.address = address, .host = !sim_is_device_address(address)};
}

static CUresult flat(CUstream handle, enum wait wait, struct side to, struct side from,
		     size_t bytes)
{
	return copy(handle, wait, to, from, bytes, 1, 1);
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	SIM_ENTER(" to=0x%llx from=0x%llx bytes=%zu", to, from, bytes);
	return flat(0, RETURN_DONE, unified_side(to), unified_side(from), bytes);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	SIM_ENTER(" stream=%s to=0x%llx from=0x%llx bytes=%zu", NAME(stream), to, from, bytes);
	return flat(stream, RETURN_EARLY, unified_side(to), unified_side(from), bytes);
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
	SIM_ENTER(" to=0x%llx bytes=%zu", to, bytes);
	return flat(0, RETURN_DONE, device_side(to), host_side(from), bytes);
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	SIM_ENTER(" stream=%s to=0x%llx bytes=%zu", NAME(stream), to, bytes);
	return flat(stream, RETURN_EARLY, device_side(to), host_side(from), bytes);
}

CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
	SIM_ENTER(" from=0x%llx bytes=%zu", from, bytes);
	return flat(0, RETURN_DONE, host_side(to), device_side(from), bytes);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	SIM_ENTER(" stream=%s from=0x%llx bytes=%zu", NAME(stream), from, bytes);
	return flat(stream, RETURN_EARLY, host_side(to), device_side(from), bytes);
}

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	SIM_ENTER(" to=0x%llx from=0x%llx bytes=%zu", to, from, bytes);
	return flat(0, RETURN_DONE, device_side(to), device_side(from), bytes);
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	SIM_ENTER(" stream=%s to=0x%llx from=0x%llx bytes=%zu", NAME(stream), to, from, bytes);
	return flat(stream, RETURN_EARLY, device_side(to), device_side(from), bytes);
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
			      CUcontext from_ctx, size_t bytes)
{
	SIM_ENTER(" to=0x%llx from=0x%llx bytes=%zu", to, from, bytes);
	if (!sim_context(to_ctx) || !sim_context(from_ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_context_drain(sim_context(to_ctx)); /* ordered against both contexts */
	sim_context_drain(sim_context(from_ctx));
	return flat(0, RETURN_DONE, device_side(to), device_side(from), bytes);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
				   CUcontext from_ctx, size_t bytes, CUstream stream)
{
	SIM_ENTER(" stream=%s to=0x%llx from=0x%llx bytes=%zu", NAME(stream), to, from, bytes);
	if (!sim_context(to_ctx) || !sim_context(from_ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return flat(stream, RETURN_EARLY, device_side(to), device_side(from), bytes);
}

/* ---- two and three dimensions ----------------------------------------------------------- */

static bool make_side(struct side *side, CUmemorytype type, const void *on_host, CUdeviceptr device,
		      size_t pitch, size_t height, size_t x, size_t y, size_t z)
{
	if (type == CU_MEMORYTYPE_HOST)
		*side = host_side(on_host);
	else if (type == CU_MEMORYTYPE_DEVICE)
		*side = device_side(device);
	else if (type == CU_MEMORYTYPE_UNIFIED)
		*side = unified_side(device);
	else
		return false;
	side->pitch = pitch;
	side->slice = pitch * height;
	side->address += z * side->slice + y * pitch + x;
	return true;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, enum wait wait)
{
	struct side to, from;

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	if (!make_side(&to, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch, c->Height,
		       c->dstXInBytes, c->dstY, 0) ||
	    !make_side(&from, c->srcMemoryType, c->srcHost, c->srcDevice, c->srcPitch, c->Height,
		       c->srcXInBytes, c->srcY, 0))
		return CUDA_ERROR_NOT_SUPPORTED; /* arrays */
	if (c->Height > 1 && (c->WidthInBytes > to.pitch || c->WidthInBytes > from.pitch))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(stream, wait, to, from, c->WidthInBytes, c->Height, 1);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, enum wait wait)
{
	struct side to, from;

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	if (!make_side(&to, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch, c->dstHeight,
		       c->dstXInBytes, c->dstY, c->dstZ) ||
	    !make_side(&from, c->srcMemoryType, c->srcHost, c->srcDevice, c->srcPitch, c->srcHeight,
		       c->srcXInBytes, c->srcY, c->srcZ))
		return CUDA_ERROR_NOT_SUPPORTED;
	return copy(stream, wait, to, from, c->WidthInBytes, c->Height, c->Depth);
}

#define LOG_2D(stream, c)                                                                          \
	SIM_ENTER(" stream=%s width=%zu height=%zu", NAME(stream), (c) ? (c)->WidthInBytes : 0,    \
		  (c) ? (c)->Height : 0)

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D *c)
{
	LOG_2D(0, c);
	return copy_2d(c, 0, RETURN_DONE);
}

CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *c)
{
	LOG_2D(0, c);
	return copy_2d(c, 0, RETURN_DONE);
}

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *c, CUstream stream)
{
	LOG_2D(stream, c);
	return copy_2d(c, stream, RETURN_EARLY);
}

CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D *c)
{
	LOG_2D(0, c);
	return copy_3d(c, 0, RETURN_DONE);
}

CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D *c, CUstream stream)
{
	LOG_2D(stream, c);
	return copy_3d(c, stream, RETURN_EARLY);
}

/* ---- fills ------------------------------------------------------------------------------ */

struct fill_work {
	struct sim_work work;
	uint64_t address;
	size_t pitch, width, rows; /* width in elements */
	unsigned value, size;
};

static CUresult run_fill(struct sim_work *work)
{
	const struct fill_work *f = (struct fill_work *)work;

	for (size_t y = 0; y < f->rows; y++) {
		unsigned char *p = (unsigned char *)(uintptr_t)(f->address + y * f->pitch);
		if (f->size == 1)
			memset(p, (int)f->value, f->width);
		for (size_t x = 0; f->size > 1 && x < f->width; x++)
			memcpy(p + x * f->size, &f->value, f->size);
	}
	return CUDA_SUCCESS;
}

#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
void sim_fill_params(const struct sim_work *work, CUDA_MEMSET_NODE_PARAMS *params)
{
	const struct fill_work *f = (const struct fill_work *)work;

	*params = (CUDA_MEMSET_NODE_PARAMS){.dst = f->address,
					    .pitch = f->pitch,
					    .value = f->value,
					    .elementSize = f->size,
					    .width = f->width,
					    .height = f->rows};
}

/* Rows and slices as they lie, for which an address and pitches are enough. */
void sim_copy_params(const struct sim_work *work, CUDA_MEMCPY3D *params)
{
	const struct copy_work *c = (const struct copy_work *)work;

	*params = (CUDA_MEMCPY3D){
		.srcMemoryType = c->from.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.srcHost = (const void *)(uintptr_t)c->from.address,
		.srcDevice = c->from.address,
		.srcPitch = c->from.pitch,
		.srcHeight = c->from.pitch ? c->from.slice / c->from.pitch : 0,
		.dstMemoryType = c->to.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.dstHost = (void *)(uintptr_t)c->to.address,
		.dstDevice = c->to.address,
		.dstPitch = c->to.pitch,
		.dstHeight = c->to.pitch ? c->to.slice / c->to.pitch : 0,
		.WidthInBytes = c->width,
		.Height = c->rows,
		.Depth = c->slices,
	};
}
#endif

static CUresult fill(CUstream handle, bool synchronous, uint64_t address, size_t pitch,
		     unsigned value, unsigned size, size_t width, size_t rows)
{
	struct fill_work *f;

	SIM_STREAM_OR_RETURN(stream, handle);
	if (synchronous) {
		CUresult permitted = sim_capture_permits();
		if (permitted != CUDA_SUCCESS)
			return permitted;
	}
	if (!width || !rows)
		return CUDA_SUCCESS;
	if (address % size || (rows > 1 && pitch < width * size) ||
	    !sim_valid(address, (rows - 1) * pitch + width * size))
		return CUDA_ERROR_INVALID_VALUE;
	f = sim_work_new(sizeof(*f), run_fill, CU_GRAPH_NODE_TYPE_MEMSET);
	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	f->address = address;
	f->pitch = pitch;
	f->width = width;
	f->rows = rows;
	f->value = value;
	f->size = size;
	return sim_submit(stream, &f->work, false);
}

#define FILL(name, type, size)                                                                     \
	CUresult CUDAAPI cuMemsetD##name(CUdeviceptr to, type value, size_t n)                     \
	{                                                                                          \
		SIM_ENTER(" to=0x%llx value=0x%x count=%zu", to, value, n);                        \
		return fill(0, true, to, 0, value, size, n, 1);                                    \
	}                                                                                          \
	CUresult CUDAAPI cuMemsetD##name##Async(CUdeviceptr to, type value, size_t n,              \
						CUstream stream)                                   \
	{                                                                                          \
		SIM_ENTER(" stream=%s to=0x%llx value=0x%x count=%zu", NAME(stream), to, value,    \
			  n);                                                                      \
		return fill(stream, false, to, 0, value, size, n, 1);                              \
	}                                                                                          \
	CUresult CUDAAPI cuMemsetD2D##name(CUdeviceptr to, size_t pitch, type value, size_t width, \
					   size_t height)                                          \
	{                                                                                          \
		SIM_ENTER(" to=0x%llx value=0x%x width=%zu height=%zu", to, value, width, height); \
		return fill(0, true, to, pitch, value, size, width, height);                       \
	}                                                                                          \
	CUresult CUDAAPI cuMemsetD2D##name##Async(CUdeviceptr to, size_t pitch, type value,        \
						  size_t width, size_t height, CUstream stream)    \
	{                                                                                          \
		SIM_ENTER(" stream=%s to=0x%llx value=0x%x width=%zu height=%zu", NAME(stream),    \
			  to, value, width, height);                                               \
		return fill(stream, false, to, pitch, value, size, width, height);                 \
	}

FILL(8, unsigned char, 1)
FILL(16, unsigned short, 2)
FILL(32, unsigned int, 4)
