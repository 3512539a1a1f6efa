/* SPDX-License-Identifier: Apache-2.0
 *
 * The one way in. Every intercepted op passes here once, in program order, under one lock.
 *
 * The lock is never held while the program's own call runs.
 */
#include "shim/flow/flow.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/act/built.h"
#include "shim/act/compare.h"
#include "shim/act/graph_copy.h"
#include "shim/act/recording.h"
#include "shim/base/clock.h"
#include "shim/base/config.h"
#include "shim/flow/assembly.h"
#include "shim/flow/capture.h"
#include "shim/flow/record.h"
#include "shim/flow/rest.h"
#include "shim/flow/session.h"
#include "shim/flow/through.h"
#include "shim/flow/settle.h"
#include "shim/flow/turn.h"
#include "shim/gpu/looks.h"
#include "shim/gpu/nvtx.h"
#include "shim/gpu/scratch.h"
#include "shim/hazard/held.h"
#include "shim/hazard/holes.h"
#include "shim/log/decline.h"
#include "shim/log/log.h"
#include "shim/op/graph.h"
#include "shim/real/bypass.h"
#include "shim/real/driver.h"
#include "shim/rules/shadow.h"
#include "shim/site/site.h"

static atomic_int watching; /* is anything kept that an op might change? */
static atomic_bool copied;  /* does anything stand for a graph of the program's? */

bool flow_active(void)
{
	static atomic_int selected; /* 0 not asked yet, 1 yes, 2 no */
	int answer = atomic_load_explicit(&selected, memory_order_relaxed);

	if (!answer) {
		answer = config()->mode != MODE_OFF && config_selects_program() ? 1 : 2;
		atomic_store_explicit(&selected, answer, memory_order_relaxed);
	}
	return answer == 1 && !turn_over();
}

bool flow_watching(void)
{
	return atomic_load_explicit(&watching, memory_order_relaxed) > 0 || config()->record[0];
}

uint64_t flow_waits(void)
{
	site_round_over();
	return clock_ns(CLOCK_MONOTONIC);
}

void flow_fetches(void)
{
	site_round_fetched();
}

void flow_waited(uint64_t since_ns)
{
	rest_waited(clock_ns(CLOCK_MONOTONIC) - since_ns);
}

bool flow_watching_graphs(void)
{
	return flow_watching() || atomic_load_explicit(&copied, memory_order_relaxed);
}

/* Data of the program's could not be made where no call of its own could say so: the next one does.
 */
static atomic_bool owed;

static void enter(void)
{
	turn_take(false);
}

/* 0 or -EIO. */
static int leave(void)
{
	const bool watched = through_keeps();

	if (!watched) {
		shadow_clear();
		looks_forget();
		holes_forget();
	}
	atomic_store_explicit(&watching, watched, memory_order_relaxed);
	atomic_store_explicit(&copied, graph_copies(), memory_order_relaxed);
	return turn_give();
}

static void leave_untold(void)
{
	if (!leave())
		return;
	atomic_store(&owed, true);
	atomic_store_explicit(&watching, 1, memory_order_relaxed);
}

static bool ever_taken; /* flow lock */

/* The program is over: what it would see of what is held back is made as it expects, and from then
 * on everything passes: while libraries are taken down, nothing of theirs may be launched. All of
 * it, however large: a destructor that saves a result may be among those that follow, and no value
 * tells whether one will ask for it. */
static void settle(bool in_time)
{
	if (!flow_active() || !turn_ours())
		return;
	/* A signal's handler ends the process: what lies half done is not touched again. */
	if (turn_mine()) {
		if (held_count)
			log_violation("the process ended in the midst of a call: scores that were "
				      "held back are not computed");
		turn_end();
		return;
	}
	enter();
	settle_finally(in_time);
	turn_end();
	leave();
}

void flow_exits(void)
{
	if (ever_taken)
		settle(true);
}

/* By neither exit() nor main's return: error() ends a process, or its last thread. Parts of cuBLAS
 * may be gone by now. */
static void settle_late(void)
{
	settle(false);
}

static void settle_at_exit(void)
{
	if (!ever_taken)
		ever_taken = atexit(settle_late) == 0;
}

