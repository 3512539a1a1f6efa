/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of masks. Before some of our kernels a small one looks at the mask, which tiles of
 * it leave anything out at all (kernels/prepare.cu); the layers of a model share one mask, so that
 * all but the first would find the same. Results are kept as long as every op is seen and none of
 * them may have written what was read: nobody is watched for their sake.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_LOOKS_H
#define FASHIM_LOOKS_H

#include "shim/op/access.h"
#include "shim/op/graph.h"
#include "kernels/launch.h"

/* Where the result of a look lies, in memory that is not the caller's: *made, since an earlier call
 * on the stream left it there, else since the caller is about to, by work it enqueues there now. 0:
 * it cannot be kept (somebody may write the mask unseen, or there is no memory): look anew each
 * time. The context is current. */
uint64_t looks_get(CUcontext context, CUstream stream, const struct attn_look *look, bool *made);

/* An op is about to run, and all that comes before it is enqueued: what it may write is forgotten.
 * For an op, for a graph's launch, for a range that we write ourselves. */
void looks_guard(const struct access_list *list);
void looks_guard_graph(const struct graph_ranges *ranges);
void looks_guard_write(uint64_t begin, uint64_t end);

/* May it be of what was read? */
bool looks_near(uint64_t address);

/* Ops may pass unseen, or memory is wanted. */
void looks_forget(void);

#endif
