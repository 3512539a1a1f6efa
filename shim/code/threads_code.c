/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's instructions as threads.c runs them: with their operands found, what the launch says
 * in place of constants, and without all that no address and no way is made of.
 */
#include "shim/code/threads_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- instructions -------------------------------------------------------------------------------
 */

static void spread(struct lanes *lanes, uint32_t value)
{
	for (int l = 0; l < LANES; l++)
		lanes->value[l] = value;
	lanes->unknown = lanes->based = 0;
}

static unsigned first_parameter(const struct threads_launch *launch)
{
	return launch->sm < 90 ? 0x160 : 0x210;
}

/* A word of constant bank 0: how the launch is shaped, and its parameters. */
static void read_bank(const struct thread_program *program, unsigned at, struct lanes *lanes)
{
	const struct threads_launch *launch = program->launch;
	const unsigned first = first_parameter(launch);
	uint32_t word = 0;

	spread(lanes, 0);
	if (at % 4 == 0 && at < 24) {
		spread(lanes, at < 12 ? launch->block[at / 4] : launch->grid[at / 4 - 3]);
	} else if (at == 0x28) { /* what R1 is made of, on all architectures */
		spread(lanes, STACK_TOP);
		lanes->pointer = STACK;
		lanes->based = ALL;
	} else if (at % 4 == 0 && at >= first && at - first + 4 <= launch->param_bytes) {
		memcpy(&word, launch->params + (at - first), 4);
		spread(lanes, word);
		for (unsigned k = 0; k < launch->pointers; k++) {
			const unsigned half = at - first - launch->pointer[k];

			if (half == 0 || half == 4) {
				spread(lanes, half ? POINTER_UPPER(k) : 0);
				lanes->pointer = (uint8_t)(k + 1);
				lanes->based = ALL;
			}
		}
	} else {
		lanes->unknown = ALL;
	}
}

/* A word of bank 4, where the linker puts addresses. */
static void read_linked(const struct thread_program *program, unsigned at, struct lanes *lanes)
{
	const unsigned half = at + 1 - program->launch->turns;

	spread(lanes, half ? POINTER_UPPER(TURNS - 1) : 0);
	lanes->pointer = TURNS;
	lanes->based = ALL;
	if (!program->launch->turns || (half != 0 && half != 4))
		lanes->unknown = ALL;
}

/* What lies there of bank 0 where a load asks for less than a word: 1 byte or 2, and whether with
 * its sign, the field of its width tells. The last of the parameters may be as short. */
static void read_part(const struct thread_program *program, unsigned at, unsigned width,
		      struct lanes *lanes)
{
	const struct threads_launch *launch = program->launch;
	const unsigned from = at - first_parameter(launch), size = width < 2 ? 1 : 2;
	uint16_t value = 0;
	bool told = at >= first_parameter(launch) && from + size <= launch->param_bytes;

	for (unsigned k = 0; k < launch->pointers; k++)
		told &= from + size <= launch->pointer[k] || from >= launch->pointer[k] + 8u;
	if (told)
		memcpy(&value, launch->params + from, size);
	spread(lanes, width == 1   ? (uint32_t)(int8_t)value
		      : width == 3 ? (uint32_t)(int16_t)value
				   : value);
	lanes->unknown = told ? 0 : ALL;
}

/* What an operand in the lower word stands for, if that is no register. */
static void find_constant(const struct thread_program *program, struct thread_op *op,
			  struct lanes constant[2])
{
	const bool loads = op->opcode == LDC || op->opcode == ULDC;
	const bool bank = loads || op->in.shape == 3 || op->in.shape == 5;
	const bool part = loads && op_bits(op, 73, 3) < 4;
	void (*read)(const struct thread_program *, unsigned, struct lanes *);

