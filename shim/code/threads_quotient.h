/* SPDX-License-Identifier: Apache-2.0
 *
 * Compilers divide by a constant as they multiply by its reciprocal: the upper half of a product,
 * shifted right. From block to block the product moves evenly, its upper half does not, and the
 * quotient does again, or stays. So in a stretch the upper half counts as unknown, and what it is a
 * half of is kept, for the shift. Where anything else reads it the stretch is torn.
 */
#ifndef FASHIM_THREADS_QUOTIENT_H
#define FASHIM_THREADS_QUOTIENT_H

#include "shim/code/threads_stretch.h"

#define QUOTIENTS 8 /* halves that are kept at a time: unrolled loops have several under way */

struct quotient {
	unsigned reg;
	uint32_t lanes;
	/* In the first block, and by how much it is more in the next; natural numbers below 2^63
	 * throughout. */
	int64_t product[LANES], pace[LANES];
	uint32_t value[WITNESSES][LANES]; /* of the register */
};

struct quotients {
	unsigned held; /* a bit for each */
	struct quotient of[QUOTIENTS];
};

/* An IMAD.HI that does not come out evenly, for the lanes of `mask`, in so many blocks: is it of a
 * product that does? Then it is kept; NULL: it is not, or there is no room. */
struct quotient *quotient_begin(struct quotients *quotients, const struct warp *witness,
				const struct thread_op *op, uint32_t mask, uint32_t blocks);

/* It was computed: from here on its register is unknown. */
void quotient_note(struct quotient *quotient, struct warp *witness, const struct thread_op *op,
		   uint32_t mask);

/* That which the instruction shifts right, in all these lanes; NULL: none, or it reads another one,
 * too. */
struct quotient *quotient_shifted(struct quotients *quotients, const struct thread_op *op,
				  uint32_t mask);

/* Does the instruction make anything of one, or go somewhere by it? */
bool quotient_is_read(const struct quotients *quotients, const struct thread_op *op);

/* In how many blocks, of so many, does that come out evenly? At least 1. */
uint32_t quotient_fits(const struct quotient *quotient, const struct warp *witness,
		       const struct thread_op *op, uint32_t mask, uint32_t blocks);

/* For that instruction the register has its numbers; and for the lanes of `mask` none any more. */
void quotient_show(const struct quotient *quotient, struct warp *witness);
void quotient_hide(const struct quotient *quotient, struct warp *witness, uint32_t mask);

/* What the instruction writes for these lanes is no such half any more. false: of other lanes, that
 * it perhaps writes or not, one was: now it is unknown. */
bool quotient_drop(struct quotients *quotients, const struct thread_op *op, uint32_t mask);

#endif
