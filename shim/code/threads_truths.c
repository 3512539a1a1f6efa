/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicates: comparisons, what is made of several, and registers in which compilers keep some; and
 * numbers bit by bit, which predicates are made of, too.
 */
#include "shim/code/threads_outcome.h"

#include <string.h>

static bool is_ordered(unsigned how, bool is_signed, uint32_t a, uint32_t b, bool *equal)
{
	const bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;

	*equal = a == b;
	switch (how) {
	case ORDER_LESS:
	case ORDER_LESS_EQUAL:
		return less;
	case ORDER_GREATER:
	case ORDER_GREATER_EQUAL:
		return !less && !*equal;
	case ORDER_UNEQUAL:
		return !*equal;
	default:
		return false;
	}
}

static bool is_zero(const struct lanes *of, uint32_t mask)
{
	uint32_t any = unknown_number(of);

	for (int l = 0; l < LANES; l++)
		any |= (uint32_t)(of->value[l] != 0) << l;
	return !(any & mask);
}

/* The pointer of which all lanes hold that half, and nothing more, counted from 1; 0: of none. */
static uint8_t bare_half(const struct lanes *of, uint32_t mask, bool is_upper)
{
	if (mask & (of->unknown | ~of->based) || !of->pointer || of->pointer > THREADS_POINTERS)
		return 0;
	for (int l = 0; l < LANES; l++)
		if (mask >> l & 1 &&
		    of->value[l] != (is_upper ? POINTER_UPPER(of->pointer - 1u) : 0))
			return 0;
	return of->pointer;
}

/* The pointer of which a half is held against 0 for equality, counted from 1. */
static uint8_t held_against_null(const struct warp *warp, const struct thread_op *op, uint32_t mask)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b);
	const unsigned how = op_bits(op, 76, 3);
	const bool is_upper = op_bits(op, 72, 1);

	if (how != ORDER_EQUAL && how != ORDER_UNEQUAL)
		return 0;
	return is_zero(a, mask)	  ? bare_half(b, mask, is_upper)
	       : is_zero(b, mask) ? bare_half(a, mask, is_upper)
				  : 0;
}

void threads_compare(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b);
	const unsigned how = op_bits(op, 76, 3), logic = op_bits(op, 74, 2);
	const bool is_signed = op_bits(op, 73, 1), extended = op_bits(op, 72, 1);
	const struct truth with = truth_of(warp, op, 87, op_bits(op, 90, 1)),
			   lower = truth_of(warp, op, 68, op_bits(op, 71, 1));
	const uint8_t pointer = held_against_null(warp, op, out->mask);
	/* Pointers are not 0, which programs ask of those that are optional. */
	const bool no_null = extended && pointer && pointer == lower.half_of &&
			     how == lower.half_is && !op_bits(op, 71, 1);
	uint32_t unknown = no_null ? 0 : unknown_number(a) | unknown_number(b);

	if (extended && !no_null)
		unknown |= unknown_truth(&lower);
	if (logic == 3)
		unknown = ALL;
	for (int l = 0; l < LANES; l++) {
		const bool other = with.value >> l & 1, low = lower.value >> l & 1;
		bool equal, holds = is_ordered(how, is_signed, a->value[l], b->value[l], &equal);

		if (equal)
			holds = extended ? low
					 : how == ORDER_EQUAL || how == ORDER_LESS_EQUAL ||
						   how == ORDER_GREATER_EQUAL;
		if (how == ORDER_NEVER || how == ORDER_ALWAYS)
			holds = how == ORDER_ALWAYS;
		if (no_null)
			holds = how == ORDER_UNEQUAL;
		holds = logic == 0 ? holds && other : logic == 1 ? holds || other : holds != other;
		out->truth.value |= (uint32_t)holds << l;
	}
	out->truth.unknown = unknown | unknown_truth(&with);
	/* One that is false already decides an AND, one that is true an OR. */
	if (logic < 2)
		out->truth.unknown &= unknown_truth(&with) | (logic ? ~with.value : with.value);
	if (!extended && !logic && op_bits(op, 87, 4) == ALWAYS) {
		out->truth.half_of = pointer;
		out->truth.half_is = (uint8_t)how;
	}
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

