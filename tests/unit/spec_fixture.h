/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of meaning share: a chain is begun, joined by ops, and ended; then `args` is what
 * a kernel would be told.
 */
#ifndef FASHIM_TEST_SPEC_FIXTURE_H
#define FASHIM_TEST_SPEC_FIXTURE_H

#include "tests/unit/core.h"

#include "shim/spec/spec.h"

extern struct attn_args args;
extern char detail[96];
extern bool by_data;

/* Opens a chain at core_scores(). */
struct chain *begin(void);
void join(struct chain *chain, struct op op);
/* Closes it; the verdict of spec_of_chain(). */
enum reason end_with(struct chain *chain, struct op op, const struct identity *given);
/* The same at core_context(). */
enum reason end(struct chain *chain);
/* The caller's steps lead from S to X; softmax makes P of X. */
enum reason finish(struct chain *chain);

/* All of it after core_begin(): the verdict on a chain of these ops, and softmax, or (ENDED) of
 * these alone. */
#define FINISHED(...) CHAIN_OF(finish, __VA_ARGS__)
#define ENDED(...)    CHAIN_OF(end, __VA_ARGS__)
#define CHAIN_OF(ends, ...)                                                                        \
	(core_begin(), ends(chain_of((struct op[]){__VA_ARGS__},                                   \
				     sizeof((struct op[]){__VA_ARGS__}) / sizeof(struct op))))
struct chain *chain_of(const struct op *ops, size_t count);

void assert_stride(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t row,
		   int64_t column);

#endif
