/* SPDX-License-Identifier: Apache-2.0
 *
 * A few sums. The process began when its libraries were set up: that is when the clock is read,
 * which is all that is done there.
 */
#include "shim/gpu/ledger.h"

#include <string.h>

#include "shim/base/clock.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/real/driver.h"

static const struct {
	enum purpose purpose;
	uint64_t host_us, gpu_us;
} items[LEDGER_ITEMS] = {
#define ITEM(id, purpose, host_us, gpu_us) [LEDGER_##id] = {PURPOSE_##purpose, host_us, gpu_us},
#include "shim/gpu/ledger.def"
#undef ITEM
};

/* ---- the arithmetic ------------------------------------------------------------------------- */

void ledger_open(struct ledger *ledger, double percent, uint64_t began)
{
	*ledger = (struct ledger){.percent = percent, .began = began};
	for (int i = 0; i < LEDGER_ITEMS; i++) {
		ledger->host[i] = items[i].host_us * 1000;
		ledger->gpu[i] = items[i].gpu_us * 1000;
	}
}

/* Below 0: overspent. */
static double room(const struct ledger *ledger, uint64_t now, uint64_t spent)
{
	const double run = now > ledger->began ? (double)(now - ledger->began) : 0;
	const double allowed = run * ledger->percent / 100 + ALLOWANCE_MS * 1e6;

	return allowed + (double)ledger->saved - (double)spent - (double)ledger->promised;
}

bool ledger_allows(const struct ledger *ledger, uint64_t now, uint64_t spent, uint64_t more)
{
	return ledger->percent <= 0 || (double)more <= room(ledger, now, spent);
}

uint64_t ledger_room(const struct ledger *ledger, uint64_t now, uint64_t spent)
{
	const double left = room(ledger, now, spent);

	return ledger->percent <= 0 ? UINT64_MAX : left > 0 ? (uint64_t)left : 0;
}

void ledger_learn(uint64_t *expected, uint64_t took)
{
	*expected = took > *expected ? took : *expected - (*expected - took) / 4;
}

/* ---- that of the process -------------------------------------------------------------------- */

static uint64_t began_ns;
static uint64_t inner_ns; /* of all entries that ended */

static __attribute__((constructor)) void note_beginning(void)
{
	began_ns = clock_ns(CLOCK_MONOTONIC);
}

/* The CPU stand-in, whose times say nothing. */
bool ledger_on_stand_in(void)
{
	char name[16] = "";
	CUdevice device;

	return driver.cuCtxGetDevice && driver.cuDeviceGetName &&
	       driver.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
	       driver.cuDeviceGetName(name, sizeof(name), device) == CUDA_SUCCESS &&
	       strncmp(name, "simgpu", 6) == 0;
}

static struct ledger *of_process(void)
{
	static struct ledger ledger;
	static bool opened;
	const char *given;

	if (!opened) {
		opened = true;
		given = secure_getenv("FASHIM_BUDGET");
		ledger_open(&ledger,
			    (given && *given) || !ledger_on_stand_in() ? config()->budget : 0,
			    began_ns);
	}
	return &ledger;
}

static uint64_t spent_ns(void)
{
	uint64_t spent = cost_host_ns();

	for (int i = 0; i < PURPOSE_COUNT; i++)
		spent += cost_gpu_ns(i);
	return spent;
}

static bool affords(uint64_t more)
{
	const struct ledger *ledger = of_process();

	return ledger->percent <= 0 ||
	       ledger_allows(ledger, clock_ns(CLOCK_MONOTONIC), spent_ns(), more);
}

uint64_t ledger_left(void)
{
	return ledger_room(of_process(), clock_ns(CLOCK_MONOTONIC), spent_ns());
}

static uint64_t expected(enum ledger_item item)
{
	return of_process()->host[item] + of_process()->gpu[item];
}

bool ledger_affords(enum ledger_item item)
{
	return affords(expected(item));
}

bool ledger_affords_many(enum ledger_item item, unsigned count)
{
	return affords(count * expected(item));
}

bool ledger_affords_both(enum ledger_item item, enum ledger_item other)
{
	return affords(expected(item) + expected(other));
}

struct ledger_entry ledger_begin(enum ledger_item item)
{
	return (struct ledger_entry){item, cost_host_ns(), inner_ns};
}

void ledger_end(struct ledger_entry entry)
{
	const uint64_t took = cost_host_ns() - entry.began, inner = inner_ns - entry.inner;
	const uint64_t own = took > inner ? took - inner : 0;

	ledger_learn(&of_process()->host[entry.item], own);
	inner_ns += own;
}

uint64_t ledger_promise(enum ledger_item item)
{
	struct ledger *ledger = of_process();

	ledger->promised += ledger->gpu[item];
	return ledger->gpu[item];
}

void ledger_settle(enum ledger_item item, uint64_t promised, double us)
{
	struct ledger *ledger = of_process();

	ledger->promised -= promised;
	if (!(us > 0))
		return;
	cost_add_gpu(items[item].purpose, (uint64_t)(us * 1000));
	ledger_learn(&ledger->gpu[item], (uint64_t)(us * 1000));
}

void ledger_saved(uint64_t ns)
{
	of_process()->saved += ns;
}

uint64_t ledger_saved_ns(void)
{
	return of_process()->saved;
}

double ledger_percent(void)
{
	return of_process()->percent;
}
