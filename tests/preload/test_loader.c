/* SPDX-License-Identifier: Apache-2.0
 *
 * dlsym and dlvsym are glibc's in every respect for names that are not ours. Each test here must
 * pass without the shim as well, and the first one sees to that.
 */
#include "harness.h"
#include "tests/unit/child.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static bool plain;
static void *plugin;
static void *(*plugin_default)(const char *name);
static void *(*plugin_next)(const char *name);
static void *(*plugin_next_version)(const char *name, const char *version);

static void passes_without_the_shim(void **state)
{
	if (plain)
		skip();
	setenv("FASHIM_TEST_PLAIN", "1", 1);
	unsetenv("FASHIM_TEST_STARTED");
	assert_int_equal(system(beside("test_loader")), 0);
	setenv("FASHIM_TEST_STARTED", "1", 1);
	unsetenv("FASHIM_TEST_PLAIN");
}

static void the_shim_is_there(void **state)
{
	assert_string_equal(owner((void *)dlsym), plain ? "libc.so.6" : "libfashim.so");
}

static void default_finds_the_callers_own(void **state)
{
	const char *(*name)(void);

	assert_null(dlsym(RTLD_DEFAULT, "fashim_shared_name"));
	for (int twice = 0; twice < 2; twice++) {
		name = plugin_default("fashim_shared_name");
		assert_non_null(name);
		assert_string_equal(name(), "own");
	}
}

static void next_is_next_after_the_caller(void **state)
{
	const char *(*name)(void);

	for (int twice = 0; twice < 2; twice++) {
		name = plugin_next("fashim_shared_name");
		assert_non_null(name);
		assert_string_equal(name(), "next");
	}
	assert_null(plugin_next("fashim_no_such_name"));
}

static void versioned_next_works(void **state)
{
	assert_ptr_equal(plugin_next_version("memcpy", "GLIBC_2.14"),
			 dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.14"));
	assert_non_null(plugin_next_version("memcpy", "GLIBC_2.14"));
	assert_null(plugin_next_version("memcpy", "GLIBC_1.0"));
}

/* Names like ours, and ours where they belong to somebody else. */
static void strangers_keep_their_functions(void **state)
{
	int (*function)(void) = dlsym(plugin, "cublasGemmEx");

	assert_non_null(function);
	assert_int_equal(function(), 4711);
	assert_string_equal(owner((void *)function), "libplugin.so");
	assert_null(dlsym(plugin, "cuLaunchKernelSomething"));
	assert_null(dlsym(plugin, "cublasGemm"));
	assert_null(dlsym(plugin, "cudnnCreate"));
	assert_null(dlsym(plugin, "curl_easy_init"));
	assert_null(dlsym(plugin, ""));
	assert_null(dlsym(plugin, "cu"));
}

static void errors_are_told_once(void **state)
{
	const char *error;

	dlerror();
	assert_null(dlsym(plugin, "fashim_no_such_name"));
	error = dlerror();
	assert_non_null(error);
	assert_non_null(strstr(error, "fashim_no_such_name"));
	assert_null(dlerror());

	assert_null(dlsym(plugin, "cuLaunchKernel"));
	error = dlerror();
	assert_non_null(error);
	assert_non_null(strstr(error, "cuLaunchKernel"));

	assert_non_null(dlsym(plugin, "cublasGemmEx"));
	assert_null(dlerror());
}

/* Programs do override this one (to speed up exceptions, say), and ask dlsym for the real one when
 * it is first called: a shim that needs it to answer dlsym would run in a circle. */
static unsigned phdr_calls;

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *info, size_t size, void *data), void *data)
{
	static __typeof__(&dl_iterate_phdr) real;

	phdr_calls++;
	if (!real)
		real = (__typeof__(real))dlsym(RTLD_NEXT, "dl_iterate_phdr");
	return real(callback, data);
}

static void the_loaders_own_list_may_be_overridden(void **state)
{
	unsigned before = phdr_calls;

	assert_non_null(dlsym(plugin, "cublasGemmEx"));
	/* Without the shim nobody looks. With it the override is in use, and works. */
	assert_true(plain ? phdr_calls == before : phdr_calls > before);
}

static void errno_survives(void **state)
{
	errno = 4242;
	dlsym(plugin, "cublasGemmEx");
	assert_int_equal(errno, 4242);
	dlsym(RTLD_DEFAULT, "malloc");
	assert_int_equal(errno, 4242);
}

