/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the file as it finds it: a driver is given nothing that is not whole.
 */
#include "shim/gpu/kernel_cache.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/user_file.h"
#include "shim/gpu/tuned_file.h"

int kernel_cache_path(char *path, size_t size, const void *part, size_t bytes, int arch)
{
	const int error = tuned_folder(path, size);
	size_t used;
	int length;

	if (error)
		return error;
	used = strlen(path);
	length = snprintf(path + used, size - used, "/kernels-sm_%d-%016llx.cubin", arch,
			  (unsigned long long)tuned_number(part, bytes));
	return (size_t)length < size - used ? 0 : -ENAMETOOLONG;
}

const void *kernel_cache_read(char **file, const void *part, size_t bytes, int arch, int driver)
{
	struct kernel_cache_header header;
	char path[PATH_MAX];
	const char *why, *code;
	size_t length;

	*file = NULL;
	if (kernel_cache_path(path, sizeof(path), part, bytes, arch))
		return NULL;
	*file = user_file_bytes(path, KERNEL_CACHE_LARGEST, &length, &why);
	if (!*file)
		return NULL;
	code = *file + sizeof(header);
	if (length >= sizeof(header)) {
		memcpy(&header, *file, sizeof(header));
		if (!memcmp(header.magic, KERNEL_CACHE_MAGIC, sizeof(header.magic)) &&
		    header.arch == arch && header.driver <= driver &&
		    header.part == tuned_number(part, bytes) &&
		    header.bytes == length - sizeof(header) &&
		    header.code == tuned_number(code, header.bytes))
			return code;
	}
	free(*file);
	*file = NULL;
	return NULL;
}
