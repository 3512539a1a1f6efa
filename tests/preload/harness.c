/* SPDX-License-Identifier: Apache-2.0
 *
 * What the preload tests share (harness.h).
 */
#include "harness.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STARTED "FASHIM_TEST_STARTED"

#ifndef SANITIZER
#define SANITIZER ""
#endif

const char *beside(const char *file)
{
	static char paths[8][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 8], program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (length < 0)
		abort();
	program[length] = '\0';
	if (snprintf(path, PATH_MAX, "%s/%s", dirname(program), file) >= PATH_MAX)
		abort();
	return path;
}

void start_under(char **argv, const char *preload, const char *libraries)
{
	if (getenv(STARTED))
		return;
	setenv(STARTED, "1", 1);
	unsetenv("LD_PRELOAD");
	if (preload) {
		char list[2 * PATH_MAX];

		/* A sanitizer's runtime has to be the first. */
		snprintf(list, sizeof(list), "%s%s", SANITIZER, beside(preload));
		setenv("LD_PRELOAD", list, 1);
	}
	if (libraries)
		setenv("LD_LIBRARY_PATH", beside(libraries), 1);
	execv("/proc/self/exe", argv);
	perror("execv");
	_exit(1);
}

const char *owner(const void *address)
{
	Dl_info info;
	const char *slash;

	if (!dladdr(address, &info) || !info.dli_fname)
		return "";
	slash = strrchr(info.dli_fname, '/');
	return slash ? slash + 1 : info.dli_fname;
}
