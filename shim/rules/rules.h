/* SPDX-License-Identifier: Apache-2.0
 *
 * What well-known kernels do with their parameters. kernel_rules.def names families by a piece of
 * their mangled name; here each family's parameter block is read: which pointer is written, which
 * are read, how far, with which strides and constants. What is read here is all that counts of such
 * a launch: padding and empty functors (uninitialised bytes) never matter.
 *
 * The accesses of a launch with a rule are complete: the kernel touches no other memory of the
 * program. A pointer whose extent is not in the parameters is entered with bounded = false, from
 * the pointer on to the end of its allocation; a kernel that goes back from a pointer has no rule.
 * An extent may be larger than what is touched; what is called surely written never is: every byte
 * of it is overwritten, and read at most by what another entry says.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_RULES_H
#define FASHIM_RULES_H

#include "shim/op/access.h"
#include "shim/rules/function.h"
#include "shim/rules/sight.h"

enum rule_role {
#define ROLE(id, name) ROLE_##id,
#include "shim/rules/kernel_roles.def"
#undef ROLE
	ROLE_COUNT
};

#define VIEW_DIMS 8

/* One operand of an element-wise launch: dims[0] runs fastest; strides in bytes. */
struct view {
	int where; /* byte offset of its pointer in the parameters */
	uint64_t base;
	int dtype;   /* enum attn_dtype, -1 when another */
	int element; /* bytes */
	int64_t stride[VIEW_DIMS];
};

/* A launch in terms of the score algebra. */
struct meaning {
	enum rule_role role; /* ROLE_UNKNOWN: no rule */
	int64_t elements;    /* of the output */
	int dims;
	int64_t size[VIEW_DIMS];
	int view_count; /* views[0] is the output */
	struct view views[FUNCTOR_OPERANDS];
	double scalar;	      /* factor, fill value; ROLE_SOFTCAP: factor before the tanh */
	bool keeps;	      /* ROLE_MASKED_FILL: it fills where the mask is false */
	int scalar_where;     /* ROLE_FILL: byte offset of the value in the parameters */
	int constant;	      /* view of the one element in device memory that is `scalar`; 0: there
				 is none; -1: there is, but nobody knows the number */
	int64_t softmax_cols; /* ROLE_SOFTMAX: a third view is a mask, true where -inf, or numbers:
				 `added` says how these come in; a fourth, sinks of rows */
	int64_t softmax_apart; /* elements from one of a softmax's to the next */
	/* What a softmax does before: in * factor, plus the third view times `added`, or, where it
	 * says what is shown by ones, (1 - the third view) times `added`; in which type the sum
	 * is. ROLE_SOFTCAP: out = factor * tanh(in * scalar). */
	double factor, added;
	bool shown_by_ones;
	int summed;
};

/* Does a view go through its memory as it lies, element by element? */
static inline bool view_in_order(const struct meaning *meaning, const struct view *view)
{
	int64_t apart = view->element;

	for (int d = 0; d < meaning->dims; d++) {
		if (meaning->size[d] == 1)
			continue;
		if (view->stride[d] != apart)
			return false;
		apart *= meaning->size[d];
	}
	return true;
}

/* Binds function->rule and function->functor by name, once per kernel. */
void rules_bind(struct function *function);

/* Does the program put numbers where the largest of others are, by any kernel that was bound? */
bool rules_picks(void);

/* Exact accesses of a launch with a rule. false: no rule, or the parameters are not as it expects.
 * What it means is read on the way; meaning NULL: nobody wants it. */
bool rules_access(const struct function *function, const struct op_launch *launch,
		  const unsigned char *params, struct access_list *list, struct meaning *meaning);

/* What it means; role ROLE_UNKNOWN without a rule, ROLE_OPAQUE when only the accesses are known. */
void rules_meaning(const struct function *function, const struct op_launch *launch,
		   const unsigned char *params, struct meaning *meaning);

/* The same of a launch with parameters that was seen: as read then, where it was. */
void rules_meaning_seen(const struct sight *sight, struct meaning *meaning);

/* The same in place, where it was; else read into `room`. */
const struct meaning *rules_meaning_at(const struct sight *sight, struct meaning *room);

/* A step that takes a number from device memory: settles `constant` and `scalar` (shadow.h). A
 * product or quotient with a number that is known becomes ROLE_SCALE. */
void rules_settle_constant(struct meaning *meaning);

/* The arrays that a launch of role ROLE_ADDRESSES fills are put into the shadow. */
void rules_put_addresses(const struct function *function, const struct op_launch *launch,
			 const unsigned char *params);

/* The number that two or four bytes are in a dtype. */
double rules_number(const unsigned char *bytes, int dtype);

/* The other way round, rounded; false: it is no number, or no such dtype. */
bool rules_store(unsigned char *bytes, int dtype, double number);

const char *rules_role_name(enum rule_role role);

#endif
