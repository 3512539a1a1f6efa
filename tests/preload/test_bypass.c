/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries whose calls do not come by: each way of loading one is noticed, and nothing else is
 * taken for one.
 */
#include "harness.h"

#include <dlfcn.h>
#include <string.h>

#include "probe.h"

#define DEEP (RTLD_LOCAL | RTLD_DEEPBIND)

static struct probe *seen;

static bool bypassed(const char **why)
{
	const bool answer = seen->bypassed(why);

	assert_int_equal(seen->bypassed(why), answer); /* as remembered */
	return answer;
}

static void *load(const char *file, int flags)
{
	void *library = dlopen(beside(file), flags);

	if (!library)
		fail_msg("%s", dlerror());
	return library;
}

static void expect_nothing(void)
{
	const char *why;

	if (bypassed(&why))
		fail_msg("%s", why);
}

static void expect(const char *object, const char *function)
{
	const char *why;

	assert_true(bypassed(&why));
	assert_non_null(strstr(why, object));
	assert_non_null(strstr(why, function));
}

static void ordinary_users_are_seen(void **state)
{
	void *now, *lazy;

	expect_nothing();
	now = load("libuser13.so", RTLD_NOW);
	lazy = load("libuser12.so", RTLD_LAZY);
	expect_nothing();
	dlclose(load("libasker.so", RTLD_NOW));
	expect_nothing();
	dlclose(now);
	dlclose(lazy);
	expect_nothing();
}

static void a_deeply_bound_user_is_noticed(void **state)
{
	void *library;

	for (int lazy = 0; lazy < 2; lazy++) {
		library = load("libuser13.so", DEEP | (lazy ? RTLD_LAZY : RTLD_NOW));
		expect("libuser13.so", "cublas");
		dlclose(library);
		expect_nothing(); /* it can call no longer */
	}
}

static void one_that_exports_nothing_is_noticed(void **state)
{
	void *library = load("libuser_mute.so", DEEP | RTLD_NOW);

	assert_null(dlsym(library, "user_gemm"));
	expect("libuser_mute.so", "cublas");
	dlclose(library);
	expect_nothing();
}

/* What is known of an object ends with it, though another comes to lie in its place. */
static void nothing_is_known_of_a_successor(void **state)
{
	void *library, *other, *place;

	library = load("libuser13.so", RTLD_NOW);
	place = dlsym(library, "user_gemm");
	expect_nothing();
	other = load("libplugin.so", RTLD_NOW);
	expect_nothing(); /* looked at twice */
	dlclose(other);
	dlclose(library);
	library = load("libuser13.so", DEEP | RTLD_NOW);
	if (dlsym(library, "user_gemm") != place)
		print_message("# it lies elsewhere\n");
	expect("libuser13.so", "cublas");
	dlclose(library);
	expect_nothing();
}

static void a_deeply_bound_asker_is_noticed(void **state)
{
	void *library, *(*find)(const char *);

	library = load("libasker.so", DEEP | RTLD_NOW);
	*(void **)&find = dlsym(library, "asker_find");
	assert_string_equal(owner(find("cuLaunchKernel")), "libcuda.so.1"); /* past us indeed */
	expect("libasker.so", "dlsym");
	dlclose(library);
	expect_nothing();
}

static void deeply_bound_strangers_do_not_matter(void **state)
{
	void *library;

	library = load("libplugin.so", DEEP | RTLD_NOW); /* asks dlsym, but has no CUDA */
	expect_nothing();
	dlclose(library);
}

/* What is owed is delivered before such a library is loaded. */
static void nothing_is_owed_to_it(void **state)
{
	dlclose(load("libplugin.so", RTLD_NOW));
	assert_int_equal(seen->count, 0);
	dlclose(load("libplugin.so", DEEP | RTLD_NOW));
	assert_int_equal(seen->count, 1);
	assert_int_equal(seen->events[0].when, PROBE_FLUSH);
	assert_string_equal(seen->events[0].name, "dlopen");
}

/* The last one: it cannot be taken back. */
static void another_namespace_is_noticed(void **state)
{
	const char *why;

	dlclose(dlmopen(LM_ID_BASE, beside("libplugin.so"), RTLD_NOW));
	expect_nothing();
	assert_non_null(dlmopen(LM_ID_NEWLM, beside("libplugin_next.so"), RTLD_NOW));
	assert_true(bypassed(&why));
	assert_non_null(strstr(why, "dlmopen"));
}

static int begin(void **state)
{
	seen->count = 0;
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordinary_users_are_seen),
		cmocka_unit_test(a_deeply_bound_user_is_noticed),
		cmocka_unit_test(one_that_exports_nothing_is_noticed),
		cmocka_unit_test(nothing_is_known_of_a_successor),
		cmocka_unit_test(a_deeply_bound_asker_is_noticed),
		cmocka_unit_test(deeply_bound_strangers_do_not_matter),
		cmocka_unit_test_setup(nothing_is_owed_to_it, begin),
		cmocka_unit_test(another_namespace_is_noticed),
	};
	void *driver;
	int (*init)(unsigned);

	(void)argc;
	start_under(argv, "libprobe.so", "../../simgpu");
	seen = dlsym(RTLD_DEFAULT, "probe");
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&init = driver ? dlsym(driver, "cuInit") : NULL;
	if (!seen || !init || init(0))
		return 1;
	seen->active = true;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
