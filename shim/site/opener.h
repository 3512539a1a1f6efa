/* SPDX-License-Identifier: Apache-2.0
 *
 * Products that attention may begin with: which are alike, and which led nowhere so often that they
 * are not followed each time.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_OPENER_H
#define FASHIM_OPENER_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/chain/chain.h"

/* Equal for products that are alike, the number of keys left out. */
uint64_t opener_signature(const struct op_gemm *gemm);

/* Those that never close are looked at ever more rarely. */
bool opener_promising(const struct op_gemm *gemm);
void opener_result(const struct op_gemm *gemm, bool closed);

#endif
