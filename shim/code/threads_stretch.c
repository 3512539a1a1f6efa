/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers count as natural ones here, below 2^32, that rise or fall by as much from block to block
 * and never beyond. So a sum of such is even until it is beyond, a comparison of two turns once at
 * most, and bits below all that a number moves by stay as they are.
 */
#include "shim/code/threads_stretch.h"

#include "shim/code/threads_outcome.h"

/* ---- operands -----------------------------------------------------------------------------------
 */

static bool moves(const struct warp *witness, unsigned reg)
{
	return reg < REGISTERS && witness[0].moving[reg >> 6] >> (reg & 63) & 1;
}

void stretch_note(struct warp *witness, unsigned reg, bool moves)
{
	uint64_t *word = &witness[0].moving[reg >> 6];

	*word = (*word & ~(1ull << (reg & 63))) | (uint64_t)moves << (reg & 63);
}

bool stretch_is_still(const struct warp *witness, const struct thread_op *op)
{
	/* The block's own number is what moves first. */
	return op->opcode != S2R && op->opcode != S2UR && !moves(witness, op->a) &&
	       !moves(witness, op->b) && !moves(witness, op->c) && !moves(witness, op->c + 1u);
}

struct moving {
	const struct lanes *first, *second, *last;
	uint32_t lanes; /* in which it is not the same */
};

static struct moving moving(const struct warp *witness, const struct thread_op *op, unsigned which,
			    uint32_t mask)
{
	const unsigned of_op = which == REGISTERS && !op->constant ? NO_VALUE : which;
	struct moving of = {operand(&witness[0], op, of_op), operand(&witness[1], op, of_op),
			    operand(&witness[2], op, of_op), 0};

	for (int l = 0; l < LANES && moves(witness, of_op); l++)
		of.lanes |= (uint32_t)(of.first->value[l] != of.second->value[l]) << l;
	of.lanes &= mask & (~of.first->unknown | of.first->data);
	return of;
}

/* By how much it moves from block to block, modulo 2^32. */
static uint32_t pace(const struct moving *of, int lane)
{
	return of->second->value[lane] - of->first->value[lane];
}

/* Where its sign counts it must stay the same. */
static bool keeps_sign(const struct moving *of, bool is_signed)
{
	for (int l = 0; l < LANES && is_signed; l++)
		if (of->lanes >> l & 1 && (of->first->value[l] ^ of->last->value[l]) >> 31)
			return false;
	return true;
}

/* ---- instructions -------------------------------------------------------------------------------
 */

static int order_of(const struct lanes *a, const struct lanes *b, int lane, bool is_signed)
{
	const uint32_t x = a->value[lane] ^ (is_signed ? 1u << 31 : 0),
		       y = b->value[lane] ^ (is_signed ? 1u << 31 : 0);

	return x < y ? -1 : x > y;
}

/* Are A and B in the same order throughout, if they are in the first and in the last? Where it
 * counts whether they are equal, they are always, or never. */
static bool keeps_order(const struct moving *a, const struct moving *b, uint32_t mask,
			bool is_signed, bool equality)
{
	if (!keeps_sign(a, is_signed) || !keeps_sign(b, is_signed))
		return false;
	for (int l = 0; l < LANES; l++) {
		const int first = order_of(a->first, b->first, l, is_signed);
		const int last = order_of(a->last, b->last, l, is_signed);

		if (mask >> l & 1 && equality &&
		    (first != last || (!first && pace(a, l) != pace(b, l))))
			return false;
	}
	return true;
}

static enum stretch compared(const struct thread_op *op, uint32_t mask, const struct moving *a,
			     const struct moving *b)
{
	const unsigned how = op_bits(op, 76, 3);
	const bool equality = how == ORDER_EQUAL || how == ORDER_UNEQUAL || op_bits(op, 72, 1);

	return keeps_order(a, b, mask, op_bits(op, 73, 1), equality) ? STRETCH_SAME : STRETCH_TORN;
}

/* The one that is less is so in all of them. */
static enum stretch smaller(const struct thread_op *op, uint32_t mask, const struct moving *a,
			    const struct moving *b)
{
	const bool is_signed = op_bits(op, op->opcode == IMNMX ? 73 : 72, 1);

	if (!keeps_order(a, b, mask, is_signed, false))
		return STRETCH_TORN;
	for (int l = 0; l < LANES; l++)
		if (mask >> l & 1 && (order_of(a->first, b->first, l, is_signed) < 0) !=
					     (order_of(a->last, b->last, l, is_signed) < 0))
			return STRETCH_TORN;
	return STRETCH_EVEN;
}

