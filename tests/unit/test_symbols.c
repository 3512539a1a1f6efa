/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses named at once, held against what dladdr() says of each.
 */
#include <dlfcn.h>
#include <string.h>

#include "tests/cmocka.h"
#include "shim/site/symbols.h"

static const char *const functions[] = {"strtod",  "qsort",  "memmem",	"fopen", "getenv",
					"execvpe", "strtok", "regexec", "glob",	 "vsnprintf"};

enum { FUNCTIONS = sizeof(functions) / sizeof(*functions) };

static void as_dladdr_says(void **state)
{
	struct symbol_at asked[3 * FUNCTIONS + 1];
	struct image image;
	int count = 0, named = 0;
	Dl_info info;

	assert_true(image_by_soname("libc.so.6", false, &image));
	for (int i = 0; i < FUNCTIONS; i++) {
		const uintptr_t begin = (uintptr_t)image_symbol(&image, functions[i]);

		if (!begin) /* an indirect function */
			continue;
		asked[count++].address = begin;
		asked[count++].address = begin + 3;
		asked[count++].address = begin + 0x2000; /* some other, or none */
	}
	assert_true(count > FUNCTIONS);
	asked[count++].address = image.begin + 1; /* none */
	assert_true(symbols_find(&image, asked, count));
	for (int i = 0; i < count; i++) {
		assert_true(i == 0 || asked[i - 1].address <= asked[i].address);
		assert_int_not_equal(dladdr((void *)asked[i].address, &info), 0);
		if (!info.dli_sname) {
			assert_null(asked[i].name);
			continue;
		}
		named++;
		assert_non_null(asked[i].name);
		assert_int_equal(asked[i].begin, (uintptr_t)info.dli_saddr);
	}
	assert_true(named >= 2 * FUNCTIONS - 4);
	assert_true(named < count);
}

static void without_a_table(void **state)
{
	struct symbol_at asked = {0};
	struct image image;

	assert_true(image_by_soname("libc.so.6", false, &image));
	image.gnu_hash = NULL;
	assert_false(symbols_find(&image, &asked, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_dladdr_says),
		cmocka_unit_test(without_a_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
