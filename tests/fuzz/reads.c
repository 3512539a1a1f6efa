/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers: everything by which a program can come to see what lies in its memory.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static size_t numbers(const struct happening *h)
{
	return h->bytes / width;
}

static CUdeviceptr room(struct happening *h)
{
	return here->spare + below(&h->rng, 64) * 256;
}

static void seen(struct happening *h, const char *what, CUstream s, CUdeviceptr at)
{
	if (chance(&h->rng, 70))
		observe(s, what, at, h->bytes);
}

static void by_copy(struct happening *h)
{
	observe(h->stream, tensor_name[h->tensor], h->at, h->bytes);
}

static void by_device_copy(struct happening *h)
{
	CUdeviceptr to = room(h);

	trace("memcpy %llx <- %llx", to, h->at);
	OK(cuMemcpyDtoDAsync(to, h->at, h->bytes, h->stream));
	mark_copy(to, h->at, h->bytes);
	seen(h, "copied", h->stream, to);
}

static void by_kernel(struct happening *h)
{
	CUdeviceptr to = room(h);

	if (type == F16 && chance(&h->rng, 40))
		aten_copy(h->stream, to, h->at, numbers(h));
	else
		copy_numbers(h->stream, to, h->at, numbers(h));
	seen(h, "by a kernel", h->stream, to);
}

static void by_scaling(struct happening *h)
{
	CUdeviceptr to = room(h);

	if (type == F16 && chance(&h->rng, 60))
		aten_scale(h->stream, to, h->at, 0.5f, numbers(h));
	else
		scale_numbers(h->stream, to, h->at, 0.5f, numbers(h));
	seen(h, "scaled", h->stream, to);
}

static void by_blending(struct happening *h)
{
	CUdeviceptr to = here->spare;
	size_t n = numbers(h);
	int depth = depth_of(h->at, h->bytes), before = depth_of(to, h->bytes);

	if (before > 2)
		fill_numbers(h->stream, to, 1, n);
	trace("blend %llx <- %llx", to, h->at);
	launch(h->stream, kernel("blend"), blocks_of(n, 64), 64, 1, (void *[]){&to, &h->at, &n});
	mark(to, h->bytes, depth > before ? depth : before);
	seen(h, "blended", h->stream, to);
}

static void by_packed(struct happening *h)
{
	CUdeviceptr to = room(h);
	struct {
		int pad;
		CUdeviceptr in, out;
		int n;
	} p = {7, h->at, to, (int)numbers(h)};

	launch(h->stream, kernel("packed"), blocks_of(numbers(h), 64), 64, 1, (void *[]){&p});
	mark_copy(to, h->at, h->bytes);
	seen(h, "packed", h->stream, to);
}

static void by_buffer(struct happening *h)
{
	struct {
		CUdeviceptr out, in;
		long long n;
	} p = {room(h), h->at, (long long)numbers(h)};
	size_t size = sizeof(p);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			 CU_LAUNCH_PARAM_END};

	OK(cuLaunchKernel(kernel("copy"), (unsigned)blocks_of(numbers(h), 64), 1, 1, 64, 1, 1, 0,
			  h->stream, NULL, extra));
	mark_copy(p.out, h->at, h->bytes);
	seen(h, "by a buffer", h->stream, p.out);
}

static void by_config(struct happening *h)
{
	CUdeviceptr to = room(h);
	size_t n = numbers(h);
	CUlaunchConfig c = {.gridDimX = (unsigned)blocks_of(n, 64),
			    .gridDimY = 1,
			    .gridDimZ = 1,
			    .blockDimX = 64,
			    .blockDimY = 1,
			    .blockDimZ = 1,
			    .hStream = h->stream};

	if (chance(&h->rng, 50))
		OK(cuLaunchKernelEx(&c, kernel("copy"), (void *[]){&to, &h->at, &n}, NULL));
	else
		OK(cuLaunchCooperativeKernel(kernel("copy"), c.gridDimX, 1, 1, 64, 1, 1, 0,
					     h->stream, (void *[]){&to, &h->at, &n}));
	mark_copy(to, h->at, h->bytes);
	seen(h, "by a configuration", h->stream, to);
}

