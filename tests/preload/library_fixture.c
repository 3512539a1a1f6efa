/* SPDX-License-Identifier: Apache-2.0
 *
 * Fixture of the library hooks' tests.
 */
#include "library_fixture.h"

#include <stdlib.h>
#include <string.h>

struct probe *seen;
void *library[STANDINS];
struct standin *state_of[STANDINS];
CUdeviceptr device;
struct standin_handle handle;

bool library_start(char **argv)
{
	void *driver;
	CUcontext context;

	setenv("SIMGPU_DEVICES", "2", 1);
	start_under(argv, PROBE, "../../simgpu");
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	seen = dlsym(RTLD_DEFAULT, "probe");
#define DRIVER(name) ((__typeof__(&name))dlsym(driver, #name))
	return driver && seen && !DRIVER(cuInit)(0) &&
	       !DRIVER(cuDevicePrimaryCtxRetain)(&context, 0) &&
	       !DRIVER(cuCtxSetCurrent)(context) && !DRIVER(cuMemAlloc_v2)(&device, 1 << 20);
#undef DRIVER
}

bool library_load(void)
{
	static const char *const sonames[STANDINS] = {
		"standin/libcudnn.so.8",  "standin/libcudnn.so.9",     "standin/libnccl.so.2",
		"standin/libcufft.so.11", "standin/libcusparse.so.12", "standin/libcusolver.so.12",
	};

	for (int i = 0; i < STANDINS; i++) {
		library[i] = dlopen(beside(sonames[i]), RTLD_NOW | RTLD_LOCAL);
		state_of[i] = library[i] ? dlsym(library[i], "standin") : NULL;
		if (!state_of[i])
			return false;
	}
	return true;
}

int begin(void **state)
{
	memset(seen, 0, sizeof(*seen));
	seen->active = seen->watching = true;
	handle = (struct standin_handle){.stream = (void *)0x5000, .rank = 1, .ranks = 4};
	for (int i = 0; i < STANDINS && state_of[i]; i++)
		*state_of[i] = (struct standin){.scratch = device + (1 << 19)};
	return 0;
}

const struct op_library *the_call(const char *name)
{
	const struct probe_event *event = &seen->events[0];

	assert_int_equal(seen->count, 2);
	assert_int_equal(event[0].when, PROBE_BEFORE);
	assert_int_equal(event[1].when, PROBE_AFTER);
	assert_int_equal(event[0].op.kind, OP_LIBRARY);
	assert_string_equal(event[0].name, name);
	assert_string_equal(event[0].library.call, name);
	assert_int_equal(event[0].depth, 0);
	assert_int_equal(event[1].depth, 0);
	assert_non_null(event[0].op.context);
	seen->count = 0;
	return &event->library;
}

void nothing_declared(void)
{
	assert_int_equal(seen->count, 2);
	assert_int_equal(seen->events[0].op.kind, OP_FILL);
	assert_int_equal(seen->events[0].depth, 0);
	seen->count = 0;
}

void has_operand(const struct op_library *call, uint64_t offset, uint64_t bytes, enum use use)
{
	int found = 0;

	for (int i = 0; i < call->count; i++) {
		const struct op_operand *o = &call->operand[i];

		found += o->begin == device + offset && o->end == o->begin + bytes &&
			 o->read == ((use & 1) != 0) && o->written == ((use & 2) != 0) &&
			 o->whole == ((use & 4) != 0);
	}
	if (found != 1) {
		for (int i = 0; i < call->count; i++)
			print_message(
				"operand %d: +%lld, %llu bytes, %d%d%d\n", i,
				(long long)(call->operand[i].begin - device),
				(unsigned long long)(call->operand[i].end - call->operand[i].begin),
				call->operand[i].read, call->operand[i].written,
				call->operand[i].whole);
		fail_msg("no operand of %llu bytes at +%llu, or several", (unsigned long long)bytes,
			 (unsigned long long)offset);
	}
}
