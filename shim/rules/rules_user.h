/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's own rules, from the file that FASHIM_RULES names: one kernel a line.
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
 */
#ifndef FASHIM_RULES_USER_H
#define FASHIM_RULES_USER_H

#include "shim/rules/rule_reader.h"

/* Reads rules from a file; lines that make no sense are named on stderr and left out. How many
 * there are now, or -errno when the file is not taken, and *why (user_file.h). */
int rules_user_load(const char *path, const char **why);

/* The first rule for a kernel of this name, or NULL. The file of FASHIM_RULES is read at the first
 * call. */
const struct kernel_rule *rules_user_find(const char *kernel);

#endif
