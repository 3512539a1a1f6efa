/* SPDX-License-Identifier: Apache-2.0
 *
 * Dividing by a number that the compiler does not have begins with an estimate:
 *
 *     I2F.RP  r, d;   MUFU.RCP r, r;   IADD3 r, r, 0xffffffe;   F2I.FTZ.U32.TRUNC.NTZ x, r
 *
 * that is 2^32 / d and never above, and ends with a quotient put right twice. So the last bit of
 * what MUFU gives, which NVIDIA does not tell, makes no difference behind the whole of it, and
 * nothing but F2I may use it before. Numbers from 2^31 on are left alone.
 */
#include "shim/code/threads_outcome.h"

#include <string.h>

#define ONE 0x3f800000u /* as a float; an octave has 2^23 */

/* All that is said of how, but that a source is the warp's own. */
static unsigned modifiers(const struct thread_op *op)
{
	return op_bits(op, 72, 19) | op_bits(op, 92, 13) << 19;
}

void threads_to_float(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *b = operand(warp, op, op->b);
	const bool is_signed = op_bits(op, 74, 1);

	out->low.unknown = unknown_number(b);
	for (int l = 0; l < LANES; l++) {
		float up = (float)b->value[l];
		uint32_t bits;

		memcpy(&bits, &up, 4);
		bits += (double)up < b->value[l];
		out->low.value[l] = bits;
		if (is_signed && (int32_t)b->value[l] < 0)
			out->low.unknown |= 1u << l;
	}
}

void threads_invert(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *b = operand(warp, op, op->b);

	out->low.unknown = unknown_number(b);
	out->low.pointer = RECIPROCAL;
	for (int l = 0; l < LANES; l++) {
		float value;

		memcpy(&value, &b->value[l], 4);
		if (b->value[l] < ONE || b->value[l] >= ONE + (31u << 23)) {
			out->low.unknown |= 1u << l;
			continue;
		}
		value = 1 / value;
		memcpy(&out->low.value[l], &value, 4);
	}
}

void threads_to_integer(const struct warp *warp, const struct thread_op *op, struct outcome *out)
{
	const struct lanes *b = operand(warp, op, op->b);

	out->low.unknown = b->unknown | (b->pointer == RECIPROCAL ? ~b->based : ALL);
	for (int l = 0; l < LANES; l++) {
		float value;

		memcpy(&value, &b->value[l], 4);
		if (b->value[l] <= ONE || b->value[l] >= ONE + (32u << 23))
			out->low.unknown |= 1u << l;
		else
			out->low.value[l] = (uint32_t)value;
	}
}

bool threads_begins_division(const struct thread_op *op)
{
	const unsigned form = modifiers(op);

	if (op->in.shape != 4 && op_bits(op, 62, 2))
		return false;
	switch (op->opcode) {
	case I2F:
		return form == 0x2090 || form == 0x2094;
	case MUFU:
		return form == 0x10;
	default:
		return form == 0x21f0;
	}
}
