/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts are found by the kernels that are in them. The ladder's steps are never chosen.
 */
#include "tools/doctor/kernels.h"
#include "kernels/attention.h"
#include "shim/gpu/kernel_cache.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kernels_open(struct kernels *kernels, const char *shim)
{
	const char *slash = shim ? strrchr(shim, '/') : NULL;
	char path[PATH_MAX];

	memset(kernels, 0, sizeof(*kernels));
	if (!slash)
		return false;
	snprintf(path, sizeof(path), "%.*s/libfashim_kernels.so", (int)(slash - shim), shim);
	kernels->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!kernels->handle)
		return false;
	*(void **)&kernels->image_for = dlsym(kernels->handle, "kernel_image_for");
	*(void **)&kernels->image_part = dlsym(kernels->handle, "kernel_image_part");
	*(void **)&kernels->part_bytes = dlsym(kernels->handle, "kernel_image_part_bytes");
	return kernels->image_for && kernels->image_part && kernels->part_bytes;
}

void kernels_close(struct kernels *kernels)
{
	if (kernels->handle)
		dlclose(kernels->handle);
	kernels->handle = NULL;
}

int kernels_parts(const struct kernels *kernels, const struct kernel_image *image,
		  const void *parts[KERNELS_PARTS])
{
	int count = 0;

	parts[count++] = kernels->image_part(image, KERNEL_HELPERS);
	for (int i = 0; i < attn_variant_total; i++) {
		const void *part = kernels->image_part(image, attn_variants[i].symbol);
		int at = 0;

		if (!part || attn_variants[i].family == ATTN_LADDER)
			continue;
		while (at < count && parts[at] != part)
			at++;
		if (at == count && count < KERNELS_PARTS)
			parts[count++] = part;
	}
	return count;
}

const char *kernels_state(const struct kernels *kernels, int arch, int driver)
{
	const struct kernel_image *image = kernels->image_for(arch);
	const void *parts[KERNELS_PARTS];
	int count;

	if (!image)
		return "none";
	if (!image->ptx)
		return "code";
	count = kernels_parts(kernels, image, parts);
	for (int i = 0; i < count; i++) {
		char *file;
		const void *code = kernel_cache_read(&file, parts[i], kernels->part_bytes(parts[i]),
						     arch, driver);

		free(file);
		if (!code)
			return "text";
	}
	return "prepared";
}
