/* SPDX-License-Identifier: Apache-2.0
 *
 * What attn_args say, as short text that a table of expectations can hold. Told from the strides
 * themselves, so that it does not repeat a mistake of the shim's own words. Batches count as heads
 * where no input tells them apart.
 */
#ifndef FASHIM_TEST_MEANING_H
#define FASHIM_TEST_MEANING_H

#include <stddef.h>

#include "kernels/attention.h"

/* "f16", "bf16", … */
const char *meaning_dtype(int dtype);

/* What becomes of q.k, in order: "scale 0.125, softcap 5, keep [1,1,Sq,Sk] else -65504, bias
 * [B,1,1,Sk] f16, causal" ("hide … as -inf" where the mask is true for what is hidden); then
 * where P or O have another type than Q, and what rows get that see no key, if that is not NaN.
 * `spec` stands in for given->spec. */
void meaning_words(const struct attn_args *given, const struct attn_spec *spec, char *text,
		   size_t size);

/* How Q, K and V lie: of each the dimensions longer than 1 with their strides in elements, the
 * farthest first: "Q h64 s3072 d1, K …". */
void meaning_layout(const struct attn_args *given, char *text, size_t size);

#endif