uint32_t stretch_even_ones(__int128 a, __int128 b, unsigned shift, uint32_t blocks)
{
	const __int128 one = (__int128)1 << shift, left = a & (one - 1), more = b & (one - 1);
	const __int128 up = more ? (one - 1 - left) / more : blocks, down = left / (one - more);
	const __int128 steps = up > down ? up : down;

	return steps >= blocks ? blocks : (uint32_t)steps + 1;
}

static bool even_quotient(__int128 a, __int128 b, unsigned shift, uint32_t blocks)
{
	return stretch_even_ones(a, b, shift, blocks) == blocks;
}

/* The upper half of A * B + C, of which one factor moves perhaps, and C, a pair, does not; nothing
 * is carried in. */
static enum stretch upper_half(const struct warp *witness, const struct thread_op *op,
			       uint32_t mask, const struct moving *a, const struct moving *b,
			       const struct moving *c, uint32_t blocks)
{
	const struct moving *of = a->lanes ? a : b, *by = of == a ? b : a;
	const bool is_signed = op_bits(op, 73, 1);

	for (int l = 0; l < LANES; l++) {
		const uint32_t high[2] = {upper(&witness[0], op, op->c)->value[l],
					  upper(&witness[1], op, op->c)->value[l]};
		const uint32_t x = of->first->value[l], y = by->first->value[l];
		const int32_t pace_of = (int32_t)pace(of, l);
		const __int128 factor = is_signed ? (__int128)(int32_t)y : y;
		const __int128 product = (is_signed ? (__int128)(int32_t)x : x) * factor +
					 ((uint64_t)high[0] << 32 | c->first->value[l]);

		if (!(mask >> l & 1))
			continue;
		if (c->lanes >> l & 1 || high[0] != high[1] || op_bits(op, 74, 1) ||
		    (of->lanes >> l & 1 && by->lanes >> l & 1) ||
		    !even_quotient(product, pace_of * factor, 32, blocks))
			return STRETCH_TORN;
	}
	return STRETCH_EVEN;
}

static enum stretch multiplied(const struct thread_op *op, const struct moving *a,
			       const struct moving *b)
{
	const bool is_signed = op->opcode != IMAD && op->opcode != UIMAD && op_bits(op, 73, 1);

	return a->lanes & b->lanes || !keeps_sign(a, is_signed) || !keeps_sign(b, is_signed)
		       ? STRETCH_TORN
		       : STRETCH_EVEN;
}

/* A number that moves, shifted right: evenly in all lanes? `by`: how far, in each of them; NULL:
 * that far in all. */
static bool even_quotients(const struct moving *of, const struct lanes *by, unsigned shift,
			   bool is_signed, uint32_t blocks)
{
	for (int l = 0; l < LANES; l++) {
		const uint32_t value = of->first->value[l];

		if (of->lanes >> l & 1 &&
		    !even_quotient(is_signed ? (int32_t)value : (int64_t)value,
				   (int32_t)pace(of, l), by ? by->value[l] & 31 : shift, blocks))
			return false;
	}
	return true;
}

/* A shifted and B: of the upper half, which is A shifted right, all is the same, or what moves does
 * so evenly. */
static enum stretch shifted_and_added(const struct thread_op *op, const struct moving *a,
				      const struct moving *b, const struct moving *c,
				      uint32_t blocks)
{
	const unsigned shift = op_bits(op, 75, 5);
	const bool high = op_bits(op, 80, 1), is_signed = op_bits(op, 73, 1);

	if (high && !(a->lanes | c->lanes))
		return STRETCH_EVEN;
	if (high && (c->lanes || !keeps_sign(a, true)))
		return STRETCH_TORN;
	if (high)
		return even_quotients(a, NULL, 32 - shift, is_signed, blocks) ? STRETCH_EVEN
		       : b->lanes					      ? STRETCH_TORN
									      : STRETCH_SAME;
	/* What it carries is of the sum alone, if nothing was shifted out. */
	for (int l = 0; l < LANES && op_tells(op) && shift; l++)
		if (a->lanes >> l & 1 &&
		    (a->first->value[l] >> (32 - shift) || a->last->value[l] >> (32 - shift)))
			return STRETCH_TORN;
	return STRETCH_EVEN;
}

