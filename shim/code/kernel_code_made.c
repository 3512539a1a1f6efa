/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands lie where the shape says (bits 9 to 11): A from bit 24 on, the others from bits 32
 * and 64 on. A row of kernel_code.def says which of them there are, what becomes of them and where.
 * A register that is written for some threads only keeps what it may have held.
 */
#include "shim/code/kernel_code_made.h"

#include <string.h>

#define SPECIAL_FORM 0x800 /* above the opcode, of S2R and S2UR */
#define WORDS	     (sizeof(struct made_file) / sizeof(uint64_t))

enum { FROM__ = 0, FROM_A = 1, FROM_B = 2, FROM_C = 4, FROM_AB = 3, FROM_ABC = 7 };

/* Registers of the thread, uniform ones, or from the former to the latter. */
enum file_use { USE_R, USE_U, USE_X };

static const struct form {
	uint8_t how, from, use, predicates;
} forms[512] = {
#define SASS(opcode, name, what, how, from, use, predicates)                                       \
	[opcode] = {HOW_##how, FROM_##from, USE_##use, predicates},
#include "shim/code/kernel_code.def"
};

static unsigned bits(uint64_t word, unsigned at, unsigned count)
{
	return (unsigned)(word >> at & ((1u << count) - 1));
}

/* Uniform registers are 63, and the last number stands for none, too. */
static unsigned uniform(unsigned number)
{
	return (number & 63) == 63 ? MADE_NONE : number & 63;
}

struct made_instruction made_instruction(const unsigned char *code, uint32_t i)
{
	struct made_instruction in;
	const struct form *form;

	memcpy(&in.low, code + (size_t)i * MADE_INSTRUCTION, 8);
	memcpy(&in.high, code + (size_t)i * MADE_INSTRUCTION + 8, 8);
	form = &forms[in.low & 0x1ff];
	in.how = form->how;
	in.from = form->from;
	in.use = form->use;
	in.predicates = form->predicates;
	in.shape = bits(in.low, 9, 3);
	in.target = bits(in.low, 16, 8);
	if (in.use != USE_R)
		in.target = uniform(in.target);
	in.guard = bits(in.low, 12, 4);
	return in;
}

/* ---- registers ----------------------------------------------------------------------------------
 */

static enum made made_of(const struct made_file *file, unsigned at)
{
	const unsigned i = at >> 6, k = at & 63;

	if (at >= MADE_NONE)
		return MADE_FRESH;
	return (file->value[i] >> k & 1) + (file->word[i] >> k & 1) + (file->sure[i] >> k & 1);
}

/* replace: what was there is gone. */
static void put(struct made_file *file, unsigned at, enum made what, bool replace)
{
	const uint64_t bit = 1ull << (at & 63);
	uint64_t *const sets[] = {&file->value[at >> 6], &file->word[at >> 6],
				  &file->sure[at >> 6]};

	if (at >= MADE_NONE)
		return;
	for (unsigned i = 0; i < 3; i++) {
		if (what > i && (replace || i < 2))
			*sets[i] |= bit;
		else if (what <= i && (replace || i == 2))
			*sets[i] &= ~bit;
	}
}

static enum made more(enum made a, enum made b)
{
	return a > b ? a : b;
}

static enum made possible(enum made what)
{
	return what > MADE_WORD ? MADE_WORD : what;
}

static enum made computed(enum made of)
{
	return of ? MADE_VALUE : MADE_FRESH;
}

/* ---- operands -----------------------------------------------------------------------------------
 */

enum operand { OPERAND_A, OPERAND_B, OPERAND_C };

/* Bank 3 holds what the program put there. */
static enum made made_of_bank(uint64_t low)
{
	return bits(low, 54, 5) == 3 ? MADE_WORD : MADE_FRESH;
}

/* neighbour: of the register behind it. */
static enum made operand(const struct made_instruction *in, const struct made_state *state,
			 enum operand which, unsigned neighbour)
{
	const bool warp = in->use == USE_U;
	/* Where there is a C, the lower word has it, or what stands in its place. */
	const bool swapped =
		in->from & FROM_C && (in->shape == 2 || in->shape == 3 || in->shape == 7);
	const bool lower = which && (which == OPERAND_C) == swapped;
	unsigned at = which == OPERAND_A ? bits(in->low, 24, 8)
		      : lower		 ? bits(in->low, 32, 8)
					 : bits(in->high, 0, 8);

	if (lower && in->shape > 1 && in->shape < 6)
		return in->shape == 3 || in->shape == 5 ? made_of_bank(in->low) : MADE_FRESH;
	if (!warp && !(lower && in->shape > 5))
		return made_of(&state->thread, at == MADE_NONE ? at : at + neighbour);
	at = uniform(at);
	return made_of(&state->warp, at == MADE_NONE ? at : at + neighbour);
}

/* Of all that it has, and of their neighbours so far. */
static enum made operands(const struct made_instruction *in, const struct made_state *state,
			  unsigned neighbours)
{
	enum made made = MADE_FRESH;

	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; (in->from >> i & 1) && k <= neighbours; k++)
			made = more(made, operand(in, state, i, k));
	return made;
}

