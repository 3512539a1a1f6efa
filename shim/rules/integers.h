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

#include "shim/op/access.h"
#include "shim/rules/function.h"

/* Takes in an op in program order. params: as function_read_params() copied them. */
void integers_note(const struct op *op, const struct access_list *list,
		   const struct function *function, const unsigned char *params);

/* Are these 32-bit numbers the running sums of counts, all of them counted, that add up to `total`?
 */
bool integers_end_at(uint64_t address, uint64_t count, int64_t total);

/* Ops may pass unseen. */
void integers_clear(void);

#endif
