/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of products, each judged at its end; times without the shim, each longer than the one
 * before as long as nothing changes.
 *
 * Counted by the shim itself on one H100, in models whose forward takes 2 to 6 ms, most of it on
 * the host: 2.8 us of each launch and some 60 us of each chain that it replaced, 10 to 15 % of
 * their time.
 */
#include "shim/flow/rest.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "shim/base/clock.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/base/message.h"
#include "shim/flow/record.h"
#include "shim/gpu/ledger.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"

#define WINDOW	   64	    /* products, at least … */
#define WINDOW_NS  4000000u /* … and time */
#define PAUSE_NS   2000000u /* longer without a product is the program's other business */
#define ASKED	   4	    /* of so many products one is asked for its stream */
#define AGREEING   3	    /* windows that say so, before the first rest */
#define LEARNS	   24	    /* windows in which sites may be learned, or listed, undisturbed */
#define UNSEEN	   16	    /* of so many products one is counted during a rest */
#define TRIAL	   256	    /* products of a rest that must be faster than those before … */
#define LONG_TRIAL 1024	    /* … or so many: other work on the machine slows some, too */
#define FIRST_REST 20	    /* times as long as a window, and at least … */
#define LEAST_NS   200000000u
#define LONGEST_NS 60000000000u
#define LOOK_NS	   1000000000u /* the longest where nothing is replaced: something new may come */
#define CHANGED	   0.25 /* more of the GPU's time is used than when the rest began: it is over */
#define SAMPLES	   32
#define DISTRUST   128 /* windows after a rest that did not pay */

static struct {
	uint64_t began, host, saved; /* at the beginning of the window, or of the rest */
	uint64_t came;		     /* the product before */
	uint64_t spent;		     /* since the beginning, without pauses */
	uint64_t waited;	     /* of it for the device */
	unsigned products, asked, idle;
	uint64_t learned;    /* occurrences of sites being learned */
	unsigned windows;    /* so far */
	unsigned agreeing;   /* windows in a row */
	unsigned distrusted; /* windows to come in which nothing is decided */
	unsigned distrust;
	uint64_t paced_ns; /* spent in the windows that agree … */
	uint64_t paced;	   /* … so many products */
	double busy;	   /* of the GPU's time, as the rest began; below 0: not known yet */
	uint64_t until;	   /* the rest's end */
	uint64_t last;	   /* until when it is counted */
	uint64_t length;
} state = {.distrust = DISTRUST};

/* First nothing is begun any more; when what was made late is done, nothing is watched. Products
 * are counted until the rest is known to be faster, then most of them need not even ask. */
enum { AWAKE, FALLING, TRIED, ASLEEP };
static atomic_int phase;
static atomic_uint unseen;
static _Atomic uint64_t waited; /* by all threads, since the product before */
static unsigned alternating;	/* a test wants to rest after, and for, so many products */

/* ---- windows -------------------------------------------------------------------------------- */

static bool only_watches(void)
{
	return config()->mode == MODE_AUDIT;
}

static bool is_possible(void)
{
	static bool asked;

	if (!asked) {
		const char *text = ledger_on_stand_in() ? secure_getenv("SIMGPU_REST") : NULL;

		asked = true;
		alternating = text ? (unsigned)atoi(text) : 0;
	}
	return (config()->mode == MODE_REPLACE || only_watches()) &&
	       (ledger_percent() > 0 || alternating) && !record_wanted();
}

static void ask(const struct op *op)
{
	state.asked++;
	state.idle += driver.cuStreamQuery && driver.cuStreamQuery(op->stream) == CUDA_SUCCESS;
}

static uint64_t learned(void)
{
	uint64_t seen = 0;

	for (int i = 0; i < site_count; i++)
		if (sites[i].state == SITE_LEARNING)
			seen += sites[i].live->seen;
	return seen;
}

static void begin_window(uint64_t now)
{
	state.began = state.came = now;
	state.spent = state.waited = 0;
	atomic_store_explicit(&waited, 0, memory_order_relaxed);
	state.host = cost_host_ns();
	state.saved = ledger_saved_ns();
	state.products = state.asked = state.idle = 0;
	state.learned = learned();
}

/* One more product has come. What lies between two of them, but for waiting for the device, is at
 * most a pause: it is the time of its models that a program has the shim for, however long it then
 * looks at what came out. */
static void spend(uint64_t now)
{
	const uint64_t passed = now - state.came;
	uint64_t awaited = atomic_exchange_explicit(&waited, 0, memory_order_relaxed);

	awaited = awaited < passed ? awaited : passed;
	state.waited += awaited;
	state.spent += awaited + (passed - awaited < PAUSE_NS ? passed - awaited : PAUSE_NS);
	state.came = now;
}

