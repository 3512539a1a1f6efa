/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/code/threads_quotient.h"

#include <string.h>

#include "shim/code/threads_outcome.h"

/* A number as the product takes it. */
static int64_t factor(uint32_t value, bool is_signed)
{
	return is_signed ? (int32_t)value : (int64_t)value;
}

/* Of one lane: A * B + C. */
static bool lane_begins(struct quotient *quotient, const struct lanes *const a[WITNESSES],
			const struct lanes *const b[WITNESSES], uint64_t c, int lane,
			bool is_signed, uint32_t blocks)
{
	const int32_t pace[2] = {(int32_t)(a[1]->value[lane] - a[0]->value[lane]),
				 (int32_t)(b[1]->value[lane] - b[0]->value[lane])};
	const int64_t x = factor(a[0]->value[lane], is_signed),
		      y = factor(b[0]->value[lane], is_signed);
	const __int128 first = (__int128)x * y + c,
		       by = (__int128)pace[0] * y + (__int128)pace[1] * x,
		       last = first + by * (blocks - 1);

	if ((pace[0] && pace[1]) || first < 0 || first >> 63 || last < 0 || last >> 63 ||
	    (is_signed && ((a[0]->value[lane] ^ a[2]->value[lane]) >> 31 ||
			   (b[0]->value[lane] ^ b[2]->value[lane]) >> 31)))
		return false;
	quotient->product[lane] = (int64_t)first;
	quotient->pace[lane] = (int64_t)by;
	return true;
}

static bool same(const struct lanes *const of[WITNESSES], int lane)
{
	return of[0]->value[lane] == of[1]->value[lane] && of[0]->value[lane] == of[2]->value[lane];
}

static bool begins(struct quotient *quotient, const struct warp *witness,
		   const struct thread_op *op, uint32_t mask, uint32_t blocks)
{
	const struct lanes *a[WITNESSES], *b[WITNESSES], *c[WITNESSES], *high[WITNESSES];

	for (unsigned w = 0; w < WITNESSES; w++) {
		a[w] = operand(&witness[w], op, op->a);
		b[w] = operand(&witness[w], op, op->b);
		c[w] = operand(&witness[w], op, op->c);
		high[w] = upper(&witness[w], op, op->c);
	}
	for (int l = 0; l < LANES; l++)
		if (mask >> l & 1 &&
		    (!same(c, l) || !same(high, l) ||
		     !lane_begins(quotient, a, b,
				  (uint64_t)high[0]->value[l] << 32 | c[0]->value[l], l,
				  op_bits(op, 73, 1), blocks)))
			return false;
	return true;
}

struct quotient *quotient_begin(struct quotients *quotients, const struct warp *witness,
				const struct thread_op *op, uint32_t mask, uint32_t blocks)
{
	const bool carries_in = op_bits(op, 74, 1);
	unsigned slot;

	if (op->opcode != IMAD_HIGH || carries_in || op_tells(op))
		return NULL;
	slot = (unsigned)__builtin_ctz(~quotients->held);
	if (slot >= QUOTIENTS)
		return NULL;
	if (!begins(&quotients->of[slot], witness, op, mask, blocks))
		return NULL;
	quotients->held |= 1u << slot;
	return &quotients->of[slot];
}

void quotient_note(struct quotient *quotient, struct warp *witness, const struct thread_op *op,
		   uint32_t mask)
{
	quotient->reg = op->to;
	quotient->lanes = mask;
	for (unsigned w = 0; w < WITNESSES; w++) {
		const struct lanes *lanes = &witness[w].reg[op->to];

		quotient->lanes &= ~(lanes->unknown | lanes->based);
		memcpy(quotient->value[w], lanes->value, sizeof(lanes->value));
	}
	quotient_hide(quotient, witness, mask);
}

void quotient_hide(const struct quotient *quotient, struct warp *witness, uint32_t mask)
{
	for (unsigned w = 0; w < WITNESSES; w++) {
		struct lanes *lanes = &witness[w].reg[quotient->reg];

		lanes->unknown |= mask & quotient->lanes;
		lanes->data &= ~(mask & quotient->lanes);
		for (int l = 0; l < LANES; l++)
			if (mask & quotient->lanes & 1u << l)
				lanes->value[l] = quotient->value[0][l];
	}
}

