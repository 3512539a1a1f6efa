/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel's rule makes of one launch.
 */
#ifndef FASHIM_TEST_RULE_OP_H
#define FASHIM_TEST_RULE_OP_H

#include "shim/op/access.h"
#include "shim/rules/rules.h"

extern struct access_list list;
extern struct meaning meaning;

/* Reads a launch whose kernel has a rule, into both. */
bool read_op(const struct op *op);

/* Access number n: from `begin` on `bytes`, surely all of it where it is written. */
void assert_touch(int n, enum access_mode mode, uint64_t begin, uint64_t bytes);

#endif
