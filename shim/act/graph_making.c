/* SPDX-License-Identifier: Apache-2.0
 *
 * While one is being made nobody else touches its graph.
 */
#include "shim/act/graph_making.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "shim/base/cost.h"
#include "shim/gpu/ledger.h"
#include "shim/real/driver.h"
#include "shim/real/driver_context.h"

struct graph_making {
	CUgraph graph; /* until it is made */
	CUcontext context;
	unsigned long long flags;
	enum { WANTED, UNDER_WAY, DONE } state;
	bool dropped; /* while it was under way */
	CUgraphExec exec;
	const char *why;
	struct ledger_entry entry;
	struct graph_making *next; /* wanted, too */
};

static struct graph_making *wanted;

struct graph_making *graph_making_ask(CUgraph graph, CUcontext context, unsigned long long flags)
{
	struct graph_making *making = calloc(1, sizeof(*making));

	if (!making) {
		driver.cuGraphDestroy(graph);
		return NULL;
	}
	*making = (struct graph_making){
		.graph = graph, .context = context, .flags = flags, .next = wanted};
	wanted = making;
	return making;
}

int graph_making_take(struct graph_making *making, CUgraphExec *exec, const char **why)
{
	int error;

	if (making->state != DONE)
		return -EAGAIN;
	*exec = making->exec;
	*why = making->why;
	error = making->exec ? 0 : -EIO;
	free(making);
	return error;
}

static void forget_wanted(const struct graph_making *making)
{
	struct graph_making **at = &wanted;

	while (*at && *at != making)
		at = &(*at)->next;
	if (*at)
		*at = making->next;
}

void graph_making_drop(struct graph_making *making)
{
	struct driver_context here;

	if (!making)
		return;
	if (making->state == UNDER_WAY) {
		making->dropped = true;
		return;
	}
	forget_wanted(making);
	if (driver_enter(&here, making->context)) {
		if (making->graph)
			driver.cuGraphDestroy(making->graph);
		if (making->exec)
			driver.cuGraphExecDestroy(making->exec);
		driver_leave(&here);
	}
	free(making);
}

bool graph_making_wanted(void)
{
	return wanted != NULL;
}

struct graph_making *graph_making_next(void)
{
	struct graph_making *making = wanted;

	if (!making)
		return NULL;
	forget_wanted(making);
	making->state = UNDER_WAY;
	making->entry = ledger_begin(LEDGER_GRAPH);
	return making;
}

void graph_making_make(struct graph_making *making)
{
	struct driver_context here;
	CUresult result;

	COST(PURPOSE_REPLACING);
	making->why = "context";
	if (!driver_enter(&here, making->context))
		return;
	result = driver.cuGraphInstantiateWithFlags(&making->exec, making->graph, making->flags);
	making->why = result == CUDA_ERROR_OUT_OF_MEMORY ? "no memory to instantiate a graph"
							 : "cuGraphInstantiate";
	if (result != CUDA_SUCCESS)
		making->exec = NULL;
	driver.cuGraphDestroy(making->graph);
	making->graph = NULL;
	driver_leave(&here);
}

void graph_making_keep(struct graph_making *making)
{
	ledger_end(making->entry);
	making->state = DONE;
	if (making->dropped)
		graph_making_drop(making);
}