void quotient_show(const struct quotient *quotient, struct warp *witness)
{
	for (unsigned w = 0; w < WITNESSES; w++) {
		struct lanes *lanes = &witness[w].reg[quotient->reg];

		lanes->unknown &= ~quotient->lanes;
		for (int l = 0; l < LANES; l++)
			if (quotient->lanes >> l & 1)
				lanes->value[l] = quotient->value[w][l];
	}
}

/* The register that it shifts right, of the pair of which and 0 it takes the upper half; NO_VALUE:
 * none. */
static unsigned shifted(const struct thread_op *op)
{
	if (op->opcode == SHF && op_bits(op, 76, 1) && op_bits(op, 80, 1) && op->a == NO_VALUE &&
	    op->b != op->c)
		return op->c;
	if (op->opcode == LEA && op_bits(op, 80, 1) && (op_bits(op, 73, 1) || op->c == NO_VALUE) &&
	    op->b != op->a && !op_tells(op) && !op_bits(op, 74, 1))
		return op->a;
	return NO_VALUE;
}

static bool reads(const struct thread_op *op, unsigned reg)
{
	return op->a == reg || op->b == reg || op->c == reg || op->c + 1u == reg;
}

struct quotient *quotient_shifted(struct quotients *quotients, const struct thread_op *op,
				  uint32_t mask)
{
	const unsigned reg = quotients->held ? shifted(op) : NO_VALUE;
	struct quotient *found = NULL;

	for (unsigned left = reg == NO_VALUE ? 0 : quotients->held; left; left &= left - 1) {
		struct quotient *quotient = &quotients->of[__builtin_ctz(left)];

		if (quotient->reg == reg)
			found = quotient;
		else if (reads(op, quotient->reg))
			return NULL;
	}
	return found && !(mask & ~found->lanes) ? found : NULL;
}

static bool is_near(unsigned first, unsigned reg)
{
	return reg >= first && reg < first + 4;
}

static bool makes_of(const struct thread_op *op, unsigned reg)
{
	if (op->computes)
		return reads(op, reg);
	switch (op->in.how) {
	case HOW_LOAD: /* the address */
	case HOW_GLOBAL:
		return op->a == reg || op->a + 1u == reg;
	case HOW_SPILL:
	case HOW_LOCAL:
	case HOW_UNSURE:
		return is_near(op->a, reg) || is_near(op->b, reg) || is_near(op->c, reg);
	default:
		return false;
	}
}

bool quotient_is_read(const struct quotients *quotients, const struct thread_op *op)
{
	for (unsigned left = quotients->held; left; left &= left - 1)
		if (makes_of(op, quotients->of[__builtin_ctz(left)].reg))
			return true;
	return false;
}

/* How far the product is shifted right in all. */
static unsigned distance(const struct warp *witness, const struct thread_op *op, int lane)
{
	return op->opcode == LEA ? 64 - op_bits(op, 75, 5)
				 : 32 + (operand(witness, op, op->b)->value[lane] & 31);
}

uint32_t quotient_fits(const struct quotient *quotient, const struct warp *witness,
		       const struct thread_op *op, uint32_t mask, uint32_t blocks)
{
	const struct lanes *by[WITNESSES];

	for (unsigned w = 0; w < WITNESSES; w++)
		by[w] = operand(&witness[w], op, op->b);
	for (int l = 0; l < LANES; l++) {
		uint32_t fits = 1;

		if (!(mask >> l & 1))
			continue;
		if (op->opcode == LEA || same(by, l))
			fits = stretch_even_ones(quotient->product[l], quotient->pace[l],
						 distance(witness, op, l), blocks);
		blocks = fits < blocks ? fits : blocks;
	}
	return blocks;
}

bool quotient_drop(struct quotients *quotients, const struct thread_op *op, uint32_t mask)
{
	bool all = true;

	for (unsigned left = quotients->held; left; left &= left - 1) {
		const unsigned slot = (unsigned)__builtin_ctz(left);

		if (!op_writes(op, quotients->of[slot].reg))
			continue;
		all &= !(quotients->of[slot].lanes & ~mask);
		quotients->held &= ~(1u << slot);
	}
	return all;
}
