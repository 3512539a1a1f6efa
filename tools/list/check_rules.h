/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of FASHIM_RULES, read as the shim reads it.
 */
#ifndef FASHIM_CHECK_RULES_H
#define FASHIM_CHECK_RULES_H

/* Prints a line for each mistake of the file, "FILE:LINE: what is wrong", and at the end how many
 * rules the shim takes of it. How many mistakes there are; -errno where the shim would not read the
 * file at all, which is said on stderr. */
int check_rules(const char *path);

#endif
