/* SPDX-License-Identifier: Apache-2.0
 *
 * One meter a thread, sums for all of them.
 */
#include "shim/base/cost.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "shim/base/clock.h"

/* No cheap thing takes that long: the thread lost the processor to another one, or waited, which
 * does not stand for what the others of its lot took. */
#define NO_LOT_NS 1000000

static _Atomic uint64_t host[PURPOSE_COUNT], gpu[PURPOSE_COUNT];

static __thread struct meter {
	struct cost now;
	bool running;	/* purpose and weight are set */
	uint64_t since; /* where weight is not 0 */
} meter __attribute__((tls_model("initial-exec")));

static struct cost current(void)
{
	return meter.running ? meter.now : (struct cost){PURPOSE_COUNT, 0};
}

void cost_add(enum purpose purpose, uint64_t ns)
{
	atomic_fetch_add_explicit(&host[purpose], ns, memory_order_relaxed);
}

void cost_add_gpu(enum purpose purpose, uint64_t ns)
{
	atomic_fetch_add_explicit(&gpu[purpose], ns, memory_order_relaxed);
}

static inline void turn_to(struct cost next)
{
	const struct cost last = current();

	if (last.weight || next.weight) {
		const uint64_t now = clock_ns(CLOCK_MONOTONIC);
		const uint64_t took = now - meter.since;

		if (last.weight)
			cost_add(last.purpose, took > NO_LOT_NS ? took : took * last.weight);
		meter.since = now;
	}
	meter.now = next;
	meter.running = true;
}

struct cost cost_begin_weighted(enum purpose purpose, unsigned weight)
{
	const struct cost outer = current();

	turn_to((struct cost){purpose, weight});
	return outer;
}

struct cost cost_begin(enum purpose purpose)
{
	return cost_begin_weighted(purpose, 1);
}

/* Outside of anything it is timed. */
struct cost cost_begin_shared(enum purpose purpose)
{
	const struct cost outer = current();

	turn_to((struct cost){purpose, outer.purpose == PURPOSE_COUNT ? 1 : outer.weight});
	return outer;
}

struct cost cost_pause(void)
{
	return cost_begin_weighted(PURPOSE_COUNT, 0);
}

void cost_end(struct cost outer)
{
	turn_to(outer);
}

uint64_t cost_ns(enum purpose purpose)
{
	return atomic_load_explicit(&host[purpose], memory_order_relaxed);
}

uint64_t cost_gpu_ns(enum purpose purpose)
{
	return atomic_load_explicit(&gpu[purpose], memory_order_relaxed);
}

uint64_t cost_moment_ns(void)
{
	return current().weight ? meter.since : clock_ns(CLOCK_MONOTONIC);
}

uint64_t cost_host_ns(void)
{
	uint64_t sum = 0;

	if (current().weight)
		turn_to(current());
	for (int i = 0; i < PURPOSE_COUNT; i++)
		sum += cost_ns(i);
	return sum;
}

void cost_forget(void)
{
	for (int i = 0; i < PURPOSE_COUNT; i++) {
		atomic_store(&host[i], 0);
		atomic_store(&gpu[i], 0);
	}
	meter = (struct meter){0};
}
