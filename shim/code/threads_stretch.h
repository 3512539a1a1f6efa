/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that stand in a row and go the same way, told by three of them: the first, the second and
 * the last. Each register of theirs holds numbers that lie evenly, from the first block's to the
 * last's: what the instructions that threads_compute() knows make of such numbers lies as evenly,
 * or is the same, or the stretch has to be a shorter one.
 */
#ifndef FASHIM_THREADS_STRETCH_H
#define FASHIM_THREADS_STRETCH_H

#include "shim/code/threads_parts.h"

#define WITNESSES 3 /* the first, the second, the last: one warp of each */

enum stretch {
	STRETCH_TORN,	/* what comes out may be anything in between */
	STRETCH_SIGNED, /* but its sign is the same */
	STRETCH_SAME,	/* it is the same in all blocks if it is in the last */
	STRETCH_EVEN,	/* it lies evenly in 32 bits: if no sum is beyond them it does so altogether
			 */
};

/* Is all the same that the instruction reads? What it computes for one block it does for all. */
bool stretch_is_still(const struct warp *witness, const struct thread_op *op);

/* It was computed so, or a register comes from memory: then it moves, perhaps. */
void stretch_note(struct warp *witness, unsigned reg, bool moves);

/* What will come of the instruction for the lanes of `mask`, in so many blocks? */
enum stretch stretch_foresee(const struct warp *witness, const struct thread_op *op, uint32_t mask,
			     uint32_t blocks);

/* Of A, A + B, A + 2 B …, so many, each shifted right: how many until what is shifted out carries,
 * or borrows, more than between the first two? At least 1. */
uint32_t stretch_even_ones(__int128 a, __int128 b, unsigned shift, uint32_t blocks);

/* It was computed by all three, of so many blocks. Is it what was foreseen, predicates being the
 * same? */
bool stretch_holds(struct warp *witness, const struct thread_op *op, uint32_t mask,
		   enum stretch foreseen, uint32_t blocks);

/* A register that is not known in a stretch but for its sign: divisions ask whether the signs of
 * two numbers differ by what these differ in, as bits. Its values are the first block's. */
struct stretch_signs {
	unsigned reg;
	uint32_t lanes; /* 0: there is none */
};

/* The instruction, of which no more was foreseen, was computed by all three. */
void stretch_note_signs(struct stretch_signs *signs, struct warp *witness,
			const struct thread_op *op, uint32_t mask);

/* Does the instruction ask of all these lanes for the sign alone? */
bool stretch_tests_signs(const struct stretch_signs *signs, const struct thread_op *op,
			 uint32_t mask);

#endif
