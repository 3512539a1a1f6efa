/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own driver calls run in a given context, also while another stream is being captured, and
 * leave the thread as they found it:
 *
 *     struct driver_context here;
 *     if (driver_enter(&here, context)) { …; driver_leave(&here); }
 */
#ifndef FASHIM_DRIVER_CONTEXT_H
#define FASHIM_DRIVER_CONTEXT_H

#include <cuda.h>
#include <stdbool.h>

/* A stream, with the context in which its handle means that stream: 1 and 2 are the default streams
 * of whatever context is current. */
struct queue {
	CUcontext context;
	CUstream stream;
};

struct driver_context {
	bool pushed, relaxed;
	CUstreamCaptureMode mode;
};

bool driver_enter(struct driver_context *here, CUcontext context);
void driver_leave(struct driver_context *here);

/* Is anything in that context still worth computing? Not if it has ended, as it may have at the end
 * of a process, or is broken, which the program is told of by whatever it calls. A call of ours
 * that is refused for another reason says neither. */
bool driver_context_lives(CUcontext context);

/* Is what the stream is given recorded? Assumed where the driver cannot tell. */
bool driver_captures(struct queue queue);

/* May what the stream is given be recorded for a graph? The stream's context is current. */
bool driver_may_capture(CUstream stream);

static inline bool queue_same(struct queue a, struct queue b)
{
	return a.stream == b.stream && a.context == b.context;
}

/* What is on the queue now, as an event, which outlives its own destruction where it is waited for
 * by then. `again`: one to record anew, or NULL. NULL: there is none, and `again` is no more. */
CUevent driver_mark(struct queue queue, CUevent again);

/* Work enqueued on `later` from now on waits for the event, or for what is on `earlier` now, in
 * whatever contexts. 0, or -EIO: it does not wait. */
int driver_follow(CUevent event, struct queue later);
int driver_order(struct queue earlier, struct queue later);

/* Waits until the event, or (NULL) what is on the queue now, is done. 0 or -EIO. Never under the
 * flow lock. */
int driver_await(struct queue queue, CUevent event);

#endif