/* What is multiplied by 1 stays what it is. */
static enum made product(const struct made_instruction *in, const struct made_state *state)
{
	const enum made a = operand(in, state, OPERAND_A, 0);

	if (in->shape == 4 && in->low >> 32 == 1)
		return a;
	return computed(more(a, operand(in, state, OPERAND_B, 0)));
}

static enum made shifted_sum(const struct made_instruction *in, const struct made_state *state)
{
	const enum made shifted =
		more(operand(in, state, OPERAND_A, 0), operand(in, state, OPERAND_C, 0));

	return more(operand(in, state, OPERAND_B, 0),
		    bits(in->high, 11, 5) ? computed(shifted) : shifted);
}

/* ---- results ------------------------------------------------------------------------------------
 */

/* Of a load or store: a power of two of registers. 0: a part of one; more than 4: not known. */
static unsigned registers_moved(const struct made_instruction *in)
{
	static const unsigned char count[8] = {0, 0, 0, 0, 1, 2, 4, 8};

	return count[bits(in->high, 9, 3)];
}

/* How many registers it may write from the target on, and how many surely. */
static unsigned registers_written(const struct made_instruction *in, unsigned *surely)
{
	unsigned count = 1;

	*surely = 1;
	switch (in->how) {
	case HOW_FRESH:
	case HOW_VOTES:
	case HOW_SELECT:
	case HOW_KEEP:
	case HOW_MIX:
	case HOW_LEA:
	case HOW_MAD:
	case HOW_HIGH:
		break;
	case HOW_PAIR:
	case HOW_WIDE:
		*surely = count = 2;
		break;
	case HOW_LOOSE:
		count = 2;
		break;
	case HOW_LOAD:
	case HOW_LOCAL:
	case HOW_SHARED:
	case HOW_CONSTANT:
		count = registers_moved(in) ? registers_moved(in) : 1;
		*surely = count > 4 ? 0 : count;
		break;
	case HOW_TWO:
		count = 2;
		*surely = 0;
		break;
	case HOW_FOUR:
	case HOW_ATOMIC:
	case HOW_MATRIX:
		count = 4;
		*surely = 0;
		break;
	case HOW_EIGHT:
		count = 8;
		*surely = 0;
		break;
	case HOW_REST:
		count = MADE_NONE;
		*surely = 0;
		break;
	default:
		*surely = count = 0;
	}
	return in->target == MADE_NONE ? 0 : count;
}

/* Of the first register; *others: of those behind it. */
static enum made result(const struct made_instruction *in, enum made local,
			const struct made_state *state, enum made *others)
{
	enum made made;

	switch (in->how) {
	case HOW_FRESH:
		made = MADE_FRESH;
		break;
	case HOW_KEEP:
		made = operands(in, state, 0);
		break;
	case HOW_SELECT:
		made = operands(in, state, 0);
		if (operand(in, state, OPERAND_A, 0) != operand(in, state, OPERAND_B, 0))
			made = possible(made);
		break;
	case HOW_MIX:
		made = computed(operands(in, state, 0));
		break;
	case HOW_PAIR:
	case HOW_LOOSE:
		made = computed(operands(in, state, 1));
		break;
	case HOW_LEA:
		made = shifted_sum(in, state);
		break;
	case HOW_MAD:
	case HOW_WIDE:
		made = more(product(in, state), operand(in, state, OPERAND_C, 0));
		break;
	case HOW_HIGH:
		made = more(computed(product(in, state)), more(operand(in, state, OPERAND_C, 0),
							       operand(in, state, OPERAND_C, 1)));
		break;
	case HOW_CONSTANT:
		made = made_of_bank(in->low);
		break;
	case HOW_LOCAL:
		made = possible(local); /* of some of it */
		break;
	case HOW_VOTES:
	case HOW_TWO:
	case HOW_FOUR:
	case HOW_EIGHT:
	case HOW_REST:
		made = MADE_VALUE;
		break;
	case HOW_LOAD: /* from global memory, or perhaps from elsewhere */
		made = (in->low & 0x1ff) == LDG ? MADE_SURE : MADE_WORD;
		break;
	default:
		made = MADE_WORD;
	}
	if ((in->how == HOW_LOAD || in->how == HOW_SHARED || in->how == HOW_LOCAL ||
	     in->how == HOW_CONSTANT) &&
	    !registers_moved(in))
		made = computed(made);
	*others = in->how == HOW_WIDE
			  ? more(computed(product(in, state)), operand(in, state, OPERAND_C, 1))
			  : made;
	return made;
}

