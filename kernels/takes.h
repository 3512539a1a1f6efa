/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels could compute a call: what each family demands of operands, scores and GPU. Which
 * of them does, select.c says.
 */
#ifndef FASHIM_KERNELS_TAKES_H
#define FASHIM_KERNELS_TAKES_H

#include "kernels/attention.h"

/* Room for an entry of each variant. */
#define ATTN_VARIANTS_MOST 512

/* A call on a GPU; `available` says of each variant whether it is loaded, NULL: none that needs one
 * architecture. */
struct attn_call {
	const struct attn_args *args;
	int arch;
	const uint8_t *available;
};

/* Are dimensions and dtypes such that any kernel here could do it? */
int attn_possible(const struct attn_args *args);

/* Can the variant compute the call, which is possible, there? */
int attn_takes(const struct attn_variant *v, const struct attn_call *call);

/* Bytes of shared memory that every GPU of an architecture lets one block have; a multiprocessor
 * has one kilobyte more, and keeps one for each block. */
int attn_shared_of(int arch);

/* Are there no lengths, no sinks, no bias after the mask or for several keys, and one scale for all
 * of a head? */
int attn_is_usual(const struct attn_spec *s);
/* Is it usual, and the scores nothing but a positive multiple of QK^T, perhaps in a window? */
int attn_is_plain(const struct attn_spec *s);

#endif
