/* SPDX-License-Identifier: Apache-2.0
 *
 * The command finds its files by its own place alone, so that a copied tree or package works
 * wherever it lies.
 */
#include "tools/base/shim_library.h"
#include "tools/base/tool.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *installed_file(const char *name)
{
	static const char *const places[] = {".", "../lib/fashim", "../share/fashim"};
	char self[PATH_MAX], path[PATH_MAX + 128];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length <= 0)
		return NULL;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, sizeof(path), "%s/%s/%s", self, places[i], name);
		if (access(path, R_OK) == 0)
			return realpath(path, NULL);
	}
	complain("%s is neither in %s nor in %s/../lib/fashim; run make, or install fashim anew",
		 name, self, self);
	return NULL;
}

char *shim_library(void)
{
	return installed_file("libfashim.so");
}
