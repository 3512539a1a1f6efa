/* SPDX-License-Identifier: Apache-2.0
 *
 * Instructions on whole numbers and predicates, and what becomes of registers.
 */
#include "shim/code/threads_outcome.h"

#include <string.h>

/* ---- bits ---------------------------------------------------------------------------------------
 */

static void shift(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b),
			   *c = operand(warp, op, op->c);
	const bool right = op_bits(op, 76, 1), high = op_bits(op, 80, 1);
	const unsigned type = op_bits(op, 73, 2); /* S64, U64, S32, U32 */
	const bool is_signed = type == 0 || type == 2;
	const unsigned width = type < 2 ? 64 : 32;

	out->low.unknown = unknown_number(a) | unknown_number(b) | unknown_number(c);
	out->low.data = of_no_pointer(a) & of_no_pointer(b) & of_no_pointer(c);
	for (int l = 0; l < LANES; l++) {
		uint64_t both = (uint64_t)c->value[l] << 32 | a->value[l];
		unsigned by = b->value[l];

		if (op_bits(op, 75, 1))
			by &= width - 1;
		if (by >= 32) { /* how far is not certain */
			out->low.unknown |= 1u << l;
			continue;
		}
		both = !right	   ? both << by
		       : is_signed ? (uint64_t)((int64_t)both >> by)
				   : both >> by;
		out->low.value[l] = (uint32_t)(high ? both >> 32 : both);
	}
}

static void extend(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b);
	const bool is_signed = op_bits(op, 73, 1);

	out->low.unknown = unknown_number(a) | unknown_number(b);
	out->low.data = of_no_pointer(a) & of_no_pointer(b);
	for (int l = 0; l < LANES; l++) {
		const unsigned by = b->value[l];
		const uint32_t up = by && by < 32 ? a->value[l] << (32 - by) : 0;

		if (!by || by > 31)
			out->low.unknown |= 1u << l;
		else
			out->low.value[l] =
				is_signed ? (uint32_t)((int32_t)up >> (32 - by)) : up >> (32 - by);
	}
}

/* Four bytes of eight, each as it is or filled with its sign. */
static void permute(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b),
			   *c = operand(warp, op, op->c);

	out->low.unknown = unknown_number(a) | unknown_number(b) | unknown_number(c);
	out->low.data = of_no_pointer(a) & of_no_pointer(b) & of_no_pointer(c);
	if (op_bits(op, 72, 3))
		out->low.unknown = ALL;
	for (int l = 0; l < LANES; l++) {
		const uint64_t both = (uint64_t)c->value[l] << 32 | a->value[l];
		uint32_t value = 0;

		for (int i = 0; i < 4; i++) {
			const unsigned from = b->value[l] >> 4 * i & 15;
			uint32_t byte = (uint32_t)(both >> 8 * (from & 7) & 255);

			if (from & 8)
				byte = byte & 128 ? 255 : 0;
			value |= byte << 8 * i;
		}
		out->low.value[l] = value;
	}
}

/* ---- choices ------------------------------------------------------------------------------------
 */

static void choose(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b);
	const struct truth truth = truth_of(warp, op, 87, op_bits(op, 90, 1));
	const uint32_t open = unknown_truth(&truth);

	for (int l = 0; l < LANES; l++)
		out->low.value[l] = truth.value >> l & 1 ? a->value[l] : b->value[l];
	out->low.unknown =
		open | (truth.value & unknown_number(a)) | (~truth.value & unknown_number(b));
	out->low.data = (of_no_pointer(a) | (~open & ~truth.value)) &
			(of_no_pointer(b) | (~open & truth.value));
}

static void choose_smaller(const struct lanes *a, const struct lanes *b, bool is_signed,
			   const struct truth *least, struct outcome *out)
{
	for (int l = 0; l < LANES; l++) {
		const uint32_t x = a->value[l], y = b->value[l];
		const bool less = is_signed ? (int32_t)x < (int32_t)y : x < y;

		out->low.value[l] = less == (least->value >> l & 1) ? x : y;
	}
	out->low.unknown = unknown_number(a) | unknown_number(b) | unknown_truth(least);
	out->low.data = of_no_pointer(a) & of_no_pointer(b);
}

