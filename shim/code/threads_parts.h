/* SPDX-License-Identifier: Apache-2.0
 *
 * A warp that is run on the host (threads.c), and what an instruction does to its registers
 * (threads_compute.c). Where fields of instructions lie was found by having nvdisasm print them
 * with one bit changed after the other; what they mean is tested on compiled kernels whose
 * addresses are computed in C as well (tests/unit/test_threads.c). A form that is not expected
 * leaves unknown numbers behind.
 */
#ifndef FASHIM_THREADS_PARTS_H
#define FASHIM_THREADS_PARTS_H

#include "shim/code/kernel_code_made.h"
#include "shim/code/threads.h"

#define LANES	  32
#define ALL	  0xffffffffu
#define REGISTERS 320 /* a thread's own, and from UNIFORM on those of the warp */
#define UNIFORM	  256
#define NO_VALUE  255 /* reads as 0 */
#define PREDICATE 16  /* a thread's own, and from 8 on those of the warp */
#define ALWAYS	  7
#define AWAITED	  8
#define SLOT	  (REGISTERS + 1) /* words of local memory, kept as registers are: the first, … */
#define SLOTS	  256		  /* … and how many */
#define KEPT	  (SLOT + SLOTS)

/* The compiler's own table counts as one more pointer. */
#define TURNS (THREADS_POINTERS + 1)

/* And where a thread's local memory ends, of which addresses have 32 bits. */
#define STACK	  (THREADS_POINTERS + 2)
#define STACK_TOP 0x10000u

/* Of a pointer's address the upper half names the parameter, whatever is added. */
#define POINTER_UPPER(k) ((0x4000u + (k)) << 16 | 0x8000u)

/* In place of a pointer: the reciprocal of a number as MUFU.RCP has it, which is not told to the
 * last bit. */
#define RECIPROCAL 254

/* In place of one, too: of a number that is not told the lowest four bits, as its value has them.
 */
#define LOW_BITS 252

/* In place of one, too: a half of where __assertfail lies, and which half that is. */
#define ASSERTS 253

/* A register. An unknown number may tell how far two pointers are apart: compilers make one of the
 * other by adding that. Of what was loaded, and of numbers, no such distance is made. */
struct lanes {
	uint32_t value[LANES];
	uint32_t unknown; /* one bit for each lane */
	uint32_t data;	  /* of the unknown, those made of what was loaded and of numbers alone, but
			     for the pointer; of others it says nothing.
			     Their values are what they would be if all that is loaded were 0 */
	uint32_t based;	  /* in these it is a half of … */
	uint8_t pointer;  /* … that pointer, counted from 1, plus something */
};

struct truth {
	uint32_t value, unknown;
	uint32_t based;	 /* in these the carry of an addition to … */
	uint8_t pointer; /* … that pointer */
	uint8_t twin;	 /* one of two carries of a sum: the other predicate, counted from 1 */
	/* That the lower half of the pointer `half_of` (0: of none) is equal to 0, or unequal: an
	 * enum ordering. */
	uint8_t half_of, half_is;
};

/* How ISETP compares, in the field that says so. */
enum ordering {
	ORDER_NEVER,
	ORDER_LESS,
	ORDER_EQUAL,
	ORDER_LESS_EQUAL,
	ORDER_GREATER,
	ORDER_UNEQUAL,
	ORDER_GREATER_EQUAL,
	ORDER_ALWAYS
};

/* An instruction with its operands found. */
struct thread_op {
	struct made_instruction in;
	const struct lanes *constant; /* what stands for a register in it; NULL: none */
	unsigned opcode;
	uint16_t to, a, b, c; /* registers; REGISTERS: the constant */
	uint16_t truths;      /* predicates that it may write, a bit for each */
	bool skipped;	      /* nothing that it computes is needed */
	bool computes;	      /* threads_compute() knows it */
	bool led_to;	      /* by a branch: threads may meet here, or be no more in doubt */
	uint32_t asserts;     /* as the launch says */
	int64_t target;	      /* of a branch or call */
	int64_t next;	      /* the next that may matter */
	struct made_state written, forgotten; /* all of it, and what of it anybody needs */
};

/* A kernel, as the launch runs it. */
struct thread_program {
	const struct threads_launch *launch;
	struct thread_op *op;
	int64_t count;
	struct lanes *constants;
	bool functions_stop; /* the GPU, perhaps */
};

