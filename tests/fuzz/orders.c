/* SPDX-License-Identifier: Apache-2.0
 *
 * What touches no tensor of the occurrence by itself: synchronisation, other streams, contexts and
 * handles, memory that comes and goes, calls that fail.
 */
#include "fuzz.h"

static void synchronise(struct happening *h)
{
	switch (below(&h->rng, 6)) {
	case 0:
		OK(cuStreamSynchronize(h->stream));
		break;
	case 1:
		OK(cuCtxSynchronize());
		break;
	case 2:
		OK(cuEventRecord(here->event[2], h->stream));
		OK(cuEventSynchronize(here->event[2]));
		break;
	case 3:
		OK(cuEventRecord(here->event[2], h->stream));
		OK(cuStreamWaitEvent(here->other, here->event[2], 0));
		break;
	case 4:
		while (cuStreamQuery(h->stream) == CUDA_ERROR_NOT_READY)
			;
		break;
	default:
		OK(cuStreamSynchronize(CU_STREAM_LEGACY));
	}
}

/* The occurrence goes on on another stream. */
static void change_stream(struct happening *h)
{
	struct chain *c = h->chain;

	if (c->stream == here->other || c->manner != ORDINARY || c->site->placing == POOLED)
		return;
	order(c->stream, here->other, 0);
	c->stream = here->other;
}

static void push_context(struct happening *h)
{
	const struct chain *c = h->chain;

	OK(cuCtxPushCurrent(here->context));
	if (is_ours(c->t[P], c->bytes[P]) && chance(&h->rng, 40))
		observe(h->stream, "P, pushed", c->t[P], c->bytes[P]);
	OK(cuCtxPopCurrent(NULL));
}

static void fresh_memory(struct happening *h)
{
	CUdeviceptr p = allocate(100000);

	OK(cuMemsetD8Async(p, 0x3c, 100000, h->stream));
	mark(p, 100000, 0);
	observe(h->stream, "fresh", p + 4096, 256);
	release(p, h->stream, false);
}

/* What nobody needs any more is freed, and something else comes to lie there. */
static void free_and_again(struct happening *h)
{
	struct chain *c = h->chain;
	const enum placing how = c->site->placing;
	enum tensor t;
	size_t all;

	if ((how != FRESH && how != POOLED) || c->at <= SCORES || c->site->layout == INTERLEAVED)
		return;
	t = c->at > SOFTMAX && chance(&h->rng, 50) ? S : chance(&h->rng, 50) ? Q : K;
	if (!is_ours(c->t[t], 1) || base_of(c->t[t], &all) != c->t[t] || c->t[t] == c->t[P] ||
	    (t == S && c->t[S] == c->t[M] && c->at <= SOFTMAX))
		return;
	trace("%s freed", tensor_name[t]);
	release(c->t[t], c->stream, how == POOLED);
	if (chance(&h->rng, 70)) {
		CUdeviceptr p = how == POOLED ? allocate_async(c->bytes[t], c->stream)
					      : allocate(c->bytes[t]);

		random_numbers(h->stream, p, next(&h->rng), c->bytes[t] / width);
		observe(h->stream, "again", p, c->bytes[t]);
		c->t[t] = p;
	} else {
		c->t[t] = 0;
	}
	if (is_ours(c->t[P], c->bytes[P]) && c->at > SOFTMAX)
		observe(h->stream, "P", c->t[P], c->bytes[P]);
}

/* A block that the arena's owner gives to somebody else in the midst. */
static void arena_again(struct happening *h)
{
	const size_t bytes = (1 + below(&h->rng, 40)) * 256;
	CUdeviceptr p = arena_take(&h->rng, bytes, h->chain->number);

	if (chance(&h->rng, 50))
		random_numbers(h->stream, p, next(&h->rng), bytes / width);
	else
		set_bytes(h->stream, p, 0x38, bytes);
	arena_give(p);
}

