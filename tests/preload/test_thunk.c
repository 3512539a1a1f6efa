/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver functions without a hook, and the identity of pointers, on a driver that is newer than the
 * tables (fake_driver.c).
 */
#include "harness.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "probe.h"

#define FAKE  "libcuda.so.1"
#define PROBE "libprobe.so"

static void *driver;
static struct probe *seen;
static char *report;
static unsigned *launches;

typedef int launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra);
typedef int get_v1(const char *name, void **function, int version, uint64_t flags);
typedef int get_v2(const char *name, void **function, int version, uint64_t flags, int *status);

static int begin(void **state)
{
	memset(seen, 0, sizeof(*seen));
	seen->active = true;
	report[0] = '\0';
	return 0;
}

static void an_unknown_export_gets_a_thunk(void **state)
{
	int (*sum)(double, int, double, int64_t, float, int, int, int, int, int, int, float) =
		dlsym(driver, "cuFutureSum");

	assert_string_equal(owner((void *)sum), PROBE);
	assert_int_equal(sum(1.5, 2, 3.25, -4, 5.5f, 6, 7, 8, 9, 10, 11, 12.5f), 77);
	assert_string_equal(report, "1.5 2 3.25 -4 5.5 6 7 8 9 10 11 12.5");
	assert_int_equal(seen->count, 1);
	assert_int_equal(seen->events[0].when, PROBE_FLUSH);
	assert_string_equal(seen->events[0].name, "cuFutureSum");
	assert_ptr_equal(dlsym(driver, "cuFutureSum"), sum);
}

static void a_known_function_keeps_its_stack_arguments(void **state)
{
	int (*batch)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		     uint64_t) = dlsym(driver, "cuMemcpyBatchAsync");

	assert_string_equal(owner((void *)batch), PROBE);
	errno = 4242;
	assert_int_equal(batch(1, 2, 3, 4, 5, 6, 7, 8, 9), 0);
	assert_int_equal(errno, 4242);
	assert_string_equal(report, "1 2 3 4 5 6 7 8 9");
	assert_int_equal(seen->count, 1);
	assert_string_equal(seen->events[0].name, "cuMemcpyBatchAsync");
}

static void an_inactive_shim_flushes_nothing(void **state)
{
	int (*batch)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		     uint64_t) = dlsym(driver, "cuMemcpyBatchAsync");

	seen->active = false;
	assert_int_equal(batch(1, 2, 3, 4, 5, 6, 7, 8, 9), 0);
	assert_int_equal(seen->count, 0);
}

static void inert_functions_are_the_drivers_own(void **state)
{
	assert_string_equal(owner(dlsym(driver, "cuInit")), FAKE);
	assert_string_equal(owner(dlsym(driver, "cuCtxGetCurrent")), FAKE);
	assert_null(dlsym(driver, "cuMemAlloc_v2"));
}

static void proc_address_is_swapped_by_identity(void **state)
{
	get_v2 *get = (get_v2 *)dlsym(driver, "cuGetProcAddress_v2");
	void *function, *again;
	int status = -1;
	int (*private)(int, int);

	assert_string_equal(owner((void *)get), PROBE);
	assert_int_equal(get("cuLaunchKernel", &function, 4000, 0, NULL), 0);
	assert_ptr_equal(function, dlsym(driver, "cuLaunchKernel"));
	assert_int_equal(get("cuLaunchKernel", &again, 7000, 2, &status), 0);
	assert_int_equal(status, 0);
	assert_ptr_equal(again, dlsym(driver, "cuLaunchKernel_ptsz"));
	assert_ptr_not_equal(again, function);

	assert_int_equal(get("", &function, 0, 0, NULL), 0);
	assert_string_equal(owner(function), FAKE);
	assert_int_equal(get("cuNoSuchThing", &function, 99999, 0, &status), 0);
	assert_null(function);
	assert_int_equal(status, 1);

	assert_int_equal(get("cuFuturePrivate", &function, 15000, 0, NULL), 0);
	assert_string_equal(owner(function), PROBE);
	private = (int (*)(int, int))function;
	seen->count = 0;
	assert_int_equal(private(3, 4), 3004);
	assert_int_equal(seen->count, 1);
	assert_string_equal(seen->events[0].name, "cuFuturePrivate");

	/* Not the driver's at all: none of our business. */
	assert_int_equal(get("cuOutside", &function, 15000, 0, NULL), 0);
	assert_string_equal(owner(function), "libc.so.6");
}

