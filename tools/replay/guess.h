/* SPDX-License-Identifier: Apache-2.0
 *
 * What a chain of kernels without a rule may compute, where none can be asked.
 */
#ifndef FASHIM_GUESS_H
#define FASHIM_GUESS_H

#include "shim/spec/spec.h"

#define GUESSES 48

/* Candidate specs: scales found among its constants, with and without a causal mask, and with a
 * bias where it reads a pointer. Returns how many (at most `max`). */
int guess_specs(struct attn_spec *guess, int max, const struct attn_args *args,
		const struct chain *chain);

/* Makes one of them the identity; `pointer`: as identity_pointer() gave it. */
void guess_adopt(struct identity *identity, const struct attn_spec *guess, uint64_t pointer);

#endif
