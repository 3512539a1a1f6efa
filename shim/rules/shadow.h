/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory whose bytes the host knows for certain: the program copied them there from its own
 * memory, filled them with a constant or by a kernel that computes addresses, or cast one such
 * number, and nothing was
 * allowed to touch them since. Arrays of addresses for batched GEMMs, and scalars that a program
 * keeps in device memory, are told this way. Nothing is read back but arrays that were there before
 * anybody looked (ask/first_look.h), and nothing is remembered across an op that nobody looked at.
 *
 * All functions but shadow_touch_host(): flow lock held.
 */
#ifndef FASHIM_SHADOW_H
#define FASHIM_SHADOW_H

#include "shim/rules/sight.h"

/* Takes in an op in program order: what it may write is forgotten, what it writes from the host or
 * as a constant is kept. */
void shadow_note(const struct sight *sight);

/* Before the lock is taken: reads what shadow_note() will read of the host's memory. If that leads
 * nowhere, the fault is the program's, and its handler may not come back. A source that is memory
 * of the device is none of the host's from then on. */
void shadow_touch_host(struct op *op);

/* The bytes that a launch is known to write. More than 16 KiB are not kept. */
void shadow_put(uint64_t address, const void *bytes, uint64_t size);

/* Copies `size` bytes at a device address; false: not known. */
bool shadow_get(uint64_t address, void *bytes, size_t size);

/* Does a copy bring addresses of allocations from the host, as far as its bytes are kept? */
bool shadow_brings_addresses(const struct op *op);

/* The number that the one element there holds (dtype: enum attn_dtype, 16-bit or fp32). */
bool shadow_number(uint64_t address, int dtype, double *number);

/* A GEMM by arrays of addresses becomes one by strides, in runs if need be, where the addresses are
 * known and so spaced; it stays what it is otherwise. */
void shadow_resolve_arrays(struct op_gemm *gemm);

/* Has the program shown that it uses arrays? Then its ops must be looked at from now on. */
bool shadow_wanted(void);

/* Ops may pass unseen. */
void shadow_clear(void);

#endif
