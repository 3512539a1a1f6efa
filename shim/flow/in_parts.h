/* SPDX-License-Identifier: Apache-2.0
 *
 * Products in parts (chain/parts.h), as they come: the launch that makes chains one, the products
 * that close it together, and whoever comes between these.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_IN_PARTS_H
#define FASHIM_IN_PARTS_H

#include "shim/chain/chain.h"
#include "shim/rules/sight.h"

/* A launch that reads what several products made: they are one. */
void in_parts_join(const struct sight *sight);

/* The next part of the closing product: parts_fit(). */
enum flow in_parts_close(struct chain *chain, const struct sight *sight);

/* Any op while one is missing: if it is not that one, those before it are run. */
void in_parts_end(const struct op *op);

#endif