/* Given where it ends, where its allocation begins, or an address before it. */
static void by_other_addresses(struct happening *h)
{
	CUdeviceptr to = room(h), from;
	size_t n = numbers(h), all;
	CUdeviceptr base = base_of(h->at, &all);
	const unsigned way = below(&h->rng, 3);

	if (to >= base && to < base + all)
		return;
	if (way == 0) {
		from = h->at + h->bytes;
		launch(h->stream, kernel("copy_before"), blocks_of(n, 64), 64, 1,
		       (void *[]){&to, &from, &n});
	} else {
		size_t back = way == 1 ? h->at - base : width * below(&h->rng, 2000);

		if (back > h->at - base)
			back = h->at - base;
		from = h->at - back;
		back /= width;
		launch(h->stream, kernel(chance(&h->rng, 50) ? "copy_offset" : "copy_after"),
		       blocks_of(n, 64), 64, 1, (void *[]){&to, &from, &back, &n});
	}
	trace("read by way of %llx", from);
	mark_copy(to, h->at, h->bytes);
	seen(h, "by another address", h->stream, to);
}

static void by_tile(struct happening *h)
{
	const struct chain *c = h->chain;
	const bool score = h->tensor >= S && h->tensor <= P;
	const size_t pitch = (size_t)(score ? c->columns : c->site->depth) * width;
	const size_t rows = c->bytes[h->tensor] / pitch;
	CUDA_MEMCPY2D d = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			   .srcDevice = c->t[h->tensor],
			   .srcPitch = pitch};
	char *host;

	if (rows < 2)
		return;
	d.srcXInBytes = below(&h->rng, (unsigned)(pitch / width)) * width;
	d.WidthInBytes = width * (1 + below(&h->rng, (unsigned)((pitch - d.srcXInBytes) / width)));
	d.srcY = below(&h->rng, (unsigned)rows);
	d.Height = 1 + below(&h->rng, (unsigned)(rows - d.srcY));
	d.dstPitch = d.WidthInBytes;
	if (d.Height * d.WidthInBytes > SPARE_BYTES)
		return;
	host = malloc(d.Height * d.WidthInBytes);
	for (size_t i = 0; i < d.Height; i++)
		mark_copy(here->spare + i * d.WidthInBytes,
			  d.srcDevice + (d.srcY + i) * pitch + d.srcXInBytes, d.WidthInBytes);
	trace("tile x=%zu y=%zu of %zux%zu", d.srcXInBytes, d.srcY, d.WidthInBytes, d.Height);
	if (chance(&h->rng, 50)) {
		d.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		d.dstDevice = here->spare;
		OK(cuMemcpy2DAsync(&d, h->stream));
		observe(h->stream, "tile", here->spare, d.Height * d.WidthInBytes);
	} else {
		d.dstMemoryType = CU_MEMORYTYPE_HOST;
		d.dstHost = host;
		settle(h->stream);
		OK(cuMemcpy2D(&d));
		record("tile", here->spare, host, d.Height * d.WidthInBytes);
		OK(cuStreamSynchronize(h->stream));
		OK(cuMemcpyHtoD(here->spare, host, d.Height * d.WidthInBytes));
		OK(cuStreamSynchronize(CU_STREAM_LEGACY));
	}
	free(host);
}

struct glance {
	void *from, *to;
	size_t bytes;
};

static void CUDA_CB glance(void *argument)
{
	struct glance *g = argument;

	memcpy(g->to, g->from, g->bytes);
}

/* Into pinned memory, where a function of the host's looks at it in the stream's order. */
static void by_host_function(struct happening *h)
{
	struct glance g = {here->pinned + PINNED_BYTES / 2, malloc(h->bytes), h->bytes};

	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoHAsync(g.from, h->at, h->bytes, h->stream));
	OK(cuLaunchHostFunc(h->stream, glance, &g));
	if (chance(&h->rng, 50)) {
		OK(cuStreamSynchronize(h->stream));
	} else {
		while (cuStreamQuery(h->stream) == CUDA_ERROR_NOT_READY)
			;
	}
	record("by the host", h->at, g.to, h->bytes);
	free(g.to);
}

