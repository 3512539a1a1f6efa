/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands that lie across: what follows one another in memory is of one column, as where a cache
 * keeps V transposed, or where images' channels come first. Of the kernels that are fast none takes
 * a Q or V so, and some no K; laid into rows first, which is little beside the product, they do.
 * Kernels for any layout read one element at a time of an operand that does not start on 16 bytes
 * with each row or column, and of rows all of them at once. Those for fp32 take a V of 16 bits once
 * it was cast.
 */
#ifndef FASHIM_OPERAND_ROWS_H
#define FASHIM_OPERAND_ROWS_H

#include <stdbool.h>

#include "kernels/attention.h"
#include "shim/chain/relayout.h"

#define OPERAND_ROWS 3 /* copies at most */

/* Which operands are laid into rows, where they do not lie so. */
enum operand_rows { ROWS_NONE, ROWS_QUERY_VALUE, ROWS_ALL };

/* May it be worth it? */
bool operand_rows_help(const struct attn_args *args, enum operand_rows which);

/* Is one of them, of columns in pieces of 16 bytes, only to be had by single elements, again and
 * again? */
bool operand_rows_scattered(const struct attn_args *args);

/* Is V of 16 bits, beside a Q and a K of fp32? No kernel takes the call as it is. */
bool operand_rows_cast(const struct attn_args *args);

/* Bytes of the rows, each operand's a multiple of 256. */
uint64_t operand_rows_bytes(const struct attn_args *args, enum operand_rows which);

/* The same call with these operands in rows, from `at` on, and the copies that lay them there. How
 * many copies. */
int operand_rows_lay(struct attn_args *laid, struct relayout copies[OPERAND_ROWS],
		     const struct attn_args *args, enum operand_rows which, uint64_t at);

#endif
