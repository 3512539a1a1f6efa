/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at masks: of attentions in turn that share one, the first looks, unless something may have
 * written the mask, or may have done so unseen. Played to the core as a program would, at a size
 * for which kernels are chosen that look.
 */
#include "tests/unit/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/launch.h"
#include "shim/hazard/held.h"
#include "shim/gpu/looks.h"
#include "shim/op/memory.h"
#include "tests/unit/child.h"
#include "tests/unit/replay.h"

#define ROOM	  0x200000000ull /* an allocation for all but the mask */
#define MASKS	  0x300000000ull /* … for masks, the first of them in the middle */
#define MIDDLE	  (8ull << 20)
#define STREAM	  ((CUstream)0x77)
#define ELSEWHERE (ROOM + (60ull << 20))

/* Attentions until one was replaced, and so looked at its mask. */
static void first(void)
{
	looks_forget();
	core_begin();
	core_allocate(ROOM, 64ull << 20, MEMORY_DEVICE);
	core_allocate(MASKS, 16ull << 20, MEMORY_DEVICE);
	core.H = 64;
	core.Sq = 72;
	core.Sk = 512;
	core_resize();
	core.q = ROOM;
	core.k = ROOM + (1ull << 20);
	core.v = ROOM + (2ull << 20);
	core.o = ROOM + (3ull << 20);
	core.s = core.m = ROOM + (10ull << 20);
	core.x = ROOM + (20ull << 20);
	core.p = ROOM + (30ull << 20);
	core.mask = MASKS + MIDDLE;
	core_learn();
	below.looks = below.looked = 0;
	assert_int_equal(core_chain(), 5);
	assert_int_equal(below.looks, 1);
	assert_int_equal(below.looked, 0);
}

/* The same in a program that uses arrays of addresses: all its ops are seen, whether anything is
 * held back or not. */
static void first_watched(void)
{
	struct op op;

	first();
	op = core_product(0, 0, 8, 8, 8, ROOM, 8, 0, ROOM, 8, 0, ROOM, 8, 0, 1);
	op.gemm.by_array = true;
	assert_false(core_send(op));
	assert_true(flow_watching());
	core_chain();
	below.looks = below.looked = 0;
}

/* One more: did it have to look? */
static bool looks(void)
{
	const int looked = below.looked, all = below.looks;

	assert_int_equal(core_chain(), 5);
	assert_int_equal(below.looks, all + 1);
	return below.looked == looked;
}

/* What the op does to what is known. */
static bool changes(struct op op)
{
	bool changed;

	assert_false(looks());
	assert_false(core_send(op));
	changed = looks();
	assert_false(looks());
	return changed;
}

static void test_shared(void **state)
{
	first();
	for (int i = 0; i < 20; i++)
		assert_false(looks());
	assert_int_equal(below.scratch, 1);
	looks_forget();
	assert_int_equal(below.scratch, 0);
}

/* ---- ops ------------------------------------------------------------------------------------ */

static void test_written(void **state)
{
	const uint64_t end = MASKS + MIDDLE + 72 * 512 * 2;

	first();
	assert_true(changes(core_memset(core.mask, core.mask_bytes)));
	assert_true(changes(core_memset(end - 1, 1)));
	assert_false(changes(core_memset(end, 4096)));
	assert_true(changes(core_memset(core.mask - 4096, 4097)));
	assert_false(changes(core_memset(core.mask - 4096, 4096)));
	assert_true(changes(core_from_host(core.mask + 1000, 2)));
	assert_true(changes(core_copy(ELSEWHERE, core.mask, 64)));
	assert_true(changes(core_fill(end - 2, 1)));
	assert_false(changes(core_fill(end, 1)));
	assert_true(changes(core_kernel_copy(core.mask, ELSEWHERE, 100)));
	assert_true(changes(
		core_product(0, 0, 8, 8, 8, core.q, 8, 0, core.k, 8, 0, core.mask, 8, 0, 1)));
}

