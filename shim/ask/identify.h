/* SPDX-License-Identifier: Apache-2.0
 *
 * What a chain of kernels without a rule computes, found out by asking them (probe.h, fit.h).
 */
#ifndef FASHIM_IDENTIFY_H
#define FASHIM_IDENTIFY_H

#include "shim/spec/spec.h"

/* Identifies a closed chain whose operands are in args; its own steps have run, the closing GEMM
 * has not. NULL: `identity` says what it computes, and every pointer that its unknown kernels read
 * is in it. Otherwise why not (static storage, or `detail`). Waits for the device. Flow lock held;
 * not while a stream is being captured. */
const char *identify_chain(struct identity *identity, const struct attn_args *args,
			   const struct chain *chain, char *detail, size_t size);

#endif
