/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the library hooks share: the stand-ins, device memory, and what the probe saw
 * of a call.
 */
#ifndef FASHIM_TESTS_LIBRARY_FIXTURE_H
#define FASHIM_TESTS_LIBRARY_FIXTURE_H

#include "harness.h"

#include <dlfcn.h>

#include "probe.h"

/* As on a machine without the vendor's headers; numbers are numbers. */
#define FASHIM_OWN_TYPES
#include "shim/real/library_types.h"
#include "standin.h"

#define PROBE "libprobe.so"

enum { CUDNN_8, CUDNN_9, NCCL, CUFFT, CUSPARSE, CUSOLVER, STANDINS };

extern struct probe *seen;
extern void *library[STANDINS];
extern struct standin *state_of[STANDINS]; /* each stand-in's own */
extern CUdeviceptr device;		   /* 1 MiB */
extern struct standin_handle handle;	   /* its stream: 0x5000 */

/* The hook of a function, as the program finds it. */
#define SYMBOL(which, name) ((__typeof__(&name))dlsym(library[which], #name))

/* An address of the device as a pointer. */
#define AT(offset) ((void *)(uintptr_t)(device + (offset)))

bool library_start(char **argv);
bool library_load(void);
int begin(void **state);

/* The one declared call seen, none of what it did inside; forgotten thereafter. */
const struct op_library *the_call(const char *name);

/* No call was declared, and the fill inside was seen as the program's own. */
void nothing_declared(void);

enum use { READ = 1, WRITTEN = 2, UPDATED = 3, WHOLE = 6 };

/* One operand of the call is just this: bytes from `offset` of the device memory on. */
void has_operand(const struct op_library *call, uint64_t offset, uint64_t bytes, enum use use);

#endif
