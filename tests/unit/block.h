/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of parameter blocks share: a block with what its kernel touches, and words that,
 * changed, make it one that must not be read.
 */
#ifndef FASHIM_TEST_BLOCK_H
#define FASHIM_TEST_BLOCK_H

#include "tests/unit/core.h"

#include "shim/rules/function.h"
#include "shim/rules/rules.h"

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
	struct touch touches[19]; /* the last ends it */
	struct {
		uint32_t behind, value; /* behind AT(GRIDX): of the grid */
	} spoilt[4];
};

/* Zeroes the list; as rules_access(). */
bool read_block(const struct function *function, const struct op_launch *launch,
		const unsigned char *params, struct access_list *list);

/* All that the shapes say, nothing else. */
void check_touches(const struct block *block, const struct access_list *list,
		   const unsigned char *params);
/* None of the spoilt words may be read; nor the kernel with its last parameter gone. */
void check_spoilt(const struct block *block, const struct function *function,
		  const struct op_launch *launch, const unsigned char *params);
void check_short(const struct block *block, const struct function *function,
		 const struct op_launch *launch, const unsigned char *params);

/* All three, of a launch made by hand: in a grid of so many blocks, or of 96; then it stays there.
 */
void check_rows_in(unsigned grid, const struct block *block, unsigned count, const size_t *size,
		   const void *const *value);
void check_rows(const struct block *block, unsigned count, const size_t *size,
		const void *const *value);
extern unsigned char params_by_hand[FUNCTION_MAX_BYTES];
extern struct op launch_by_hand;

#endif
