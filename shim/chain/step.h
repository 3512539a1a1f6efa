/* SPDX-License-Identifier: Apache-2.0
 *
 * An op that is kept: its parameters, what they mean, and which of its pointers leads where, so
 * that it can be issued again, there or elsewhere.
 */
#ifndef FASHIM_STEP_H
#define FASHIM_STEP_H

#include "shim/base/hash.h"
#include "shim/rules/rules.h"
#include "shim/rules/sight.h"

#define CHAIN_REFS	  24
#define CHAIN_PARAM_BYTES 3456

enum ref_kind { REF_VALUE, REF_INPUT };

/* One pointer of a step: parameter word at `where` is base of values/inputs[index] + delta. */
struct ref {
	enum ref_kind kind;
	enum access_mode mode;
	int index;
	int where; /* struct access.where */
	int slot;  /* values: index; inputs that stand in a value's place: that value's index, else
		      -1 */
	int64_t delta;
	bool bounded;	       /* it touches nothing but, whatever its data are, … */
	int64_t first, beyond; /* … bytes that lie so far from the pointer, which is one of these */
};

struct step {
	enum op_kind kind; /* OP_GEMM (first step only) or OP_LAUNCH */
	const char *name;  /* for logs: rule's name, entry point or kernel name */
	struct op_gemm gemm;
	const struct function *function;
	unsigned grid[3], block[3], shared_bytes;
	unsigned char params[CHAIN_PARAM_BYTES];
	struct meaning meaning;
	int ref_count;
	struct ref refs[CHAIN_REFS];
	int first_value;     /* of the chain's values those before were there already */
	uint64_t launch_key; /* chain_launch_key() of a kernel that no rule has words for, else 0 */
	uint64_t signature;  /* equal signatures: same code, same constants, same dataflow */
};

/* Keeps a launch as it was given, but neither its name nor where its pointers lead. */
void step_keep(struct step *step, const struct sight *sight);

#endif
