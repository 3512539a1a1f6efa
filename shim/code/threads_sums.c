/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and products of whole numbers, of which one may be a half of a pointer.
 */
#include "shim/code/threads_outcome.h"

static uint8_t pointer_of_sum(uint8_t a, uint8_t b)
{
	return !a ? b : !b ? a : LEAKED;
}

/* Carries of an addition that has some: they go with the pointer whose half they come from. */
static uint8_t add_carry(const struct warp *warp, const struct thread_op *op, unsigned at,
			 unsigned negative, const struct outcome *out, uint32_t *carry,
			 uint32_t *unknown)
{
	const struct truth truth = truth_of(warp, op, at, op_bits(op, negative, 1));
	const bool alone = op->opcode != IADD3 && op->opcode != UIADD3;

	*carry = truth.value;
	*unknown |= truth.twin && alone ? ALL : truth.unknown;
	return pointer_of(out, truth.based, truth.pointer);
}

/* The pointer of a sum whose carry is of that one: it stays with its own. */
static uint8_t with_carry(uint8_t sum, uint8_t carry)
{
	return !carry || sum == carry ? sum : LEAKED;
}

/* Of terms that are of one pointer at most; in a form that is not known nothing is known of it. */
static void set_sum(struct lanes *sum, uint8_t pointer, uint32_t unknown, uint32_t data, bool odd)
{
	sum->pointer = pointer;
	sum->unknown = odd ? ALL : unknown;
	sum->data = odd ? 0 : data;
}

/* Are the two carries that it adds those of one sum, or each the only one of its own? */
static bool are_twins(const struct warp *warp, const struct thread_op *op)
{
	const unsigned one = op_truth(op, 87), other = op_truth(op, 77);
	const struct truth *a = &warp->truth[one], *b = &warp->truth[other];

	return (!a->twin && !b->twin) || (a->twin == other + 1 && b->twin == one + 1 &&
					  !op_bits(op, 90, 1) && !op_bits(op, 80, 1));
}

void threads_add3(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *x[3] = {operand(warp, op, op->a), operand(warp, op, op->b),
				    operand(warp, op, op->c)};
	const bool more = op_bits(op, 74, 1);
	const bool minus[3] = {op_bits(op, 72, 1), op->in.shape != 4 && op_bits(op, 63, 1),
			       op_bits(op, 75, 1)};
	uint32_t carry[2] = {0, 0}, unknown = x[0]->unknown | x[1]->unknown | x[2]->unknown;
	const bool twice = op_bits(op, 84, 3) != ALWAYS && op_tells(op);
	uint64_t sum[LANES] = {0};
	uint8_t pointer = 0;
	bool odd = false;

	for (int i = 0; i < 3; i++) {
		const uint8_t of = of_lanes(out, x[i]);

		pointer = minus[i] && of ? LEAKED : pointer_of_sum(pointer, of);
	}
	if (more) {
		pointer =
			with_carry(pointer, add_carry(warp, op, 87, 90, out, &carry[0], &unknown));
		pointer =
			with_carry(pointer, add_carry(warp, op, 77, 80, out, &carry[1], &unknown));
		odd = !are_twins(warp, op);
	}
	for (int i = 0; i < 3; i++) {
		const uint32_t flip = minus[i] ? ALL : 0, one = minus[i] && !more;

		for (int l = 0; l < LANES; l++)
			sum[l] += (uint64_t)(x[i]->value[l] ^ flip) + one;
	}
	for (int l = 0; l < LANES && more; l++)
		sum[l] += (carry[0] >> l & 1) + (carry[1] >> l & 1);
	for (int l = 0; l < LANES; l++)
		out->low.value[l] = (uint32_t)sum[l];
	for (int l = 0; l < LANES && op_tells(op); l++) {
		out->truth.value |= (uint32_t)(sum[l] >> 32 != 0) << l;
		out->second.value |= (uint32_t)(sum[l] >> 33 != 0) << l;
	}
	set_sum(&out->low, pointer, unknown,
		no_distance(x[0]) & no_distance(x[1]) & no_distance(x[2]), odd);
	unknown = out->low.unknown;
	out->truth.pointer = out->second.pointer = pointer;
	/* One carry can't be two. Of two it is not said which is which, but who adds them adds
	 * both. */
	out->truth.unknown = unknown | (twice ? 0 : out->second.value);
	out->second.unknown = unknown;
	out->tells = out->tells_twice = true;
	if (twice) {
		out->truth.twin = (uint8_t)(op_truth(op, 84) + 1);
		out->second.twin = (uint8_t)(op_truth(op, 81) + 1);
	}
}

void threads_add2(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b);
	const bool minus = op->in.shape != 4 && op_bits(op, 63, 1);
	const uint8_t of = of_lanes(out, b);

	for (int l = 0; l < LANES; l++)
		out->low.value[l] = a->value[l] + (minus ? -b->value[l] : b->value[l]);
	set_sum(&out->low, pointer_of_sum(of_lanes(out, a), minus && of ? LEAKED : of),
		a->unknown | b->unknown, no_distance(a) & no_distance(b), op_bits(op, 72, 4) != 0);
}

/* Multiplying by 1 leaves a pointer one. */
static uint8_t pointer_of_product(const struct outcome *out, const struct lanes *a,
				  const struct lanes *b)
{
	const struct lanes *of = a->based & out->mask ? a : b, *by = of == a ? b : a;

	if (!(of->based & out->mask))
		return 0;
	if ((by->based | by->unknown) & out->mask)
		return LEAKED;
	for (int l = 0; l < LANES; l++)
		if (out->mask >> l & 1 && by->value[l] != 1)
			return LEAKED;
	return of_lanes(out, of);
}

