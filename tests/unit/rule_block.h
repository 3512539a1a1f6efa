/* SPDX-License-Identifier: Apache-2.0
 *
 * A parameter block, what the kernel touches by the shapes of its tensors, and numbers that make
 * the block contradict itself.
 */
#ifndef FASHIM_TEST_RULE_BLOCK_H
#define FASHIM_TEST_RULE_BLOCK_H

#include "tests/unit/core.h"

#include "shim/op/access.h"
#include "shim/rules/function.h"

#define R(where, bytes)                                                                            \
	{                                                                                          \
		ACCESS_READ, where, bytes, 0                                                       \
	}
#define W(where, bytes, sure)                                                                      \
	{                                                                                          \
		ACCESS_WRITE, where, bytes, sure                                                   \
	}
#define S(where, bytes)                                                                            \
	{                                                                                          \
		ACCESS_WRITE, where, bytes, bytes                                                  \
	} /* all of it is sure */
#define U(where, bytes)                                                                            \
	{                                                                                          \
		ACCESS_UNKNOWN, where, bytes, 0                                                    \
	}
#define AT(where, value)                                                                           \
	{                                                                                          \
		(where) + 1, value                                                                 \
	}
#define FAR   (-1) /* as far as the allocation goes */
#define GRIDX 0xfffffff0

struct touch {
	enum access_mode mode; /* 0: no more */
	int where;
	int64_t bytes, sure; /* sure: from the beginning on */
};

struct block {
	const char *name;
	struct touch touches[8];
	struct {
		uint32_t behind, value; /* behind AT(GRIDX): of the grid */
	} spoilt[4];
};

/* As the rule has it. */
bool block_read(const struct function *function, const struct op_launch *launch,
		const unsigned char *params, struct access_list *list);

/* It touches all that the block says, nothing else, and is not read with one of the numbers that
 * spoil it, nor without its last parameter. */
void block_check(const struct block *block, const struct op_launch *launch,
		 const unsigned char *params);

#endif