	if (!bank && op->in.shape != 2 && op->in.shape != 4)
		return;
	if (op->opcode == LDC && (op_bits(op, 24, 8) != NO_VALUE || op_loads_linked(op)))
		return;
	op->constant = constant;
	if (!bank) {
		spread(&constant[0], (uint32_t)(op->in.low >> 32));
		constant[1].unknown = ALL;
		return;
	}
	read = op_bits(op, 54, 5) == 4 ? read_linked : read_bank;
	read(program, op_bits(op, 40, 14) * 4, &constant[0]);
	read(program, op_bits(op, 40, 14) * 4 + 4, &constant[1]);
	if (part && !op_bits(op, 54, 5))
		read_part(program, op_bits(op, 38, 16), op_bits(op, 73, 3), &constant[0]);
	else if (part || op_bits(op, 38, 2))
		constant[0].unknown = constant[1].unknown = ALL;
	if ((op_bits(op, 54, 5) && op_bits(op, 54, 5) != 4) ||
	    (op->opcode == ULDC && op_bits(op, 91, 1)))
		constant[0].unknown = constant[1].unknown = ALL;
}

static void find_operands(struct thread_op *op)
{
	const unsigned shape = op->in.shape;
	const bool warp = op_is_uniform(op), swapped = shape == 2 || shape == 3 || shape == 7;
	unsigned low = op_bits(op, 32, 8), high = op_bits(op, 64, 8);

	op->a = warp ? of_warp(op_bits(op, 24, 8)) : (uint16_t)op_bits(op, 24, 8);
	low = warp || shape > 5 ? of_warp(low) : low;
	if (op->constant)
		low = REGISTERS;
	high = warp ? of_warp(high) : high;
	op->b = (uint16_t)(swapped ? high : low);
	op->c = (uint16_t)(swapped ? low : high);
	if (op->opcode == LDC || op->opcode == ULDC)
		op->b = REGISTERS;
	op->to = op->in.how == HOW_NOTHING ? NO_VALUE
		 : op->in.use == 0	   ? op_bits(op, 16, 8)
					   : of_warp(op_bits(op, 16, 8));
}

/* ---- what is needed -----------------------------------------------------------------------------
 */

/* Registers and predicates of which somebody behind makes an address, or goes somewhere. */
struct needed {
	uint64_t reg[REGISTERS / 64]; /* one bit for each */
	uint64_t truths;
};

static void need(struct needed *needed, unsigned reg)
{
	if (reg != NO_VALUE && reg < REGISTERS - 1)
		needed->reg[reg >> 6] |= 1ull << (reg & 63);
}

static void need_truth(struct needed *needed, unsigned which)
{
	if (which % 8 != ALWAYS)
		needed->truths |= 1u << which;
}

static bool is_needed(const struct needed *needed, const struct thread_op *op)
{
	uint64_t any = op->written.warp.value[0] & needed->reg[UNIFORM >> 6];

	for (unsigned i = 0; i < UNIFORM >> 6; i++)
		any |= op->written.thread.value[i] & needed->reg[i];
	return any || op->truths & needed->truths;
}

static bool touches(const struct thread_op *op)
{
	return op->in.how == HOW_LOAD || op->in.how == HOW_GLOBAL;
}

/* Whatever it computes. */
static bool always_counts(const struct thread_op *op)
{
	switch (op->in.how) {
	case HOW_LOCAL:
	case HOW_SHARED:
	case HOW_MATRIX:
	case HOW_CONSTANT:
	case HOW_MEET:
	case HOW_AWAIT:
		return false;
	default:
		return op->in.how == HOW_UNSURE || op->in.how >= HOW_LOAD || op->opcode == BPT;
	}
}

