/* SPDX-License-Identifier: Apache-2.0
 *
 * What is certain of whole numbers in device memory that the host does not know: all of them lie
 * below a bound, as the places of the largest of a row do; they are counts that add up to so much;
 * they are running sums of such. It follows from the kernels that made them, and holds until
 * something else may be written there. Where the groups of a grouped product end is of this kind.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_INTEGERS_H
#define FASHIM_INTEGERS_H

#include "shim/rules/sight.h"

/* Takes in an op in program order. */
void integers_note(const struct sight *sight);

/* Are these 32-bit numbers the running sums of counts, all of them counted, that add up to `total`?
 */
bool integers_end_at(uint64_t address, uint64_t count, int64_t total);

/* Ops may pass unseen. */
void integers_clear(void);

#endif
