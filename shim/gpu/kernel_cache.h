/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that were compiled for a GPU for which the library has text (PTX) alone. The driver would
 * compile that when it is loaded, for a minute, in a call of the program's: the shim never asks it
 * to. `fashim doctor --prepare` does, and keeps what comes out; this is all that both share.
 *
 * One file for each part of the image and each architecture, in the folder of tuned_folder(), named
 * after both: kernels-sm_120-0123456789abcdef.cubin. A header, and the machine code behind it.
 */
#ifndef FASHIM_KERNEL_CACHE_H
#define FASHIM_KERNEL_CACHE_H

#include <stddef.h>
#include <stdint.h>

#define KERNEL_CACHE_MAGIC   "fashim-kernels 1"
#define KERNEL_CACHE_LARGEST ((size_t)64 << 20) /* bytes of a file that a reader takes */

struct kernel_cache_header {
	char magic[16]; /* KERNEL_CACHE_MAGIC without its NUL */
	int32_t arch;	/* compute capability * 10 */
	int32_t driver; /* CUDA version of the driver that compiled it; older ones may not load it
			 */
	uint64_t part;	/* tuned_number() of the text */
	uint64_t bytes; /* of the code */
	uint64_t code;	/* tuned_number() of it */
};

/* Where the code of a part is looked for. 0 or -errno, as tuned_folder(). */
int kernel_cache_path(char *path, size_t size, const void *part, size_t bytes, int arch);

/* What cuModuleLoadData takes in the part's place on a GPU of this architecture; *file is to be
 * freed after it. NULL: it was not prepared, or for a newer driver, or the file is damaged or
 * another user's. Never waits. */
const void *kernel_cache_read(char **file, const void *part, size_t bytes, int arch, int driver);

#endif