/* What it is made of. */
static void need_sources(struct needed *needed, const struct thread_op *op)
{
	need_truth(needed, (op->in.guard & 7) + (op_is_uniform(op) ? 8 : 0));
	if (touches(op)) {
		const unsigned more = of_warp(op_bits(op, op->opcode == STG ? 64 : 32, 6));

		need(needed, op->a);
		need(needed, op->a + 1u);
		need(needed, more);
		need(needed, more + 1u);
	}
	if (op->in.how == HOW_SPILL || op->in.how == HOW_LOCAL)
		need(needed, op->a);
	for (unsigned i = 0; i < 4 && op->in.how == HOW_SPILL; i++)
		need(needed, op_bits(op, 32, 8) + i);
	if (op_calls_register(op)) {
		need(needed, op->a);
		need(needed, op->a + 1u);
	}
	if (op->computes) {
		need(needed, op->a);
		need(needed, op->b);
		need(needed, op->c);
		need(needed, op->c + 1u);
		need_truth(needed, op_truth(op, 77));
		need_truth(needed, op_third_truth(op));
	}
	if (op->opcode == P2R)
		needed->truths |= op->constant ? op->constant->value[0] & 0x7f : 0x7f;
	if (op->computes || op->in.how == HOW_BRANCH || op->in.how == HOW_EXIT)
		need_truth(needed, op_truth(op, 87));
}

/* What is needed before it, if that is needed behind. */
static void step_back(struct needed *needed, struct thread_op *op)
{
	op->skipped = !always_counts(op) && !is_needed(needed, op);
	for (unsigned i = 0; i < UNIFORM >> 6; i++) {
		op->forgotten.thread.value[i] = op->written.thread.value[i] & needed->reg[i];
		if (op->in.guard == MADE_ALWAYS)
			needed->reg[i] &= ~op->written.thread.sure[i];
	}
	op->forgotten.warp.value[0] = op->written.warp.value[0] & needed->reg[UNIFORM >> 6];
	if (!op->skipped)
		need_sources(needed, op);
}

/* Addresses, and what decides where threads go, are made of some of what a kernel computes. */
static int leave_out_rest(struct thread_program *program)
{
	struct needed *before = calloc((size_t)program->count + 1, sizeof(*before));
	bool news = before != NULL;

	if (!before)
		return -ENOMEM;
	while (news) {
		news = false;
		for (int64_t i = program->count; i-- > 0;) {
			struct thread_op *op = &program->op[i];
			struct needed needed = before[i + 1];

			for (unsigned k = 0; k < REGISTERS / 64 && op->in.how == HOW_BRANCH; k++)
				needed.reg[k] |= before[op->target].reg[k];
			if (op->in.how == HOW_BRANCH)
				needed.truths |= before[op->target].truths;
			step_back(&needed, op);
			news |= memcmp(&before[i], &needed, sizeof(needed)) != 0;
			before[i] = needed;
		}
	}
	free(before);
	for (int64_t i = program->count; i-- > 0;)
		program->op[i].next = i + 1 < program->count && program->op[i + 1].skipped &&
						      !program->op[i + 1].led_to
					      ? program->op[i + 1].next
					      : i + 1;
	return 0;
}

/* Uniform ones are not in the table, and where others have predicates some have none. */
static uint8_t predicates_of(const struct thread_op *op)
{
	switch (op->opcode) {
	case UIADD3:
	case UPLOP3:
		return 2;
	case ULEA:
	case ULOP3:
	case UIMAD_WIDE:
		return 1;
	case BAR: /* one that all wait at, or one that also counts */
		return op_bits(op, 77, 3) ? op->in.predicates : 0;
	case BREAK:
	case WARPSYNC:
	case BMOV:
	case BMOV + 1:
	case BMOV + 2:
		return 0;
	default:
		return op_is_uniform(op) && !op->computes ? 3 : op->in.predicates;
	}
}

/* The predicates that it may write. */
static uint16_t truths_of(const struct thread_op *op)
{
	const uint8_t count = op->in.predicates;
	unsigned truths = 0;

	if (count == 3)
		truths = op_is_uniform(op) ? 0x7f00 : 0x7f;
	else if (count > 0)
		truths = 1u << op_truth(op, 81) | (count > 1 ? 1u << op_truth(op, 84) : 0);
	return truths & 0x7f7f;
}

static void add_written(struct made_file *file, unsigned reg, unsigned none)
{
	if (reg < none)
		file->value[reg >> 6] |= 1ull << (reg & 63);
}

