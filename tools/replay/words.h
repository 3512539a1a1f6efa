/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a story.
 */
#ifndef FASHIM_REPLAY_WORDS_H
#define FASHIM_REPLAY_WORDS_H

#include "shim/chain/chain.h"
#include "tools/replay/explain.h"

/* What follows is said of this op; `call` must last. */
void words_begin(long op, const char *call);

/* Adds a line. */
void words(struct replay_story *story, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* "WHAT: name of the reason (detail): its sentence". */
void words_reason(struct replay_story *story, const char *what, enum reason reason,
		  const char *detail);
const char *words_of_reason(enum reason reason);

/* The GEMM that the chain begins with, and why it was held back or not. */
void words_opened(struct replay_story *story, const struct chain *chain);

/* What a step is, reads and writes. */
void words_step(struct replay_story *story, const struct chain *chain, int step);

#endif
