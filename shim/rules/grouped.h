/* SPDX-License-Identifier: Apache-2.0
 *
 * Grouped products: a first kernel writes arrays of addresses, sizes and strides, one entry for
 * each group, a second follows them. Where a group begins stands in device memory, but the first
 * kernel checks that all of them lie within its operands, which its parameters tell. Between the
 * two, the arrays hold what that call wrote for as long as nothing else may have written there; so
 * much is remembered, and what the second kernel touches are the operands of the first.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_GROUPED_H
#define FASHIM_GROUPED_H

#include "shim/rules/sight.h"

/* Takes in an op in program order: arrays that it may write are forgotten, those that it fills are
 * remembered. */
void grouped_note(const struct sight *sight);

/* Has the program ever grouped products: does it choose which weights to multiply by? */
bool grouped_seen(void);

/* Ops may pass unseen. */
void grouped_clear(void);

#endif
