/* SPDX-License-Identifier: Apache-2.0
 *
 * Which streams are recording a graph. While one does, nothing may be held back, measured or
 * allocated; and what is known of memory may not hold when the graph is launched.
 *
 * Flow lock held, but for capture_ever().
 */
#ifndef FASHIM_CAPTURE_H
#define FASHIM_CAPTURE_H

#include "shim/op/op.h"

/* A stream is about to begin; has begun; is about to end. */
void capture_expect(void);
void capture_add(CUstream stream);
void capture_remove(CUstream stream);

/* Is any stream known to record? */
bool capture_under_way(void);

/* Did this one begin to, and not join later? */
bool capture_began_on(CUstream stream);

/* Is the op recorded, as far as anybody can tell? Asks the driver where that may be so unseen. */
bool capture_takes(const struct op *op);

/* Did any stream ever? Any thread, without the lock. */
bool capture_ever(void);

#endif