static void test_read(void **state)
{
	first();
	assert_false(changes(core_to_host(core.mask, core.mask_bytes)));
	assert_false(changes(core_copy(core.mask, ELSEWHERE, 4096)));
	assert_false(changes(core_kernel_copy(ELSEWHERE, core.mask, 100)));
	assert_false(changes(
		core_product(0, 0, 8, 8, 8, core.mask, 8, 0, core.k, 8, 0, ELSEWHERE, 8, 0, 1)));
}

/* A kernel without a rule may write anywhere in the allocations that it is pointed into. */
static void test_unknown(void **state)
{
	first();
	assert_true(changes(core_unknown(core.mask, CORE_APART, 1)));
	assert_true(changes(core_unknown(MASKS, CORE_APART, 1)));
	assert_true(changes(core_unknown(core.mask + core.mask_bytes, CORE_APART, 1)));
	assert_false(changes(core_unknown(CORE_APART, 0, 1)));
}

static void test_opaque(void **state)
{
	first_watched();
	assert_true(changes(core_event(OP_OPAQUE, "cuSomethingNew")));
	assert_true(changes(core_event(OP_GRAPH_LAUNCH, "cuGraphLaunch")));
	assert_true(changes(core_event(OP_TEARDOWN, "cuStreamDestroy_v2")));
	assert_true(changes(core_event(OP_TEARDOWN, "cuModuleUnload")));
	flow_flush("cuSomethingNew");
	assert_true(looks());
	assert_false(looks());
	flow_out_of_memory();
	assert_int_equal(below.scratch, 0);
	assert_true(looks());
}

static void test_freed(void **state)
{
	first();
	assert_false(core_send(core_free(MASKS)));
	core_allocate(MASKS, 16ull << 20, MEMORY_DEVICE);
	assert_true(looks());
	assert_false(looks());
	assert_false(core_send(core_free(CORE_APART)));
	core_allocate(CORE_APART, 1 << 20, MEMORY_DEVICE);
	assert_false(looks());
}

/* ---- graphs --------------------------------------------------------------------------------- */

static struct op graph_of(struct op op)
{
	static CUgraphExec execs[8]; /* only the addresses count */
	static int made;
	CUgraph graph = (CUgraph)&execs[made];
	CUgraphExec exec = (CUgraphExec)((char *)&execs[made++] + 1);
	struct op end = core_event(OP_CAPTURE_END, "cuStreamEndCapture");
	struct op launch = core_event(OP_GRAPH_LAUNCH, "cuGraphLaunch");

	core_send(core_event(OP_CAPTURE_BEGIN, "cuStreamBeginCapture_v2"));
	assert_false(core_send(op));
	end.handle = &graph;
	core_send(end);
	flow_graph_instantiated(graph, exec, 0);
	launch.handle = exec;
	return launch;
}

static void test_graph(void **state)
{
	struct op apart, reads, writes;

	first_watched();
	apart = graph_of(core_copy(ELSEWHERE, CORE_APART, 4096));
	reads = graph_of(core_kernel_copy(ELSEWHERE, core.mask, 100));
	writes = graph_of(core_kernel_copy(core.mask, ELSEWHERE, 100));
	looks();
	assert_false(changes(apart));
	assert_false(changes(reads));
	assert_true(changes(writes));
	/* what passes while something is captured may be executed, on another stream */
	core_send(core_event(OP_CAPTURE_BEGIN, "cuStreamBeginCapture_v2"));
	core_send(core_event(OP_CAPTURE_END, "cuStreamEndCapture"));
	assert_false(looks());
	core_send(core_event(OP_CAPTURE_BEGIN, "cuStreamBeginCapture_v2"));
	assert_false(core_send(core_memset(core.mask, 2)));
	core_send(core_event(OP_CAPTURE_END, "cuStreamEndCapture"));
	assert_true(looks());
}

/* ---- what we write --------------------------------------------------------------------------- */

