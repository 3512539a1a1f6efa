/* SPDX-License-Identifier: Apache-2.0
 *
 * Several streams, threads, contexts and libraries; graphs.
 */
#include "hazards.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x)	 TEXT_(x)

/* The chain runs on one stream, P is read on another that waits for an event. */
static void other_stream(unsigned flags, bool ordered_by_event)
{
	CUstream first, second;
	CUevent done, read;
	struct bench b;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&first, flags));
	CHECK(cuStreamCreate(&second, flags));
	CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventCreate(&read, CU_EVENT_DISABLE_TIMING));
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		app_set_stream(&b.app, first);
		chain(&b, &b.t);
		if (late(r)) {
			CHECK(cuEventRecord(done, first));
			b.app.stream = ordered_by_event ? second : NULL;
			if (ordered_by_event)
				CHECK(cuStreamWaitEvent(second, done, 0));
			app_copy(&b.app, b.spare, b.t.p, b.scores);
			CHECK(cuEventRecord(read, b.app.stream));
			CHECK(cuStreamWaitEvent(first, read, 0));
		}
		CHECK(cuStreamSynchronize(first));
		CHECK(cuStreamSynchronize(second));
		observe_o(&b, &b.t, r);
		if (late(r))
			app_observe(&b.report, "copy", r, b.spare, b.scores);
	}
	bench_close(&b);
}

/* Q.K and softmax on one stream, P.V on another. */
static void chain_over_streams(void)
{
	CUstream first, second;
	CUevent half;
	struct bench b;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&half, CU_EVENT_DISABLE_TIMING));
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		app_set_stream(&b.app, first);
		chain_open(&b, &b.t);
		chain_middle(&b, &b.t);
		if (r % 3 == 2) {
			CHECK(cuEventRecord(half, first));
			CHECK(cuStreamWaitEvent(second, half, 0));
			app_set_stream(&b.app, second);
		}
		chain_close(&b, &b.t);
		CHECK(cuStreamSynchronize(b.app.stream));
		observe_o(&b, &b.t, r);
	}
	bench_close(&b);
}

/* The input of a chain is written on another stream right after, ordered by an event. */
static void next_input(void)
{
	CUstream compute, copies;
	CUevent used, ready;
	struct bench b;
	void *pinned;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&used, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventCreate(&ready, CU_EVENT_DISABLE_TIMING));
	CHECK(cuMemAllocHost(&pinned, b.n * 2 * REPETITIONS));
	app_set_stream(&b.app, compute);
	bench_inputs(&b, 0);
	for (int r = 0; r < REPETITIONS; r++)
		app_random_f16((uint16_t *)pinned + (size_t)r * b.n, b.n, 900 + (uint64_t)r);
	for (int r = 0; r < REPETITIONS; r++) {
		CHECK(cuMemcpyHtoDAsync(b.t.q, (uint16_t *)pinned + (size_t)r * b.n, b.n * 2,
					copies));
		CHECK(cuEventRecord(ready, copies));
		CHECK(cuStreamWaitEvent(compute, ready, 0));
		chain(&b, &b.t);
		CHECK(cuEventRecord(used, compute));
		CHECK(cuStreamWaitEvent(copies, used, 0));
		if (late(r)) {
			CHECK(cuMemsetD16Async(b.t.q, 0, b.n, copies));
			CHECK(cuStreamSynchronize(copies));
			observe_p(&b, &b.t, r);
		}
		CHECK(cuStreamSynchronize(compute));
		observe_o(&b, &b.t, r);
	}
	CHECK(cuStreamSynchronize(copies));
	CHECK(cuMemFreeHost(pinned));
	bench_close(&b);
}

/* Two chains on one stream, op by op in turn. */
static void interleaved(void)
{
	struct bench a, b;

	bench_open(&a, TOGETHER);
	memset(&b, 0, sizeof(b));
	b.app = a.app;
	bench_place(&b, TOGETHER);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&a, 2 * r);
		bench_inputs(&b, 2 * r + 1);
		chain_open(&a, &a.t);
		chain_open(&b, &b.t);
		if (r % 4 == 3) {
			chain_middle(&b, &b.t);
			chain_middle(&a, &a.t);
		} else {
			chain_middle(&a, &a.t);
			chain_middle(&b, &b.t);
		}
		chain_close(&a, &a.t);
		chain_close(&b, &b.t);
		observe_o(&a, &a.t, r);
		app_observe(&a.report, "O of the other", r, b.t.o, b.n);
		if (late(r))
			app_observe(&a.report, "P of the other", r, b.t.p, b.scores);
	}
	bench_close(&a);
}

