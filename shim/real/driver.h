/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver as the shim itself calls it: always through these pointers, never through the exported
 * names.
 */
#ifndef FASHIM_DRIVER_H
#define FASHIM_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/real/cuda_headers.h"

/* Thread-local depth: > 0 while inside a hooked library's own code or our own driver calls. Hooks
 * at depth > 0 forward and do nothing else. */
extern __thread int hook_depth __attribute__((tls_model("initial-exec")));

/* The driver functions that the shim itself calls, as typed pointers (driver_calls.def says which a
 * driver may lack). Filled once by driver_resolve(). */
struct driver_calls {
#define DRIVER(name, since)		   __typeof__(&name) name;
#define DRIVER_NEWER(name, since, older)   __typeof__(&name) name;
#define DRIVER_OPTIONAL(name, since, lost) __typeof__(&name) name;
#include "shim/real/driver_calls.def"
#undef DRIVER
#undef DRIVER_NEWER
#undef DRIVER_OPTIONAL
};
extern struct driver_calls driver;

/* 0, or -ENOSYS when libcuda or a required function is missing. Any thread, any time, idempotent.
 */
int driver_resolve(void);

/* The i-th function that the driver lacks, a literal; NULL: there are no more. After
 * driver_resolve(). */
const char *driver_lacks(unsigned i);

#endif
