/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody looks at P, or at S, after the chain or in its midst, in every way there is.
 */
#include "hazards.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A loop in which `look` runs after the chain of each late repetition. */
static void looking(enum placement placement, void (*look)(struct bench *, int))
{
	struct bench b;

	bench_open(&b, placement);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			look(&b, r);
	}
	bench_close(&b);
}

static void by_copy(struct bench *b, int r)
{
	observe_p(b, &b->t, r);
}

static void p_copied_once(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	for (int r = 0; r < 60; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		if (r % 10 == 0)
			observe_o(&b, &b.t, r);
	}
	observe_p(&b, &b.t, 59);
	observe_o(&b, &b.t, 59);
	bench_close(&b);
}

static void p_copied_always(struct bench *b, int r)
{
	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	observe_p(b, &b->t, r);
}

static void edit(struct bench *b, int r)
{
	app_scale(&b->app, b->t.p, b->t.p, 0.5f, b->scores);
	observe_p(b, &b->t, r);
}

static void edit_and_use(struct bench *b, int r)
{
	app_scale(&b->app, b->t.p, b->t.p, 0.5f, b->scores / 3);
	app_context(&b->app, b->shape, b->t.p, b->t.v, b->t.o);
	app_observe(&b->report, "O of edited P", r, b->t.o, b->n);
}

static void partly_cleared(struct bench *b, int r)
{
	CHECK(cuMemsetD8(b->t.p + 1000, 0, b->scores));
	observe_p(b, &b->t, r);
}

/* As interleaved pairs of a rotary embedding are put together, in memory that was P's. */
static void one_half(struct bench *b, int r)
{
	app_interleave(&b->app, b->t.p + (r == 9 ? 1002 : 0), b->t.q, b->n / 2);
	observe_p(b, &b->t, r);
}

static void both_halves(struct bench *b, int r)
{
	app_interleave(&b->app, b->t.p + 2, b->t.q, b->n / 2);
	app_interleave(&b->app, b->t.p, b->t.k, b->n / 2);
	if (r == 11) /* another, and what stands in between is looked at */
		app_interleave(&b->app, b->t.x + 400, b->t.k, b->n / 2);
	observe_p(b, &b->t, r);
	app_observe(&b->report, "x", r, b->t.x, b->scores);
}

static void mean(struct bench *b, int r)
{
	size_t one = b->scores / (size_t)b->shape.heads;

	app_mean_heads(&b->app, b->spare, b->t.p, b->shape.heads, one);
	app_observe(&b->report, "mean", r, b->spare, one);
}

static void p_mean_always(struct bench *b, int r)
{
	bench_inputs(b, r);
	chain(b, &b->t);
	mean(b, r);
	observe_o(b, &b->t, r);
}

static void inner_view(struct bench *b, int r)
{
	size_t from = b->scores / 3 + 40;

	app_copy(&b->app, b->spare, b->t.p + 2 * from, 500);
	app_observe(&b->report, "view", r, b->spare, 500);
}

static void as_2d(struct bench *b, int r)
{
	uint16_t tile[40 * 21];
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = b->t.p,
		.srcPitch = (size_t)b->shape.columns * 2,
		.srcXInBytes = 10,
		.srcY = (size_t)b->shape.rows + 3,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = tile,
		.dstPitch = 42,
		.WidthInBytes = 42,
		.Height = 40,
	};

	CHECK(cuMemcpy2D(&copy));
	app_observe_host(&b->report, "tile", r, tile, 40 * 21);
}

static void to_peer(struct bench *b, int r)
{
	CHECK(cuMemcpyPeerAsync(b->spare, b->app.context, b->t.p, b->app.context, b->scores * 2,
				b->app.stream));
	app_observe(&b->report, "peer", r, b->spare, b->scores);
}

static void on_device(struct bench *b, int r)
{
	CHECK(cuMemcpyDtoDAsync(b->spare, b->t.p + 100, b->scores, b->app.stream));
	app_observe(&b->report, "copy", r, b->spare, b->scores / 2);
}

