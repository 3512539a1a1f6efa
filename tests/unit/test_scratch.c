/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory of the shim's own: few allocations for many blocks, none beyond the bound, and
 * freed as they were allocated.
 */
#include "tests/cmocka.h"

#include <string.h>

#include "shim/base/config.h"
#include "shim/base/message.h"
#include "shim/gpu/late.h"
#include "shim/gpu/scratch.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/real/driver_context.h"

#define KB(n)	((uint64_t)(n) << 10)
#define CONTEXT ((CUcontext)0x1000)
#define STREAM	((CUstream)0x2000)

struct driver_calls driver;

static struct config options;
static struct live_file counters;
static struct {
	uint64_t address, bytes;
} allocated[64];
static int allocations, frees;
static uint64_t largest; /* that the device gives at once */

const struct config *config(void)
{
	return &options;
}

struct live_file *log_live(void)
{
	return &counters;
}

void message_debug_of(const char *file, const char *format, ...)
{
	(void)file;
	(void)format;
}

static int orders;    /* of streams */
static bool no_order; /* an event cannot be had */
static int waits;     /* of the host, for all of a stream */

int driver_order(struct queue earlier, struct queue later)
{
	orders += earlier.stream != later.stream;
	return no_order && earlier.stream != later.stream ? -1 : 0;
}

bool driver_enter(struct driver_context *here, CUcontext context)
{
	(void)here;
	(void)context;
	return true;
}

void driver_leave(struct driver_context *here)
{
	(void)here;
}

void late_host_waits_stream(struct queue queue)
{
	assert_ptr_equal(queue.stream, STREAM);
	waits++;
}

static CUresult allocate(CUdeviceptr *address, size_t bytes)
{
	if (bytes > largest)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*address = 0x7f0000000000 + (CUdeviceptr)allocations * KB(1 << 20);
	allocated[allocations].address = *address;
	allocated[allocations++].bytes = bytes;
	return CUDA_SUCCESS;
}

static char host[4 << 20];
static size_t in_host;

static CUresult allocate_host(void **memory, size_t bytes)
{
	if (in_host + bytes > sizeof(host))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*memory = host + in_host;
	in_host += bytes;
	return CUDA_SUCCESS;
}

static CUresult release(CUdeviceptr address)
{
	for (int i = 0; i < allocations; i++)
		if (allocated[i].address == address && allocated[i].bytes) {
			allocated[i].bytes = 0;
			frees++;
			return CUDA_SUCCESS;
		}
	fail_msg("%llx was never allocated, or is freed again", (unsigned long long)address);
	return CUDA_ERROR_INVALID_VALUE;
}

static int begin(void **state)
{
	driver.cuMemAlloc_v2 = allocate;
	driver.cuMemFree_v2 = release;
	driver.cuMemAllocHost_v2 = allocate_host;
	scratch_forget(CONTEXT);
	memset(&counters, 0, sizeof(counters));
	allocations = frees = waits = 0;
	no_order = false;
	in_host = 0;
	largest = UINT64_MAX;
	options.scratch_mb = 64;
	return state ? 0 : -1;
}

static uint64_t get(uint64_t bytes)
{
	return scratch_get(CONTEXT, STREAM, bytes, false);
}

static void free_leaving(void)
{
	struct scratch_leaving leaving;

	scratch_take_leaving(&leaving);
	scratch_free(&leaving);
}

/* Is [address, +bytes) within what the device gave? */
static bool is_ours(uint64_t address, uint64_t bytes)
{
	for (int i = 0; i < allocations; i++)
		if (address >= allocated[i].address &&
		    address + bytes <= allocated[i].address + allocated[i].bytes)
			return true;
	return false;
}

static void many_blocks_take_few_allocations(void **state)
{
	uint64_t block[60];

	for (int i = 0; i < 60; i++) {
		block[i] = get(KB(200));
		assert_true(is_ours(block[i], KB(200)));
		for (int j = 0; j < i; j++)
			assert_true(block[i] + KB(200) <= block[j] ||
				    block[j] + KB(200) <= block[i]);
	}
	assert_in_range(allocations, 1, 7);
	scratch_put(block[7], STREAM);
	assert_int_equal(get(KB(200)), block[7]);
	assert_true(get(KB(9 << 10))); /* large ones come alone */
	assert_int_equal(allocated[allocations - 1].bytes, KB(9 << 10));
}

static void a_stream_that_goes_is_ordered_once(void **state)
{
	const uint64_t block = get(KB(256));

	scratch_put(block, STREAM);
	orders = 0;
	scratch_stream_gone(STREAM);
	assert_int_equal(orders, 1);
	assert_true(scratch_get(CONTEXT, CU_STREAM_LEGACY, KB(256), false));
	assert_int_equal(orders, 1);
	/* what nobody used yet is behind nobody */
	assert_true(scratch_get(CONTEXT, (CUstream)0x3000, KB(256), false));
	assert_int_equal(allocations, 1);
	assert_int_equal(orders, 1);
}