static void smaller(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct truth least = truth_of(warp, op, 87, op_bits(op, 90, 1));

	choose_smaller(operand(warp, op, op->a), operand(warp, op, op->b), op_bits(op, 73, 1),
		       &least, out);
}

/* sm_90's, which can do it with halves, and with nothing below 0. */
static void smaller_later(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct truth least = truth_of(warp, op, 87, op_bits(op, 90, 1));

	choose_smaller(operand(warp, op, op->a), operand(warp, op, op->b), op_bits(op, 72, 1),
		       &least, out);
	if (op_bits(op, 73, 4))
		out->low.unknown = ALL;
	out->truth.unknown = ALL;
	out->tells = op_tells(op);
}

/* Of A + B and C. What a sum beyond 32 bits would be is not known. */
static void smaller_sum(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b);
	const struct truth least = truth_of(warp, op, 87, op_bits(op, 90, 1));
	const bool is_signed = op_bits(op, 72, 1), minus = op->in.shape != 4 && op_bits(op, 63, 1);
	struct lanes sum = {.unknown = unknown_number(a) | unknown_number(b),
			    .data = of_no_pointer(a) & of_no_pointer(b)};

	for (int l = 0; l < LANES; l++) {
		const uint32_t x = a->value[l], y = minus ? -b->value[l] : b->value[l];
		int32_t whole;
		uint32_t natural;

		if (is_signed ? (minus && y == 1u << 31) ||
					__builtin_add_overflow((int32_t)x, (int32_t)y, &whole)
			      : minus || __builtin_add_overflow(x, y, &natural))
			sum.unknown |= 1u << l;
		sum.value[l] = x + y;
	}
	choose_smaller(&sum, operand(warp, op, op->c), is_signed, &least, out);
	if (op_bits(op, 73, 4))
		out->low.unknown = ALL;
}

static void absolute(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *b = operand(warp, op, op->b);

	for (int l = 0; l < LANES; l++)
		out->low.value[l] = (int32_t)b->value[l] < 0 ? -b->value[l] : b->value[l];
	out->low.unknown = unknown_number(b);
	out->low.data = of_no_pointer(b);
	if (op->in.shape != 4 && op_bits(op, 62, 2))
		out->low.unknown = ALL;
}

/* ---- who one is ---------------------------------------------------------------------------------
 */

static void identify(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const unsigned which = op_bits(op, 72, 8);

	for (int l = 0; l < LANES; l++)
		out->low.value[l] = which >= 0x21 && which <= 0x23   ? warp->number[which - 0x21][l]
				    : which >= 0x25 && which <= 0x27 ? warp->block[which - 0x25]
								     : (uint32_t)l;
	if (which && !(which >= 0x21 && which <= 0x23) && !(which >= 0x25 && which <= 0x27))
		out->low.unknown = ALL;
	/* What is a thread's own is no warp's. */
	if (op->opcode == S2UR && which < 0x25)
		out->low.unknown = ALL;
}

static void move(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	out->low = *operand(warp, op, op->b);
	out->low.pointer = of_lanes(out, &out->low);
	if (op->opcode == MOV && op_bits(op, 72, 4) != 15) {
		out->low.unknown = ALL;
		out->low.data = 0;
	}
}

/* Two halves added to 0, as compilers put constants into registers where that unit is idle. */
static void move_halves(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const uint32_t both = op->constant->value[0];

	(void)warp;
	out->low = *op->constant;
	if ((both & 0x7c00) == 0x7c00 || (both & 0x7c000000) == 0x7c000000)
		out->low.unknown = ALL; /* what is no number may come out as another */
}

static void zero(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	(void)warp;
	out->pair = op_bits(op, 80, 1);
}

/* From bank 4, where only one word is known, by a register. */
static void load_linked(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = &warp->reg[op->a];

	out->pair = true;
	out->low.unknown = out->high.unknown = ALL;
	if (!op->asserts || (unknown_number(a) & out->mask))
		return;
	for (int l = 0; l < LANES; l++)
		if (out->mask >> l & 1 &&
		    a->value[l] + (uint32_t)(int16_t)op_bits(op, 38, 16) != op->asserts - 1)
			return;
	out->low.unknown = out->high.unknown = 0;
	out->low.pointer = out->high.pointer = ASSERTS;
	for (int l = 0; l < LANES; l++)
		out->high.value[l] = 1;
}

