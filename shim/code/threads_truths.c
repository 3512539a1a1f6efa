/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicates: comparisons, what is made of several, and registers in which compilers keep some.
 */
#include "shim/code/threads_outcome.h"

static bool is_ordered(unsigned how, bool is_signed, uint32_t a, uint32_t b, bool *equal)
{
	const bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;

	*equal = a == b;
	switch (how) {
	case 1: /* LT */
	case 3: /* LE */
		return less;
	case 4: /* GT */
	case 6: /* GE */
		return !less && !*equal;
	case 5: /* NE */
		return !*equal;
	default:
		return false;
	}
}

void threads_compare(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b);
	const unsigned how = op_bits(op, 76, 3), logic = op_bits(op, 74, 2);
	const bool is_signed = op_bits(op, 73, 1), extended = op_bits(op, 72, 1);
	const struct truth with = truth_of(warp, op, 87, op_bits(op, 90, 1)),
			   lower = truth_of(warp, op, 68, op_bits(op, 71, 1));
	uint32_t unknown = unknown_number(a) | unknown_number(b);

	if (extended)
		unknown |= unknown_truth(&lower);
	if (logic == 3)
		unknown = ALL;
	for (int l = 0; l < LANES; l++) {
		const bool other = with.value >> l & 1, low = lower.value >> l & 1;
		bool equal, holds = is_ordered(how, is_signed, a->value[l], b->value[l], &equal);

		if (equal)
			holds = extended ? low : how == 2 || how == 3 || how == 6;
		if (how == 0 || how == 7)
			holds = how == 7;
		holds = logic == 0 ? holds && other : logic == 1 ? holds || other : holds != other;
		out->truth.value |= (uint32_t)holds << l;
	}
	out->truth.unknown = unknown | unknown_truth(&with);
	/* One that is false already decides an AND, one that is true an OR. */
	if (logic < 2)
		out->truth.unknown &= unknown_truth(&with) | (logic ? ~with.value : with.value);
	out->tells = true;
}

void threads_combine_truths(const struct warp *warp, const struct thread_op *op,
			    struct outcome *out)
{
	const unsigned table = op_bits(op, 64, 3) | op_bits(op, 72, 5) << 3;
	const struct truth a = truth_of(warp, op, 87, op_bits(op, 90, 1)),
			   b = truth_of(warp, op, 77, op_bits(op, 80, 1));
	struct truth c = warp->truth[op_third_truth(op)];

	if (op_bits(op, 71, 1))
		c.value = ~c.value;
	for (unsigned i = 0; i < 8; i++)
		if (table >> i & 1)
			out->truth.value |= (i & 4 ? a.value : ~a.value) &
					    (i & 2 ? b.value : ~b.value) &
					    (i & 1 ? c.value : ~c.value);
	out->truth.unknown = unknown_truth(&a) | unknown_truth(&b) | unknown_truth(&c);
	out->tells = true;
}

/* Those of the mask become bits of a register; its others are A's. */
void threads_save_truths(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a);
	const uint32_t mask = op->constant->value[0];

	out->low.unknown = unknown_number(a);
	for (int l = 0; l < LANES; l++)
		out->low.value[l] = a->value[l] & ~mask;
	for (unsigned i = 0; i < ALWAYS; i++) {
		const struct truth *truth = &warp->truth[i];

		if (!(mask >> i & 1))
			continue;
		out->low.unknown |= unknown_truth(truth);
		for (int l = 0; l < LANES; l++)
			out->low.value[l] |= (truth->value >> l & 1) << i;
	}
}

void threads_restore_truths(const struct warp *warp, const struct thread_op *op,
			    struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a);

	out->low = *a;
	out->low.unknown = unknown_number(a);
	out->restores = op->constant->value[0] & ((1u << ALWAYS) - 1);
}