static void test_guarded(void **state)
{
	const uint64_t end = MASKS + MIDDLE + 72 * 512 * 2;
	const struct queue queue = {BELOW_CONTEXT, core.stream};

	first();
	held_guard_write(end, end + 1, queue, NULL);
	assert_false(looks());
	held_guard_write(end - 1, end, queue, NULL);
	assert_true(looks());
	assert_false(looks());
}

/* P comes to lie over the mask, but is not written; then that is a mask again. */
static void test_held_back(void **state)
{
	uint64_t mask, p;

	first();
	mask = core.mask;
	p = core.p;
	core.p = core.mask;
	core.mask = MASKS;
	assert_true(looks());
	core.p = p;
	core.mask = mask;
	assert_true(looks());
	assert_false(looks());
}

/* ---- what else counts ------------------------------------------------------------------------ */

/* When no chain is held and nothing else is watched, ops pass unseen. */
static void test_unwatched(void **state)
{
	first();
	while (chain_live)
		held_drop(chain_list[0]);
	assert_false(core_send(core_event(OP_SYNC, "cuStreamSynchronize")));
	core_send(core_memset(ELSEWHERE, 1));
	assert_false(flow_watching());
	assert_int_equal(below.scratch, 0);
	assert_true(looks());
}

static void test_memory(void **state)
{
	static const enum memory_kind unseen[] = {MEMORY_MANAGED, MEMORY_HOST, MEMORY_SHARED};

	first();
	for (int i = 0; i < 3; i++) { /* also where it becomes so later */
		core_allocate(MASKS, 16ull << 20, unseen[i]);
		assert_true(looks());
		assert_true(looks());
	}
	memory_remove(MASKS, 0);
	assert_true(looks());
	assert_true(looks());
	core_allocate(MASKS, MIDDLE + core.mask_bytes, MEMORY_DEVICE);
	looks();
	assert_false(looks());
	core_allocate(MASKS, MIDDLE + core.mask_bytes - 1, MEMORY_DEVICE); /* goes on elsewhere */
	assert_true(looks());
	assert_true(looks());
}

static void test_stream(void **state)
{
	first();
	core.stream = STREAM;
	core_chain();
	assert_false(looks());
	core.stream = CU_STREAM_LEGACY;
	core_chain();
	assert_false(looks());
	assert_int_equal(below.scratch, 2);
}

/* As many masks as are kept, in turn; one more, and the one used longest ago goes. */
static void test_many(void **state)
{
	first();
	for (int turn = 0; turn < 3; turn++)
		for (uint64_t i = 0; i < 8; i++) {
			core.mask = MASKS + MIDDLE + i * (1 << 17);
			assert_int_equal(looks(), turn == 0 && i > 0);
		}
	assert_int_equal(below.scratch, 8);
	core.mask = MASKS;
	assert_true(looks());
	assert_int_equal(below.scratch, 8);
	core.mask = MASKS + MIDDLE + (1 << 17);
	assert_false(looks());
	core.mask = MASKS + MIDDLE;
	assert_true(looks());
}

static void test_no_scratch(void **state)
{
	first();
	looks_forget();
	below.no_scratch = true;
	assert_true(looks());
	assert_true(looks());
	below.no_scratch = false;
	assert_int_equal(below.scratch, 0);
	assert_true(looks());
	assert_false(looks());
}

/* ---- what a look is -------------------------------------------------------------------------- */

/* Every byte of what a look is told counts. */
static void test_key(void **state)
{
	struct attn_look look, other;
	uint64_t result;
	bool made;

	first();
	memset(&look, 0, sizeof(look));
	look.ranges.bias.base = MASKS;
	look.read_bytes = 4096;
	look.bytes = 256;
	result = looks_get(BELOW_CONTEXT, STREAM, &look, &made);
	assert_false(made);
	for (size_t i = 0; i < sizeof(look); i++) {
		other = look;
		((unsigned char *)&other)[i] ^= 1;
		looks_get(BELOW_CONTEXT, STREAM, &other, &made);
		assert_false(made);
		assert_true(looks_get(BELOW_CONTEXT, STREAM, &look, &made) == result);
		assert_true(made);
	}
	looks_get((CUcontext)0x2000, STREAM, &look, &made);
	assert_false(made);
	looks_get(BELOW_CONTEXT, CU_STREAM_LEGACY, &look, &made);
	assert_false(made);
}

