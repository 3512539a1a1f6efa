/* SPDX-License-Identifier: Apache-2.0
 *
 * What one instruction makes of registers, and whether one may hold what was loaded. All this holds
 * for the encoding of sm_75 to sm_90; later ones give opcodes other meanings.
 */
#ifndef FASHIM_KERNEL_CODE_MADE_H
#define FASHIM_KERNEL_CODE_MADE_H

#include <stdbool.h>
#include <stdint.h>

#define MADE_INSTRUCTION 16 /* bytes */
#define MADE_LATEST	 90 /* the last architecture that this holds for */

/* Its lowest nine bits, of those that something special is done about; kernel_code.def has all. */
enum {
	MOV = 0x002,
	P2R = 0x003,
	R2P = 0x004,
	CS2R = 0x005,
	SEL = 0x007,
	ISETP = 0x00c,
	IADD3 = 0x010,
	LEA = 0x011,
	LOP3 = 0x012,
	IABS = 0x013,
	PRMT = 0x016,
	IMNMX = 0x017,
	SHF = 0x019,
	SGXT = 0x01a,
	PLOP3 = 0x01c,
	IMAD = 0x024,
	IMAD_WIDE = 0x025,
	IMAD_HIGH = 0x027,
	ELECT = 0x02f,
	HFMA2 = 0x031,
	HFMA2_MMA = 0x035,
	VIADD = 0x036,
	VIADDMNMX = 0x046,
	VIMNMX = 0x048,
	UMOV = 0x082,
	UP2UR = 0x083,
	USEL = 0x087,
	UISETP = 0x08c,
	UIADD3 = 0x090,
	ULEA = 0x091,
	ULOP3 = 0x092,
	UPRMT = 0x096,
	USHF = 0x099,
	USGXT = 0x09a,
	UPLOP3 = 0x09c,
	UIMAD = 0x0a4,
	UIMAD_WIDE = 0x0a5,
	ULDC = 0x0b9,
	ULDC_INDEXED = 0x0bb,
	R2UR = 0x0ca,
	F2I = 0x105,
	I2F = 0x106,
	MUFU = 0x108,
	S2R = 0x119,
	BAR = 0x11d,
	BREAK = 0x142,
	BPT = 0x15c,
	WARPSYNC = 0x148,
	CALL_ABSOLUTE = 0x143,
	LEPC = 0x14e,
	BMOV = 0x155, /* and two more */
	LDG = 0x181,
	LDC = 0x182,
	STG = 0x186,
	CCTL = 0x18f,
	QSPC = 0x1aa,
	R2UR_LATER = 0x1c2,
	S2UR = 0x1c3,
	ULEPC = 0x1ce,
};

/* What an instruction leaves in registers, or where it leads. */
enum how {
	HOW_UNSURE,
	HOW_NOTHING,
	HOW_FRESH,  /* one register, of which memory says nothing */
	HOW_VOTES,  /* one, of a predicate of each thread */
	HOW_SELECT, /* one, either source */
	HOW_KEEP,   /* one, a part of each source, or the sum */
	HOW_MIX,    /* one, computed in another way */
	HOW_PAIR,   /* two, of pairs */
	HOW_LOOSE,  /* one or two, of one or of a pair */
	HOW_TWO,    /* one or two of whichever, from elsewhere */
	HOW_FOUR,   /* up to four, of matrices, */
	HOW_EIGHT,  /* or up to eight */
	HOW_REST,   /* nobody counts how many */
	HOW_LEA,    /* (A and C, shifted) + B */
	HOW_MAD,    /* A * B + C */
	HOW_WIDE,   /* the same, and C and the result are pairs */
	HOW_HIGH,   /* the upper half of that */
	HOW_LOAD,   /* from an address in A and the next register, or in uniform ones */
	HOW_ATOMIC, /* the same, up to four registers */
	HOW_GLOBAL, /* memory at such an address, but no register, */
	HOW_FETCH,  /* nor here, for it goes to shared memory */
	HOW_BULK,   /* the same, and all addresses are in uniform registers */
	HOW_STORE,  /* to such an address, perhaps in local memory, */
	HOW_SPILL,  /* or surely there */
	HOW_LOCAL,  /* from there */
	HOW_SHARED, /* from shared memory */
	HOW_MATRIX, /* the same, up to four registers */
	HOW_CONSTANT,
	HOW_BRANCH,
	HOW_COLLECT, /* a branch, in one of its forms */
	HOW_MEET,    /* names where those who wait for one another go on */
	HOW_AWAIT,   /* waits there */
	HOW_CALL,
	HOW_RETURN,
	HOW_EXIT,
};

/* What a register may hold; each includes those before. */
enum made {
	MADE_FRESH, /* nothing that came from memory, */
	MADE_VALUE, /* something computed of what did, */
	MADE_WORD,  /* or a part or a sum of words as they lay there, */
	MADE_SURE,  /* which it is, whatever the path */
};

/* One bit for each register, in all sets up to what it may hold. */
struct made_file {
	uint64_t value[4], word[4], sure[4];
};

struct made_state {
	struct made_file thread, warp; /* registers of a thread's own, and uniform ones */
};

struct made_instruction {
	uint64_t low, high;
	enum how how;
	uint8_t from, use, predicates;
	unsigned shape;	 /* which operand is an immediate, a constant, or uniform */
	unsigned target; /* the register that is written, by number; MADE_NONE: none */
	unsigned guard;	 /* the predicate that it runs under; MADE_ALWAYS: none */
};
#define MADE_NONE   255
#define MADE_ALWAYS 7

/* What is written under a predicate is there for what runs under the same one, until that changes.
 * For all others, a register may hold what it held before. */
struct made_guards {
	unsigned active; /* one bit for each */
	struct {
		struct made_state written, made;
	} by[16];
};

struct made_instruction made_instruction(const unsigned char *code, uint32_t i);

/* What the instruction finds, in a row that begins with no guards active. */
struct made_state made_found(const struct made_instruction *in, const struct made_state *state,
			     const struct made_guards *guards);

/* The state behind it. local: what may lie in local memory. */
void made_run(const struct made_instruction *in, enum made local, const struct made_state *found,
	      struct made_state *state, struct made_guards *guards);

/* Where two paths meet: what may be is what was on either, and what is sure was on both. true: it
 * is not what `one` was. */
bool made_join(struct made_state *one, const struct made_state *other);

/* Adds the registers that it may write. */
void made_written(const struct made_instruction *in, struct made_state *written);

/* Of what it finds: what it stores where that may be local memory. */
enum made made_spilled(const struct made_instruction *in, const struct made_state *state);

/* Of the address of a load or store: *upper: what its upper half may be. */
enum made made_address(const struct made_instruction *in, const struct made_state *state,
		       enum made *upper);

/* Does it lead elsewhere, and it or a meeting point by how many instructions from the next one;
 * INT64_MIN: not by whole ones. */
bool made_leads(const struct made_instruction *in);
int64_t made_distance(const struct made_instruction *in, unsigned sm);

/* Behind it nobody goes on. */
bool made_stops(const struct made_instruction *in);

/* Changes one whose constant the loader replaces, so that nobody knows what it moves. false: it
 * does not just move. */
bool made_leave_open(unsigned char *instruction);

#endif