/* Whoever takes a block would run into its earlier users. */
static void what_cannot_be_ordered_is_not_handed_over(void **state)
{
	const uint64_t block = get(KB(9 << 10));
	uint64_t other;

	scratch_put(block, STREAM);
	no_order = true;
	other = scratch_get(CONTEXT, CU_STREAM_LEGACY, KB(9 << 10), false);
	assert_int_not_equal(other, 0);
	assert_int_not_equal(other, block);
	/* Nor where the device has no other, and the host none. */
	largest = 0;
	in_host = sizeof(host);
	assert_int_equal(scratch_get(CONTEXT, CU_STREAM_LEGACY, KB(9 << 10), true), 0);
	assert_int_equal(get(KB(9 << 10)), block);
	scratch_put(block, STREAM);
	assert_int_equal(waits, 0);
	scratch_stream_gone(STREAM);
	assert_int_equal(waits, 1);
}

static void the_bound_holds(void **state)
{
	int count = 0;

	options.scratch_mb = 1;
	while (count < 10 && get(KB(256)))
		count++;
	assert_int_equal(count, 4);
	assert_int_equal(counters.scratch_peak, KB(1024));
	assert_true(scratch_get(CONTEXT, STREAM, KB(256), true)); /* the program's data */
	assert_int_equal(allocated[allocations - 1].bytes, KB(256));
}

static void an_allocation_goes_when_all_of_it_is_idle(void **state)
{
	const uint64_t first = get(KB(256)), second = get(KB(256));

	assert_int_equal(allocations, 1);
	scratch_put(first, STREAM);
	assert_false(scratch_trim(CONTEXT));
	free_leaving();
	assert_int_equal(frees, 0);
	scratch_put(second, STREAM);
	assert_true(scratch_trim(CONTEXT));
	assert_int_equal(get(KB(256)) != 0, true); /* wanted again before it went */
	free_leaving();
	assert_int_equal(frees, 0);
	assert_int_equal(allocations, 1);
	scratch_put(first, STREAM);
	scratch_put(second, STREAM);
	assert_true(scratch_trim(CONTEXT));
	free_leaving();
	assert_int_equal(frees, 1);
	assert_true(get(KB(256)));
	assert_int_equal(allocations, 2);
}

static void little_memory_is_asked_for_little(void **state)
{
	uint64_t block;

	largest = KB(256);
	block = get(KB(256));
	assert_true(block);
	assert_int_equal(allocated[0].bytes, KB(256));
	assert_int_equal(get(KB(512)), 0);
	assert_int_equal(in_host, 0);
	scratch_put(block, STREAM);
}

/* The program's data need some where the device has none: nothing is freed before the turn is over.
 */
static void exhausted_memory_is_made_up_for(void **state)
{
	uint64_t small, large, block;

	largest = KB(1024);
	small = get(KB(256));
	large = get(KB(1024));
	scratch_put(small, STREAM);
	scratch_put(large, STREAM);
	largest = KB(100);
	block = scratch_get(CONTEXT, STREAM, KB(300), true);
	assert_int_equal(block, large); /* larger than is handed out otherwise */
	scratch_put(block, STREAM);
	block = scratch_get(CONTEXT, STREAM, KB(2048), true);
	assert_int_equal(block, (uint64_t)(uintptr_t)host);
	assert_int_equal(frees, 0);
	assert_int_equal(scratch_get(CONTEXT, STREAM, KB(3072), true), 0); /* not there either */
	free_leaving();
	assert_int_equal(frees, 2);
	/* That of the host is for the same again, and not for what can do without. */
	scratch_put(block, STREAM);
	assert_int_equal(get(KB(2048)), 0);
	assert_int_equal(scratch_get(CONTEXT, STREAM, KB(512), true), block);
	scratch_put(block, STREAM);
	assert_false(scratch_trim(CONTEXT));
	largest = UINT64_MAX;
	assert_true(is_ours(scratch_get(CONTEXT, STREAM, KB(512), true), KB(512)));
}

static void a_full_table_has_what_it_has(void **state)
{
	uint64_t large;
	int count = 0;

	options.scratch_mb = 1024;
	large = get(KB(9 << 10));
	while (count < 1000 && get(KB(256)))
		count++;
	assert_in_range(count, 100, 999);
	scratch_put(large, STREAM);
	assert_int_equal(get(KB(256)), 0);
	assert_int_equal(scratch_get(CONTEXT, STREAM, KB(256), true), large);
	assert_int_equal(scratch_get(CONTEXT, STREAM, KB(256), true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(many_blocks_take_few_allocations, begin),
		cmocka_unit_test_setup(the_bound_holds, begin),
		cmocka_unit_test_setup(what_cannot_be_ordered_is_not_handed_over, begin),
		cmocka_unit_test_setup(a_stream_that_goes_is_ordered_once, begin),
		cmocka_unit_test_setup(an_allocation_goes_when_all_of_it_is_idle, begin),
		cmocka_unit_test_setup(little_memory_is_asked_for_little, begin),
		cmocka_unit_test_setup(exhausted_memory_is_made_up_for, begin),
		cmocka_unit_test_setup(a_full_table_has_what_it_has, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
