/* SPDX-License-Identifier: Apache-2.0
 *
 * Q and V that lie across: what follows one another in memory is of one column, as where a cache
 * keeps V transposed, or where images' channels come first. Of the kernels that are fast none takes
 * them so; laid into rows first, which is little beside the product, they do. So do those for fp32
 * with a V of 16 bits, once it was cast. (K is taken either way.)
 */
#ifndef FASHIM_OPERAND_ROWS_H
#define FASHIM_OPERAND_ROWS_H

#include <stdbool.h>

#include "kernels/attention.h"
#include "shim/chain/relayout.h"

#define OPERAND_ROWS 2 /* copies at most */

/* May it be worth it? */
bool operand_rows_help(const struct attn_args *args);

/* Is V of 16 bits, beside a Q and a K of fp32? No kernel takes the call as it is. */
bool operand_rows_cast(const struct attn_args *args);

/* Bytes of the rows, each operand's a multiple of 256. */
uint64_t operand_rows_bytes(const struct attn_args *args);

/* The same call with these operands in rows, from `at` on, and the copies that lay them there. How
 * many copies. */
int operand_rows_lay(struct attn_args *laid, struct relayout copies[OPERAND_ROWS],
		     const struct attn_args *args, uint64_t at);

#endif
