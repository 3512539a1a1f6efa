/* SPDX-License-Identifier: Apache-2.0
 *
 * Local memory, where compilers put registers of which they have too few: words at known distances
 * from where a thread's ends are as good as registers. Who stores elsewhere may have stored to any
 * of them.
 */
#include "shim/code/threads_outcome.h"

/* The word that all lanes of `mask` have in mind; -1: not one, or none that is kept. */
static int slot_of(const struct warp *warp, const struct thread_op *op, uint32_t mask,
		   unsigned words)
{
	const struct lanes *a = &warp->reg[op->a];
	const int32_t distance = (int32_t)((int64_t)op->in.low >> 40);
	const int first = __builtin_ctz(mask);
	const int32_t at = (int32_t)(a->value[first] + (uint32_t)distance - STACK_TOP);

	/* A register and a distance, and no other bit but where it may be cached. */
	if (op_bits(op, 64, 9) || op_bits(op, 76, 8) || op_bits(op, 86, 18))
		return -1;
	if (a->pointer != STACK || (mask & (a->unknown | ~a->based)) || at % 4 || at >= 0 ||
	    at < -4 * SLOTS || (unsigned)-at < 4 * words)
		return -1;
	for (int l = 0; l < LANES; l++)
		if (mask >> l & 1 && a->value[l] != a->value[first])
			return -1;
	return SLOT + SLOTS + at / 4;
}

/* How many words it stores or loads; 0: parts of one. */
static unsigned words_of(const struct thread_op *op)
{
	const unsigned size = op_bits(op, 73, 3);

	return size == 4 ? 1 : size == 5 ? 2 : size == 6 ? 4 : 0;
}

void threads_forget_local(struct warp *warp, uint32_t mask)
{
	for (unsigned i = SLOT; i < KEPT; i++) {
		warp->reg[i].unknown |= mask;
		warp->reg[i].data &= ~mask;
		note_written(warp, i, mask);
	}
}

void threads_spill(struct warp *warp, const struct thread_op *op, uint32_t mask, uint32_t unsure)
{
	const unsigned words = words_of(op), from = op_bits(op, 32, 8);
	const int slot = mask && words ? slot_of(warp, op, mask, words) : -1;

	if (slot < 0 && mask)
		threads_forget_local(warp, mask);
	for (unsigned i = 0; i < words && slot >= 0; i++) {
		struct lanes word = warp->reg[from == NO_VALUE ? from : from + i];

		/* One pointer for all, or none. */
		if (word.based & mask && mask & ~word.based)
			word.unknown = ALL;
		word.pointer = word.based & mask ? word.pointer : 0;
		threads_write(warp, (unsigned)slot + i, &word, mask, unsure);
	}
}

void threads_refill(struct warp *warp, const struct thread_op *op, uint32_t mask, uint32_t unsure)
{
	const unsigned words = words_of(op);
	const int slot = mask && words ? slot_of(warp, op, mask, words) : -1;

	if (slot < 0) {
		threads_forget(warp, op, mask);
		return;
	}
	for (unsigned i = 0; i < words && op->to + i < NO_VALUE; i++) {
		struct lanes word = warp->reg[(unsigned)slot + i];

		if (word.based & mask && mask & ~word.based)
			word.unknown = ALL;
		word.pointer = word.based & mask ? word.pointer : 0;
		threads_write(warp, op->to + i, &word, mask, unsure);
	}
}