static void unified(struct bench *b, int r)
{
	uint16_t *copy = malloc(b->scores * 2);

	if (!copy)
		app_fail("malloc", 1);
	CHECK(cuMemcpy((CUdeviceptr)(uintptr_t)copy, b->t.p, b->scores * 2));
	app_observe_host(&b->report, "P", r, copy, b->scores);
	free(copy);
}

static void to_pinned(struct bench *b, int r)
{
	void *copy;

	CHECK(cuMemAllocHost(&copy, b->scores * 2));
	CHECK(cuMemcpyDtoHAsync(copy, b->t.p, b->scores * 2, b->app.stream));
	CHECK(cuStreamSynchronize(b->app.stream));
	app_observe_host(&b->report, "P", r, copy, b->scores);
	CHECK(cuMemFreeHost(copy));
}

struct visit {
	struct bench *b;
	int repetition;
};

static void *visitor(void *argument)
{
	struct visit *visit = argument;

	CHECK(cuCtxSetCurrent(visit->b->app.context));
	observe_p(visit->b, &visit->b->t, visit->repetition);
	app_copy(&visit->b->app, visit->b->spare, visit->b->t.p, visit->b->scores);
	app_observe(&visit->b->report, "copy", visit->repetition, visit->b->spare,
		    visit->b->scores);
	return NULL;
}

static void by_thread(struct bench *b, int r)
{
	struct visit visit = {b, r};
	pthread_t thread;

	if (pthread_create(&thread, NULL, visitor, &visit))
		app_fail("pthread_create", 1);
	pthread_join(thread, NULL);
}

/* Q, K and V change before P is read: it cannot be made again from them. */
static void after_new_inputs(struct bench *b, int r)
{
	bench_inputs(b, r + 1000);
	observe_p(b, &b->t, r);
}

static void after_kernel_on_inputs(struct bench *b, int r)
{
	app_scale(&b->app, b->t.q, b->t.q, 3, b->n);
	app_fill(&b->app, b->t.k, 1, b->n);
	observe_p(b, &b->t, r);
}

static void after_free(struct bench *b, int r)
{
	CHECK(cuMemFree(b->t.q));
	CHECK(cuMemFree(b->t.k));
	observe_p(b, &b->t, r);
	b->t.k = app_alloc(b->n * 2);
	b->t.q = app_alloc(b->scores * 2);
}

static void after_mask_change(struct bench *b, int r)
{
	app_fill(&b->app, b->mask, (float)r * 0.01f, (size_t)b->shape.rows * b->shape.columns);
	observe_p(b, &b->t, r);
	app_upload_causal(b->mask, b->shape.rows, b->shape.columns);
}

static void scores_too(struct bench *b, int r)
{
	app_observe(&b->report, "X", r, b->t.x, b->scores);
	app_observe(&b->report, "M", r, b->t.m, b->scores);
	observe_p(b, &b->t, r);
}

/* A model of several layers, of which the last one returns its P. */
static void p_of_last(struct bench *b, int r)
{
	enum { LAYERS = 4 };

	for (int n = 0; n < LAYERS; n++) {
		bench_inputs(b, LAYERS * r + n);
		chain(b, &b->t);
		observe_o(b, &b->t, LAYERS * r + n);
	}
	observe_p(b, &b->t, r);
}

/* Another reader of P while the chain is still open. */
static void p_in_window(struct bench *b, int r)
{
	bench_inputs(b, r);
	chain_open(b, &b->t);
	chain_middle(b, &b->t);
	if (late(r))
		app_copy(&b->app, b->spare, b->t.p, b->scores);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
	if (late(r))
		app_observe(&b->report, "copy", r, b->spare, b->scores);
}

/* Memory that is mapped lies far from the rest, and pairs of integers are addresses between them.
 */
