/* SPDX-License-Identifier: Apache-2.0
 *
 * Attentions in turn that share a mask, as a model's layers do, with the mask changed between two
 * of them in some way. Whoever has found out once which part of it leaves keys out, and goes on
 * believing it, leaves out the wrong ones: at first the second half of the keys is masked, and
 * whatever changes it opens that half.
 *
 * Kernels are given such findings where there is work for a whole GPU; a simulated one has less.
 */
#include "hazards.h"

#include <pthread.h>
#include <string.h>

enum { HEADS = 66, ROWS = 72, COLUMNS = 512, DEPTH = 32, LARGEST = ROWS * COLUMNS };
enum { SIMULATED_HEADS = 2, SIMULATED_ROWS = 24 };
enum { FORWARDS = 4 }; /* the mask is changed from the third on */

struct masks {
	struct bench b;
	size_t kv;	   /* elements of K, of V */
	size_t size;	   /* of a mask, in elements */
	CUdeviceptr other; /* a mask of zeros */
	uint16_t half[LARGEST], zeros[LARGEST];
	uint16_t *host; /* where the mask is host memory too */
};

/* Keys from 0 to 128 are open, from 256 on masked; between them each row sees one more. */
static void fill_half(uint16_t *half, int rows)
{
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < COLUMNS; j++)
			half[i * COLUMNS + j] = j <= COLUMNS / 4 + i ? 0 : 0xfc00; /* -inf */
}

static void masks_open(struct masks *m)
{
	struct bench *b = &m->b;
	char gpu[64] = "";
	bool simulated;

	memset(m, 0, sizeof(*m));
	app_open(&b->app, NULL);
	CHECK(cuDeviceGetName(gpu, sizeof(gpu), 0));
	simulated = !strncmp(gpu, "simgpu", strlen("simgpu"));
	b->shape = (struct app_shape){simulated ? SIMULATED_HEADS : HEADS,
				      simulated ? SIMULATED_ROWS : ROWS, COLUMNS, DEPTH};
	m->size = (size_t)b->shape.rows * COLUMNS;
	m->kv = (size_t)b->shape.heads * COLUMNS * DEPTH;
	b->n = (size_t)b->shape.heads * (size_t)b->shape.rows * DEPTH;
	b->scores = (size_t)b->shape.heads * m->size;
	b->t = (struct tensors){.q = app_alloc(b->n * 2),
				.k = app_alloc(m->kv * 2),
				.v = app_alloc(m->kv * 2),
				.s = app_alloc(b->scores * 2),
				.x = app_alloc(b->scores * 2),
				.p = app_alloc(b->scores * 2),
				.o = app_alloc(b->n * 2)};
	b->t.m = b->t.s;
	b->mask = app_alloc(m->size * 2);
	m->other = app_alloc(m->size * 2);
	fill_half(m->half, b->shape.rows);
	app_upload(m->other, m->zeros, m->size * 2);
}

static void inputs(struct masks *m, int forward)
{
	app_upload_random(m->b.t.q, m->b.n, 3 * (uint64_t)forward + 1);
	app_upload_random(m->b.t.k, m->kv, 3 * (uint64_t)forward + 2);
	app_upload_random(m->b.t.v, m->kv, 3 * (uint64_t)forward + 3);
}

/* A layer. */
static void attend(struct masks *m, const char *name, int forward)
{
	chain(&m->b, &m->b.t);
	CHECK(cuStreamSynchronize(m->b.app.stream));
	app_observe(&m->b.report, name, forward, m->b.t.o, m->b.n);
}

/* `change` comes between the second layer and the third. */
static void changing(struct masks *m, void (*change)(struct masks *m))
{
	for (int f = 0; f < FORWARDS; f++) {
		inputs(m, f);
		app_upload(m->b.mask, m->half, m->size * 2);
		attend(m, "O", f);
		attend(m, "O2", f);
		if (f >= 2)
			change(m);
		attend(m, "O3", f);
	}
	bench_close(&m->b);
}

static void with_changes(void (*change)(struct masks *m))
{
	static struct masks m;

	masks_open(&m);
	changing(&m, change);
}

/* ---- changes -------------------------------------------------------------------------------- */

static void nothing(struct masks *m)
{
	(void)m;
}

static void fill(struct masks *m)
{
	app_fill(&m->b.app, m->b.mask, 0, m->size);
}

static void fill_last_row(struct masks *m)
{
	app_fill(&m->b.app, m->b.mask + (m->size - COLUMNS) * 2, 0, COLUMNS);
}

static void set(struct masks *m)
{
	CHECK(cuMemsetD16Async(m->b.mask, 0, m->size, m->b.app.stream));
}

static void set_columns(struct masks *m)
{
	CHECK(cuMemsetD2D16Async(m->b.mask + COLUMNS, COLUMNS * 2, 0, COLUMNS / 2,
				 (size_t)m->b.shape.rows, m->b.app.stream));
}

static void upload(struct masks *m)
{
	CHECK(cuMemcpyHtoDAsync(m->b.mask, m->zeros, m->size * 2, m->b.app.stream));
}

