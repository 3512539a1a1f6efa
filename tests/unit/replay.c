/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_before() and flow_after() as a hook calls them, and the sums at the end.
 */
#include "tests/unit/replay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shim/log/log_counters.h"
#include "shim/log/log.h"
#include "shim/site/site.h"
#include "tests/unit/chain_valid.h"
#include "tools/replay/below.h"
#include "tools/replay/feed.h"

const char *trace_path(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s.trace.gz", TRACES, name);
	return path;
}

static void (*watcher)(void); /* replay_watched()'s */
static const char *wrong;     /* with the chains, after some op */

static void count(const struct op *op, enum flow flow, void *argument)
{
	struct replay *result = argument;

	result->ops++;
	result->gemms += op->kind == OP_GEMM;
	result->launches += op->kind == OP_LAUNCH;
	result->taken += flow == FLOW_TAKEN;
	if (!wrong)
		wrong = chains_wrong();
	if (watcher)
		watcher();
}

static void add_reason(struct replay *result, enum reason reason)
{
	const size_t used = strlen(result->reasons);

	if (reason != REASON_NONE && !strstr(result->reasons, log_reason_name(reason)))
		snprintf(result->reasons + used, sizeof(result->reasons) - used, " %s",
			 log_reason_name(reason));
}

int replay_trace(const char *path, int rounds, struct replay *result)
{
	return replay_watched(path, rounds, result, NULL);
}

int replay_watched(const char *path, int rounds, struct replay *result, void (*watch)(void))
{
	long ops;

	watcher = watch;
	memset(result, 0, sizeof(*result));
	below_reset();
	ops = feed_trace(path, rounds, count, result);
	if (ops < 0)
		return (int)ops;
	if (wrong) {
		fprintf(stderr, "%s: %s\n", path, wrong);
		return -EPROTO;
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