static CUresult encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
		       const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
		       const cuuint32_t *steps, CUtensorMapInterleave interleave,
		       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
		       CUtensorMapFloatOOBfill fill)
{
	(void)map, (void)type, (void)rank, (void)address, (void)sizes, (void)strides, (void)box;
	(void)steps, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
	return CUDA_SUCCESS;
}

static const struct attn_device device = {
	.multiprocessors = 132, .cache_bytes = 1 << 20, .encode = encode};

static const struct attn_variant *mapped_with(int need)
{
	for (int i = 0; i < attn_variant_total; i++)
		if (attn_variants[i].family == ATTN_TMA && attn_variants[i].needs & need)
			return &attn_variants[i];
	fail();
	return NULL;
}

/* It is the launch's one step, told where to write; and reads no further than it says. */
static void test_step(void **state)
{
	static struct attn_launch launch;
	const struct attn_variant *const variant = mapped_with(ATTN_NEEDS_BIAS);
	struct attn_args args;
	struct attn_look look;

	first();
	args = below.args;
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 1);
	assert_int_equal(look.read_bytes, core.mask_bytes);
	assert_int_equal(look.bytes, attn_launch_scratch(variant, &args, &device));
	assert_int_equal(attn_launch_prepare(&launch, variant, &args, &device, 0x7000), 0);
	assert_int_equal(launch.before_count, 1);
	assert_int_equal(launch.before[0].parameter.ranges.out, 0x7000);
	assert_int_equal(launch.parameter.mapped.ranges, 0x7000);
	launch.before[0].parameter.ranges.out = 0;
	assert_memory_equal(&launch.before[0].parameter.ranges, &look.ranges, sizeof(look.ranges));

	args.B = 3; /* each with a mask of its own, or all with one */
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 1);
	assert_int_equal(look.read_bytes, core.mask_bytes);
	args.spec.bias[0].stride[0] = core.Sq * core.Sk + 64;
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 1);
	assert_int_equal(look.read_bytes, 3 * core.mask_bytes + 2 * 128);
	args.k.base += 2; /* K has to be copied too: the scratch is not the look's alone */
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 0);
	args.k.base -= 2;
	args.spec.bias[0].stride[1] = 8; /* heads do not share it: nobody looks */
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 0);
}

/* Of two biases the second is looked at, if rows share the first, which is looked at as well: so
 * the look is not kept, as nobody forgets it when the first is written to. */
static void test_two(void **state)
{
	static struct attn_launch launch;
	const struct attn_variant *const variant = mapped_with(ATTN_NEEDS_TWO);
	const struct attn_ranges *const ranges = &launch.before[0].parameter.ranges;
	struct attn_args args;
	struct attn_look look;

	first();
	args = below.args;
	args.spec.bias[1] = args.spec.bias[0];
	args.spec.bias_scale[0] = 2;
	args.spec.bias_scale[1] = 1;
	args.spec.bias[0].base += 0x100000;
	args.spec.bias[0].stride[1] = args.Sk;
	args.spec.bias[0].stride[2] = 0;
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 0);
	assert_true(attn_launch_scratch(variant, &args, &device) > 0);
	assert_int_equal(attn_launch_prepare(&launch, variant, &args, &device, 0x7000), 0);
	assert_int_equal(launch.before_count, 1);
	assert_true(ranges->bias.base == args.spec.bias[1].base && ranges->weight == 1);
	assert_true(ranges->other.base == args.spec.bias[0].base && ranges->other_weight == 2);
	assert_true(ranges->B == args.B && ranges->H == args.H);
	assert_int_equal(launch.parameter.mapped.bias_rows, 1);
	assert_int_equal(launch.parameter.mapped.second_rows, variant->rows_per_block);

	args.spec.bias[0].stride[2] = args.Sk; /* too much to look at */
	assert_int_equal(attn_launch_scratch(variant, &args, &device), 0);
	assert_int_equal(attn_launch_prepare(&launch, variant, &args, &device, 0), 0);
	assert_int_equal(launch.before_count, 0);
	assert_int_equal(launch.parameter.mapped.bias_rows, variant->rows_per_block);
}

