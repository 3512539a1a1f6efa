/* SPDX-License-Identifier: Apache-2.0
 *
 * Two GPUs in one process that reach each other's memory: P of GPU 0 is read by a kernel of GPU 1,
 * copied from there, and asked for after GPU 1 has overwritten what it was made from; K and V of
 * GPU 1's own chain lie in GPU 0's memory.
 *
 *     peers OUT [CHAINS [peers_plain|peers_pool|peers_mapped]]
 *
 * What both reach is memory of cuMemAlloc and peer access, of a pool, or mapped for both devices.
 */
#include "driver_app.h"

#define BATCH 8
#define SIZE  512
#define DEPTH 64
#define EVERY 16 /* chains from one look at P to the next */

static const size_t wide = 2ul * BATCH * SIZE * SIZE, thin = 2ul * BATCH * SIZE * DEPTH;

static CUcontext context[2];
static CUdevice device[2];

static CUdeviceptr from_pool(size_t bytes)
{
	const CUmemAccessDesc peer = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device[1]},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemoryPool pool;
	CUdeviceptr address;

	CHECK(cuDeviceGetDefaultMemPool(&pool, device[0]));
	CHECK(cuMemPoolSetAccess(pool, &peer, 1));
	CHECK(cuMemAllocAsync(&address, bytes, NULL));
	CHECK(cuStreamSynchronize(NULL));
	return address;
}

static CUdeviceptr mapped(size_t bytes)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device[0]}};
	CUmemAccessDesc access[2] = {{.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
				     {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	size_t unit;

	for (int i = 0; i < 2; i++)
		access[i].location =
			(CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device[i]};
	CHECK(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	bytes = (bytes + unit - 1) / unit * unit;
	CHECK(cuMemCreate(&handle, bytes, &prop, 0));
	/* apart from its neighbours, into which a kernel that nobody knows might walk */
	CHECK(cuMemAddressReserve(&address, bytes + unit, 0, 0, 0));
	CHECK(cuMemMap(address, bytes, 0, handle, 0));
	CHECK(cuMemSetAccess(address, bytes, access, 2));
	CHECK(cuMemRelease(handle));
	return address;
}

/* Memory of GPU 0 that GPU 1 reaches, too. */
static CUdeviceptr shared(const char *kind, size_t bytes)
{
	CUdeviceptr address;

	CHECK(cuCtxSetCurrent(context[0]));
	if (!strcmp(kind, "peers_pool"))
		return from_pool(bytes);
	if (!strcmp(kind, "peers_mapped"))
		return mapped(bytes);
	CHECK(cuMemAlloc(&address, bytes));
	return address;
}

/* The stream of `to` goes on once that of `from` has come as far as it is now. */
static void follow(struct chain *to, struct chain *from)
{
	CUevent event;

	CHECK(cuCtxSetCurrent(from->context));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventRecord(event, from->stream));
	CHECK(cuCtxSetCurrent(to->context));
	CHECK(cuStreamWaitEvent(to->stream, event, 0));
	CHECK(cuEventDestroy(event));
}

/* A kernel of GPU 1: rows of P through another softmax. */
static void read_across(struct chain *there, CUdeviceptr from, CUdeviceptr to)
{
	int size = SIZE;
	float scale = 3;
	void *parameters[] = {&from, &to, &size, &scale};

	CHECK(cuCtxSetCurrent(there->context));
	CHECK(cuLaunchKernel(there->softmax, BATCH * SIZE, 1, 1, SOFTMAX_THREADS, 1, 1, 0,
			     there->stream, parameters, NULL));
}

/* What of P the other GPU has a hand in, by turns. */
static void look(struct chain *here, struct chain *there, CUdeviceptr seen, int way, FILE *out)
{
	const size_t count = wide / 2;

	switch (way) {
	case 0: /* a kernel, ordered by an event */
		follow(there, here);
		read_across(there, here->p, seen);
		break;
	case 1: /* a kernel, ordered by the host */
		CHECK(cuCtxSetCurrent(here->context));
		CHECK(cuStreamSynchronize(here->stream));
		read_across(there, here->p, seen);
		break;
	case 2:
		follow(there, here);
		CHECK(cuMemcpyPeerAsync(seen, there->context, here->p, here->context, wide,
					there->stream));
		break;
	case 3: /* a copy that does not say whose memory it is */
		follow(there, here);
		CHECK(cuMemcpyDtoDAsync(seen, here->p, wide, there->stream));
		break;
	default: /* what P is made from goes, by GPU 1's kernel and copy */
		follow(there, here);
		chain_fill_one(there, here->q, 4711);
		CHECK(cuMemcpyDtoDAsync(here->k, there->q, thin, there->stream));
		follow(here, there);
		chain_save(here, out, "P", here->p, count);
		return;
	}
	follow(here, there); /* the next chain overwrites P */
	chain_save(there, out, "P", seen, count);
}

int main(int argc, char **argv)
{
	static const struct api api = {
#define LINKED(name) .name = name,
		DRIVER_FUNCTIONS(LINKED) BLAS_FUNCTIONS(LINKED)
#undef LINKED
	};
	const char *kind = argc > 3 ? argv[3] : "peers_plain";
	int chains = argc > 2 ? atoi(argv[2]) : 80, count, reaches;
	struct chain here, there;
	CUdeviceptr seen;
	FILE *out;

	if (argc < 2 || !(out = fopen(argv[1], "wb"))) {
		fprintf(stderr, "usage: peers OUT [CHAINS [KIND]]\n");
		return 1;
	}
	CHECK(cuInit(0));
	CHECK(cuDeviceGetCount(&count));
	CHECK(count < 2);
	for (int i = 0; i < 2; i++) {
		CHECK(cuDeviceGet(&device[i], i));
		CHECK(cuDevicePrimaryCtxRetain(&context[i], device[i]));
	}
	for (int i = 0; i < 2; i++) {
		CHECK(cuDeviceCanAccessPeer(&reaches, device[i], device[1 - i]));
		CHECK(!reaches);
		CHECK(cuCtxSetCurrent(context[i]));
		CHECK(cuCtxEnablePeerAccess(context[1 - i], 0));
	}
	chain_open(&here, &api, context[0], BATCH, SIZE, DEPTH);
	chain_open(&there, &api, context[1], BATCH, SIZE, DEPTH);
	CHECK(cuMemAlloc(&seen, wide));
	here.q = shared(kind, thin);
	here.k = shared(kind, thin);
	here.s = shared(kind, wide);
	here.p = shared(kind, wide);
	there.k = shared(kind, thin);
	there.v = shared(kind, thin);
	for (int n = 0; n < chains; n++) {
		chain_fill(&here, (unsigned)n);
		chain_scores(&here);
		chain_softmax(&here);
		chain_values(&here);
		chain_save_o(&here, out, "o");
		if (n % EVERY == EVERY - 3)
			look(&here, &there, seen, n / EVERY % 5, out);
		chain_fill(&there, (unsigned)(1000 + n));
		chain_scores(&there);
		chain_softmax(&there);
		chain_values(&there);
		chain_save_o(&there, out, "across");
	}
	for (int i = 0; i < 2; i++) {
		CHECK(cuCtxSetCurrent(context[i]));
		CHECK(cuCtxSynchronize());
	}
	for (int i = 0; i < 2; i++)
		CHECK(cuDevicePrimaryCtxRelease(device[i]));
	CHECK(fclose(out));
	printf("%d chains\n", 2 * chains);
	return 0;
}