static void integers_between(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUdeviceptr integers, copy, far;
	CUmemGenericAllocationHandle handle;
	long long count = 4096; /* of two bytes */
	CUfunction copy_unknown;
	struct bench b;
	size_t unit;

	bench_open(&b, TOGETHER);
	CHECK(cuModuleGetFunction(&copy_unknown, b.app.module, "app_copy_f16"));
	CHECK(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(cuMemCreate(&handle, unit, &prop, 0));
	CHECK(cuMemAddressReserve(&far, unit, 0, 0, 0));
	CHECK(cuMemMap(far, unit, 0, handle, 0));
	integers = app_alloc(2 * (size_t)count);
	copy = app_alloc(2 * (size_t)count);
	CHECK(cuMemsetD32(integers, 0x7eff, (size_t)count / 2));
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		app_launch(&b.app, copy_unknown, (unsigned)((count + 255) / 256), 256,
			   (void *[]){&copy, &integers, &count});
		app_observe(&b.report, "integers", r, copy, (size_t)count);
	}
	bench_close(&b);
}

/* A kernel is told by a table in memory, and by nothing else, where P is and where it goes. */
static void addresses_in_memory(void)
{
	CUdeviceptr table, copy;
	CUfunction copy_by_table;
	struct bench b;

	bench_open(&b, TOGETHER);
	CHECK(cuModuleGetFunction(&copy_by_table, b.app.module, "app_copy_staged_f16"));
	table = app_alloc(2 * sizeof(CUdeviceptr));
	copy = app_alloc(b.scores * 2);
	CHECK(cuMemcpyHtoD(table, (CUdeviceptr[]){copy, b.t.p}, 2 * sizeof(CUdeviceptr)));
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		long long n = (long long)b.scores;

		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (!late(r))
			continue;
		app_launch(&b.app, copy_by_table, (unsigned)((n + 255) / 256), 256,
			   (void *[]){&table, &n});
		app_observe(&b.report, "copy", r, copy, b.scores);
	}
	bench_close(&b);
}

/* … or is told where in two numbers, or behind a byte, or where the element before the first would
 * be. */
enum telling { IN_HALVES, PACKED, EVEN, FROM_ONE };

static void copied_by(const char *kernel, enum telling telling)
{
	struct __attribute__((packed)) {
		char tag;
		CUdeviceptr from;
	} word = {.tag = 1};
	struct __attribute__((packed)) {
		char tag;
		short mode;
		float gain;
		CUdeviceptr from;
		char flag;
		CUdeviceptr to;
	} even = {.tag = 1};
	unsigned low, high;
	CUfunction copy_kernel;
	CUdeviceptr copy, one_before[2];
	struct bench b;
	int n;

	bench_open(&b, APART);
	n = (int)b.scores;
	CHECK(cuModuleGetFunction(&copy_kernel, b.app.module, kernel));
	copy = app_alloc(b.scores * 2);
	word.from = even.from = b.t.p;
	even.to = copy;
	low = (unsigned)b.t.p;
	high = (unsigned)(b.t.p >> 32);
	one_before[0] = copy - 2;
	one_before[1] = b.t.p - 2;
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (!late(r))
			continue;
		app_launch(&b.app, copy_kernel, ((unsigned)n + 255) / 256, 256,
			   telling == PACKED	 ? (void *[]){&copy, &word, &n}
			   : telling == EVEN	 ? (void *[]){&even, &n}
			   : telling == FROM_ONE ? (void *[]){&one_before[0], &one_before[1], &n}
						 : (void *[]){&copy, &low, &high, &n});
		app_observe(&b.report, "copy", r, copy, b.scores);
	}
	bench_close(&b);
}

/* … or finds it in a variable of its module, where some other kernel put it. */
static void address_in_module(void)
{
	CUfunction keep, copy_kept;
	CUdeviceptr copy, other;
	struct bench b;
	int n;

	bench_open(&b, APART);
	n = (int)b.scores;
	CHECK(cuModuleGetFunction(&keep, b.app.module, "reach_keep"));
	CHECK(cuModuleGetFunction(&copy_kept, b.app.module, "reach_copy_kept_to"));
	copy = app_alloc(b.scores * 2);
	other = app_alloc(b.scores * 2);
	CHECK(cuMemsetD16(other, 0x3c00, b.scores));
	app_launch(&b.app, keep, 1, 1, (void *[]){&copy, &other});
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		bench_inputs(&b, r);
		if (r == REPETITIONS)
			app_launch(&b.app, keep, 1, 1, (void *[]){&copy, &b.t.p});
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		app_launch(&b.app, copy_kept, ((unsigned)n + 255) / 256, 256,
			   (void *[]){&copy, &n});
		app_observe(&b.report, "copy", r, copy, b.scores);
	}
	bench_close(&b);
}

