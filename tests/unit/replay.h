/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays a recorded trace (shim/record.h) to the shim's core in place of the hooks, against a driver that
 * does nothing but succeed, and with comparisons that always pass. What the core then decides — which
 * chains it sees, defers, replaces, has to make real — is what it would decide in the recorded program.
 */
#ifndef FASHIM_TEST_REPLAY_H
#define FASHIM_TEST_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

struct replay {
	uint64_t ops, gemms, launches;
	uint64_t taken;       /* ops the core kept from the "driver" */
	uint64_t fused;       /* fused launches */
	uint64_t snapshots;
	uint64_t sites, verified, declined;
	uint64_t seen, replaced, materialised;
};

/* Plays one trace in a fresh core (call it once a process). 0, or -errno with a line on stderr. */
int replay_trace(const char *path, struct replay *result);

#endif
