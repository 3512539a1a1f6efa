/* SPDX-License-Identifier: Apache-2.0
 *
 * Where O goes. Frameworks lay the output of the second product out anew right away, heads beside
 * each other; a fused kernel can write it so at once. What is known of each site's copy: the op
 * after its closing GEMM tells, a comparison with O written in the copy's layout (compare.h) makes
 * it one that a launch may wait for (replace.h).
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_DELIVERY_H
#define FASHIM_DELIVERY_H

#include "shim/chain/chain.h"
#include "shim/site/site.h"

/* A chain of the site closed with its O written in place: the next op is of interest. */
void delivery_expect(const struct site *site, const struct chain *chain);

/* The next op, whatever it is. Cheap when none is expected. */
void delivery_note(const struct sight *sight);

/* The next op will not be seen. */
void delivery_forget(void);

/* The inverse of the copy that the site's O of so many bytes goes through, for a comparison in that
 * layout; NULL: none is known. */
const struct relayout *delivery_known(const struct site *site, uint64_t bytes);

/* A comparison was made in that layout; or strides could not say it. */
void delivery_compared(const struct site *site, bool possible);

/* May a launch wait for the site's copy? */
bool delivery_usual(const struct site *site);

/* Is the op a copy of the order that was compared? Its inverse, valid until the next call; else
 * NULL. */
const struct relayout *delivery_of_op(const struct site *site, const struct sight *sight);

/* A launch waited in vain. */
void delivery_missed(const struct site *site);

#endif
