/* SPDX-License-Identifier: Apache-2.0
 *
 * What an op touches, by the best grade of knowledge that there is (access.h).
 */
#ifndef FASHIM_TOUCH_H
#define FASHIM_TOUCH_H

#include "shim/rules/sight.h"

/* The op, seen: its kernel, its parameters, and what it touches. Valid until the next is. Flow lock
 * held. */
const struct sight *touch_see(struct op *op);

/* The last of it: fills sight->list by what else the sight says. Flow lock held. */
void touch_accesses(const struct sight *sight);

/* Of an OP_FREE, while its memory is known: does it go with how that was allocated? Else it will be
 * refused. Flow lock held. */
bool touch_frees(const struct op *op);

#endif
