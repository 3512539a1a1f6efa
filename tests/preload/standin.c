/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of the stand-ins that only count (standin.h). They take whatever they are given,
 * and give way to those of standin_answers.c.
 */
#include "standin.h"

#include <dlfcn.h>

struct standin standin;

int standin_called(const char *name)
{
	int (*fill)(unsigned long long, unsigned char, size_t, void *);
	void *driver;

	standin.called = name;
	standin.calls++;
	if (standin.scratch) {
		driver = dlopen("libcuda.so.1", RTLD_NOW);
		fill = (__typeof__(fill))dlsym(driver, "cuMemsetD8Async");
		if (!fill || fill(standin.scratch, 1, 64, NULL))
			return 999;
	}
	return standin.result;
}

#define ROW(name)                                                                                  \
	__attribute__((weak)) int name(void);                                                      \
	int name(void)                                                                             \
	{                                                                                          \
		return standin_called(#name);                                                      \
	}
#include "tests/preload/standin_rows.def"
