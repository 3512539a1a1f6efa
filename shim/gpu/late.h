/* SPDX-License-Identifier: Apache-2.0
 *
 * Work of ours that runs later than the program's call for which it stands: values and copies that
 * are made after all, fused kernels that read what the first product of their chain read. A program
 * orders its streams by what it has enqueued, so what crosses streams (an event, a default stream,
 * a wait of the host) tells others that such a call is done, when its work is not even begun. So
 * whoever touches what late work touches is ordered behind it, on every stream, whenever that was.
 *
 * All functions: flow lock held, but for late_await().
 */
#ifndef FASHIM_LATE_H
#define FASHIM_LATE_H

#include "shim/op/access.h"
#include "shim/real/driver_context.h"
#include "shim/op/graph.h"

/* Work was enqueued on a queue that reads or writes a range later than the program believes. */
void late_reads(struct queue queue, uint64_t begin, uint64_t end);
void late_writes(struct queue queue, uint64_t begin, uint64_t end);

/* Is there any that may not be done? Asks the driver, while there is. */
bool late_pending(void);

/* The same, where it is not worth asking the driver: some that is done may count. */
bool late_any(void);

/* Before an op runs on a queue, in an order that the device keeps: for what it touches, for what a
 * graph touches, and for anything. */
void late_guard(struct queue reader, const struct access_list *list);
void late_guard_graph(struct queue reader, const struct graph_ranges *ranges);

/* Before something that the host does at once: it waits for such work on what is touched. */
void late_guard_host(const struct access_list *list);

/* The host itself must wait until the late work on the queue is done: an order could not be
 * established, or nobody knows where what comes next will run. */
void late_host_waits(struct queue queue);
void late_host_waits_all(void);

/* The same for all that is on the queue now. */
void late_host_waits_stream(struct queue queue);

/* The stream, or (stream NULL) all of a context, is about to go: what is on it is done when the
 * program's call returns, or is waited for here. */
void late_forget(CUcontext context, CUstream stream);

/* Data of the program's could not be made: its own call has to say so. */
void late_lose(void);

/* At the end of a turn: what was enqueued in it is told from what the program enqueues next. What
 * the host has to wait for is taken out under the lock … */
#define LATE_QUEUES 32
struct late_waits {
	int count;
	struct late_wait {
		struct queue queue;
		struct late_fence *fence; /* NULL: all that is on the queue */
	} wait[LATE_QUEUES];
	bool lost; /* late_lose() was called */
};
bool late_owes(void); /* is there anything to be done so? */
void late_take_waits(struct late_waits *waits);

/* … and waited for without it. 0, or -EIO: what the program is about to see may not be there. */
int late_await(struct late_waits *waits);

#endif
