/* SPDX-License-Identifier: Apache-2.0
 *
 * Thunks: driver functions without a hook of their own. A thunk keeps every argument, calls
 * flow_flush and jumps to the real function. Those of driver_names.def are assembled by name; a
 * pool of nameless ones serves functions that only a newer driver has.
 */
#ifndef FASHIM_THUNK_H
#define FASHIM_THUNK_H

#define THUNK_POOL  256
#define THUNK_BYTES 16 /* from the first instruction of one to that of the next */

#ifndef __ASSEMBLER__

/* A pool thunk before `real`, the same one each time; `real` itself when the pool is used up.
 * `name` is copied. Any thread. */
void *thunk_for(void *real, const char *name);

/* For the assembly: flushes and returns where to jump. `index` is a row of driver_names.def or
 * DRIVER_COUNT + the pool slot. */
void *thunk_enter(unsigned index, const void *caller);

/* First instruction of pool thunk 0. */
extern const char thunk_pool[];

#endif

#endif
