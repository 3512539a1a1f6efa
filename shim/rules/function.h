/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a kernel: its name, how its parameters lie in memory, and which rule of
 * kernel_rules.def describes it. Asked of the driver once per handle.
 *
 * All functions are called with the flow lock held.
 */
#ifndef FASHIM_FUNCTION_H
#define FASHIM_FUNCTION_H

#include "shim/op/op.h"

#define FUNCTION_MAX_PARAMS 64
#define FUNCTION_MAX_BYTES  8192 /* of parameters; more makes the launch opaque */

struct kernel_rule;

/* An element type. */
struct type {
	int dtype; /* enum attn_dtype, -1: none of them */
	int bytes; /* 0: not known */
};

/* Of an element-wise kernel, the output among them. */
#define FUNCTOR_OPERANDS 6

/* What a name says of an element-wise kernel's functor: names are long, launches many. */
struct functor {
	int role;			       /* enum rule_role */
	struct type type;		       /* it works in */
	int operands;			       /* 0: the name does not say */
	struct type operand[FUNCTOR_OPERANDS]; /* [0] is the output */
	bool plain;			       /* it is known, and holds no pointer */
	int bytes;			       /* of the functor itself; 0: not known */
};

/* Pieces of the name that rules look for, and where they are in it. */
#define NAME_WORDS 8
struct name_words {
	int count;
	struct {
		const char *needle; /* a literal: compared by address */
		const char *at;	    /* NULL: not there */
	} word[NAME_WORDS];
};

/* What every launch asks for comes first: it is often out of the cache. */
struct function {
	CUfunction handle;
	char *name; /* mangled, "?" when the driver does not tell */
	uint64_t name_hash;
	const struct kernel_rule *rule; /* NULL: none */
	const char
		*behind; /* of the name, where `rule` is one of kernel_rules.def: what it names */
	struct functor functor; /* where `rule` is one of kernel_rules.def */
	/* Clears what nobody set in a copy of the parameters; NULL: all of it counts. */
	void (*clear_unset)(const struct function *function, unsigned char *bytes);
	unsigned bytes;		  /* of all parameters */
	uint32_t id;		  /* order of appearance, from 1 */
	struct name_words *words; /* NULL: not kept */
	uint32_t *code;		  /* kernel_code.c: what it may do; NULL: not kept */
	bool readable;		  /* parameter layout is known */
	unsigned param_count;
	unsigned param_offset[FUNCTION_MAX_PARAMS], param_size[FUNCTION_MAX_PARAMS];
	struct function *older; /* of a list of handles that are no longer valid */
};

/* Offsets at which parameter i may hold a pointer: two numbers next to each other seldom do. */
#define for_each_pointer_word(function, i, at)                                                     \
	for (at = ((function)->param_offset[i] + 7) & ~7u;                                         \
	     at + 8 <= (function)->param_offset[i] + (function)->param_size[i]; at += 8)

/* Never NULL but for lack of memory. */
const struct function *function_get(CUfunction handle);

/* A module went away: handles may be given out again for other kernels. */
void function_forget_all(void);

/* Copies all parameters to `bytes` (function->bytes long, at their driver offsets). false: the
 * launch has no readable parameters. */
bool function_read_params(const struct function *function, const struct op_launch *launch,
			  unsigned char *bytes);

/* Is there an address, by what `leads` says of it, in two parameters of four bytes each, or where a
 * packed struct may have one? */
bool function_hides_address(const struct function *function, const unsigned char *params,
			    bool (*leads)(uint64_t address));

#endif