struct warp {
	const struct threads_launch *launch;
	struct lanes reg[KEPT]; /* that at REGISTERS is none */
	struct truth truth[PREDICATE];
	uint32_t live;			  /* lanes that there are, and have not ended */
	uint32_t maybe;			  /* of these, those that perhaps are elsewhere, … */
	int64_t until;			  /* … before that instruction */
	int64_t awaited[AWAITED];	  /* where they may come from there, … */
	unsigned awaited_count;		  /* … if so many are enough: else anywhere */
	uint64_t doubtful[KEPT / 64 + 1]; /* what they wrote since ways last met */
	unsigned doubtful_truths;
	uint64_t moving[KEPT / 64 + 1]; /* of the first of a stretch: those that may not be the
					   same in the others (threads_stretch.h) */
	uint64_t held[KEPT / 64 + 1];	/* those of which something is known, perhaps */
	uint32_t uncertain;		/* lanes that perhaps have ended */
	uint32_t number[3][LANES];	/* of its threads in the block */
	uint32_t block[3];
};

static inline unsigned op_bits(const struct thread_op *op, unsigned at, unsigned count)
{
	const uint64_t word = at < 64 ? op->in.low >> at : op->in.high >> (at - 64);

	return (unsigned)(word & ((1u << count) - 1));
}

/* Does the instruction work on the warp's own registers and predicates? */
static inline bool op_is_uniform(const struct thread_op *op)
{
	return op->opcode >= 0x082 && op->opcode < 0x0c0;
}

/* A predicate by its three bits. */
static inline unsigned op_truth(const struct thread_op *op, unsigned at)
{
	return op_bits(op, at, 3) + (op_is_uniform(op) ? 8 : 0);
}

/* The one that a comparison of upper halves takes in, or the third of three, which may be the
 * warp's. */
static inline unsigned op_third_truth(const struct thread_op *op)
{
	return op->opcode == PLOP3 && op_bits(op, 67, 1) ? op_bits(op, 68, 3) + 8
							 : op_truth(op, 68);
}

static inline bool op_writes(const struct thread_op *op, unsigned reg)
{
	const struct made_file *file = reg < UNIFORM ? &op->written.thread : &op->written.warp;

	return file->value[reg % UNIFORM >> 6] >> (reg & 63) & 1;
}

static inline uint16_t of_warp(unsigned number)
{
	return (uint16_t)(UNIFORM + (number & 63));
}

/* Does it load a pair from bank 4, where the linker puts addresses? */
static inline bool op_loads_linked(const struct thread_op *op)
{
	return op->opcode == LDC && op_bits(op, 54, 5) == 4 && op_bits(op, 73, 3) == 5 &&
	       !op_bits(op, 32, 6) && !op_bits(op, 59, 5) && !op_bits(op, 64, 9) &&
	       !op_bits(op, 76, 15);
}

/* Reads the instructions, and finds out which of them matter. 0, -EINVAL, -ENOMEM. */
int threads_read(struct thread_program *program, const struct threads_launch *launch);
void threads_unread(struct thread_program *program);

/* Is it one of those that threads_compute() knows, in a form that it knows? */
bool threads_computes(const struct thread_op *op);

/* The instruction for the lanes of `mask`; of `unsure` it is not known whether they execute it. */
void threads_compute(struct warp *warp, const struct thread_op *op, uint32_t mask, uint32_t unsure);

/* The same for warps that have the same in all that it reads. */
void threads_compute_alike(struct warp *warp, unsigned warps, const struct thread_op *op,
			   uint32_t mask, uint32_t unsure);

/* Ways meet: what was written by those who perhaps were elsewhere is not known any more. */
void threads_meet(struct warp *warp);

/* Nothing is known any more of what the instruction may write. */
void threads_forget(struct warp *warp, const struct thread_op *op, uint32_t mask);

/* The same, of one that loads words from global memory: they are of no pointer. */
void threads_load(struct warp *warp, const struct thread_op *op, uint32_t mask, uint32_t unsure);

/* Registers go to local memory, and come from there; nothing is known of it any more. */
void threads_spill(struct warp *warp, const struct thread_op *op, uint32_t mask, uint32_t unsure);
void threads_refill(struct warp *warp, const struct thread_op *op, uint32_t mask, uint32_t unsure);
void threads_forget_local(struct warp *warp, uint32_t mask);

/* A register, or a word of local memory, becomes that for the lanes of `mask`, of `unsure` perhaps.
 */
void threads_write(struct warp *warp, unsigned to, const struct lanes *from, uint32_t mask,
		   uint32_t unsure);

/* Does it call what a pair of registers leads to? */
static inline bool op_calls_register(const struct thread_op *op)
{
	return op->opcode == CALL_ABSOLUTE && op->in.shape == 1 && !(op->in.low >> 32);
}

/* Does what it calls, in all these lanes, end the program? */
bool threads_assert_fails(const struct warp *warp, const struct thread_op *op, uint32_t mask);

#endif
