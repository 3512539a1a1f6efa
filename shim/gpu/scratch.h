/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory of our own: snapshots of inputs, outputs of comparisons. A bounded pool per process
 * (FASHIM_SCRATCH_MB per context), blocks are kept and used again in stream order.
 *
 * Freeing waits for all that the device was given, and that may itself wait for another thread's
 * call. So what is to be freed stays in the pool until the turn is given back (turn.h): it counts
 * as held, and may be used again instead. Whoever must have some where the device has none left is
 * given memory of the host's.
 *
 * All functions but scratch_free(): flow lock held, the context current.
 */
#ifndef FASHIM_SCRATCH_H
#define FASHIM_SCRATCH_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* A block whose earlier users are done as seen from `stream`. 0: the pool is exhausted. `must`: go
 * beyond the bound rather than fail, and beyond the device's memory (materialisation: the program's
 * data depend on it). */
uint64_t scratch_get(CUcontext context, CUstream stream, uint64_t bytes, bool must);

/* Gives a block back; its last use is on `stream`. 0 is ignored. */
void scratch_put(uint64_t address, CUstream stream);

/* The context is about to go: its blocks are forgotten. */
void scratch_forget(CUcontext context);

/* The stream is about to be destroyed: blocks used on it last are handed over. */
void scratch_stream_gone(CUstream stream);

/* What nobody uses goes when the turn is given back (a program's own allocation failed). true:
 * there is some. */
bool scratch_trim(CUcontext context);

/* What is to be freed, taken out under the lock … */
#define SCRATCH_LEAVING 32
struct scratch_leaving {
	int count;
	struct scratch_piece {
		CUcontext context;
		uint64_t address;
	} piece[SCRATCH_LEAVING];
};
bool scratch_leaves(void); /* is there any? */
void scratch_take_leaving(struct scratch_leaving *leaving);

/* … and freed without it. */
void scratch_free(const struct scratch_leaving *leaving);

#endif
