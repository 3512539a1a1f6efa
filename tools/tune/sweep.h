/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the fastest kernel of one form of call, over whatever can check and time a
 * candidate.
 *
 *   check     every candidate against double precision, before any of them is timed
 *   rank      a few rounds of each; the `top` fastest go on
 *   halve     twice as many rounds at each step, the faster half goes on
 *   decide    the last one against the built-in choice, in fresh rounds
 *
 * In a round every candidate that is left is timed once, in an order that the seed shuffles anew,
 * so that a clock that drifts drifts for all.
 */
#ifndef FASHIM_TUNE_SWEEP_H
#define FASHIM_TUNE_SWEEP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/base/bootstrap.h"

/* A win must be certain to be this much; the interval's upper end decides. */
#define SWEEP_WIN 0.99

/* How far beyond the built-in choice's error a candidate may be: so many times it, plus a rounding
 * step. */
#define SWEEP_ERROR_FACTOR 2.0

/* A candidate whose single launch takes this many times the built-in choice's is not timed. */
#define SWEEP_HOPELESS 4.0

enum sweep_fate {
	SWEEP_UNTRIED,
	SWEEP_FAILED, /* it could not be launched */
	SWEEP_WRONG,  /* too far from double precision */
	SWEEP_SLOW,   /* hopeless, by a single launch */
	SWEEP_RANKED, /* timed, not among the top */
	SWEEP_HALVED, /* lost against other candidates */
	SWEEP_DECIDED /* stood against the built-in choice, or is it */
};

struct sweep_candidate {
	const char *name;
	enum sweep_fate fate;
	double error;  /* largest, against double precision */
	double us;     /* median of its last rounds; NAN: never timed */
	double spread; /* half of the middle half's width; likewise */
};

/* What a check found. */
struct sweep_check {
	double error;	 /* largest |O - double precision| */
	bool finite;	 /* where double precision is */
	double us;	 /* of one launch, roughly */
	double rounding; /* one rounding step of the largest value */
};

struct sweep_measure {
	/* Launches it once. 0; -EIO: this candidate cannot be launched; else all is over. */
	int (*check)(void *context, int candidate, struct sweep_check *found);
	/* One round. 0, or -errno: all is over. */
	int (*time)(void *context, int candidate, double *us);
	void *context;
};

struct sweep {
	struct sweep_candidate *candidates;
	int count, built_in; /* index of the built-in choice */
	int top;	     /* how many are halved */
	int rounds;	     /* in the decision; 2 * BOOTSTRAP_FEWEST at least */
	uint64_t seed;
	const volatile sig_atomic_t *stop; /* set: leave off; or NULL */

	/* what comes out */
	int best;			    /* fastest; the built-in choice where nothing beat it */
	int rival;			    /* who stood against the built-in choice; -1: nobody */
	struct bootstrap_interval interval; /* time of rival / time of the built-in choice */
};

/* 0; -EINTR when stopped; -EIO when the built-in choice itself fails; else what `check` or `time`
 * gave, or -ENOMEM. Results are valid after 0 alone. */
int sweep_run(struct sweep *sweep, const struct sweep_measure *measure);

#endif
