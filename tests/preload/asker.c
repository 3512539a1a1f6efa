/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that is bound to no function of CUDA and looks for them itself, as the runtime does; or
 * a part of cuDNN, by its name.
 */
#include <dlfcn.h>
#include <stddef.h>

void *asker_find(const char *name);
int asker_load(int (*load)(void **module, const char *path), void **module, const char *path);

void *asker_find(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	return library ? dlsym(library, name) : NULL;
}

int asker_load(int (*load)(void **module, const char *path), void **module, const char *path)
{
	return load(module, path);
}
