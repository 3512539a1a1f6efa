/* SPDX-License-Identifier: Apache-2.0
 *
 * What the driver hooks say of memory that others can see or write: other mappings of it, the
 * host, network cards, textures.
 */
#include "ops_fixture.h"

/* Two mappings of one piece of memory are two names for it: neither can be watched. */
static void aliased_memory_is_told_as_shared(void **state)
{
	const size_t bytes = 2 << 20;
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	};
	CUmemGenericAllocationHandle memory, others;
	CUdeviceptr address;

	assert_int_equal(CALL(cuMemCreate)(&memory, bytes, &prop, 0), 0);
	assert_int_equal(CALL(cuMemAddressReserve)(&address, 2 * bytes, 0, 0, 0), 0);
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	begin(state);
	assert_int_equal(CALL(cuMemCreate)(&others, bytes, &prop, 0), 0);
	assert_int_equal(CALL(cuMemMap)(address, bytes, 0, others, 0), 0);
	assert_int_equal(the_op(OP_ALLOC, "cuMemMap", 1)->alloc.kind, MEMORY_SHARED);
	assert_int_equal(CALL(cuMemUnmap)(address, bytes), 0);

	begin(state);
	assert_int_equal(CALL(cuMemMap)(address, bytes, 0, memory, 0), 0);
	assert_int_equal(the_op(OP_ALLOC, "cuMemMap", 1)->alloc.kind, MEMORY_MAPPED);
	assert_int_equal(EVENT(0)->op.alloc.range.base, address);
	assert_int_equal(EVENT(0)->op.alloc.range.bytes, bytes);

	begin(state);
	assert_int_equal(CALL(cuMemMap)(address + bytes, bytes, 0, memory, 0), 0);
	assert_int_equal(seen->count, 3);
	assert_int_equal(EVENT(0)->when, PROBE_FLUSH);
	assert_int_equal(EVENT(1)->op.alloc.kind, MEMORY_SHARED);
	assert_int_equal(EVENT(1)->op.alloc.range.base, address);
	assert_int_equal(EVENT(2)->op.alloc.kind, MEMORY_SHARED);
	assert_int_equal(EVENT(2)->op.alloc.range.base, address + bytes);

	/* Unmapped and mapped anew it has one name again, and holds what it held. */
	begin(state);
	assert_int_equal(CALL(cuMemUnmap)(address, 2 * bytes), 0);
	assert_int_equal(seen->count, 3);
	assert_int_equal(EVENT(0)->when, PROBE_FLUSH);
	assert_int_equal(EVENT(1)->op.kind, OP_FREE);
	assert_int_equal(EVENT(1)->op.alloc.range.bytes, 2 * bytes);
	assert_true(EVENT(1)->op.alloc.at_once);
	begin(state);
	assert_int_equal(CALL(cuMemMap)(address, bytes, 0, memory, 0), 0);
	assert_int_equal(the_op(OP_ALLOC, "cuMemMap", 1)->alloc.kind, MEMORY_MAPPED);

	/* Exported memory is shared from the export on. */
	begin(state);
	CALL(cuMemExportToShareableHandle)
	(&(int){0}, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	assert_int_equal(seen->count, 2);
	assert_int_equal(EVENT(0)->when, PROBE_FLUSH);
	assert_int_equal(EVENT(1)->op.kind, OP_ALLOC);
	assert_int_equal(EVENT(1)->op.alloc.kind, MEMORY_SHARED);
	assert_int_equal(EVENT(1)->op.alloc.range.base, address);

	/* Without a handle nobody can map it again. */
	assert_int_equal(CALL(cuMemRelease)(memory), 0);
	begin(state);
	assert_int_equal(CALL(cuMemUnmap)(address, bytes), 0);
	the_op(OP_FREE, "cuMemUnmap", 2);
}

