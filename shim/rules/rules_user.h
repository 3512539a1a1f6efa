/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's own rules, from the file that FASHIM_RULES names (user_rule.h), as rules like any
 * other.
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