/* A boolean mask is looked at where what it puts in the place of scores hides keys for good. */
static void test_boolean(void **state)
{
	const struct attn_variant *const variant = mapped_with(ATTN_NEEDS_MASK);
	static struct attn_launch launch;
	struct attn_args args;
	struct attn_look look;

	first();
	args = below.args;
	args.spec.mask = args.spec.bias[0];
	args.spec.mask.dtype = ATTN_BOOL;
	memset(&args.spec.bias[0], 0, sizeof(args.spec.bias[0]));
	args.spec.mask_value = ATTN_MASKED;
	args.spec.mask_keeps = 1;
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 1);
	assert_int_equal(look.read_bytes, core.mask_bytes / 2);
	assert_int_equal(look.bytes, attn_launch_scratch(variant, &args, &device));
	assert_true(look.ranges.bias.base == args.spec.mask.base);
	assert_int_equal(look.ranges.mask_keeps, 1);
	assert_int_equal(attn_launch_prepare(&launch, variant, &args, &device, 0x7000), 0);
	assert_int_equal(launch.before_count, 1);
	assert_int_equal(launch.parameter.mapped.ranges, 0x7000);

	args.spec.mask_value = -10000.0f;
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 0);
	args.spec.mask_value = NAN;
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 0);
	args.spec.mask_value = -INFINITY;
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 1);
	args.spec.mask.stride[1] = 16; /* heads do not share it */
	assert_int_equal(attn_launch_look(&look, variant, &args, &device), 0);
}

/* ---- recorded programs ---------------------------------------------------------------------- */

static const struct row {
	const char *name;
	int looks, looked; /* asked for, spared */
} rows[] = {
	{"bert", 9, 7}, /* 24 layers a forward */
	{"gpt2", 3, 2}, /* the prompt; a single query needs none */
};

static void replay_row(void *argument)
{
	const struct row *row = argument;
	struct replay got;

	CHECK(replay_trace(trace_path(row->name), 1, &got) == 0);
	fprintf(stderr, "%s: %d looks, %d spared\n", row->name, below.looks, below.looked);
	CHECK(below.looks == row->looks);
	CHECK(below.looked == row->looked);
	exit(0);
}

static void test_recorded(void **state)
{
	const char *const environment[] = {"FASHIM_OUT=none", NULL};
	static struct child child;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		child_run(&child, environment, replay_row, (void *)(uintptr_t)&rows[i]);
		print_message("# %s", child.errors);
		assert_true(child_passed(&child));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded),  /* forks: the core is fresh yet */
		cmocka_unit_test(test_unwatched), /* nothing is watched for good yet */
		cmocka_unit_test(test_shared),	   cmocka_unit_test(test_written),
		cmocka_unit_test(test_read),	   cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_opaque),	   cmocka_unit_test(test_freed),
		cmocka_unit_test(test_graph),	   cmocka_unit_test(test_guarded),
		cmocka_unit_test(test_held_back),  cmocka_unit_test(test_memory),
		cmocka_unit_test(test_stream),	   cmocka_unit_test(test_many),
		cmocka_unit_test(test_no_scratch), cmocka_unit_test(test_key),
		cmocka_unit_test(test_step),	   cmocka_unit_test(test_two),
		cmocka_unit_test(test_boolean),
	};

	return CORE_MAIN("looks", tests);
}
