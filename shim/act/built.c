/* SPDX-License-Identifier: Apache-2.0
 *
 * A short list: programs put a few graphs together and keep them.
 */
#include "shim/act/built.h"

#include <stdlib.h>

#define BUILT	   64
#define MOST_PARTS 4096 /* of a graph */

static struct built {
	CUgraph graph; /* NULL: unused */
	int count, room;
	struct part {
		CUgraphNode node;
		struct recorded_graph *graph;
	} * part;
} built[BUILT];

static struct built *find(const void *graph)
{
	for (int i = 0; i < BUILT; i++)
		if (built[i].graph == graph)
			return &built[i];
	return NULL;
}

static void drop_parts(struct built *of)
{
	for (int i = 0; i < of->count; i++)
		recording_release(of->part[i].graph);
	free(of->part);
	*of = (struct built){.graph = of->graph};
}

void built_begin(CUgraph graph)
{
	struct built *of = find(graph);

	if (!of)
		of = find(NULL);
	if (!of)
		return;
	drop_parts(of);
	of->graph = graph;
}

bool built_is(CUgraph graph)
{
	return graph && find(graph);
}

bool built_of_parts(CUgraph graph)
{
	const struct built *of = graph ? find(graph) : NULL;

	return of && of->count;
}

void built_add(CUgraph graph, CUgraphNode node, struct recorded_graph *part)
{
	struct built *of = find(graph);

	if (of && of->count == of->room && of->room < MOST_PARTS) {
		const int room = of->room ? 2 * of->room : 16;
		struct part *grown = realloc(of->part, (size_t)room * sizeof(*grown));

		if (!grown)
			return;
		of->part = grown;
		of->room = room;
	}
	if (!of || of->count == of->room)
		return;
	recording_keep(part);
	of->part[of->count++] = (struct part){node, part};
}

struct recorded_graph *built_part(CUgraph graph, CUgraphNode node)
{
	const struct built *of = graph ? find(graph) : NULL;

	for (int i = 0; of && i < of->count; i++)
		if (of->part[i].node == node)
			return of->part[i].graph;
	return NULL;
}

void built_forget(const void *graph)
{
	for (int i = 0; i < BUILT; i++)
		if (built[i].graph && (!graph || built[i].graph == graph)) {
			drop_parts(&built[i]);
			if (graph)
				built[i].graph = NULL;
		}
}
