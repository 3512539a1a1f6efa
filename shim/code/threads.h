/* SPDX-License-Identifier: Apache-2.0
 *
 * What of memory a launch touches, by running what its threads compute of addresses. A kernel's
 * machine code says where it loads and stores; where that follows from its parameters, its grid and
 * who a thread is, and from nothing that lies in memory, all of it can be told beforehand. Threads
 * run on the host, a warp at a time, with integers alone: what is loaded, or computed in other
 * ways, is not known, and whoever makes a loop of it ends the attempt.
 *
 * Pointers are symbols: nothing may be done with one but adding to it, and asking how it is
 * aligned, so that the answer holds wherever they point with the same lowest four bits. Who adds
 * what was loaded, or was made of that and of numbers, strays from the pointer: somewhere in what
 * was allocated there. With all else that is not known it could be another pointer's, and that ends
 * the attempt. A number among the parameters may be such a distance, too: whether what is loaded
 * counts from within the allocation the caller must see.
 *
 * What a warp loads that it stored itself does not count as read.
 *
 * A call of __assertfail is nothing: nobody comes back from it, nor to what the program had in
 * memory. And so it is to read the compiler's own table of 2/pi, within its bounds.
 *
 * sm_75 to sm_90.
 */
#ifndef FASHIM_THREADS_H
#define FASHIM_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define THREADS_POINTERS 32
#define THREADS_RUNS	 16

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
	uint64_t until;			    /* ns of CLOCK_MONOTONIC; 0: without end */
	/* Where in constant bank 4 these are, counted from 1; 0: nowhere. */
	uint32_t asserts; /* __assertfail, */
	uint32_t turns;	  /* and the table of CODE_TURNS bytes that cosf() and others read */
	bool *departs;	  /* NULL: not asked for */
	bool alone;	  /* each block by itself: it takes longer, and comes to the same */
};

/* Distances from a pointer, in bytes; first >= beyond: nothing. */
struct threads_extent {
	struct {
		int64_t first, beyond;
	} read, written;
	bool whole;    /* every byte of `written` surely is, and no other */
	unsigned runs; /* that surely are, in order, and no byte between them; 0: not so, or more */
	struct {
		int64_t first, beyond;
	} run[THREADS_RUNS];
	bool strays_reading, strays_writing; /* perhaps anything else of the allocation, too: */
	struct {
		int64_t first, beyond;
	} origin; /* from there, where all that is loaded would be 0 */
};

/* One extent for each pointer, and in *departs whether some thread perhaps calls __assertfail or
 * stops the GPU: it does not only if it cannot, whatever lies in memory. 0; -EINVAL: it does not
 * follow from the parameters, or is not understood; -E2BIG: it takes more instructions, or
 * longer; -ENOMEM. */
int threads_run(const struct threads_launch *launch, struct threads_extent *extent);

#endif