/* From a bank, 32 or 64 bits. */
static void load_constant(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const unsigned size = op_bits(op, 73, 3);

	if (!op->constant) {
		load_linked(warp, op, out);
		return;
	}
	out->low = *operand(warp, op, op->b);
	out->high = *upper(warp, op, op->b);
	out->low.pointer = of_lanes(out, &out->low);
	out->high.pointer = of_lanes(out, &out->high);
	out->pair = size == 5;
	if (size > 5)
		out->low.unknown = ALL;
}

/* To the warp's own from a thread's, if all have the same; else it is one of theirs. */
static void gather(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a);
	const int first = __builtin_ctz(out->mask);

	out->low = *a;
	out->low.pointer = of_lanes(out, a);
	for (int l = 0; l < LANES; l++)
		if (out->mask >> l & 1 && (a->value[l] != a->value[first] || a->unknown >> l & 1))
			out->low.unknown = ALL;
	out->low.data = out->mask & ~no_distance(a) ? 0 : ALL;
	if (op_bits(op, 84, 1) || op_bits(op, 81, 3) != ALWAYS) {
		out->low.unknown = ALL;
		out->low.data = 0;
	}
}

/* ---- all of them --------------------------------------------------------------------------------
 */

/* Bits for the shapes in which it is known where operands and signs stand: in sums and the like the
 * first two alone may be no registers, of others any. */
#define FIRST	   0x72
#define ANY	   0xfe
#define ALL_SHAPES 0xff

static const struct {
	void (*compute)(const struct warp *warp, const struct thread_op *op, struct outcome *out);
	unsigned shapes;
} forms[512] = {
	[MOV] = {move, FIRST},
	[UMOV] = {move, FIRST},
	[HFMA2] = {move_halves, 1 << 2},
	[HFMA2_MMA] = {move_halves, 1 << 2},
	[LDC] = {load_constant, ALL_SHAPES},
	[ULDC] = {load_constant, ALL_SHAPES},
	[CS2R] = {zero, ALL_SHAPES},
	[S2R] = {identify, ALL_SHAPES},
	[S2UR] = {identify, ALL_SHAPES},
	[R2UR] = {gather, ALL_SHAPES},
	[R2UR_LATER] = {gather, ALL_SHAPES},
	[IADD3] = {threads_add3, FIRST},
	[UIADD3] = {threads_add3, FIRST},
	[VIADD] = {threads_add2, FIRST},
	[IMAD] = {threads_multiply, ANY},
	[UIMAD] = {threads_multiply, ANY},
	[IMAD_WIDE] = {threads_multiply_wide, ANY},
	[UIMAD_WIDE] = {threads_multiply_wide, ANY},
	[IMAD_HIGH] = {threads_multiply_wide, ANY},
	[LEA] = {threads_lea, FIRST},
	[ULEA] = {threads_lea, FIRST},
	[LOP3] = {threads_combine, FIRST},
	[ULOP3] = {threads_combine, FIRST},
	[SHF] = {shift, ANY},
	[USHF] = {shift, ANY},
	[SGXT] = {extend, FIRST},
	[USGXT] = {extend, FIRST},
	[PRMT] = {permute, ANY},
	[UPRMT] = {permute, ANY},
	[SEL] = {choose, FIRST},
	[USEL] = {choose, FIRST},
	[ISETP] = {threads_compare, FIRST},
	[UISETP] = {threads_compare, FIRST},
	[PLOP3] = {threads_combine_truths, ALL_SHAPES},
	[UPLOP3] = {threads_combine_truths, ALL_SHAPES},
	[IMNMX] = {smaller, FIRST},
	[VIMNMX] = {smaller_later, FIRST},
	[VIADDMNMX] = {smaller_sum, FIRST},
	[IABS] = {absolute, FIRST},
	[P2R] = {threads_save_truths, 1 << 4},
	[R2P] = {threads_restore_truths, 1 << 4},
	[I2F] = {threads_to_float, FIRST},
	[MUFU] = {threads_invert, FIRST},
	[F2I] = {threads_to_integer, FIRST},
};