/* K ends where S begins, and who reads K from its end back is given that address. */
static void k_ends_at_s(struct bench *b, int r)
{
	static CUfunction copy;
	const CUdeviceptr end = b->arena + b->n * 2;
	int count = (int)b->n;

	if (!r)
		CHECK(cuModuleGetFunction(&copy, b->app.module, "reach_copy_back"));
	b->t.k = b->arena;
	b->t.s = b->t.m = b->t.x = end;
	b->t.q = b->arena + (1 << 20);
	bench_inputs(b, r);
	chain_open(b, &b->t);
	app_launch(&b->app, copy, (unsigned)(count + 255) / 256, 256,
		   (void *[]){&b->raw, (void *)&end, &count});
	chain_middle(b, &b->t);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
	app_observe(&b->report, "K", r, b->raw, b->n);
}

CASE(address_in_halves, copied_by("reach_copy_halves", IN_HALVES))
CASE(address_askew, copied_by("reach_copy_packed", PACKED))
CASE(address_even, copied_by("reach_copy_even", EVEN))
CASE(address_before, copied_by("reach_copy_from_one", FROM_ONE))
CASE(p_copied, looking(TOGETHER, by_copy))
CASE(p_copied_apart, looking(APART, by_copy))
CASE(p_edited, looking(TOGETHER, edit))
CASE(p_edited_and_used, looking(TOGETHER, edit_and_use))
CASE(p_partly_cleared, looking(TOGETHER, partly_cleared))
CASE(p_one_half, looking(TOGETHER, one_half))
CASE(p_both_halves, looking(TOGETHER, both_halves))
CASE(p_mean, looking(TOGETHER, mean))
CASE(p_view, looking(TOGETHER, inner_view))
CASE(p_2d, looking(TOGETHER, as_2d))
CASE(p_peer, looking(TOGETHER, to_peer))
CASE(p_dtod, looking(TOGETHER, on_device))
CASE(p_unified, looking(TOGETHER, unified))
CASE(p_pinned, looking(APART, to_pinned))
CASE(p_other_thread, looking(TOGETHER, by_thread))
CASE(p_kept, looking(TOGETHER, after_new_inputs))
CASE(p_kept_kernel, looking(TOGETHER, after_kernel_on_inputs))
CASE(p_kept_free, looking(APART, after_free))
CASE(p_kept_mask, looking(TOGETHER, after_mask_change))
CASE(all_read, looking(TOGETHER, scores_too))

/* The same with a table that holds nothing at first, and is filled by the host, or by a copy of
 * what the host filled. */
static void addresses_come_late(void)
{
	CUdeviceptr table, ready, copy;
	CUfunction copy_by_table;
	struct bench b;

	bench_open(&b, TOGETHER);
	CHECK(cuModuleGetFunction(&copy_by_table, b.app.module, "app_copy_staged_f16"));
	table = app_alloc(2 * sizeof(CUdeviceptr));
	ready = app_alloc(2 * sizeof(CUdeviceptr));
	copy = app_alloc(b.scores * 2);
	CHECK(cuMemsetD8(table, 0, 2 * sizeof(CUdeviceptr)));
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		const CUdeviceptr addresses[2] = {copy, b.t.p};
		long long n = late(r) ? (long long)b.scores : 0;

		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (late(r))
			CHECK(cuMemcpyHtoD(r % 4 == 1 ? table : ready, addresses,
					   sizeof(addresses)));
		if (late(r) && r % 4 == 3)
			CHECK(cuMemcpyDtoD(table, ready, sizeof(addresses)));
		app_launch(&b.app, copy_by_table, (unsigned)((b.scores + 255) / 256), 256,
			   (void *[]){&table, &n});
		if (late(r))
			app_observe(&b.report, "copy", r, copy, b.scores);
		CHECK(cuMemsetD8(table, 0, 2 * sizeof(CUdeviceptr)));
	}
	bench_close(&b);
}

