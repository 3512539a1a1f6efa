/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_before() and flow_after() as a hook calls them, and the sums at the end.
 */
#include "tests/unit/replay.h"

#include <stdio.h>
#include <string.h>

#include "shim/flow.h"
#include "shim/log.h"
#include "shim/site.h"
#include "tests/unit/below.h"
#include "tests/unit/trace.h"

#define MAX_ALLOCATIONS 4096

static uint64_t allocations[MAX_ALLOCATIONS]; /* those not freed */
static int allocation_count;

static void note_memory(const struct op *op)
{
	if (op->kind == OP_ALLOC && allocation_count < MAX_ALLOCATIONS)
		allocations[allocation_count++] = op->alloc.range.base;
	for (int i = 0; op->kind == OP_FREE && i < allocation_count; i++)
		if (allocations[i] == op->alloc.range.base)
			allocations[i--] = allocations[--allocation_count];
}

static void play(struct op *op, void *argument)
{
	struct replay *result = argument;

	note_memory(op);
	result->ops++;
	result->gemms += op->kind == OP_GEMM;
	result->launches += op->kind == OP_LAUNCH;
	if (flow_before(op) == FLOW_TAKEN)
		result->taken++;
	else
		flow_after(op);
}

static void free_all(struct replay *result)
{
	while (allocation_count) {
		struct op op = {.kind = OP_FREE,
				.name = "cuMemFree_v2",
				.context = BELOW_CONTEXT,
				.stream = CU_STREAM_LEGACY,
				.alloc.range.base = allocations[allocation_count - 1]};

		play(&op, result);
	}
}

static void add_reason(struct replay *result, enum reason reason)
{
	const size_t used = strlen(result->reasons);

	if (reason != REASON_NONE && !strstr(result->reasons, reason_name(reason)))
		snprintf(result->reasons + used, sizeof(result->reasons) - used, " %s",
			 reason_name(reason));
}

int replay_trace(const char *path, int rounds, struct replay *result)
{
	memset(result, 0, sizeof(*result));
	below_reset();
	for (int i = 0; i < rounds; i++) {
		long ops = trace_play(path, play, result);

		if (ops < 0)
			return (int)ops;
		if (i + 1 < rounds)
			free_all(result);
	}
	result->fused = below.count[ACT_FUSED];
	result->sites = (uint64_t)site_count;
	for (int i = 0; i < site_count; i++) {
		result->verified += sites[i].state == SITE_VERIFIED;
		result->declined += sites[i].state == SITE_DECLINED;
		result->seen += sites[i].live->seen;
		result->replaced += sites[i].live->replaced;
		result->materialised += sites[i].live->materialised;
		result->snapshots += sites[i].live->snapshots;
		add_reason(result, sites[i].reason);
	}
	for (int i = 0; i < REASON_COUNT; i++)
		if (log_live()->reasons[i])
			add_reason(result, (enum reason)i);
	return 0;
}