/* At exit: takes in what came back and closes the log. */
static void finish(void)
{
	if (!turn_ours())
		return;
	if (!turn_mine()) {
		enter();
		compare_poll();
		leave();
	}
	log_finish();
}

bool flow_rests(void)
{
	return rest_passes();
}

enum flow flow_before(struct op *op)
{
	const int saved = errno;
	enum flow flow = FLOW_PASS;

	op->watcher = NULL;
	op->recorded = 0;
	if (!flow_active() || driver_resolve() < 0)
		return FLOW_PASS;
	if (op->kind == OP_GEMM)
		nvtx_look();
	shadow_touch_host(op);
	turn_take(op->kind == OP_LAUNCH || op->kind == OP_FILL);
	if (!flow_active()) { /* the process ended while this thread waited */
		leave();
		return FLOW_PASS;
	}
	if (op->kind == OP_GEMM && op->context && session_note_gemm(op))
		atexit(finish);
	flow = through_before(op);
	if (flow == FLOW_TAKEN)
		settle_at_exit();
	if (leave() ||
	    (atomic_load_explicit(&owed, memory_order_relaxed) && atomic_exchange(&owed, false))) {
		op->error = CUDA_ERROR_UNKNOWN;
		flow = FLOW_FAILED;
		flow_refused(op);
	}
	errno = saved;
	return flow;
}

void flow_after(struct op *op)
{
	const int saved = errno;

	if ((op->kind != OP_ALLOC && op->kind != OP_CAPTURE_BEGIN && op->kind != OP_CAPTURE_END &&
	     !op->watcher && !op->recorded) ||
	    !flow_active() || driver_resolve() < 0)
		return;
	enter();
	through_after(op);
	leave_untold();
	errno = saved;
}

/* A launch of the program's own is awaited; what else runs is taken for done before it does. */
void flow_refused(struct op *op)
{
	const int saved = errno;

	if ((op->kind != OP_CAPTURE_END && (op->kind != OP_GRAPH_LAUNCH || !op->watcher)) ||
	    !flow_active() || driver_resolve() < 0)
		return;
	enter();
	through_refused(op);
	leave_untold();
	errno = saved;
}

void flow_capture_asked(CUstream stream, const char *name)
{
	const int saved = errno;

	if (!flow_active() || config()->graphs != GRAPHS_TRUST || !capture_ever())
		return;
	enter();
	if (capture_under_way())
		through_capture_asked(stream, name);
	leave_untold();
	errno = saved;
}

void flow_graph_created(CUgraph graph)
{
	const int saved = errno;

	if (!flow_active() || config()->graphs != GRAPHS_PROVE || config()->mode != MODE_REPLACE)
		return;
	enter();
	built_begin(graph);
	leave_untold();
	errno = saved;
}

/* Some graph's nodes are not what they were, of one that is being captured perhaps; which one
 * nobody knows here. */
static void changed_by_hand(void)
{
	recording_fail("changed by hand");
	graph_changed();
	recording_forget(NULL);
	built_forget(NULL);
}

void flow_graph_added(CUgraph graph, const CUgraphNode *node, CUgraph child)
{
	const int saved = errno;

	if (!flow_active() || !capture_ever())
		return;
	enter();
	if (built_is(graph)) {
		graph_gone(graph);
		recording_forget(graph);
	} else {
		changed_by_hand();
	}
	if (child && built_is(graph) && !capture_under_way())
		assembly_added(graph, *node, child);
	leave_untold();
	errno = saved;
}

#define UNKNOWN_FLAGS (~0ull)

/* Nobody sees such a graph launched. Of one that is updated flags may be unknown: it was made with
 * them before. */
static bool for_device(unsigned long long flags)
{
	return flags != UNKNOWN_FLAGS && flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
}

void flow_graph_instantiated(CUgraph graph, CUgraphExec exec, unsigned long long flags)
{
	const int saved = errno;
	struct recorded_graph *recorded;

	if (!flow_active() || (!capture_ever() && !for_device(flags)))
		return;
	enter();
	if (for_device(flags)) {
		bypass_note_device_launches();
		settle_and_forget("cuGraphInstantiate");
	}
	if (!capture_under_way() && !recording_of(graph))
		assembly_read(graph);
	graph_instantiated(graph, exec);
	graph_copy_end(exec);
	recorded = recording_of(graph);
	if (recorded && recorded->chain_count && graph_known(exec) && !capture_under_way())
		graph_copy_make(recorded, exec, flags);
	if (graph_copies())
		rest_break();
	leave_untold();
	errno = saved;
}

