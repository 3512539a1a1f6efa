/* SPDX-License-Identifier: Apache-2.0
 *
 * The probe (probe.h): flow.h, answered by the test.
 */
#include "probe.h"

#include <string.h>

#include "shim/real/bypass.h"
#include "shim/code/kernel_code.h"
#include "shim/real/driver.h"
#include "shim/real/library.h"

static const char *hindrance(CUfunction handle, char *name)
{
	return kernel_code_hindrance(handle, name, NULL);
}

static void within(int calls)
{
	hook_depth += calls;
}

__attribute__((visibility("default"))) struct probe probe = {
	.hindrance = hindrance, .bypassed = bypassed, .within = within};

bool flow_active(void)
{
	return probe.active;
}

bool flow_watching(void)
{
	return probe.watching;
}

bool flow_rests(void)
{
	__atomic_fetch_add(&probe.asked, 1, __ATOMIC_RELAXED);
	return probe.rests;
}

bool flow_watching_graphs(void)
{
	return probe.watching;
}

static void note(enum probe_when when, const struct op *op, const char *name)
{
	unsigned i = __atomic_fetch_add(&probe.count, 1, __ATOMIC_RELAXED);
	struct probe_event *event;

	if (i >= PROBE_EVENTS)
		return;
	event = &probe.events[i];
	*event = (struct probe_event){.when = when, .depth = hook_depth};
	if (op) {
		event->op = *op;
		if (op->kind == OP_GEMM && op->gemm.library)
			event->blas = blas_version(op->gemm.library);
		if (op->kind == OP_LIBRARY)
			event->library = *op->library;
	}
	strncpy(event->name, name, sizeof(event->name) - 1);
}

enum flow flow_before(struct op *op)
{
	note(PROBE_BEFORE, op, op->name);
	return probe.answer;
}

uint64_t flow_waits(void)
{
	return ++probe.waits;
}

void flow_waited(uint64_t since_ns)
{
	probe.waited = since_ns;
}

void flow_fetches(void)
{
	probe.fetches++;
}

void flow_refused(struct op *op)
{
	(void)op;
}

void flow_after(struct op *op)
{
	note(PROBE_AFTER, op, op->name);
}

void flow_capture_asked(CUstream stream, const char *name)
{
	(void)stream, (void)name;
}

void flow_graph_created(CUgraph graph)
{
	(void)graph;
}

void flow_graph_added(CUgraph graph, const CUgraphNode *node, CUgraph child)
{
	(void)graph, (void)node, (void)child;
}

void flow_graph_instantiated(CUgraph graph, CUgraphExec exec, unsigned long long flags)
{
	(void)graph, (void)exec, (void)flags;
}

void flow_graph_gone(const void *handle)
{
	(void)handle;
}

void flow_graph_updating(CUgraphExec exec)
{
	(void)exec;
}

void flow_graph_updated(CUgraph graph, CUgraphExec exec)
{
	(void)graph, (void)exec;
}

bool flow_out_of_memory(void)
{
	return false;
}

void flow_flush(const char *name)
{
	note(PROBE_FLUSH, NULL, name);
}