static void *look_up_many(void *data)
{
	const char *(*name)(void);
	uintptr_t wrong = 0;

	(void)data;
	for (int i = 0; i < 10000; i++) {
		name = plugin_next("fashim_shared_name");
		wrong += !name || strcmp(name(), "next") != 0;
		wrong += dlsym(plugin, "cublasGemmEx") == NULL;
	}
	return (void *)wrong;
}

static void threads_do_not_mix_up(void **state)
{
	pthread_t threads[4];
	void *wrong;

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look_up_many, NULL), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

static void *driver_library, *blas_library;
static atomic_bool enough;

static void *ask_for_ours(void *argument)
{
	while (!enough) {
		dlsym(driver_library, "cuInit");
		dlsym(blas_library, "cublasCreate_v2");
	}
	return argument;
}

/* A child asks for functions while other threads of its parent were asking; nothing that
 * they held may be missing. */
static void children_may_ask(void **state)
{
	pthread_t threads[3];
	int status, hung = 0;

	driver_library = dlopen(beside("../../simgpu/libcuda.so.1"), RTLD_NOW);
	blas_library = dlopen(beside("../../simgpu/libcublas.so.13"), RTLD_NOW);
	assert_non_null(driver_library);
	assert_non_null(blas_library);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_for_ours, NULL), 0);
	for (int i = 0; i < 400 && !hung; i++) {
		const pid_t pid = fork();

		if (pid == 0) {
			alarm(CHILD_HANGS);
			for (int k = 0; k < 3; k++)
				if (!dlsym(driver_library, "cuInit") ||
				    !dlsym(blas_library, "cublasCreate_v2"))
					_exit(1);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		hung += status != 0;
	}
	enough = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(hung, 0);
}

/* What looks for a GPU, closes the driver and leaves the rest to others. Before the tests that keep
 * it open. */
static void a_driver_that_was_closed_may_come_back_elsewhere(void **state)
{
	const char *file = beside("../../simgpu/libcuda.so.1");
	int (*free_memory)(uint64_t), (*found)(uint64_t);
	void *driver;
	char *place;

	for (int again = 0; again < 2; again++) {
		driver = dlopen(file, RTLD_NOW | (again ? RTLD_GLOBAL : RTLD_LOCAL));
		assert_non_null(driver);
		free_memory = (__typeof__(free_memory))dlsym(driver, "cuMemFree_v2");
		assert_non_null(free_memory);
		if (again)
			break;
		place = (char *)((uintptr_t)dlsym(driver, "cuDriverGetVersion") & ~0xffffful);
		dlclose(driver);
		for (size_t at = 0; at < 2 << 20; at += 4096) /* what lies there stays */
			mmap(place + at, 4096, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	}
	found = (__typeof__(found))dlsym(RTLD_DEFAULT, "cuMemFree_v2");
	assert_non_null(found);
	assert_int_equal(found(0), free_memory(0));
	assert_string_equal(owner((void *)found), plain ? "libcuda.so.1" : "libfashim.so");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_without_the_shim),
		cmocka_unit_test(the_shim_is_there),
		cmocka_unit_test(a_driver_that_was_closed_may_come_back_elsewhere),
		cmocka_unit_test(default_finds_the_callers_own),
		cmocka_unit_test(next_is_next_after_the_caller),
		cmocka_unit_test(versioned_next_works),
		cmocka_unit_test(strangers_keep_their_functions),
		cmocka_unit_test(errors_are_told_once),
		cmocka_unit_test(the_loaders_own_list_may_be_overridden),
		cmocka_unit_test(errno_survives),
		cmocka_unit_test(threads_do_not_mix_up),
		cmocka_unit_test(children_may_ask),
	};

	(void)argc;
	plain = getenv("FASHIM_TEST_PLAIN") != NULL;
	start_under(argv, plain ? NULL : "../../libfashim.so", NULL);
	plugin = dlopen(beside("libplugin.so"), RTLD_NOW | RTLD_LOCAL);
	if (!plugin)
		return 1;
	plugin_default = (void *(*)(const char *))dlsym(plugin, "plugin_default");
	plugin_next = (void *(*)(const char *))dlsym(plugin, "plugin_next");
	plugin_next_version =
		(void *(*)(const char *, const char *))dlsym(plugin, "plugin_next_version");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
