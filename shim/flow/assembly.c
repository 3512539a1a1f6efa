/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops pass the same questions as those of a capture, on a stream of our own that nothing is
 * enqueued on. A part is a child, or what was captured into the graph.
 */
#include "shim/flow/assembly.h"

#include <string.h>

#include "shim/act/built.h"
#include "shim/act/graph_child.h"
#include "shim/act/graph_row.h"
#include "shim/base/cost.h"
#include "shim/flow/capture.h"
#include "shim/flow/through.h"
#include "shim/op/copy_box.h"
#include "shim/op/graph.h"
#include "shim/real/driver.h"

static const char name[] = "a node of a graph"; /* of ops */

/* ---- nodes as ops --------------------------------------------------------------------------- */

static bool attribute_of(CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue *value)
{
	memset(value, 0, sizeof(*value));
	return driver.cuGraphKernelNodeGetAttribute(node, id, value) == CUDA_SUCCESS;
}

/* false: it may become something else, or nobody knows. */
static bool read_attributes(struct op_launch *launch, CUgraphNode node)
{
	CUlaunchAttributeValue value;

	if (!attribute_of(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value))
		return false;
	launch->cooperative = value.cooperative;
	if (!attribute_of(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value))
		return false;
	launch->peculiar =
		value.clusterDim.x > 1 || value.clusterDim.y > 1 || value.clusterDim.z > 1;
	return attribute_of(node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value) &&
	       !value.deviceUpdatableKernelNode.deviceUpdatable;
}

static bool read_kernel(struct op *op, CUgraphNode node)
{
	CUDA_KERNEL_NODE_PARAMS kernel = {0};

	if (driver.cuGraphKernelNodeGetParams_v2(node, &kernel) != CUDA_SUCCESS)
		return false;
	op->kind = OP_LAUNCH;
	op->launch = (struct op_launch){
		.function = kernel.func ? kernel.func : (CUfunction)kernel.kern,
		.grid = {kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ},
		.block = {kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ},
		.shared_bytes = kernel.sharedMemBytes,
		.params = kernel.kernelParams,
		.extra = kernel.extra,
	};
	return read_attributes(&op->launch, node);
}

static bool read_copy(struct op *op, CUgraphNode node)
{
	CUDA_MEMCPY3D copy;

	if (driver.cuGraphMemcpyNodeGetParams(node, &copy) != CUDA_SUCCESS)
		return false;
	copy_box_3d(op, &copy);
	op->copy.later = true;
	return op->kind == OP_COPY;
}

static bool read_fill(struct op *op, CUgraphNode node)
{
	CUDA_MEMSET_NODE_PARAMS fill;

	if (driver.cuGraphMemsetNodeGetParams(node, &fill) != CUDA_SUCCESS)
		return false;
	fill_box(op, fill.dst, fill.pitch, fill.width * fill.elementSize, fill.height);
	return true;
}

static bool read_node(struct op *op, CUgraphNode node)
{
	CUgraphNodeType type;

	if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
		return false;
	switch (type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return read_kernel(op, node);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return read_copy(op, node);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return read_fill(op, node);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		op->kind = OP_SYNC;
		return true;
	default:
		return false;
	}
}

/* What the op of a captured graph touches, as a library's call says it. */
static bool read_touches(struct op_library *library, const struct recorded_graph *part, int op)
{
	*library = (struct op_library){.call = name};
	for (int i = 0; i < part->order.count; i++) {
		const struct graph_touch *touch = &part->order.item[i];

		if (touch->op != op)
			continue;
		if (library->count == OPERANDS_MAX)
			return false;
		library->operand[library->count++] =
			(struct op_operand){.begin = touch->begin,
					    .end = touch->end,
					    .read = touch->read,
					    .written = !touch->read,
					    .whole = !touch->read && touch->sure_end == touch->end};
	}
	return true;
}

/* ---- in their order ------------------------------------------------------------------------- */

static bool pass(const struct op *begin, struct op *op, CUgraphNode last, int nodes)
{
	op->name = name;
	op->context = begin->context;
	op->stream = begin->stream;
	through_assembled(op);
	if (!op->recorded)
		return false;
	recording_found(op, last, nodes);
	return true;
}

/* The nodes of a part, from entry *at on: as many for each op as it became when it was captured. */
static bool pass_part(const struct op *begin, const struct graph_row *row, int *at,
		      const struct recorded_graph *part)
{
	static struct op_library library; /* flow lock */
	const int begun = *at;

	for (int k = 0; k < part->op_count; k++) {
		const struct recorded_op *record = &part->op[k];
		struct op op = {.kind = record->kind};
		CUgraphNode last = NULL;
		int nodes = 0;

		for (; nodes < record->nodes && *at < row->count; ++*at) {
			if (row->branched && *at > begun && !row->entry[*at].depth &&
			    !graph_row_linked(row, *at))
				return false; /* a node of somebody else's */
			if (!row->entry[*at].is_child) {
				last = row->entry[*at].node;
				nodes++;
			}
		}
		if (nodes != record->nodes)
			return false;
		if (record->gemm) {
			op.gemm = *record->gemm;
		} else if (record->kind == OP_LAUNCH && nodes == 1) {
			if (!read_kernel(&op, last))
				return false;
		} else {
			if (!read_touches(&library, part, k))
				return false;
			op.kind = OP_LIBRARY;
			op.library = &library;
		}
		if (!pass(begin, &op, last, nodes))
			return false;
	}
	return true;
}

static bool pass_all(const struct op *begin, const struct graph_row *row)
{
	for (int i = 0; i < row->count;) {
		const struct row_entry *entry = &row->entry[i];
		const struct recorded_graph *part = built_part(entry->graph, entry->node);
		struct op op = {0};

		if (entry->is_child || !part)
			i++; /* a part that is no child begins with this node */
		if (part) {
			if (part->context != begin->context || !pass_part(begin, row, &i, part) ||
			    (i < row->count && row->entry[i].depth > entry->depth))
				return false;
		} else if (entry->is_child || /* its kernels say nothing that is certain */
			   !read_node(&op, entry->node) || !pass(begin, &op, entry->node, 1)) {
			return false;
		}
	}
	return true;
}

void assembly_read(CUgraph graph)
{
	struct op begin = {.kind = OP_CAPTURE_BEGIN, .name = "cuGraphInstantiate"};
	struct graph_row row;
	bool whole;

	COST(PURPOSE_REPLACING);
	if (!built_of_parts(graph) || !graph_rows_possible() ||
	    !driver.cuGraphKernelNodeGetParams_v2 || !driver.cuGraphKernelNodeGetAttribute ||
	    !driver.cuGraphMemcpyNodeGetParams || !driver.cuGraphMemsetNodeGetParams ||
	    driver.cuCtxGetCurrent(&begin.context) != CUDA_SUCCESS || !begin.context)
		return;
	begin.stream = graph_workshop(begin.context);
	if (!begin.stream || !graph_row_read(&row, graph, NULL))
		return;
	if (recording_begin_built(graph, begin.context, begin.stream, row.branched)) {
		through_assembly_begins(&begin);
		whole = pass_all(&begin, &row);
		through_assembly_ends(&begin, graph, whole);
	}
	graph_row_close(&row);
}

void assembly_added(CUgraph graph, CUgraphNode node, CUgraph child)
{
	struct recorded_graph *part;
	CUgraphNode first;

	if (!recording_of(child))
		assembly_read(child);
	part = recording_of(child);
	if (part && graph_rows_possible() && graph_row_count(part, NULL, &first))
		built_add(graph, node, part);
}