static void looking_up_itself_gives_the_same_arity(void **state)
{
	get_v1 *old = (get_v1 *)dlsym(driver, "cuGetProcAddress");
	get_v2 *new = (get_v2 *)dlsym(driver, "cuGetProcAddress_v2");
	void *function;

	assert_int_equal(old("cuGetProcAddress", &function, 11030, 0), 0);
	assert_ptr_equal(function, old);
	assert_int_equal(old("cuGetProcAddress", &function, 12000, 0), 0);
	assert_ptr_equal(function, new);
	assert_int_equal(new ("cuGetProcAddress", &function, 12000, 0, NULL), 0);
	assert_ptr_equal(function, new);
	assert_int_equal(old("cuNoSuchThing", &function, 12000, 0), 500);
}

static void default_streams_are_kept_apart(void **state)
{
	launch *legacy = (launch *)dlsym(driver, "cuLaunchKernel");
	launch *per_thread = (launch *)dlsym(driver, "cuLaunchKernel_ptsz");

	seen->watching = true;
	assert_int_equal(legacy((void *)1, 2, 3, 4, 5, 6, 7, 0, NULL, NULL, NULL), 0);
	assert_int_equal(per_thread((void *)1, 2, 3, 4, 5, 6, 7, 0, NULL, NULL, NULL), 0);
	assert_int_equal(seen->count, 4);
	assert_ptr_equal(seen->events[0].op.stream, CU_STREAM_LEGACY);
	assert_ptr_equal(seen->events[2].op.stream, CU_STREAM_PER_THREAD);
	assert_int_equal(seen->events[0].op.kind, OP_LAUNCH);
	assert_ptr_equal(seen->events[0].op.context, (void *)0xc0);
	assert_ptr_equal(seen->events[0].op.launch.function, (void *)1);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(seen->events[0].op.launch.grid[i], 2 + i);
		assert_int_equal(seen->events[0].op.launch.block[i], 5 + i);
	}
}

static void a_taken_launch_does_not_reach_the_driver(void **state)
{
	launch *function = (launch *)dlsym(driver, "cuLaunchKernel");
	unsigned before = *launches;

	seen->watching = true;
	seen->answer = FLOW_TAKEN;
	assert_int_equal(function((void *)1, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
	assert_int_equal(*launches, before);
	assert_int_equal(seen->count, 1);
	seen->answer = FLOW_PASS;
	assert_int_equal(function((void *)1, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
	assert_int_equal(*launches, before + 1);
	/* A launch that fails is not told of afterwards. */
	seen->count = 0;
	assert_int_equal(function(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 1);
	assert_int_equal(seen->count, 1);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* Best of many short runs, in nanoseconds a call: other load on the machine only adds. */
static double cost(launch *function)
{
	double best = 1e9;

	for (int run = 0; run < 200; run++) {
		double start = seconds(), spent;

		for (int i = 0; i < 1000; i++)
			function((void *)1, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
		spent = (seconds() - start) * 1e6;
		if (spent < best)
			best = spent;
	}
	return best;
}

static void an_unwatched_launch_costs_next_to_nothing(void **state)
{
	launch *hook = (launch *)dlsym(driver, "cuLaunchKernel");
	launch **real = (launch **)dlsym(driver, "fake_launch");
	double with = cost(hook), without = cost(*real);

	print_message("launch hook: %.1f ns\n", with - without);
	assert_int_equal(seen->count, 0);
	assert_true(with - without < 60);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_unknown_export_gets_a_thunk, begin),
		cmocka_unit_test_setup(a_known_function_keeps_its_stack_arguments, begin),
		cmocka_unit_test_setup(an_inactive_shim_flushes_nothing, begin),
		cmocka_unit_test_setup(inert_functions_are_the_drivers_own, begin),
		cmocka_unit_test_setup(proc_address_is_swapped_by_identity, begin),
		cmocka_unit_test_setup(looking_up_itself_gives_the_same_arity, begin),
		cmocka_unit_test_setup(default_streams_are_kept_apart, begin),
		cmocka_unit_test_setup(a_taken_launch_does_not_reach_the_driver, begin),
		cmocka_unit_test_setup(an_unwatched_launch_costs_next_to_nothing, begin),
	};

	(void)argc;
	start_under(argv, PROBE, "fake");
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver)
		return 1;
	seen = dlsym(RTLD_DEFAULT, "probe");
	report = dlsym(driver, "fake_report");
	launches = dlsym(driver, "fake_launches");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
