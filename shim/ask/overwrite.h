/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels without a rule that are handed the place of scores. Programs that keep to fixed buffers
 * give it to whatever they have to store next, which is no reading. Whether a kernel writes there
 * and reads nothing is found out once for it and its constants: it is launched again in copies of
 * the memory it was pointed to (mirror.h), with one thing and another in the scores' place. What it
 * leaves must not depend on that.
 *
 * Flow lock held.
 */
#ifndef FASHIM_OVERWRITE_H
#define FASHIM_OVERWRITE_H

#include "shim/rules/sight.h"

/* Says of the pointers of a launch that no open chain reads which bytes it overwrites unread, where
 * these are a closed chain's. Waits for the device, for each kernel once; not while a stream is
 * being captured. */
void overwrite_refine(const struct sight *sight);

#endif