static enum stretch shifted(const struct thread_op *op, const struct moving *a,
			    const struct moving *b, const struct moving *c, uint32_t blocks)
{
	const bool right = op_bits(op, 76, 1), high = op_bits(op, 80, 1);
	const struct moving *of = c->lanes ? c : a;

	if (b->lanes || (a->lanes && c->lanes) || !keeps_sign(c, true))
		return STRETCH_TORN;
	if (!right)
		return high && a->lanes ? STRETCH_SAME : STRETCH_EVEN;
	if (high != (of == c))
		return STRETCH_SAME;
	return even_quotients(of, b->first, 0, false, blocks) ? STRETCH_EVEN : STRETCH_TORN;
}

/* The lowest bits of A, as many as B says: all of it, where it has no more. */
static enum stretch extended(const struct thread_op *op, const struct moving *a,
			     const struct moving *b)
{
	const bool is_signed = op_bits(op, 73, 1);

	if (b->lanes || (a->lanes && is_signed))
		return STRETCH_TORN;
	for (int l = 0; l < LANES; l++) {
		const uint32_t bits = b->first->value[l];

		if (a->lanes >> l & 1 &&
		    (bits > 31 || a->first->value[l] >> bits || a->last->value[l] >> bits))
			return STRETCH_TORN;
	}
	return a->lanes ? STRETCH_EVEN : STRETCH_SAME;
}

/* Of one that moves, bits from the lowest on that moves, and those below. */
static enum stretch combined(const struct thread_op *op, const struct moving x[3])
{
	const unsigned table = op_bits(op, 72, 8);
	bool even = true;
	int of = -1;

	for (int i = 0; i < 3; i++)
		if (x[i].lanes) {
			if (of >= 0)
				return STRETCH_TORN;
			of = i;
		}
	for (int l = 0; l < LANES; l++) {
		uint32_t made[2] = {0, 0}, moves;

		if (!(x[of].lanes >> l & 1))
			continue;
		moves = ALL << __builtin_ctz(pace(&x[of], l));
		for (unsigned i = 0; i < 16; i++) { /* with zeros in its place, and with ones */
			uint32_t term = ALL;

			for (int n = 0; n < 3; n++) {
				const bool one = i >> (2 - n) & 1;
				const uint32_t value = n != of	? x[n].first->value[l]
						       : i >> 3 ? ALL
								: 0;

				term &= one ? value : ~value;
			}
			if (table >> (i & 7) & 1)
				made[i >> 3] |= term;
		}
		if (((made[0] ^ made[1]) & moves) && (~made[0] & made[1] & moves) != moves &&
		    (made[0] & ~made[1] & moves) != moves)
			even = false;
	}
	return even					   ? STRETCH_EVEN
	       : keeps_sign(&x[of], true) && !op_tells(op) ? STRETCH_SIGNED
							   : STRETCH_TORN;
}

enum stretch stretch_foresee(const struct warp *witness, const struct thread_op *op, uint32_t mask,
			     uint32_t blocks)
{
	const struct moving x[3] = {moving(witness, op, op->a, mask),
				    moving(witness, op, op->b, mask),
				    moving(witness, op, op->c, mask)};

	switch (op->opcode) {
	case MOV:
	case UMOV:
	case S2R:
	case S2UR:
	case CS2R:
	case ULDC:
	case R2UR:
	case R2UR_LATER:
	case SEL:
	case USEL:
	case IADD3:
	case UIADD3:
	case VIADD:
	case PLOP3:
	case UPLOP3:
		return STRETCH_EVEN;
	case IMAD:
	case UIMAD:
	case IMAD_WIDE:
	case UIMAD_WIDE:
		return multiplied(op, &x[0], &x[1]);
	case LDC:
		return op->constant || !x[0].lanes ? STRETCH_EVEN : STRETCH_TORN;
	case IABS:
		return keeps_sign(&x[1], true) ? STRETCH_EVEN : STRETCH_TORN;
	case SGXT: /* has no C: what stands there is none */
	case USGXT:
		return extended(op, &x[0], &x[1]);
	case I2F:
	case MUFU:
	case F2I:
		return x[1].lanes ? STRETCH_TORN : STRETCH_SAME;
	default:
		break;
	}
	if (!(x[0].lanes | x[1].lanes | x[2].lanes))
		return STRETCH_SAME;
	switch (op->opcode) {
	case ISETP:
	case UISETP:
		return compared(op, mask, &x[0], &x[1]);
	case IMNMX:
	case VIMNMX:
		return smaller(op, mask, &x[0], &x[1]);
	case IMAD_HIGH:
		return upper_half(witness, op, mask, &x[0], &x[1], &x[2], blocks);
	case LEA:
	case ULEA:
		return shifted_and_added(op, &x[0], &x[1], &x[2], blocks);
	case SHF:
	case USHF:
		return shifted(op, &x[0], &x[1], &x[2], blocks);
	case LOP3:
	case ULOP3:
		return combined(op, x);
	default:
		return STRETCH_TORN;
	}
}