/* A device that is given access can do no harm; of one that loses it, it cannot be told. */
static void access_that_is_taken_away_flushes(void **state)
{
	CUmemAccessDesc access[2] = {
		{.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
		{.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
	};
	CUmemoryPool pool = NULL;

	CALL(cuDeviceGetDefaultMemPool)(&pool, 0);
	begin(state);
	CALL(cuMemSetAccess)(device, 4096, access, 2);
	CALL(cuMemPoolSetAccess)(pool, access, 2);
	assert_int_equal(seen->count, 0);
	access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	CALL(cuMemSetAccess)(device, 4096, access, 2);
	CALL(cuMemPoolSetAccess)(pool, access, 2);
	CALL(cuCtxDisablePeerAccess)(NULL);
	assert_int_equal(seen->count, 3);
	for (unsigned i = 0; i < seen->count; i++)
		assert_int_equal(EVENT(i)->when, PROBE_FLUSH);
}

/* … and the host reads without a call. Last: no pool is watched after it. */
static void access_of_the_host_shares(void **state)
{
	const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0},
					CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address;

	CALL(cuMemSetAccess)(device, 4096, &access, 1);
	CALL(cuMemPoolSetAccess)(NULL, &access, 1);
	CALL(cuMemAllocAsync)(&address, 512, CU_STREAM_PER_THREAD);
	assert_int_equal(seen->count, 5);
	assert_int_equal(EVENT(0)->when, PROBE_FLUSH);
	assert_int_equal(EVENT(1)->op.alloc.range.base, device);
	assert_int_equal(EVENT(3)->op.alloc.range.base, 0);
	for (int i = 1; i < 5; i += i < 3 ? 2 : 1)
		assert_int_equal(EVENT(i)->op.alloc.kind, MEMORY_SHARED);
}

static void memory_for_a_network_card_is_shared(void **state)
{
	unsigned on = 1;
	CUresult result;

	/* Flushed first; told if the driver agreed (the simulated one does not know cards). */
	result = CALL(cuPointerSetAttribute)(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, device + 100);
	assert_int_equal(EVENT(0)->when, PROBE_FLUSH);
	assert_int_equal(seen->count, result ? 1 : 2);
	if (!result) {
		assert_int_equal(EVENT(1)->op.alloc.kind, MEMORY_SHARED);
		assert_int_equal(EVENT(1)->op.alloc.range.base, device);
		assert_int_equal(EVENT(1)->op.alloc.range.bytes, 1 << 20);
	}
}

static void memory_for_a_texture_is_shared(void **state)
{
	const CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR,
					     .res.linear = {.devPtr = device + 512,
							    .format = CU_AD_FORMAT_FLOAT,
							    .numChannels = 1,
							    .sizeInBytes = 1024}};
	const CUDA_TEXTURE_DESC desc = {.flags = 0};
	CUtexObject texture;

	assert_int_equal(CALL(cuTexObjectCreate)(&texture, &resource, &desc, NULL), 0);
	assert_int_equal(CALL(cuTexRefSetAddress_v2)(NULL, NULL, device + 512, 1024), 0);
	assert_int_equal(seen->count, 4);
	for (unsigned i = 0; i < seen->count; i += 2) {
		assert_int_equal(EVENT(i)->when, PROBE_FLUSH);
		assert_int_equal(EVENT(i + 1)->op.kind, OP_ALLOC);
		assert_int_equal(EVENT(i + 1)->op.alloc.kind, MEMORY_SHARED);
		assert_int_equal(EVENT(i + 1)->op.alloc.range.base, device + 512);
		assert_int_equal(EVENT(i + 1)->op.alloc.range.bytes, 1024);
	}
	assert_int_equal(CALL(cuTexObjectDestroy)(texture), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(aliased_memory_is_told_as_shared, begin),
		cmocka_unit_test_setup(access_that_is_taken_away_flushes, begin),
		cmocka_unit_test_setup(access_of_the_host_shares, begin),
		cmocka_unit_test_setup(memory_for_a_network_card_is_shared, begin),
		cmocka_unit_test_setup(memory_for_a_texture_is_shared, begin),
	};

	(void)argc;
	return start_ops(argv) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