/* All that it may write: the table counts what may hold an address that was loaded. */
static void find_written(struct thread_op *op)
{
	const unsigned to = op_bits(op, 16, 8);

	made_written(&op->in, &op->written);
	switch (op->opcode) {
	case CS2R:
		if (op_bits(op, 80, 1))
			add_written(&op->written.thread, to + 1, NO_VALUE);
		break;
	case LEPC:
		add_written(&op->written.thread, to, NO_VALUE);
		add_written(&op->written.thread, to + 1, NO_VALUE);
		break;
	case BMOV:
	case QSPC:
		add_written(&op->written.thread, to, NO_VALUE);
		break;
	case ELECT:
	case UP2UR:
	case ULEPC:
		add_written(&op->written.warp, to & 63, 63);
		add_written(&op->written.warp, (to & 63) + (op->opcode == ULEPC), 63);
		break;
	}
}

static int read_ops(struct thread_program *program)
{
	const struct threads_launch *launch = program->launch;

	program->count = (int64_t)(launch->bytes / MADE_INSTRUCTION);
	program->op = calloc((size_t)program->count + 1, sizeof(*program->op));
	program->constants = calloc(2 * (size_t)program->count + 1, sizeof(*program->constants));
	if (!program->op || !program->constants)
		return -ENOMEM;
	for (int64_t i = 0; i < program->count; i++) {
		struct thread_op *op = &program->op[i];
		int64_t distance;

		op->in = made_instruction(launch->code, (uint32_t)i);
		op->opcode = op->in.low & 0x1ff;
		op->asserts = launch->asserts;
		find_constant(program, op, &program->constants[2 * i]);
		find_operands(op);
		op->computes = threads_computes(op);
		find_written(op);
		op->in.predicates = predicates_of(op);
		op->truths = truths_of(op);
		if (!made_leads(&op->in))
			continue;
		distance = made_distance(&op->in, launch->sm);
		op->target = distance == INT64_MIN ? -1 : i + 1 + distance;
		if (op->target < 0 || op->target >= program->count)
			return -EINVAL;
		program->op[op->target].led_to = true;
	}
	return 0;
}

/* What a function may write is what any may: they lie behind the kernel. 0, or -EINVAL: they touch
 * memory. */
static int sum_up_calls(struct thread_program *program)
{
	struct made_state written;
	uint16_t truths = 0;
	int64_t first = program->count;

	memset(&written, 0, sizeof(written));
	for (int64_t i = 0; i < program->count; i++)
		if (program->op[i].in.how == HOW_CALL && program->op[i].target < first)
			first = program->op[i].target;
	for (int64_t i = first; i < program->count; i++) {
		const struct made_instruction *in = &program->op[i].in;
		const uint64_t *from = (const uint64_t *)&program->op[i].written;

		if (in->how == HOW_UNSURE || in->how == HOW_LOAD || in->how == HOW_ATOMIC ||
		    in->how == HOW_GLOBAL || in->how == HOW_FETCH || in->how == HOW_BULK ||
		    in->how == HOW_STORE || in->how == HOW_EXIT)
			return -EINVAL;
		for (size_t k = 0; k < sizeof(written) / sizeof(*from); k++)
			((uint64_t *)&written)[k] |= from[k];
		truths |= program->op[i].truths;
		program->functions_stop |= program->op[i].opcode == BPT;
	}
	for (int64_t i = 0; i < program->count; i++)
		if (program->op[i].in.how == HOW_CALL) {
			program->op[i].written = written;
			program->op[i].truths = truths;
		}
	return 0;
}

/* ---- all of it ----------------------------------------------------------------------------------
 */

int threads_read(struct thread_program *program, const struct threads_launch *launch)
{
	int error;

	program->launch = launch;
	error = read_ops(program);
	if (!error)
		error = sum_up_calls(program);
	return error ? error : leave_out_rest(program);
}

void threads_unread(struct thread_program *program)
{
	free(program->constants);
	free(program->op);
}