/* ---- what came out ------------------------------------------------------------------------------
 */

static bool same_kind(const struct lanes *one, const struct lanes *other, uint32_t mask)
{
	return !(((one->unknown ^ other->unknown) | (one->based ^ other->based)) & mask) &&
	       !((one->data ^ other->data) & one->unknown & mask) &&
	       (!(one->based & mask) || one->pointer == other->pointer);
}

static bool register_holds(struct warp *witness, unsigned reg, uint32_t mask, enum stretch foreseen,
			   uint32_t blocks)
{
	struct lanes *first = &witness[0].reg[reg], *second = &witness[1].reg[reg],
		     *last = &witness[2].reg[reg];
	const uint32_t counts = mask & (~first->unknown | first->data);
	bool any = false;

	if (!same_kind(first, second, mask) || !same_kind(first, last, mask))
		return false;
	for (int l = 0; l < LANES; l++) {
		const int32_t by = (int32_t)(second->value[l] - first->value[l]);
		const int64_t end = (int64_t)first->value[l] + (int64_t)by * (blocks - 1);

		any |= by != 0;
		if (!(mask >> l & 1))
			continue;
		if (!(counts >> l & 1)) /* what it is nobody knows */
			second->value[l] = last->value[l] = first->value[l];
		else if (end != last->value[l] || (foreseen == STRETCH_SAME && by))
			return false;
	}
	stretch_note(witness, reg, any);
	return true;
}

static bool same_truth(const struct truth *one, const struct truth *other)
{
	return one->unknown == other->unknown && one->based == other->based &&
	       !((one->value ^ other->value) & ~one->unknown) &&
	       (!one->based || one->pointer == other->pointer) && one->twin == other->twin &&
	       one->half_of == other->half_of && (!one->half_of || one->half_is == other->half_is);
}

bool stretch_holds(struct warp *witness, const struct thread_op *op, uint32_t mask,
		   enum stretch foreseen, uint32_t blocks)
{
	for (unsigned i = 0; i < PREDICATE; i++)
		if (op->truths >> i & 1 &&
		    (!same_truth(&witness[0].truth[i], &witness[1].truth[i]) ||
		     !same_truth(&witness[0].truth[i], &witness[2].truth[i])))
			return false;
	return op->to == NO_VALUE ||
	       (register_holds(witness, op->to, mask, foreseen, blocks) &&
		register_holds(witness, op->to + 1u, mask, STRETCH_EVEN, blocks));
}

/* ---- signs --------------------------------------------------------------------------------------
 */

/* A number is held against 0, of which the sign alone counts. */
static bool tests_sign(const struct thread_op *op, unsigned reg)
{
	const unsigned how = op_bits(op, 76, 3);

	return op->opcode == ISETP && op->in.shape == 1 && op->a == reg && op->b == NO_VALUE &&
	       (how == ORDER_LESS || how == ORDER_GREATER_EQUAL) && op_bits(op, 73, 1) &&
	       !op_bits(op, 72, 1);
}

void stretch_note_signs(struct stretch_signs *signs, struct warp *witness,
			const struct thread_op *op, uint32_t mask)
{
	*signs = (struct stretch_signs){op->to, mask & ~witness[0].reg[op->to].unknown};
	for (unsigned w = 0; w < WITNESSES; w++) {
		struct lanes *lanes = &witness[w].reg[op->to];

		lanes->unknown |= mask;
		lanes->data &= ~mask;
		for (int l = 0; l < LANES; l++)
			if (mask >> l & 1)
				lanes->value[l] = witness[0].reg[op->to].value[l];
	}
}

bool stretch_tests_signs(const struct stretch_signs *signs, const struct thread_op *op,
			 uint32_t mask)
{
	return signs->lanes && tests_sign(op, signs->reg) && !(mask & ~signs->lanes);
}