/* A kernel fills the table, between two chains, when the one that follows it was seen to find
 * nothing there many times: that it will is in its code alone. */
static void addresses_written(void)
{
	CUfunction copy_by_table, put_two;
	CUdeviceptr table, copy;
	struct bench b;

	bench_open(&b, TOGETHER);
	CHECK(cuModuleGetFunction(&copy_by_table, b.app.module, "app_copy_by_table_f16"));
	CHECK(cuModuleGetFunction(&put_two, b.app.module, "app_put_two"));
	table = app_alloc(2 * sizeof(CUdeviceptr));
	copy = app_alloc(b.scores * 2);
	CHECK(cuMemsetD8(table, 0, 2 * sizeof(CUdeviceptr)));
	for (int r = 0; r < 2 * REPETITIONS; r++) {
		const bool filled = r > 8;
		long long n = filled ? (long long)b.scores : 0;

		bench_inputs(&b, r);
		if (r == 8)
			app_launch(&b.app, put_two, 1, 1, (void *[]){&table, &copy, &b.t.p});
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		app_launch(&b.app, copy_by_table, (unsigned)((b.scores + 255) / 256), 256,
			   (void *[]){&table, &n});
		if (filled)
			app_observe(&b.report, "copy", r, copy, b.scores);
	}
	bench_close(&b);
}

const struct hazard hazards_observe[] = {
	ONCE(p_copied, "P is copied to the host in late repetitions"),
	ONCE(p_copied_apart, "the same, each tensor in its own allocation"),
	ONCE(p_copied_once, "P is copied once, after 60 clean calls"),
	EACH(p_copied_always, "P is copied to the host every time"),
	ONCE(p_edited, "P is edited in place, then read"),
	ONCE(p_edited_and_used, "a third of P is edited, then a second P.V"),
	ONCE(p_partly_cleared, "a memset over the middle of P, then it is read"),
	ONCE(p_one_half, "every other number of P is overwritten, then it is read"),
	ONCE(p_both_halves, "and then the others, and P and X are read"),
	ONCE(p_mean, "mean over heads of P, late"),
	EACH(p_mean_always, "mean over heads of P, every time"),
	ONCE(p_view, "a kernel reads from the middle of P"),
	ONCE(p_2d, "a tile of P by cuMemcpy2D"),
	ONCE(p_peer, "P by a peer copy"),
	ONCE(p_dtod, "part of P by a device-to-device copy"),
	ONCE(p_unified, "P by cuMemcpy"),
	ONCE(p_pinned, "P by an asynchronous copy to pinned memory"),
	ONCE(p_other_thread, "another thread reads P"),
	ONCE(p_kept, "P is read after Q, K and V were uploaded anew"),
	ONCE(p_kept_kernel, "P is read after kernels wrote Q and K"),
	ONCE(p_kept_free, "P is read after Q and K were freed"),
	ONCE(p_kept_mask, "P is read after the mask was changed"),
	ONCE(all_read, "the scaled and masked scores and P are read"),
	EACH(p_of_last, "P of the last of four layers is copied to the host every time"),
	EACH(p_in_window, "a second kernel reads P before P.V"),
	ONCE(integers_between, "a kernel reads integers that could be addresses"),
	ONCE(addresses_in_memory, "a kernel finds P by an address that lies in memory"),
	ONCE(addresses_come_late, "… which comes there after many launches"),
	ONCE(addresses_written, "… and that a kernel put there"),
	ONCE(address_in_halves, "a kernel is given P's address in two numbers"),
	ONCE(address_askew, "… behind a single byte"),
	ONCE(address_even, "… behind seven, in a packed struct of 24"),
	EACH(k_ends_at_s, "a kernel is given where K ends, which is where S begins"),
	ONCE(address_before, "… less an element, and counts from one"),
	ONCE(address_in_module, "… nowhere but in a variable of its module"),
	{0},
};
