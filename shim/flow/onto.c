/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/flow/onto.h"

#include "shim/act/built.h"
#include "shim/act/graph_row.h"
#include "shim/act/recording.h"
#include "shim/op/graph.h"

void onto_begun(const struct op *op)
{
	const CUgraph graph = recording_place(op);

	if (built_is(graph)) {
		/* Nodes may come to it and stay, even if the capture fails. */
		graph_gone(graph);
		recording_forget(graph);
		recording_begin(op, true);
		return;
	}
	/* It may be one inside another, of which nothing is known any more then. */
	recording_fail("more than one capture");
	graph_changed();
	recording_forget(NULL);
	built_forget(NULL);
}

bool onto_ended(CUgraph graph)
{
	struct recorded_behind behind;
	CUgraphNode first;
	struct recorded_graph *part = recording_taken(graph, &behind);

	if (part && graph_rows_possible() && graph_row_count(part, &behind, &first))
		built_add(graph, first, part);
	else /* nobody knows what went into it: kernels of products, perhaps */
		built_forget(graph);
	if (part)
		recording_release(part);
	return part != NULL;
}
