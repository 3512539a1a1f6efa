/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory of our own: snapshots of inputs, outputs of comparisons. A bounded pool per process
 * (FASHIM_SCRATCH_MB per context), blocks are kept and used again in stream order.
 *
 * All functions: flow lock held, the context current.
 */
#ifndef FASHIM_SCRATCH_H
#define FASHIM_SCRATCH_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* A block whose earlier users are done as seen from `stream`. 0: the pool is exhausted. `must`: go
 * beyond the bound rather than fail (materialisation: the program's data depend on it). */
uint64_t scratch_get(CUcontext context, CUstream stream, uint64_t bytes, bool must);

/* Gives a block back; its last use is on `stream`. 0 is ignored. */
void scratch_put(uint64_t address, CUstream stream);

/* The context is about to go: its blocks are forgotten. */
void scratch_forget(CUcontext context);

/* The stream is about to be destroyed: blocks used on it last are handed over. */
void scratch_stream_gone(CUstream stream);

/* Frees what nobody uses (a program's own allocation failed). true: something was freed. */
bool scratch_trim(CUcontext context);

#endif