static void put_all(const struct made_instruction *in, struct made_file *file, enum made made,
		    enum made others, bool replace)
{
	unsigned surely, count = registers_written(in, &surely);

	for (unsigned i = 0; i < count && in->target + i < MADE_NONE; i++)
		put(file, in->target + i, i ? others : made, replace && i < surely);
}

static void put_in(const struct made_instruction *in, struct made_state *state, enum made made,
		   enum made others, bool replace)
{
	if (in->use == USE_R || in->how == HOW_TWO)
		put_all(in, &state->thread, made, others, replace);
	if (in->use != USE_R || in->how == HOW_TWO)
		put_all(in, &state->warp, made, others, replace);
}

void made_written(const struct made_instruction *in, struct made_state *written)
{
	put_in(in, written, MADE_SURE, MADE_SURE, true);
}

/* ---- under a predicate --------------------------------------------------------------------------
 */

/* The bits of `one` where `mask` has none, and those of `other` where it has. */
static void blend(struct made_state *one, const struct made_state *other,
		  const struct made_state *mask)
{
	uint64_t *to = (uint64_t *)one;
	const uint64_t *from = (const uint64_t *)other, *where = (const uint64_t *)mask;

	for (size_t i = 0; i < 2 * WORDS; i++)
		to[i] = (to[i] & ~where[i]) | (from[i] & where[i]);
}

/* Uniform instructions run under uniform predicates, which are not followed. */
static bool is_guarded(const struct made_instruction *in)
{
	return in->guard != MADE_ALWAYS && in->use != USE_U;
}

struct made_state made_found(const struct made_instruction *in, const struct made_state *state,
			     const struct made_guards *guards)
{
	struct made_state found = *state;

	if (is_guarded(in) && guards->active >> in->guard & 1)
		blend(&found, &guards->by[in->guard].made, &guards->by[in->guard].written);
	return found;
}

/* The predicates that it may write, each by both of its guards. */
static unsigned predicates_written(const struct made_instruction *in)
{
	unsigned both = 0;

	if (in->predicates > 2)
		return ~0u;
	for (unsigned i = 0; i < in->predicates; i++)
		both |= 1u << bits(in->high, 17 + 3 * i, 3);
	both &= 0x7f;
	return both | both << 8;
}

/* Marks the registers that it surely writes, or clears all that it may write. */
static void mark(const struct made_instruction *in, struct made_state *marks, bool set)
{
	unsigned surely, count = registers_written(in, &surely);

	for (unsigned i = 0; i < count && in->target + i < MADE_NONE; i++) {
		const enum made as = set && i < surely ? MADE_SURE : MADE_FRESH;

		if (in->use == USE_R || in->how == HOW_TWO)
			put(&marks->thread, in->target + i, as, true);
		if (in->use != USE_R || in->how == HOW_TWO)
			put(&marks->warp, in->target + i, as, true);
	}
}

static void put_guarded(const struct made_instruction *in, struct made_guards *guards,
			enum made made, enum made others)
{
	const unsigned own = is_guarded(in) ? 1u << in->guard : 0;

	for (unsigned left = guards->active & ~own; left; left &= left - 1) {
		const unsigned i = (unsigned)__builtin_ctz(left);

		if (in->guard == MADE_ALWAYS)
			mark(in, &guards->by[i].written, false);
		else if (!own || i != (in->guard ^ 8))
			put_in(in, &guards->by[i].made, made, others, false);
	}
	if (!own)
		return;
	if (!(guards->active & own))
		guards->by[in->guard].written = guards->by[in->guard].made = (struct made_state){0};
	guards->active |= own;
	put_in(in, &guards->by[in->guard].made, made, others, true);
	mark(in, &guards->by[in->guard].written, true);
}

void made_run(const struct made_instruction *in, enum made local, const struct made_state *found,
	      struct made_state *state, struct made_guards *guards)
{
	enum made others, made = result(in, local, found, &others);