static void by_unified_copy(struct happening *h)
{
	void *host = malloc(h->bytes);

	settle(h->stream);
	OK(cuMemcpy((CUdeviceptr)(uintptr_t)host, h->at, h->bytes));
	record("unified", h->at, host, h->bytes);
	free(host);
}

static void by_peer_copy(struct happening *h)
{
	CUdeviceptr to = room(h);

	OK(cuMemcpyPeerAsync(to, here->context, h->at, here->context, h->bytes, h->stream));
	mark_copy(to, h->at, h->bytes);
	seen(h, "peer", h->stream, to);
}

/* A product with ones over the queries. */
static void by_product(struct happening *h)
{
	const struct chain *c = h->chain;
	const enum tensor t = h->tensor >= S && h->tensor <= P ? h->tensor : P;
	struct product p = {.form = (enum form)below(&h->rng, FORMS),
			    .m = c->columns,
			    .n = 1,
			    .k = c->rows,
			    .batch = c->site->heads,
			    .alpha = 1,
			    .a = c->t[t],
			    .b = here->ones,
			    .c = here->spare,
			    .lda = c->columns,
			    .ldb = c->rows,
			    .ldc = c->columns,
			    .stride_a = (long long)c->rows * c->columns,
			    .stride_c = c->columns};

	if (!is_ours(p.a, scores_of(c) * width))
		return;
	multiply(h->stream, &p);
	observe(h->stream, "sums", p.c, (size_t)(p.m * p.batch) * width);
}

/* ---- other streams, contexts, modules ---------------------------------------------------------
 */

static void read_on(struct happening *h, CUstream s, CUdeviceptr to)
{
	if (chance(&h->rng, 50)) {
		copy_numbers(s, to, h->at, numbers(h));
	} else {
		OK(cuMemcpyDtoDAsync(to, h->at, h->bytes, s));
		mark_copy(to, h->at, h->bytes);
	}
}

static void on_another_stream(struct happening *h)
{
	CUdeviceptr to = room(h);

	if (h->stream == here->other)
		return;
	order(h->stream, here->other, 0);
	read_on(h, here->other, to);
	seen(h, "aside", here->other, to);
	order(here->other, h->stream, 1);
}

/* Two readers on two streams, both of which have waited for one event alone. */
static void on_two_streams(struct happening *h)
{
	CUdeviceptr to = here->spare, too = here->spare + SPARE_BYTES / 2;

	if (h->stream == here->other)
		return;
	trace("two streams wait for one event");
	OK(cuEventRecord(here->event[0], h->stream));
	OK(cuStreamWaitEvent(here->other, here->event[0], 0));
	OK(cuStreamWaitEvent(here->third, here->event[0], 0));
	read_on(h, here->other, to);
	read_on(h, here->third, too);
	observe(here->third, "by the second", too, h->bytes);
	observe(here->other, "by the first", to, h->bytes);
	order(here->other, h->stream, 1);
	order(here->third, h->stream, 2);
}

/* A blocking stream and the legacy one: no event is needed. */
static void by_legacy_order(struct happening *h)
{
	CUdeviceptr to = room(h);
	CUstream s;

	if (!here->blocking || h->stream != here->stream)
		return;
	trace("by the legacy stream's order");
	if (h->stream && chance(&h->rng, 60)) {
		read_on(h, CU_STREAM_LEGACY, to);
		seen(h, "legacy", CU_STREAM_LEGACY, to);
		return;
	}
	OK(cuMemsetD8Async(here->spare + SPARE_BYTES - 512, 0, 512, CU_STREAM_LEGACY));
	OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	read_on(h, s, to);
	OK(cuStreamSynchronize(s));
	OK(cuStreamDestroy(s));
	observe(h->stream, "behind legacy", to, h->bytes);
}