/* The window has ended: does what it says hold long enough to act on it? */
static bool decide(uint64_t now)
{
	const struct rest_window window = {
		.wall = only_watches() ? now - state.began : state.spent,
		.host = cost_host_ns() - state.host,
		.waited = state.waited,
		.saved = ledger_saved_ns() - state.saved,
		.asked = state.asked,
		.idle = state.idle,
	};
	const bool learning = learned() != state.learned;

	state.windows++;
	message_debug("%u products in %" PRIu64 " us, %" PRIu64 " of them ours, %" PRIu64
		      " waiting; %" PRIu64 " us of the GPU's saved, %u of %u found it idle%s",
		      state.products, window.wall / 1000, window.host / 1000, window.waited / 1000,
		      window.saved / 1000, window.idle, window.asked, learning ? "; learning" : "");
	if (only_watches()) {
		const uint64_t length = rest_from_watching(&window, ledger_percent());

		state.length = length < LOOK_NS ? length : LOOK_NS;
		return state.length && state.windows > LEARNS;
	}
	if (state.distrusted) {
		state.distrusted--;
		state.agreeing = 0;
	} else if (!rest_pays(&window, ledger_percent()) || (learning && state.windows <= LEARNS)) {
		state.agreeing = 0;
		state.length = 0;
	} else {
		state.agreeing++;
		state.paced_ns += window.wall;
		state.paced += state.products;
	}
	if (!state.agreeing)
		state.paced_ns = state.paced = 0;
	if (state.agreeing < (state.length ? 1 : AGREEING))
		return false;
	state.length = state.length ? 2 * state.length : FIRST_REST * (now - state.began);
	state.length = state.length < LEAST_NS	   ? LEAST_NS
		       : state.length > LONGEST_NS ? LONGEST_NS
						   : state.length;
	return true;
}

static enum rest awake(const struct op *op, uint64_t now)
{
	if (state.products % ASKED == 0 && !only_watches())
		ask(op);
	state.products++;
	spend(now);
	if (alternating ? state.products < alternating
			: state.products < WINDOW || state.spent < WINDOW_NS)
		return REST_NOT;
	if (!alternating && !decide(now)) {
		begin_window(now);
		return REST_NOT;
	}
	atomic_store(&phase, FALLING);
	return REST_BEGINS;
}

static void sleep_now(uint64_t now)
{
	begin_window(now);
	state.until = now + state.length;
	state.last = now;
	state.busy = -1;
	log_live()->rests++;
	atomic_store(&unseen, 0);
	atomic_store(&phase, only_watches() || alternating ? ASLEEP : TRIED);
}

/* ---- rests ---------------------------------------------------------------------------------- */

static void wake(uint64_t now)
{
	state.agreeing = 0;
	state.paced_ns = state.paced = 0;
	atomic_store(&phase, AWAKE);
	begin_window(now);
}

/* Was it not worth it? Of the first products of a rest. */
static bool was_slower(uint64_t now)
{
	if (atomic_load(&phase) != TRIED)
		return false;
	spend(now);
	if (state.products < TRIAL)
		return false;
	if ((double)state.spent / state.products < (double)state.paced_ns / (double)state.paced) {
		atomic_store(&phase, ASLEEP);
		return false;
	}
	return state.products >= LONG_TRIAL;
}

/* Has the GPU more to do than when the rest began? */
static bool has_changed(void)
{
	double busy;

	if (state.asked < SAMPLES)
		return false;
	busy = 1 - (double)state.idle / state.asked;
	state.asked = state.idle = 0;
	if (state.busy >= 0)
		return busy > state.busy + CHANGED;
	state.busy = busy;
	return false;
}

static enum rest asleep(const struct op *op, uint64_t now)
{
	const bool tried = atomic_load(&phase) == TRIED;
	const unsigned passed = alternating || tried ? 1 : UNSEEN;

	state.products += passed;
	log_live()->rest_products += passed;
	log_live()->rest_ns += now - state.last;
	state.last = now;
	if (alternating) {
		if (state.products < alternating)
			return REST_ON;
	} else if (only_watches()) {
		if (now < state.until)
			return REST_ON;
	} else {
		if (!tried || state.products % UNSEEN == 0)
			ask(op);
		if (was_slower(now)) {
			state.distrusted = state.distrust;
			state.distrust *= 2;
			state.length = 0;
		} else if (has_changed()) {
			state.length = 0;
		} else if (now < state.until) {
			return REST_ON;
		}
	}
	wake(now);
	return REST_NOT;
}

enum rest rest_turn(const struct op *op, bool quiet)
{
	const uint64_t now = cost_moment_ns();

	if (!is_possible()) {
		if (rest_begun())
			wake(now);
		return REST_NOT;
	}
	if (!state.began)
		begin_window(now);
	switch (atomic_load_explicit(&phase, memory_order_relaxed)) {
	case AWAKE:
		return awake(op, now);
	case FALLING:
		if (quiet)
			sleep_now(now);
		return REST_NOT;
	default:
		return asleep(op, now);
	}
}

void rest_waited(uint64_t ns)
{
	atomic_fetch_add_explicit(&waited, ns, memory_order_relaxed);
}

bool rest_begun(void)
{
	return atomic_load_explicit(&phase, memory_order_relaxed) != AWAKE;
}

bool rest_now(void)
{
	return atomic_load_explicit(&phase, memory_order_relaxed) >= TRIED;
}

bool rest_passes(void)
{
	return atomic_load_explicit(&phase, memory_order_relaxed) == ASLEEP && !alternating &&
	       atomic_fetch_add_explicit(&unseen, 1, memory_order_relaxed) % UNSEEN != UNSEEN - 1;
}

void rest_break(void)
{
	if (rest_begun())
		wake(clock_ns(CLOCK_MONOTONIC));
}