	put_guarded(in, guards, made, others);
	put_in(in, state, made, others, in->guard == MADE_ALWAYS);
	guards->active &= ~predicates_written(in);
}

static bool join_file(struct made_file *one, const struct made_file *other)
{
	uint64_t news = 0;

	for (unsigned i = 0; i < 4; i++) {
		news |= (other->value[i] & ~one->value[i]) | (other->word[i] & ~one->word[i]) |
			(one->sure[i] & ~other->sure[i]);
		one->value[i] |= other->value[i];
		one->word[i] |= other->word[i];
		one->sure[i] &= other->sure[i];
	}
	return news != 0;
}

bool made_join(struct made_state *one, const struct made_state *other)
{
	const bool news = join_file(&one->thread, &other->thread);

	return join_file(&one->warp, &other->warp) || news;
}

/* ---- memory -------------------------------------------------------------------------------------
 */

enum made made_spilled(const struct made_instruction *in, const struct made_state *state)
{
	const unsigned at = bits(in->low, 32, 8);
	enum made made = made_of(&state->thread, at);

	for (unsigned i = 1; i < registers_moved(in) && at < MADE_NONE; i++)
		made = more(made, made_of(&state->thread, at + i));
	return made;
}

static enum made pair(const struct made_file *file, unsigned at, enum made *upper)
{
	if (at >= MADE_NONE)
		return MADE_FRESH;
	*upper = more(*upper, made_of(file, at + 1));
	return more(made_of(file, at), made_of(file, at + 1));
}

/* A, and beside it or instead a uniform register, which lies where data to be stored do not; it may
 * be that of a descriptor, which is fresh. */
enum made made_address(const struct made_instruction *in, const struct made_state *state,
		       enum made *upper)
{
	const bool bulk = in->how == HOW_BULK, loads = in->how == HOW_LOAD;
	const unsigned a = bits(in->low, 24, 8);
	enum made made;

	*upper = MADE_FRESH;
	made = bulk ? pair(&state->warp, uniform(a), upper) : pair(&state->thread, a, upper);
	if (bulk || loads)
		made = more(made, pair(&state->warp, uniform(bits(in->low, 32, 8)), upper));
	if (bulk || !loads)
		made = more(made, pair(&state->warp, uniform(bits(in->high, 0, 8)), upper));
	return made;
}

/* ---- where it leads -----------------------------------------------------------------------------
 */

bool made_leads(const struct made_instruction *in)
{
	return in->how == HOW_BRANCH || in->how == HOW_CALL ||
	       (in->how == HOW_COLLECT && in->shape == 1 && bits(in->high, 22, 1));
}

/* 48 bits of an offset in words, above two bits that say who branches; from sm_90 on the lowest 8
 * of the offset lie apart, but for meeting points. */
int64_t made_distance(const struct made_instruction *in, unsigned sm)
{
	const uint64_t offset = in->low >> 32 | in->high << 32;
	int64_t bytes = (int64_t)(offset << 14) >> 14 & ~(int64_t)3;

	if (in->how == HOW_MEET)
		bytes = (int32_t)(in->low >> 32);
	else if (sm >= 90)
		bytes = bytes * 256 + 4 * (int64_t)bits(in->low, 16, 8);
	return bytes % MADE_INSTRUCTION ? INT64_MIN : bytes / MADE_INSTRUCTION;
}

/* Branches, returns and exits have a second predicate, and some branches are taken by those who are
 * together, or are not. */
bool made_stops(const struct made_instruction *in)
{
	const bool plain = in->guard == MADE_ALWAYS && bits(in->high, 23, 4) == MADE_ALWAYS;

	switch (in->how) {
	case HOW_BRANCH:
		return plain && in->shape == 4 && !bits(in->low, 32, 2);
	case HOW_RETURN:
	case HOW_EXIT:
		return plain;
	default:
		return false;
	}
}

bool made_leave_open(unsigned char *instruction)
{
	uint64_t low, high;
	unsigned opcode;

	memcpy(&low, instruction, 8);
	memcpy(&high, instruction + 8, 8);
	opcode = bits(low, 0, 9);
	if (opcode != MOV && opcode != UMOV)
		return false;
	low = (low & 0xfff000) | SPECIAL_FORM | (opcode == MOV ? S2R : S2UR);
	high |= 0xff << 8; /* there is no such special register */
	memcpy(instruction, &low, 8);
	memcpy(instruction + 8, &high, 8);
	return true;
}