/* ---- numbers bit by bit -------------------------------------------------------------------------
 */

/* Of three numbers, bit by bit, for each lane. */
static void look_up_all(unsigned table, const struct lanes *const of[3], struct lanes *out)
{
	for (unsigned i = 0; i < 8; i++) {
		const uint32_t x = i & 4 ? 0 : ALL, y = i & 2 ? 0 : ALL, z = i & 1 ? 0 : ALL;

		for (int l = 0; l < LANES && table >> i & 1; l++)
			out->value[l] |= (of[0]->value[l] ^ x) & (of[1]->value[l] ^ y) &
					 (of[2]->value[l] ^ z);
	}
}

/* Of a pointer the lowest four bits are told: kernels ask how it is aligned. Where no other bit
 * decides, so is all that is made of it and of numbers that are the same for all; else, again, its
 * lowest bits. */
static bool by_alignment(const struct warp *warp, const struct thread_op *op,
			 const struct lanes *const of[3], struct outcome *out)
{
	const unsigned reg[3] = {op->a, op->b, op->c};
	struct lanes pair[3] = {0}, result = {0}; /* lane l: with high bits by the bits of l */
	const struct lanes *const pairs[3] = {&pair[0], &pair[1], &pair[2]};
	uint32_t open = 0;

	for (unsigned n = 0; n < 3; n++) {
		const unsigned k = bare_half(of[n], out->mask, false);
		const bool low_bits = of[n]->pointer == LOW_BITS &&
				      !(out->mask & (of[n]->unknown | ~of[n]->based));
		uint32_t low = of[n]->value[__builtin_ctz(out->mask)];

		if ((!k && !low_bits && unknown_number(of[n]) & out->mask) ||
		    (reg[n] < REGISTERS && warp->moving[reg[n] >> 6] >> (reg[n] & 63) & 1))
			return false;
		for (int l = 0; l < LANES; l++)
			if (out->mask >> l & 1 && of[n]->value[l] != low)
				return false;
		if (k)
			low = warp->launch->params[warp->launch->pointer[k - 1]];
		for (int l = 0; l < LANES; l++)
			pair[n].value[l] = !k && !low_bits ? low
					   : l >> n & 1	   ? low | ~15u
							   : low & 15;
	}
	look_up_all(op_bits(op, 72, 8), pairs, &result);
	for (int l = 1; l < LANES; l++)
		open |= result.value[l] ^ result.value[0];
	for (int l = 0; l < LANES; l++)
		out->low.value[l] = open ? result.value[0] & 15 : result.value[0];
	if (open) {
		out->low.pointer = LOW_BITS;
		out->low.based = out->mask;
	}
	return true;
}

void threads_combine(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *const of[3] = {operand(warp, op, op->a), operand(warp, op, op->b),
					   operand(warp, op, op->c)};
	const unsigned table = op_bits(op, 72, 8);
	const bool plain = !op_bits(op, 80, 1) && op_bits(op, 87, 4) == (8 | ALWAYS);
	uint32_t unknown = unknown_number(of[0]) | unknown_number(of[1]) | unknown_number(of[2]);

	if (!(unknown & out->mask) || !by_alignment(warp, op, of, out))
		look_up_all(table, of, &out->low);
	else if (!out->low.pointer)
		unknown = 0;
	for (int l = 0; l < LANES && op_tells(op); l++)
		out->truth.value |= (uint32_t)(out->low.value[l] != 0) << l;
	out->low.unknown = out->low.pointer ? 0 : unknown;
	out->low.data = of_no_pointer(of[0]) & of_no_pointer(of[1]) & of_no_pointer(of[2]);
	out->truth.unknown = plain ? unknown : ALL;
	out->tells = true;
}