void flow_graph_updating(CUgraphExec exec)
{
	const int saved = errno;

	if (!flow_active() || !capture_ever())
		return;
	enter();
	graph_gone(exec);
	graph_copy_end(exec);
	leave_untold();
	errno = saved;
}

/* Was any node of an executable graph ever disabled? It stays so when that is updated, and which
 * one it was nobody knows here. */
static atomic_bool disabled;

static void updated_unknown(void)
{
	const int saved = errno;

	enter();
	log_decline(REASON_CAPTURE, "updated, and nodes of it may be disabled");
	leave_untold();
	errno = saved;
}

void flow_graph_updated(CUgraph graph, CUgraphExec exec)
{
	cuuint64_t flags = UNKNOWN_FLAGS; /* no copy is made */

	if (!flow_active() || !capture_ever() || driver_resolve() < 0)
		return;
	if (atomic_load_explicit(&disabled, memory_order_relaxed)) {
		updated_unknown();
		return;
	}
	if (driver.cuGraphExecGetFlags && driver.cuGraphExecGetFlags(exec, &flags) != CUDA_SUCCESS)
		flags = UNKNOWN_FLAGS;
	flow_graph_instantiated(graph, exec, flags);
}

/* Also before anything was captured: a handle that was given out again would be taken for a graph
 * that was made by hand. */
void flow_graph_gone(const void *handle)
{
	const int saved = errno;

	if (!flow_active())
		return;
	enter();
	graph_gone(handle);
	recording_forget(handle);
	built_forget(handle);
	graph_copy_forget(handle);
	leave_untold();
	errno = saved;
}

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* Nodes added, or given other parameters, by hand: nothing runs. */
static bool edits_graph(const char *name)
{
	return begins(name, "cuGraphAdd") || begins(name, "cuGraphKernelNode") ||
	       begins(name, "cuGraphRemoveDependencies") ||
	       strcmp(name, "cuGraphDestroyNode") == 0 ||
	       (begins(name, "cuGraph") && !begins(name, "cuGraphExec") &&
		strstr(name, "NodeSetParams"));
}

/* The same of an executable graph. */
static bool edits_executable(const char *name)
{
	return strcmp(name, "cuGraphNodeSetEnabled") == 0 ||
	       (begins(name, "cuGraphExec") && strstr(name, "NodeSetParams"));
}

/* Which graph it is nobody knows here. What was made of one is not changed with it. */
static void graph_touched(const char *name)
{
	const int saved = errno;

	if (strcmp(name, "cuGraphNodeSetEnabled") == 0)
		atomic_store_explicit(&disabled, true, memory_order_relaxed);
	if (!begins(name, "cuGraph") || begins(name, "cuGraphUpload") ||
	    begins(name, "cuGraphics") || !flow_active() || !capture_ever())
		return;
	enter();
	if (!edits_executable(name))
		changed_by_hand();
	if (!edits_graph(name)) {
		graph_executables_changed();
		graph_copies_end();
	}
	leave_untold();
	errno = saved;
}

void flow_flush(const char *name)
{
	const int saved = errno;

	graph_touched(name);
	if (edits_graph(name) || edits_executable(name) || !flow_active() ||
	    (!flow_watching() && !held_count) || driver_resolve() < 0)
		return;
	enter();
	if (record_wanted()) {
		const struct op op = {.kind = OP_OPAQUE, .name = name};

		record_op(&op);
	}
	graph_note(&(struct access_list){.opaque = true});
	recording_fail(name);
	settle_all(name);
	leave_untold();
	errno = saved;
}

bool flow_out_of_memory(void)
{
	const int saved = errno;
	CUcontext context = NULL;
	bool freed = false;

	if (!flow_active() || driver_resolve() < 0)
		return false;
	enter();
	looks_forget();
	/* Freeing is not allowed while a graph is recorded. */
	if (!capture_under_way() && driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS) {
		freed = graph_copies();
		graph_copies_end();
		freed |= scratch_trim(context);
	}
	leave_untold();
	errno = saved;
	return freed;
}