static void another_handle(struct happening *h)
{
	cublasHandle_t b;

	OK(cublasCreate(&b));
	OK(cublasSetStream(b, (cudaStream_t)h->stream));
	if (chance(&h->rng, 50)) {
		OK(cuStreamSynchronize(h->stream));
		OK(cublasDestroy(here->blas));
		here->blas = b;
	} else {
		OK(cublasDestroy(b));
	}
}

/* Calls that are refused: the program goes on, and its answers say by what. */
static void refused(struct happening *h)
{
	const float one = 1;
	CUdeviceptr nowhere = 4096, to = here->spare;
	size_t n = 16;

	switch (below(&h->rng, 4)) {
	case 0:
		record_status("launch", cuLaunchKernel(kernel("copy"), 1, 1, 1, 4096, 1, 1, 0,
						       h->stream, (void *[]){&to, &to, &n}, NULL));
		break;
	case 1:
		record_status("product",
			      cublasGemmStridedBatchedEx(here->blas, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8,
							 8, &one, (void *)to, cuda_type(), 4, 64,
							 (void *)to, cuda_type(), 8, 64, &one,
							 (void *)to, cuda_type(), 8, 64, 1,
							 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
		break;
	case 2:
		record_status("free", cuMemFree(nowhere));
		break;
	default:
		record_status("copy", cuMemcpyDtoDAsync(nowhere, to, 64, h->stream));
	}
}

static void passing_stream(struct happening *h)
{
	const struct chain *c = h->chain;
	CUstream s;
	CUevent e;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(e, h->stream));
	OK(cuStreamWaitEvent(s, e, 0));
	if (is_ours(c->t[P], c->bytes[P]) && c->bytes[P] <= SPARE_BYTES) {
		copy_numbers(s, here->spare, c->t[P], c->bytes[P] / width);
		observe(s, "P, in passing", here->spare, c->bytes[P]);
	}
	OK(cuStreamDestroy(s));
	OK(cuEventDestroy(e));
}

static void ask(struct happening *h)
{
	const struct chain *c = h->chain;
	size_t some, all;
	unsigned kind = 0;
	CUdeviceptr base;

	OK(cuMemGetInfo(&some, &all));
	if (is_ours(c->t[P], 1)) {
		OK(cuMemGetAddressRange(&base, &all, c->t[P]));
		OK(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, c->t[P]));
		record_status("memory type", (int)kind);
	}
}

static void kept_graph(struct happening *h)
{
	if (h->chain->manner != THREADED)
		graph_again(h->stream);
}

/* An event that was recorded before something else was done: it says nothing of that. */
static void early_event(struct happening *h)
{
	const struct chain *c = h->chain;
	CUdeviceptr to = here->spare + SPARE_BYTES / 2;
	const size_t n = 64;

	if (!is_ours(c->t[P], n * width) || h->stream == here->other || c->at <= SOFTMAX)
		return;
	OK(cuEventRecord(here->event[0], h->stream));
	fill_numbers(h->stream, here->spare, 0.5f, n);
	copy_numbers(h->stream, here->spare, c->t[P], n);
	OK(cuStreamWaitEvent(here->other, here->event[0], 0));
	copy_numbers(here->other, to, c->t[P], n);
	observe(here->other, "by an early event", to, n * width);
	order(here->other, h->stream, 1);
	observe(h->stream, "beside an early event", here->spare, n * width);
}

const struct event_kind orders[] = {
	{"synchronise", synchronise, NOTHING, 4},
	{"change stream", change_stream, NOTHING, 5},
	{"push context", push_context, NOTHING, 2},
	{"fresh memory", fresh_memory, NOTHING, 2},
	{"free and again", free_and_again, NOTHING, 12},
	{"arena again", arena_again, NOTHING, 8},
	{"another handle", another_handle, NOTHING, 2},
	{"refused", refused, NOTHING, 2},
	{"passing stream", passing_stream, NOTHING, 3},
	{"ask", ask, NOTHING, 2},
	{"kept graph", kept_graph, NOTHING, 10},
	{"early event", early_event, NOTHING, 5},
	{NULL, NULL, NOTHING, 0},
};