/* Warm-up, then one captured chain replayed with new inputs. */
static void graph(void)
{
	struct bench b;
	CUstream stream;
	CUgraph captured;
	CUgraphExec exec;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&b.app, stream);
	for (int r = 0; r < 6; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		CHECK(cuStreamSynchronize(stream));
		observe_o(&b, &b.t, r);
	}
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	chain(&b, &b.t);
	CHECK(cuStreamEndCapture(stream, &captured));
	CHECK(cuGraphInstantiate(&exec, captured, 0));
	for (int r = 6; r < 14; r++) {
		bench_inputs(&b, r);
		CHECK(cuGraphLaunch(exec, stream));
		CHECK(cuStreamSynchronize(stream));
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	/* and again without the graph */
	bench_inputs(&b, 14);
	chain(&b, &b.t);
	CHECK(cuGraphLaunch(exec, stream)); /* the same work twice */
	CHECK(cuStreamSynchronize(stream));
	observe_o(&b, &b.t, 14);
	observe_p(&b, &b.t, 14);
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(captured));
	bench_close(&b);
}

/* A chain of which only the second half is in a graph. */
static void graph_half(void)
{
	struct bench b;
	CUstream stream;
	CUgraph captured;
	CUgraphExec exec;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&b.app, stream);
	bench_inputs(&b, 0);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	chain_close(&b, &b.t);
	CHECK(cuStreamEndCapture(stream, &captured));
	CHECK(cuGraphInstantiate(&exec, captured, 0));
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain_open(&b, &b.t);
		chain_middle(&b, &b.t);
		if (late(r))
			CHECK(cuGraphLaunch(exec, stream));
		else
			chain_close(&b, &b.t);
		CHECK(cuStreamSynchronize(stream));
		observe_o(&b, &b.t, r);
	}
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(captured));
	bench_close(&b);
}

/* Of a captured chain nobody looks at the scores. A second one in the same graph has V made
 * contiguous in the memory of Q, a third is cut off. */
static void graph_o_alone(void)
{
	struct bench b;
	CUstream stream;
	CUgraph captured;
	CUgraphExec exec;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&b.app, stream);
	struct tensors t = b.t;
	t.v = t.q;
	t.o = b.spare;
	app_upload_random(b.raw, b.n, 77);
	for (int r = 0; r < 6; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		CHECK(cuStreamSynchronize(stream));
		observe_o(&b, &b.t, r);
	}
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	chain(&b, &b.t);
	chain_open(&b, &t);
	chain_middle(&b, &t);
	app_split_heads(&b.app, t.v, b.raw, b.shape.rows, b.shape.heads, b.shape.depth);
	chain_close(&b, &t);
	t.p = b.spare + b.n * 2;
	chain_open(&b, &b.t);
	chain_middle(&b, &t);
	CHECK(cuStreamEndCapture(stream, &captured));
	CHECK(cuGraphInstantiate(&exec, captured, 0));
	for (int r = 6; r < 18; r++) {
		bench_inputs(&b, r);
		CHECK(cuGraphLaunch(exec, stream));
		CHECK(cuStreamSynchronize(stream));
		observe_o(&b, &b.t, r);
		app_observe(&b.report, "O of the second", r, t.o, b.n);
		app_observe(&b.report, "P of the third", r, t.p, b.scores / 4);
	}
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(captured));
	bench_close(&b);
}