bool threads_computes(const struct thread_op *op)
{
	if (!forms[op->opcode].compute || !(forms[op->opcode].shapes >> op->in.shape & 1))
		return false;
	switch (op->opcode) {
	case CS2R: /* of the special register that is 0 */
		return op_bits(op, 72, 8) == 255;
	case LDC:
		return op->constant || op_loads_linked(op);
	case ULDC:
		return op->constant != NULL;
	case HFMA2: /* -RZ * RZ + constant */
	case HFMA2_MMA:
		return op_bits(op, 24, 8) == NO_VALUE && op_bits(op, 64, 27) == 0x1ff;
	case P2R: /* of the lowest byte */
	case R2P:
		return !(uint32_t)op->in.high;
	case I2F:
	case MUFU:
	case F2I:
		return threads_begins_division(op);
	default:
		return true;
	}
}

/* A register holds halves of one pointer alone. What is the warp's own is written for those who are
 * here, too: where threads have parted, each way has what it wrote itself. */
void threads_write(struct warp *warp, unsigned to, const struct lanes *from, uint32_t mask,
		   uint32_t unsure)
{
	struct lanes *lanes = &warp->reg[to];
	const bool leaked = from->pointer == LEAKED;
	const uint32_t data = from->pointer > THREADS_POINTERS ? 0 : no_distance(from);
	/* Of two that it may be. */
	const uint32_t either = from->pointer ? 0 : data & of_no_pointer(lanes);

	if (to == NO_VALUE || to == REGISTERS - 1)
		return;
	note_written(warp, to, mask);
	lanes->data = (lanes->data & ~mask) | (data & mask & ~unsure) | (either & unsure);
	lanes->based &= ~mask;
	if (from->pointer && !leaked) {
		if (lanes->pointer != from->pointer) {
			lanes->unknown |= lanes->based;
			lanes->data &= ~lanes->based;
			lanes->based = 0;
		}
		lanes->pointer = from->pointer;
		lanes->based |= mask;
	}
	if (mask == ALL)
		memcpy(lanes->value, from->value, sizeof(lanes->value));
	for (int l = 0; l < LANES && mask != ALL; l++)
		if (mask >> l & 1)
			lanes->value[l] = from->value[l];
	lanes->unknown =
		(lanes->unknown & ~mask) | ((leaked ? ALL : from->unknown) & mask) | unsure;
}

static void write_truth(struct warp *warp, unsigned to, const struct truth *from, uint32_t mask,
			uint32_t unsure)
{
	struct truth *truth = &warp->truth[to];
	const bool leaked = from->pointer == LEAKED;

	if (to % 8 == ALWAYS)
		return;
	if (mask & warp->maybe)
		warp->doubtful_truths |= 1u << to;
	if (truth->twin != from->twin)
		truth->unknown = ALL;
	truth->twin = from->twin;
	truth->based &= ~mask;
	if (from->pointer && !leaked) {
		if (truth->pointer != from->pointer) {
			truth->unknown |= truth->based;
			truth->based = 0;
		}
		truth->pointer = from->pointer;
		truth->based |= mask;
	}
	truth->half_of = unsure || warp->live & ~mask ? 0 : from->half_of;
	truth->half_is = from->half_is;
	truth->value = (truth->value & ~mask) | (from->value & mask);
	truth->unknown =
		(truth->unknown & ~mask) | ((leaked ? ALL : from->unknown) & mask) | unsure;
}

/* What came out is written. */
static void write_outcome(struct warp *warp, const struct thread_op *op, const struct outcome *out,
			  uint32_t mask, uint32_t unsure)
{
	static const struct truth nobody_knows = {.unknown = ALL};

	if (op->to != NO_VALUE)
		threads_write(warp, op->to, &out->low, mask, unsure);
	if (op->to != NO_VALUE && out->pair)
		threads_write(warp, op->to + 1u, &out->high, mask, unsure);
	for (unsigned i = 0; i < ALWAYS && out->restores; i++) {
		struct truth truth = {.unknown = out->low.unknown};

		for (int l = 0; l < LANES; l++)
			truth.value |= (out->low.value[l] >> i & 1) << l;
		if (out->restores >> i & 1)
			write_truth(warp, i, &truth, mask, unsure);
	}
	if (!out->tells)
		return;
	write_truth(warp, op_truth(op, 81), &out->truth, mask, unsure);
	if (op->in.predicates > 1)
		write_truth(warp, op_truth(op, 84), out->tells_twice ? &out->second : &nobody_knows,
			    mask, unsure);
}

