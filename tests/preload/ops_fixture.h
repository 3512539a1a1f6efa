/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of what the driver hooks say: the probe, and a driver whose functions are called by
 * their own names.
 */
#ifndef FASHIM_OPS_FIXTURE_H
#define FASHIM_OPS_FIXTURE_H

#define __CUDA_API_VERSION_INTERNAL /* all versions and stream flavours, by their own names */

#include "harness.h"

#include <dlfcn.h>

#include "probe.h"

extern struct probe *seen;
extern void *driver;
extern CUdeviceptr device; /* a mebibyte */

#define CALL(name) ((__typeof__(&name))dlsym(driver, #name))
#define EVENT(i)   (&seen->events[i])

/* Before each test: nothing was seen so far, all is watched. */
int begin(void **state);

/* The op seen first; it must have been told `times` times. */
const struct op *the_op(enum op_kind kind, const char *name, unsigned times);

/* In main(): under the probe on the simulated driver, with a context. 0, or 1: there is none. */
int start_ops(char **argv);

#endif