/* A graph of other work is launched after each chain: nothing to do with its scores. */
static void graph_apart(void)
{
	struct bench b;
	CUstream stream;
	CUgraph captured;
	CUgraphExec exec;
	CUdeviceptr other;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&b.app, stream);
	other = app_alloc(2 * b.n * 2);
	app_upload_random(other, b.n, 33);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	app_scale(&b.app, other + b.n * 2, other, 0.5f, b.n);
	app_copy(&b.app, other, other + b.n * 2, b.n);
	CHECK(cuStreamEndCapture(stream, &captured));
	CHECK(cuGraphInstantiate(&exec, captured, 0));
	CHECK(cuGraphDestroy(captured));
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		CHECK(cuGraphLaunch(exec, stream));
		CHECK(cuStreamSynchronize(stream));
		observe_o(&b, &b.t, r);
	}
	app_observe(&b.report, "halved", 0, other, b.n);
	CHECK(cuGraphExecDestroy(exec));
	bench_close(&b);
}

static void CUDA_CB count_calls(void *data)
{
	++*(int *)data;
}

/* The program has itself told when a chain is done. */
static void host_function(void)
{
	struct bench b;
	CUstream stream;
	int calls = 0;

	bench_open(&b, TOGETHER);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&b.app, stream);
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain_open(&b, &b.t);
		CHECK(cuLaunchHostFunc(stream, count_calls, &calls));
		chain_middle(&b, &b.t);
		chain_close(&b, &b.t);
		CHECK(cuLaunchHostFunc(stream, count_calls, &calls));
		CHECK(cuStreamSynchronize(stream));
		observe_o(&b, &b.t, r);
	}
	if (calls != 4 * REPETITIONS)
		printf("%d calls\n", calls);
	bench_close(&b);
}

/* Threads with a stream, a handle and tensors each. */
struct worker {
	struct bench b;
	CUcontext context;
	int number;
	bool per_thread;
};

static void *work(void *argument)
{
	struct worker *w = argument;
	CUstream stream = CU_STREAM_PER_THREAD;

	CHECK(cuCtxSetCurrent(w->context));
	app_open_here(&w->b.app);
	bench_place(&w->b, TOGETHER);
	if (!w->per_thread)
		CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&w->b.app, stream);
	if (w->per_thread) {
		w->b.app.per_thread = true;
		w->b.app.stream = NULL; /* stream 0 of the _ptsz functions */
	}
	CHECK(cuCtxSynchronize()); /* the fills of bench_place are the default stream's */
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&w->b, 1000 * w->number + r);
		chain(&w->b, &w->b.t);
		CHECK(cuStreamSynchronize(stream));
		observe_o(&w->b, &w->b.t, r);
		if (late(r))
			observe_p(&w->b, &w->b.t, r);
	}
	return NULL;
}

static void with_threads(bool per_thread)
{
	struct worker *workers = calloc(2, sizeof(*workers));
	pthread_t threads[2];
	CUcontext context;

	if (!workers)
		app_fail("calloc", 1);
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	for (int i = 0; i < 2; i++) {
		workers[i].number = i;
		workers[i].context = context;
		workers[i].per_thread = per_thread;
		if (pthread_create(&threads[i], NULL, work, &workers[i]))
			app_fail("pthread_create", 1);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK(cuCtxSetCurrent(context));
	for (int i = 0; i < 2; i++)
		bench_close(&workers[i].b);
	free(workers);
}

/* What every driver has, whichever the headers make of cuCtxCreate(). */
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device);

static void two_contexts(void)
{
	struct bench *b = calloc(2, sizeof(*b));
	CUcontext other;

	if (!b)
		app_fail("calloc", 1);
	bench_open(&b[0], TOGETHER);
	CHECK(cuCtxCreate_v2(&other, 0, 0));
	app_open_here(&b[1].app);
	bench_place(&b[1], TOGETHER);
	CHECK(cuCtxSynchronize());
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		struct bench *now = &b[r % 2];
		CHECK(cuCtxSetCurrent(now->app.context));
		bench_inputs(now, r);
		chain(now, &now->t);
		observe_o(now, &now->t, r);
		if (late(r / 2))
			observe_p(now, &now->t, r);
	}
	for (int i = 0; i < 2; i++) {
		CHECK(cuCtxSetCurrent(b[i].app.context));
		bench_close(&b[i]);
	}
	CHECK(cuCtxDestroy(other));
	free(b);
}

