/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled kernels in the cache: taken only whole, for this text, this GPU and a driver that is not
 * older, and from nobody else.
 */
#include "tests/cmocka.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shim/gpu/kernel_cache.h"
#include "shim/gpu/tuned_file.h"
#include "tests/unit/child.h"

static const char part[] = ".version 7.8", code[] = "as good as machine code";

static char *path(void)
{
	static char text[PATH_MAX];

	assert_int_equal(kernel_cache_path(text, sizeof(text), part, sizeof(part), 120), 0);
	return text;
}

static struct kernel_cache_header header(void)
{
	struct kernel_cache_header h = {.arch = 120,
					.driver = 12080,
					.part = tuned_number(part, sizeof(part)),
					.bytes = sizeof(code),
					.code = tuned_number(code, sizeof(code))};

	memcpy(h.magic, KERNEL_CACHE_MAGIC, sizeof(h.magic));
	return h;
}

static void write_file(const struct kernel_cache_header *h, const char *bytes, size_t size)
{
	FILE *file = fopen(path(), "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(h, sizeof(*h), 1, file), 1);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

static bool taken_on(int arch, int driver)
{
	char *file;
	const void *found = kernel_cache_read(&file, part, sizeof(part), arch, driver);
	const bool taken = found && !memcmp(found, code, sizeof(code));

	assert_true(taken == (found != NULL) && taken == (file != NULL));
	free(file);
	return taken;
}

static void test_whole(void **state)
{
	struct kernel_cache_header h = header();

	assert_false(taken_on(120, 13000)); /* there is none */
	write_file(&h, code, sizeof(code));
	assert_true(taken_on(120, 13000));
	assert_true(taken_on(120, 12080));
	assert_false(taken_on(120, 12040));
	assert_false(taken_on(100, 13000));
}

static void test_damaged(void **state)
{
	struct kernel_cache_header h = header();
	char other[sizeof(code) + 1];

	for (size_t i = 0; i < sizeof(h); i++) {
		struct kernel_cache_header changed = h;

		((unsigned char *)&changed)[i] ^= 0x40; /* makes the driver's a later one, too */
		write_file(&changed, code, sizeof(code));
		assert_false(taken_on(120, 12080));
	}
	for (size_t i = 0; i < sizeof(code); i++) {
		memcpy(other, code, sizeof(code));
		other[i] ^= 1;
		write_file(&h, other, sizeof(code));
		assert_false(taken_on(120, 13000));
		write_file(&h, code, i);
		assert_false(taken_on(120, 13000));
	}
	memcpy(other, code, sizeof(code));
	other[sizeof(code)] = 0;
	write_file(&h, other, sizeof(other));
	assert_false(taken_on(120, 13000));
	assert_int_equal(truncate(path(), sizeof(h) / 2), 0);
	assert_false(taken_on(120, 13000));
	assert_int_equal(truncate(path(), 0), 0);
	assert_false(taken_on(120, 13000));
}

static void test_of_others(void **state)
{
	struct kernel_cache_header h = header();

	write_file(&h, code, sizeof(code));
	assert_true(taken_on(120, 13000));
	assert_int_equal(chmod(path(), 0666), 0);
	assert_false(taken_on(120, 13000));
}

static int set_up(void **state)
{
	char folder[PATH_MAX];

	setenv("XDG_CACHE_HOME", child_folder(), 1);
	assert_int_equal(tuned_folder(folder, sizeof(folder)), 0);
	return mkdir(folder, 0700);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_of_others),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