void threads_compute_alike(struct warp *warp, unsigned warps, const struct thread_op *op,
			   uint32_t mask, uint32_t unsure)
{
	struct outcome out;

	if (!mask)
		return;
	memset(&out, 0, sizeof(out));
	out.mask = mask;
	forms[op->opcode].compute(warp, op, &out);
	for (unsigned w = 0; w < warps; w++)
		write_outcome(&warp[w], op, &out, mask, unsure);
}

void threads_compute(struct warp *warp, const struct thread_op *op, uint32_t mask, uint32_t unsure)
{
	threads_compute_alike(warp, 1, op, mask, unsure);
}

void threads_meet(struct warp *warp)
{
	for (unsigned word = 0; word < KEPT / 64 + 1; word++)
		for (uint64_t left = warp->doubtful[word]; left; left &= left - 1) {
			const unsigned i = word * 64 + (unsigned)__builtin_ctzll(left);

			warp->reg[i].unknown |= warp->maybe;
			warp->reg[i].data &= ~warp->maybe;
		}
	for (unsigned i = 0; i < PREDICATE; i++)
		if (warp->doubtful_truths >> i & 1) {
			warp->truth[i].unknown |= warp->maybe;
			warp->truth[i].half_of = 0;
		}
	memset(warp->doubtful, 0, sizeof(warp->doubtful));
	warp->doubtful_truths = 0;
}

static void forget_file(struct warp *warp, const struct made_file *file, unsigned first,
			uint32_t mask)
{
	for (unsigned i = 0; i < 4; i++)
		for (uint64_t left = file->value[i]; left; left &= left - 1) {
			const unsigned reg = first + 64 * i + (unsigned)__builtin_ctzll(left);

			warp->reg[reg].unknown |= mask;
			warp->reg[reg].data &= ~mask;
			note_written(warp, reg, mask);
		}
}

void threads_forget(struct warp *warp, const struct thread_op *op, uint32_t mask)
{
	forget_file(warp, &op->forgotten.thread, 0, mask);
	forget_file(warp, &op->forgotten.warp, UNIFORM, mask);
	for (unsigned i = 0; i < PREDICATE; i++)
		if (op->truths >> i & 1) {
			warp->truth[i].unknown |= mask;
			warp->truth[i].half_of = 0;
		}
}

/* Where it is not sure that something was loaded, the word is data if what was there before was no
 * pointer's either. */
void threads_load(struct warp *warp, const struct thread_op *op, uint32_t mask, uint32_t unsure)
{
	const unsigned size = op_bits(op, 73, 3), words = size == 6 ? 4 : size == 5 ? 2 : 1;
	uint32_t data[4] = {0};

	for (unsigned i = 0; i < words && op->to + i < NO_VALUE; i++)
		data[i] = mask & (~unsure | of_no_pointer(&warp->reg[op->to + i]));
	threads_forget(warp, op, mask);
	for (unsigned i = 0; i < words && op->to + i < NO_VALUE; i++) {
		struct lanes *lanes = &warp->reg[op->to + i];

		/* What nobody needs was not forgotten. */
		lanes->unknown |= data[i];
		lanes->data |= data[i];
		lanes->based &= ~data[i];
		for (int l = 0; l < LANES; l++)
			if (data[i] >> l & 1)
				lanes->value[l] = 0;
		note_written(warp, op->to + i, mask);
	}
}

bool threads_assert_fails(const struct warp *warp, const struct thread_op *op, uint32_t mask)
{
	const struct lanes *low = &warp->reg[op->a], *high = upper(warp, op, op->a);

	if (!mask)
		return true;
	if (low->pointer != ASSERTS || high->pointer != ASSERTS ||
	    (mask & ~(low->based & high->based)) || (mask & (low->unknown | high->unknown)))
		return false;
	for (int l = 0; l < LANES; l++)
		if (mask >> l & 1 && (low->value[l] != 0 || high->value[l] != 1))
			return false;
	return true;
}