/* The other lane's context, by a kernel or a copy, behind an event or the host. */
static void by_another_context(struct happening *h)
{
	struct lane *l = &lanes[1 - here->number];
	CUdeviceptr to = here->sibling;
	size_t n = numbers(h);
	CUfunction f;

	if (!to || h->chain->manner == THREADED || h->bytes > SPARE_BYTES)
		return;
	trace("by another context");
	if (chance(&h->rng, 50)) {
		OK(cuStreamSynchronize(h->stream));
		OK(cuCtxSetCurrent(l->context));
	} else {
		OK(cuEventRecord(here->event[2], h->stream));
		OK(cuCtxSetCurrent(l->context));
		OK(cuStreamWaitEvent(l->other, here->event[2], 0));
	}
	if (chance(&h->rng, 60)) {
		f = kernel_of(l->module, "copy");
		OK(cuLaunchKernel(f, (unsigned)blocks_of(n, 64), 1, 1, 64, 1, 1, 0, l->other,
				  (void *[]){&to, &h->at, &n}, NULL));
	} else {
		OK(cuMemcpyPeerAsync(to, l->context, h->at, here->context, h->bytes, l->other));
	}
	mark_copy(to, h->at, h->bytes);
	OK(cuStreamSynchronize(l->other));
	observe(l->other, "over there", to, h->bytes);
	OK(cuCtxSetCurrent(here->context));
}

static void by_graph(struct happening *h)
{
	CUdeviceptr to = room(h);
	CUstream s = here->third;
	CUgraph graph;
	CUgraphExec exec;

	OK(cuStreamSynchronize(s));
	OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	copy_numbers(s, to, h->at, numbers(h));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, h->stream));
	OK(cuStreamSynchronize(h->stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	observe(h->stream, "by a graph", to, h->bytes);
}

static void by_passing_module(struct happening *h)
{
	CUmodule m = load_module();
	CUfunction f = kernel_of(m, "copy");
	CUdeviceptr to = room(h);
	size_t n = numbers(h);

	launch(h->stream, f, blocks_of(n, 64), 64, 1, (void *[]){&to, &h->at, &n});
	mark_copy(to, h->at, h->bytes);
	OK(cuStreamSynchronize(h->stream));
	OK(cuModuleUnload(m));
	seen(h, "by a module", h->stream, to);
}

static void by_registered(struct happening *h)
{
	const size_t pages = (h->bytes + 4095) & ~(size_t)4095;
	void *host = NULL;

	if (posix_memalign(&host, 4096, pages))
		return;
	OK(cuMemHostRegister(host, pages, 0));
	OK(cuMemcpyDtoHAsync(host, h->at, h->bytes, h->stream));
	OK(cuStreamSynchronize(h->stream));
	record("registered", h->at, host, h->bytes);
	OK(cuMemHostUnregister(host));
	free(host);
}

const struct event_kind reads[] = {
	{"read by copy", by_copy, SCORES_PART, 6},
	{"read by device copy", by_device_copy, SCORES_PART, 5},
	{"read by kernel", by_kernel, ANY_PART, 6},
	{"read by scaling", by_scaling, ANY_PART, 3},
	{"read by blending", by_blending, SCORES_PART, 3},
	{"read by packed pointers", by_packed, SCORES_PART, 3},
	{"read by parameter buffer", by_buffer, SCORES_PART, 2},
	{"read by configuration", by_config, SCORES_PART, 2},
	{"read by another address", by_other_addresses, SCORES_PART, 7},
	{"read by tile", by_tile, SCORES_PART, 4},
	{"read by host function", by_host_function, SCORES_PART, 3},
	{"read by unified copy", by_unified_copy, SCORES_PART, 2},
	{"read by peer copy", by_peer_copy, SCORES_PART, 2},
	{"read by product", by_product, SCORES_PART, 4},
	{"read on another stream", on_another_stream, ANY_PART, 6},
	{"read on two streams", on_two_streams, ANY_PART, 8},
	{"read by legacy order", by_legacy_order, ANY_PART, 5},
	{"read by another context", by_another_context, SCORES_PART, 6},
	{"read by graph", by_graph, SCORES_PART, 3},
	{"read by passing module", by_passing_module, SCORES_PART, 2},
	{"read an input by kernel", by_kernel, INPUT_PART, 7},
	{"read an input by another address", by_other_addresses, INPUT_PART, 5},
	{"read an input by copy", by_copy, INPUT_PART, 3},
	{"read an input on two streams", on_two_streams, INPUT_PART, 5},
	{"read by registered memory", by_registered, SCORES_PART, 2},
	{NULL, NULL, NOTHING, 0},
};