void threads_multiply(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b),
			   *c = operand(warp, op, op->c);
	const bool more = op_bits(op, 74, 1), negative = op_bits(op, 75, 1);
	const bool of_low = op->in.shape != 4 && op->in.shape != 2 && op_bits(op, 63, 1);
	const bool swapped = op->in.shape == 3 || op->in.shape == 7;
	const bool minus = swapped ? of_low : negative;
	const bool odd = op_bits(op, 72, 1) || (of_low && !swapped) || (negative && swapped);
	uint32_t carry = 0, unknown = a->unknown | b->unknown | c->unknown;
	uint8_t pointer = pointer_of_sum(pointer_of_product(out, a, b), of_lanes(out, c));

	if (minus && of_lanes(out, c))
		pointer = LEAKED;
	if (more)
		pointer = with_carry(pointer, add_carry(warp, op, 87, 90, out, &carry, &unknown));
	for (int l = 0; l < LANES; l++)
		out->low.value[l] = a->value[l] * b->value[l] + (c->value[l] ^ (minus ? ALL : 0)) +
				    (minus && !more);
	for (int l = 0; l < LANES && more; l++)
		out->low.value[l] += carry >> l & 1;
	set_sum(&out->low, pointer, unknown, no_distance(a) & no_distance(b) & no_distance(c), odd);
}

void threads_multiply_wide(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const bool high = op->opcode == IMAD_HIGH;
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b),
			   *c = operand(warp, op, op->c), *c2 = upper(warp, op, op->c);
	const bool is_signed = op_bits(op, 73, 1), more = op_bits(op, 74, 1);
	const bool of_low = op->in.shape != 4 && op->in.shape != 2 && op_bits(op, 63, 1);
	const bool odd = op->in.shape == 2 || op_bits(op, 72, 1) || op_bits(op, 75, 1) || of_low ||
			 (more && is_signed);
	const uint32_t data =
		of_no_pointer(a) & of_no_pointer(b) & no_distance(c) & no_distance(c2);
	uint32_t carry = 0,
		 unknown = unknown_number(a) | unknown_number(b) | c->unknown | c2->unknown;
	uint32_t carries[LANES];
	uint8_t pointer = of_lanes(out, c);

	if (pointer != of_lanes(out, c2) || (high && pointer))
		pointer = LEAKED;
	if (more)
		pointer = with_carry(pointer, add_carry(warp, op, 87, 90, out, &carry, &unknown));
	for (int l = 0; l < LANES; l++) {
		const uint64_t third = (uint64_t)c2->value[l] << 32 | c->value[l];
		const uint64_t product =
			is_signed ? (uint64_t)((int64_t)(int32_t)a->value[l] * (int32_t)b->value[l])
				  : (uint64_t)a->value[l] * b->value[l];
		const uint64_t sum = product + third + (carry >> l & 1);

		out->low.value[l] = high ? (uint32_t)(sum >> 32) : (uint32_t)sum;
		out->high.value[l] = (uint32_t)(sum >> 32);
		carries[l] = sum < product;
	}
	for (int l = 0; l < LANES && op_tells(op); l++)
		out->truth.value |= carries[l] << l;
	set_sum(&out->low, pointer, unknown, data, odd);
	set_sum(&out->high, pointer, unknown, data, odd);
	/* Only where it is plain what it carries. */
	out->truth.unknown = is_signed || more || pointer ? ALL : out->low.unknown;
	out->tells = true;
	out->pair = !high;
}

void threads_lea(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *a = operand(warp, op, op->a), *b = operand(warp, op, op->b),
			   *c = operand(warp, op, op->c);
	const unsigned shift = op_bits(op, 75, 5);
	const bool high = op_bits(op, 80, 1), more = op_bits(op, 74, 1),
		   extends = op_bits(op, 73, 1);
	const bool minus = op->in.shape == 1 && op_bits(op, 63, 1); /* B */
	const bool minus_a = op_bits(op, 72, 1);
	const bool odd =
		(minus_a && (high || more || op_tells(op))) || (minus && (more || op_tells(op))) ||
		(op->in.shape != 1 && op->in.shape != 4 && op->in.shape != 2 && op_bits(op, 63, 1));
	const bool third = high && !extends;
	uint32_t carry = 0, unknown = a->unknown | b->unknown | (third ? c->unknown : 0);
	uint8_t pointer = minus && of_lanes(out, b) ? LEAKED : of_lanes(out, b);
	uint64_t sum[LANES];

	unknown |= a->based | (third ? c->based : 0);
	if (more)
		pointer = with_carry(pointer, add_carry(warp, op, 87, 90, out, &carry, &unknown));
	for (int l = 0; l < LANES; l++) {
		const uint64_t of = extends   ? (uint64_t)(int64_t)(int32_t)a->value[l]
				    : third   ? (uint64_t)c->value[l] << 32 | a->value[l]
				    : minus_a ? -a->value[l]
					      : a->value[l];

		sum[l] = (high ? (of << shift) >> 32 : (uint32_t)of << shift) +
			 (minus ? -b->value[l] : (uint64_t)b->value[l]);
	}
	for (int l = 0; l < LANES && more; l++)
		sum[l] += carry >> l & 1;
	for (int l = 0; l < LANES; l++)
		out->low.value[l] = (uint32_t)sum[l];
	for (int l = 0; l < LANES && op_tells(op); l++)
		out->truth.value |= (uint32_t)(sum[l] >> 32) << l;
	set_sum(&out->low, pointer, unknown,
		of_no_pointer(a) & no_distance(b) & (third ? of_no_pointer(c) : ALL), odd);
	out->truth.unknown = out->low.unknown;
	out->truth.pointer = pointer;
	out->tells = true;
}
