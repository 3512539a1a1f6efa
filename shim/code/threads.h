/* SPDX-License-Identifier: Apache-2.0
 *
 * What of memory a launch touches, by running what its threads compute of addresses. A kernel's
 * machine code says where it loads and stores; where that follows from its parameters, its grid and
 * who a thread is, and from nothing that lies in memory, all of it can be told beforehand. Threads
 * run on the host, a warp at a time, with integers alone: what is loaded, or computed in other
 * ways, is not known, and whoever makes an address of it, or a loop, ends the attempt.
 *
 * Pointers are symbols: nothing may be done with one but adding to it, so that the answer holds
 * wherever they point.
 *
 * sm_75 to sm_90.
 */
#ifndef FASHIM_THREADS_H
#define FASHIM_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define THREADS_POINTERS 32

struct threads_launch {
	const unsigned char *code; /* all of its section, which begins with the kernel */
	size_t bytes;
	unsigned sm;
	unsigned grid[3], block[3];
	const unsigned char *params;
	unsigned param_bytes;
	unsigned pointers;		    /* at most THREADS_POINTERS */
	uint16_t pointer[THREADS_POINTERS]; /* where they are in the parameters, in bytes */
	uint64_t most;			    /* instructions of warps */
};

/* Distances from a pointer, in bytes; first >= beyond: nothing. */
struct threads_extent {
	struct {
		int64_t first, beyond;
	} read, written;
	bool whole; /* every byte of `written` surely is */
};

/* One extent for each pointer. 0; -EINVAL: it does not follow from the parameters, or is not
 * understood; -E2BIG: it takes more instructions; -ENOMEM. */
int threads_run(const struct threads_launch *launch, struct threads_extent *extent);

#endif
