/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays a recorded trace to the shim's core in place of the hooks, over below.h: comparisons always
 * pass. What the core then decides — which chains it sees, defers, replaces, has to make real — is
 * what it would decide in the recorded program.
 */
#ifndef FASHIM_TEST_REPLAY_H
#define FASHIM_TEST_REPLAY_H

#include <stdint.h>

struct replay {
	uint64_t ops, gemms, launches;
	uint64_t taken; /* ops the core kept from the "driver" */
	uint64_t fused; /* fused launches */
	uint64_t snapshots;
	uint64_t sites, verified, declined;
	uint64_t seen, replaced, materialised;
	char reasons[512]; /* of sites, and those counted without one: " scores_read_by capture" */
};

/* Path of tests/traces/NAME.trace.gz; static storage. */
const char *trace_path(const char *name);

/* Plays one trace `rounds` times in a fresh core (call it once a process): between two rounds
 * everything is freed. 0, or -errno with a line on stderr, also where chains_wrong(). */
int replay_trace(const char *path, int rounds, struct replay *result);

/* The same; `watch` is called after each op, when it may look at the core and at below.h. */
int replay_watched(const char *path, int rounds, struct replay *result, void (*watch)(void));

#endif
