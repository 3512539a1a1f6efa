/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin, loaded with RTLD_LOCAL: what it can see through RTLD_DEFAULT and RTLD_NEXT is its own
 * business, and only glibc's view of who is calling finds it. Built without sibling calls, so that
 * the call comes from here. PLUGIN_NEXT builds the library behind it.
 */
#include <dlfcn.h>

const char *fashim_shared_name(void);
void *plugin_default(const char *name);
void *plugin_next(const char *name);
void *plugin_next_version(const char *name, const char *version);
int cublasGemmEx(void);

#ifdef PLUGIN_NEXT

const char *fashim_shared_name(void)
{
	return "next";
}

#else

const char *fashim_shared_name(void)
{
	return "own";
}

/* Bears the name of a hook, but has nothing to do with cuBLAS. */
int cublasGemmEx(void)
{
	return 4711;
}

void *plugin_default(const char *name)
{
	void *volatile found = dlsym(RTLD_DEFAULT, name);

	return found;
}

void *plugin_next(const char *name)
{
	void *volatile found = dlsym(RTLD_NEXT, name);

	return found;
}

void *plugin_next_version(const char *name, const char *version)
{
	void *volatile found = dlvsym(RTLD_NEXT, name, version);

	return found;
}

#endif
