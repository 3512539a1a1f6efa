/* SPDX-License-Identifier: Apache-2.0
 *
 * Standing aside. Where the GPU waits for the program there is nothing to gain by giving it less to
 * do, and what the shim takes of the host is lost. Such a program is watched for as long as it
 * takes to know, then everything is as it believes, and its products and launches pass unseen for a
 * while; then it is looked at again. What was known of its memory is forgotten at the beginning,
 * since what happens meanwhile nobody sees.
 *
 * Where nothing is replaced (FASHIM=audit) watching is all cost, and sites come again and again:
 * they are watched from time to time, so that it takes little of the whole.
 *
 * Whether it pays is a comparison of two times, both of the latest products: what they took, and
 * what they would have taken without the shim, which is whatever is longer of the host's time less
 * what the shim took of it, and the GPU's with what was saved put back. How busy the GPU is tells a
 * sample of products that find their stream empty; while the program waits for it, it is.
 * FASHIM_BUDGET=0: never; nor on the CPU stand-in.
 *
 * Flow lock held, except where it says otherwise.
 */
#ifndef FASHIM_REST_H
#define FASHIM_REST_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/op/op.h"

/* ---- the arithmetic: times in ns ---- */

struct rest_window {
	uint64_t wall, host;  /* passed, without pauses; of it the shim's on the host */
	uint64_t waited;      /* … and the program's waiting for the device */
	uint64_t saved;	      /* of the GPU's time */
	unsigned asked, idle; /* products asked for their stream, and found it empty */
};

/* Would the program have been faster without the shim, by enough of its time to matter? percent:
 * what the shim may cost, of which half is enough. */
static inline bool rest_pays(const struct rest_window *window, double percent)
{
	const double wall = (double)window->wall, host = (double)window->host;
	const double waited = (double)window->waited;
	double busy;

	if (!window->asked || percent <= 0 || host >= wall)
		return false;
	busy = waited +
	       (wall - waited) * (double)(window->asked - window->idle) / (double)window->asked;
	return host > wall * percent / 200 && busy + (double)window->saved < wall - host;
}

/* The part of FASHIM_BUDGET that watching may take, as the shim counts it: that is not all. BERT's
 * forward of one short sequence took 4.5 ms on one H100 and 5.5 to 6.0 under audit, of which a
 * sampling profile found 0.4 in the shim and its calls. */
#define WATCHING 0.2

/* How long not to watch, where nothing is replaced, for a window to have been that part of the time
 * until the next; 0: it was no more anyway. */
static inline uint64_t rest_from_watching(const struct rest_window *window, double percent)
{
	const double whole = percent > 0 ? (double)window->host * 100 / (percent * WATCHING) : 0;

	return whole > (double)window->wall ? (uint64_t)(whole - (double)window->wall) : 0;
}

/* ---- that of the process ---- */

enum rest {
	REST_NOT,    /* the product is looked at */
	REST_BEGINS, /* from now on nothing is kept back: it must all be as the program believes */
	REST_ON	     /* the product passes */
};

/* A product comes. quiet: nothing is held back, and all that was made late is done. */
enum rest rest_turn(const struct op *op, bool quiet);

/* Most products need not even ask; any thread, without the lock. */
bool rest_passes(void);

/* The program has waited so long for the device; any thread, without the lock. */
void rest_waited(uint64_t ns);

/* Is nothing begun any more? */
bool rest_begun(void);

/* Is nothing watched, either? */
bool rest_now(void);

/* It is over, for something has begun that must be seen. Until that has ended nobody asks for a
 * turn. */
void rest_break(void);

#endif
