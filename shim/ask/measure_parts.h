/* SPDX-License-Identifier: Apache-2.0
 *
 * How a chain's unknown kernels are measured: what is known of each value whose length is not, and
 * the parts of the measuring that stand on their own.
 *
 * All functions: flow lock held, the chain's context current. Those that return bool: false, the
 * driver refused, or it took too long.
 */
#ifndef FASHIM_MEASURE_PARTS_H
#define FASHIM_MEASURE_PARTS_H

#include "shim/ask/mirror.h"

#define MEASURE_LENGTHS 5
#define MEASURE_INSIDE                                                                             \
	4 /* windows of each stretch between two lengths, but for the one at its end */
#define MEASURE_WINDOWS (MEASURE_LENGTHS * (MEASURE_INSIDE + 1) + 1)
#define WINDOW		32 /* bytes */
#define MEASURE_PASSES	4
#define MEASURE_VALUES	CHAIN_VALUES
#define MEASURE_RANDOM	(MIRROR_HOST / 2)

/* A value of unknown length, and what was seen of it. */
struct subject {
	int value, step;
	uint64_t room;	/* bytes behind its first that are nobody else's while the step runs */
	int64_t length; /* bytes written; 0: none; -1: not clear */
	bool fixed;	/* P: the product that reads it says how long it is */
	uint64_t kept;	/* what the first of two launches left there */
	bool sparse;	/* bytes in between are not written … */
	bool triangle;	/* … but what lies on and below P's diagonal is */
	bool written;
	bool touched[MEASURE_WINDOWS], whole[MEASURE_WINDOWS]; /* any byte, every byte */
	unsigned char seen[MEASURE_WINDOWS][WINDOW]; /* which bytes were written, over the passes */
};

struct measuring {
	struct chain *chain;
	uint64_t elements;
	int length_count;
	uint64_t length[MEASURE_LENGTHS]; /* that a tensor may have, in bytes, growing */
	int subject_count;
	struct subject subjects[MEASURE_VALUES];
	struct mirrors mirrors;
	bool beyond[CHAIN_STEPS]; /* the step writes behind a value that it is pointed to */
};

static inline bool measure_is_unknown(const struct step *step)
{
	return step->meaning.role == ROLE_UNKNOWN && step->kind == OP_LAUNCH;
}

/* ---- measure_windows.c: pieces of a tensor that tell how long it is */

/* The lengths that a tensor may have. */
void measure_find_lengths(struct measuring *session);

/* How far each subject may go, as far as is known by now of what is written. */
void measure_find_rooms(struct measuring *session);

/* Copies all windows to `into` (MEASURE_WINDOWS of them). */
bool measure_read_windows(const struct measuring *session, const struct subject *subject,
			  unsigned char *into);

/* What a launch changed. `counts`: the memory held a pattern before, so that what was not changed
 * was not written. */
void measure_note_changes(const struct measuring *session, struct subject *subject, bool counts,
			  const unsigned char *before, const unsigned char *after);

/* Bytes written, 0: none, -1: not clear. */
int64_t measure_length(const struct measuring *session, struct subject *subject);

/* ---- measure_passes.c: the chain run again, and watched */

bool measure_fill_scores(const struct measuring *session, unsigned seed);

/* Number `pass` of MEASURE_PASSES. */
bool measure_pass(struct measuring *session, int pass);

/* ---- measure_behind.c */

/* Says of each step whether it writes behind P (beyond). */
bool measure_behind(struct measuring *session);

/* ---- measure_holes.c */

/* Says of each subject of known length whether bytes in between are not written (sparse), and of P
 * whether they all lie above the diagonal (triangle). */
bool measure_holes(struct measuring *session);

#endif
