/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiled shapes of twice.cu, once for the kernels themselves and once for select.c's table;
 * the words are those of tma_variants.h.
 */
#ifndef FASHIM_TWICE_VARIANTS_H
#define FASHIM_TWICE_VARIANTS_H

#include "kernels/tma_variants.h"

/*        name width groups keys q_stages stages kind */
#define TWICE_VARIANTS(V)                                                                          \
	V(d64, 64, 2, 128, 2, 2, TMA_BIAS)                                                         \
	V(d64_two, 64, 2, 128, 2, 2, TMA_TWO)                                                      \
	V(d128, 128, 2, 128, 1, 2, TMA_BIAS)                                                       \
	V(d128_two, 128, 2, 128, 1, 2, TMA_TWO)

#endif