/* The primary context goes while another one is current, and comes again with the same handle. */
static void primary_reset(void)
{
	CUcontext other, primary;
	struct bench b;

	memset(&b, 0, sizeof(b));
	app_open(&b.app, NULL);
	primary = b.app.context;
	CHECK(cuCtxCreate_v2(&other, 0, 0));
	for (int life = 0; life < 2; life++) {
		CHECK(cuCtxSetCurrent(primary));
		if (life)
			app_open_here(&b.app);
		bench_place(&b, TOGETHER);
		for (int r = life * REPETITIONS; r < (life + 1) * REPETITIONS; r++) {
			bench_inputs(&b, r);
			chain(&b, &b.t);
			observe_o(&b, &b.t, r);
			if (late(r % REPETITIONS))
				observe_p(&b, &b.t, r);
		}
		CHECK(b.app.call.destroy(b.app.blas));
		CHECK(cuCtxSetCurrent(other));
		CHECK(cuDevicePrimaryCtxReset(0));
		CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
	}
	app_report(&b.report);
	CHECK(cuCtxDestroy(other));
}

static void with_library(const char *name)
{
	struct bench b;

	memset(&b, 0, sizeof(b));
	if (!app_open(&b.app, name)) {
		printf("no %s\n", name);
		return;
	}
	bench_place(&b, TOGETHER);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

static void dlopen_blas(void)
{
	with_library("libcublas.so." TEXT(CUBLAS_VER_MAJOR));
}

CASE(p_other_stream, other_stream(CU_STREAM_NON_BLOCKING, true))
CASE(p_legacy_stream, other_stream(CU_STREAM_DEFAULT, false))
CASE(two_threads, with_threads(false))
CASE(per_thread_stream, with_threads(true))
CASE(dlopen_older_blas, with_library("libcublas.so.12"))

/* The program closes its cuBLAS, reads what is left, and opens it again. */
static void blas_reopened(void)
{
	const char *name = "libcublas.so.12";
	struct bench b;
	void *library;

	memset(&b, 0, sizeof(b));
	if (!app_open(&b.app, name)) {
		printf("no %s\n", name);
		return;
	}
	bench_place(&b, TOGETHER);
	for (int life = 0; life < 2; life++) {
		if (life)
			app_open(&b.app, name);
		for (int r = life * REPETITIONS; r < (life + 1) * REPETITIONS; r++) {
			bench_inputs(&b, r);
			chain(&b, &b.t);
			observe_o(&b, &b.t, r);
			if (late(r % REPETITIONS) && r % 2)
				observe_p(&b, &b.t, r);
		}
		CHECK(b.app.call.destroy(b.app.blas));
		library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
		CHECK(!library || dlclose(library) || dlclose(library));
		observe_p(&b, &b.t, REPETITIONS * (life + 1));
	}
	app_report(&b.report);
}

const struct hazard hazards_stream[] = {
	ONCE(p_other_stream, "P is read on another stream, after an event"),
	ONCE(p_legacy_stream, "P is read on the default stream, which waits"),
	ONCE(chain_over_streams, "P.V on another stream than Q.K"),
	ONCE(next_input, "Q is overwritten by a copy stream"),
	ONCE(interleaved, "two chains in turn on one stream"),
	ONCE(graph, "a captured chain, replayed with new inputs"),
	ONCE(graph_half, "P.V alone in a graph"),
	ONCE(graph_o_alone, "captured chains of whose scores nobody wants to know"),
	ONCE(graph_apart, "a graph of other work after each chain"),
	ONCE(host_function, "functions of the host's between the kernels"),
	ONCE(two_threads, "two threads, two streams, two handles"),
	ONCE(per_thread_stream, "two threads on their per-thread streams"),
	ONCE(two_contexts, "two contexts in turn"),
	ONCE(primary_reset, "the primary context goes while another is current, and comes again"),
	ONCE(dlopen_blas, "cuBLAS by dlopen and dlsym"),
	ONCE(blas_reopened, "cuBLAS 12 is closed with P unread, and opened again"),
	ONCE(dlopen_older_blas, "cuBLAS 12 beside the one linked"),
	{0},
};
