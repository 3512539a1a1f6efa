/* SPDX-License-Identifier: Apache-2.0
 *
 * V that lies across: its keys side by side, as where a cache keeps V transposed. Of the kernels
 * that are fast none takes it so; laid into rows first, which is little beside the product, they
 * do. So do those for fp32 with a V of 16 bits, once it was cast.
 */
#ifndef FASHIM_VALUE_ROWS_H
#define FASHIM_VALUE_ROWS_H

#include <stdbool.h>

#include "kernels/attention.h"
#include "shim/chain/relayout.h"

/* May it be worth it? */
bool value_rows_help(const struct attn_args *args);

/* Is it of 16 bits, beside a Q and a K of fp32? No kernel takes the call as it is. */
bool value_rows_cast(const struct attn_args *args);

/* Bytes of the rows. */
uint64_t value_rows_bytes(const struct attn_args *args);

/* The same call with V in rows at `at`, and the copy that lays them there. */
void value_rows_lay(struct attn_args *laid, struct relayout *copy, const struct attn_args *args,
		    uint64_t at);

#endif
