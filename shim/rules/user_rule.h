/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's own rules as text: one kernel a line. docs/rules.md tells them with examples.
 *
 *     NEEDLE ROLE KEY=WHAT ...        # a remark
 *
 * NEEDLE is a piece of the kernel's (mangled) name. WHAT is p0, p1 … for the kernel's parameters,
 * or a number. Keys, and the roles that know them:
 *
 *     out in        pointers                                        all; `other` needs only one
 *     with          pointer of a second operand                     add, masked_fill
 *     period        elements after which `with` starts again        add, masked_fill; default:
 * never factor        out = in * factor                               mul value         what is
 * filled in where `with`, a bool, is set  masked_fill count         elements all but softmax
 *     columns rows  softmax of each row; rows may be grid.x         softmax
 *     dtype         f16, bf16, f32                                  all
 *     out_dtype     another one for `out`                           copy, softmax
 *     with_dtype    another one for `with`                          add
 *
 * Roles: mul, add, masked_fill, tanh, copy, softmax, other (reads `in` and writes `out`; is no part
 * of attention). A rule says what a kernel touches and means; that this is so is believed for what
 * it touches, and put to the test (compare.h) for what it means.
 *
 * The shim reads them (rules_user.h), and `fashim list rules --check` tells what is wrong with
 * them.
 */
#ifndef FASHIM_USER_RULE_H
#define FASHIM_USER_RULE_H

#include <stddef.h>

#include "shim/rules/rules.h"

#define USER_RULES	128	  /* of a file */
#define USER_RULES_FILE (1 << 20) /* bytes of it */

enum user_key {
	USER_OUT,
	USER_IN,
	USER_WITH,
	USER_PERIOD,
	USER_FACTOR,
	USER_VALUE,
	USER_COUNT,
	USER_COLUMNS,
	USER_ROWS,
	USER_DTYPE,
	USER_OUT_DTYPE,
	USER_WITH_DTYPE,
	USER_KEYS
};

/* A parameter by its number, the grid's width, a number, or a dtype. */
struct user_what {
	enum { USER_ABSENT, USER_PARAMETER, USER_GRID, USER_NUMBER, USER_TYPE } kind;
	unsigned parameter;
	double number;
	int dtype; /* enum attn_dtype */
};

struct user_rule {
	char needle[128];
	enum rule_role role;
	struct user_what what[USER_KEYS]; /* all that the role needs, and nothing that it does not
					     know; the dtypes that were left out are filled in */
};

/* Told each rule of a file, in order, and each line that is none: then `rule` is NULL, and `wrong`
 * says in one line what is wrong and what would be right. */
typedef void user_rule_taker(void *to, int line, const struct user_rule *rule, const char *wrong);

/* Reads the text of a file, which it takes apart. */
void user_rules_parse(char *text, user_rule_taker *take, void *to);

#endif
