/* SPDX-License-Identifier: Apache-2.0
 *
 * What one instruction makes of its operands, for the lanes of a warp, before it is written.
 */
#ifndef FASHIM_THREADS_OUTCOME_H
#define FASHIM_THREADS_OUTCOME_H

#include "shim/code/threads_parts.h"

#define LEAKED 255 /* of a pointer, but not just something more */

/* What comes out for the lanes of `mask`, before it is written: `pointer` of the registers is 0,
 * LEAKED or what it is in all of them, and so with the predicate. */
struct outcome {
	uint32_t mask;
	struct lanes low, high;
	bool pair;
	struct truth truth, second; /* predicates */
	bool tells, tells_twice;    /* there are */
	uint32_t restores;	    /* the predicates that bits of `low` become */
};

static inline uint8_t pointer_of(const struct outcome *out, uint32_t based, uint8_t pointer)
{
	based &= out->mask;
	return !based ? 0 : based == out->mask ? pointer : LEAKED;
}

static inline uint8_t of_lanes(const struct outcome *out, const struct lanes *lanes)
{
	return pointer_of(out, lanes->based, lanes->pointer);
}

static inline const struct lanes *operand(const struct warp *warp, const struct thread_op *op,
					  unsigned which)
{
	return which == REGISTERS ? op->constant : &warp->reg[which];
}

/* The register behind it; of a constant, the word behind it. */
static inline const struct lanes *upper(const struct warp *warp, const struct thread_op *op,
					unsigned which)
{
	if (which == REGISTERS)
		return op->constant + 1;
	return &warp->reg[which == NO_VALUE || which == REGISTERS - 1 ? which : which + 1];
}

static inline struct truth truth_of(const struct warp *warp, const struct thread_op *op,
				    unsigned at, bool is_not)
{
	struct truth truth = warp->truth[op_truth(op, at)];

	if (is_not)
		truth.value = ~truth.value;
	return truth;
}

/* For whoever does not go on adding to the pointer. */
static inline uint32_t unknown_truth(const struct truth *truth)
{
	return truth->twin ? ALL : truth->based | truth->unknown;
}

static inline uint32_t unknown_number(const struct lanes *of)
{
	return of->based | of->unknown;
}

/* Lanes that tell nothing of a pointer but of the one that they are based on. */
static inline uint32_t no_distance(const struct lanes *of)
{
	return ~of->unknown | of->data;
}

/* Lanes that tell nothing of any pointer. */
static inline uint32_t of_no_pointer(const struct lanes *of)
{
	return ~of->based & no_distance(of);
}

/* Something may be known of the register from now on, and where the warp is elsewhere, perhaps, it
 * is in doubt. */
static inline void note_written(struct warp *warp, unsigned reg, uint32_t mask)
{
	warp->held[reg >> 6] |= 1ull << (reg & 63);
	if (mask & warp->maybe)
		warp->doubtful[reg >> 6] |= 1ull << (reg & 63);
}

/* Is the first predicate asked for? */
static inline bool op_tells(const struct thread_op *op)
{
	return op_bits(op, 81, 3) != ALWAYS;
}

/* Sums and products (threads_sums.c). */
void threads_add3(const struct warp *warp, const struct thread_op *op, struct outcome *out);
void threads_add2(const struct warp *warp, const struct thread_op *op, struct outcome *out);
void threads_multiply(const struct warp *warp, const struct thread_op *op, struct outcome *out);
/* 64 bits, or their upper half. */
void threads_multiply_wide(const struct warp *warp, const struct thread_op *op,
			   struct outcome *out);
/* (A << shift) + B, or the upper half of ({C, A} << shift), plus B. */
void threads_lea(const struct warp *warp, const struct thread_op *op, struct outcome *out);

/* Predicates (threads_truths.c). EX: of 64 bits, the lower halves having been compared. */
void threads_compare(const struct warp *warp, const struct thread_op *op, struct outcome *out);
void threads_combine_truths(const struct warp *warp, const struct thread_op *op,
			    struct outcome *out);
/* Numbers bit by bit, in any way: how a pointer is aligned, among others. */
void threads_combine(const struct warp *warp, const struct thread_op *op, struct outcome *out);
/* Into a register, and from there. */
void threads_save_truths(const struct warp *warp, const struct thread_op *op, struct outcome *out);
void threads_restore_truths(const struct warp *warp, const struct thread_op *op,
			    struct outcome *out);

/* What a division begins with (threads_division.c): is it in the form that is known for that? */
bool threads_begins_division(const struct thread_op *op);
void threads_to_float(const struct warp *warp, const struct thread_op *op, struct outcome *out);
void threads_invert(const struct warp *warp, const struct thread_op *op, struct outcome *out);
void threads_to_integer(const struct warp *warp, const struct thread_op *op, struct outcome *out);

#endif
