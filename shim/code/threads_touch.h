/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch as it is run, a warp at a time, and what of memory that touches.
 */
#ifndef FASHIM_THREADS_TOUCH_H
#define FASHIM_THREADS_TOUCH_H

#include "shim/code/threads_quotient.h"
#include "shim/code/threads_stored.h"

struct threads {
	const struct threads_launch *launch;
	struct threads_extent *extent;
	struct stored stored;
	struct thread_program program;
	struct warp
		warp[WITNESSES]; /* of one block, or of three of a stretch (threads_stretch.h), … */
	unsigned witnesses;	 /* … which go where the first does */
	uint32_t blocks;	 /* that these stand for */
	unsigned along;		 /* that axis of the grid */
	uint32_t step;		 /* there from one to the next */
	bool sought;		 /* another step was looked for */
	unsigned torn;		 /* stretches that had to be shorter */
	bool judged;		 /* it is likely that there are enough instructions left */
	bool alone;		 /* no stretch has more than one block */
	struct stretch_signs signs;
	struct quotients quotients;
	uint32_t fits;	   /* blocks that a stretch that is torn had better have; 0: nobody knows */
	bool less_known;   /* than of one block alone: there was one of these */
	bool apart;	   /* lanes are at different instructions; else all are at */
	int64_t here;	   /* this one */
	int64_t at[LANES]; /* the instruction that a lane is at, where they are apart */
	uint64_t left;	   /* instructions; … */
	uint64_t look;	   /* … where fewer are, the clock is asked */
	uint64_t began;	   /* by that clock */
	bool departs;
};

/* A load from global memory or a store, by the lanes of `mask`; of `unsure` it is not known whether
 * they execute it. 0; -EINVAL: it is not known of which pointer; -EAGAIN: in a stretch of fewer
 * blocks; -ENOMEM. */
int threads_touch(struct threads *threads, const struct thread_op *op, uint32_t mask,
		  uint32_t unsure);

#endif