static void copy(struct masks *m)
{
	CHECK(cuMemcpyDtoDAsync(m->b.mask, m->other, m->size * 2, m->b.app.stream));
}

/* A bias that is computed: small numbers everywhere. */
static void multiply(struct masks *m)
{
	const struct app_shape one_head = {1, m->b.shape.rows, COLUMNS, DEPTH};

	app_scores(&m->b.app, one_head, m->b.t.q, m->b.t.k, m->b.mask);
}

static void on_other_stream(struct masks *m)
{
	CUstream compute = m->b.app.stream, side;
	CUevent before, after;

	CHECK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventRecord(before, compute));
	CHECK(cuStreamWaitEvent(side, before, 0));
	m->b.app.stream = side;
	fill(m);
	m->b.app.stream = compute;
	CHECK(cuEventRecord(after, side));
	CHECK(cuStreamWaitEvent(compute, after, 0));
}

static void *filler(void *argument)
{
	struct masks *m = argument;

	CHECK(cuCtxSetCurrent(m->b.app.context));
	fill(m);
	return NULL;
}

static void by_thread(struct masks *m)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, filler, m));
	CHECK(pthread_join(thread, NULL));
}

static void reallocate(struct masks *m)
{
	CHECK(cuMemFree(m->b.mask));
	m->b.mask = app_alloc(m->size * 2);
	upload(m);
}

static void by_host(struct masks *m)
{
	CHECK(cuStreamSynchronize(m->b.app.stream));
	memcpy(m->host, m->zeros, m->size * 2);
}

/* ---- cases ---------------------------------------------------------------------------------- */

static CUgraphExec replayed;

static void replay(struct masks *m)
{
	CHECK(cuGraphLaunch(replayed, m->b.app.stream));
}

static void mask_by_graph(void)
{
	static struct masks m;
	CUstream stream;
	CUgraph captured;

	masks_open(&m);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&m.b.app, stream);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	app_copy(&m.b.app, m.b.mask, m.other, m.size);
	CHECK(cuStreamEndCapture(stream, &captured));
	CHECK(cuGraphInstantiate(&replayed, captured, 0));
	CHECK(cuGraphDestroy(captured));
	changing(&m, replay);
}

/* Memory that the host writes too, without a call. */
static void mask_mapped(void)
{
	static struct masks m;

	masks_open(&m);
	CHECK(cuMemHostAlloc((void **)&m.host, m.size * 2, CU_MEMHOSTALLOC_DEVICEMAP));
	CHECK(cuMemHostGetDevicePointer(&m.b.mask, m.host, 0));
	changing(&m, by_host);
}

static void mask_managed(void)
{
	static struct masks m;

	masks_open(&m);
	CHECK(cuMemAllocManaged(&m.b.mask, m.size * 2, CU_MEM_ATTACH_GLOBAL));
	m.host = (uint16_t *)(uintptr_t)m.b.mask;
	changing(&m, by_host);
}

/* One mask after the other, as where some layers see less far. */
static void masks_in_turn(void)
{
	static struct masks m;
	CUdeviceptr mask[2];

	masks_open(&m);
	app_upload(m.b.mask, m.half, m.size * 2);
	mask[0] = m.b.mask;
	mask[1] = m.other;
	for (int layer = 0; layer < 3 * FORWARDS; layer++) {
		inputs(&m, layer);
		m.b.mask = mask[layer % 2];
		attend(&m, "O", layer);
	}
	bench_close(&m.b);
}

CASE(mask_stays, with_changes(nothing))
CASE(mask_filled, with_changes(fill))
CASE(mask_row_filled, with_changes(fill_last_row))
CASE(mask_set, with_changes(set))
CASE(mask_columns_set, with_changes(set_columns))
CASE(mask_uploaded, with_changes(upload))
CASE(mask_copied, with_changes(copy))
CASE(mask_multiplied, with_changes(multiply))
CASE(mask_other_stream, with_changes(on_other_stream))
CASE(mask_other_thread, with_changes(by_thread))
CASE(mask_reallocated, with_changes(reallocate))

const struct hazard hazards_masks[] = {
	ONCE(mask_stays, "layers that share a mask"),
	ONCE(mask_filled, "… which a kernel changes between two of them"),
	ONCE(mask_row_filled, "… which a kernel changes in its last row"),
	ONCE(mask_set, "… which a memset changes"),
	ONCE(mask_columns_set, "… of which a memset changes some columns"),
	ONCE(mask_uploaded, "… which the host uploads anew"),
	ONCE(mask_copied, "… over which another one is copied"),
	ONCE(mask_multiplied, "… which a product overwrites"),
	ONCE(mask_other_stream, "… which is changed on another stream"),
	ONCE(mask_other_thread, "… which is changed by another thread"),
	ONCE(mask_reallocated, "… which is freed and made anew"),
	ONCE(mask_by_graph, "… which a graph changes"),
	ONCE(mask_mapped, "… which the host writes where it lies"),
	ONCE(mask_managed, "… which the host writes in managed memory"),
	ONCE(masks_in_turn, "two masks in turn"),
	{0},
};
