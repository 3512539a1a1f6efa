/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime behind cuda_host.h: the threads of a block as fibers.
 *
 * One queue holds the fibers that can run. A fiber that meets a barrier before the others leaves
 * the queue for the barrier's list and hands the processor to the next in the queue; the one that
 * completes the barrier puts the whole list back and goes on. When the queue is empty while some
 * threads have not returned, they wait for each other for ever: the launch fails. Switching costs
 * a few nanoseconds on x86-64 (seven registers); elsewhere ucontext does the same more slowly.
 */
#include "tests/simgpu/cuda_host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#define STACK_BYTES (128 * 1024)
#define GUARD_BYTES 4096
#define BARRIERS    16

struct waiters {
	unsigned arrived, expected; /* expected 0: every thread that still runs */
	struct sim_thread *first, **last;
};

struct sim_warp {
	unsigned live; /* mask of lanes that have not returned */
	void *args[32];
	struct {
		unsigned mask;
		void (*work)(void *const *args, unsigned lanes);
		struct waiters waiters;
	} meeting[32]; /* by the lowest lane of the mask: disjoint groups may meet at once */
};

/* All that is needed to run a grid; made at the first launch, kept until the process ends. */
struct engine {
	struct sim_thread threads[SIM_MAX_THREADS];
	struct sim_warp warps[SIM_MAX_THREADS / 32];
	struct waiters barriers[BARRIERS];
	struct sim_block block;
	struct sim_thread launcher; /* the context of sim_run_grid's caller */
	struct sim_thread *run_first, **run_last;
	void (*thread_main)(void **params);
	void **params;
	unsigned char *stacks;
	void *shared;
#ifndef __x86_64__
	ucontext_t contexts[SIM_MAX_THREADS + 1];
#endif
};

struct sim_thread *sim_current;
static struct engine *engine;
static pthread_mutex_t turn = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

/* ---- switching ------------------------------------------------------------------------------- */

static void fiber_main(void);

#ifdef __x86_64__
void sim_switch(void **save, void *load) __attribute__((visibility("hidden")));
__asm__(".text\n.globl sim_switch\n.hidden sim_switch\n.type sim_switch,@function\n"
	"sim_switch:\n"
	"\tpush %rbp\n\tpush %rbx\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n"
	"\tmov %rsp,(%rdi)\n\tmov %rsi,%rsp\n"
	"\tpop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbx\n\tpop %rbp\n\tret\n"
	".size sim_switch,.-sim_switch\n");

static void fiber_prepare(struct sim_thread *t)
{
	void **sp = (void **)(t->stack + STACK_BYTES);

	*--sp = NULL; /* where fiber_main would return to: it does not */
	*--sp = (void *)fiber_main;
	for (int i = 0; i < 6; i++)
		*--sp = NULL;
	t->context = sp;
}

static void switch_to(struct sim_thread *from, struct sim_thread *to)
{
	sim_current = to;
	sim_switch(&from->context, to->context);
}
#else
static void fiber_prepare(struct sim_thread *t)
{
	ucontext_t *c = &engine->contexts[t - engine->threads];

	getcontext(c);
	c->uc_stack.ss_sp = t->stack + GUARD_BYTES;
	c->uc_stack.ss_size = STACK_BYTES - GUARD_BYTES;
	c->uc_link = NULL;
	makecontext(c, fiber_main, 0);
	t->context = c;
}

static void switch_to(struct sim_thread *from, struct sim_thread *to)
{
	sim_current = to;
	swapcontext(from->context, to->context);
}
#endif

/* ---- queues ---------------------------------------------------------------------------------- */

static void queue_append(struct sim_thread ***last, struct sim_thread *t)
{
	t->next = NULL;
	**last = t;
	*last = &t->next;
}

/* Leaves the running fiber where it stands and goes on with the next one that can run. */
static void run_next(struct sim_thread *self)
{
	struct sim_thread *t = engine->run_first;

	if (t) {
		engine->run_first = t->next;
		if (!t->next)
			engine->run_last = &engine->run_first;
	} else {
		t = &engine->launcher;
	}
	switch_to(self, t);
}

static void waiters_clear(struct waiters *w)
{
	w->arrived = w->expected = 0;
	w->first = NULL;
	w->last = &w->first;
}

static void waiters_release(struct waiters *w)
{
	if (w->first) {
		*engine->run_last = w->first;
		engine->run_last = w->last;
	}
	waiters_clear(w);
}

static void wait_in(struct waiters *w)
{
	struct sim_thread *self = sim_current;

	queue_append(&w->last, self);
	run_next(self);
}

/* Counts the running fiber in; whether the barrier is complete, and so open again, by that. */
static bool barrier_arrive(struct waiters *w, unsigned count)
{
	w->expected = count;
	if (++w->arrived != (count ? count : engine->block.live))
		return false;
	waiters_release(w);
	return true;
}

void sim_barrier(unsigned id, unsigned count)
{
	struct waiters *w = &engine->barriers[id % BARRIERS];

	if (!barrier_arrive(w, count))
		wait_in(w);
}

void sim_barrier_arrive(unsigned id, unsigned count)
{
	(void)barrier_arrive(&engine->barriers[id % BARRIERS], count);
}

void sim_yield(void)
{
	queue_append(&engine->run_last, sim_current);
	run_next(sim_current);
}

static void meeting_end(struct sim_warp *warp, unsigned i)
{
	if (warp->meeting[i].work)
		warp->meeting[i].work(warp->args, warp->meeting[i].mask & warp->live);
	waiters_release(&warp->meeting[i].waiters);
}

void sim_warp_meet(unsigned mask, void (*work)(void *const *args, unsigned lanes), void *arg)
{
	struct sim_thread *self = sim_current;
	struct sim_warp *warp = self->warp;
	unsigned i;

	mask |= 1u << self->lane;
	i = (unsigned)__builtin_ctz(mask & warp->live);
	warp->args[self->lane] = arg;
	warp->meeting[i].mask = mask;
	warp->meeting[i].work = work;
	if (++warp->meeting[i].waiters.arrived == (unsigned)__builtin_popcount(mask & warp->live))
		meeting_end(warp, i);
	else
		wait_in(&warp->meeting[i].waiters);
}

/* ---- asynchronous copies --------------------------------------------------------------------- */

static void copy_perform(struct sim_thread *t, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		memcpy(t->copy[i].to, t->copy[i].from, t->copy[i].bytes);
		memset((char *)t->copy[i].to + t->copy[i].bytes, 0, t->copy[i].zero);
	}
	t->copies -= n;
	memmove(t->copy, t->copy + n, t->copies * sizeof(t->copy[0]));
}

void sim_copy_async(void *to, const void *from, unsigned bytes, unsigned zero)
{
	struct sim_thread *t = sim_current;

	if (t->copies == SIM_COPY_QUEUE)
		copy_perform(t, SIM_COPY_QUEUE / 2);
	t->copy[t->copies].to = to;
	t->copy[t->copies].from = from;
	t->copy[t->copies].bytes = bytes;
	t->copy[t->copies].zero = zero;
	t->copy[t->copies++].group = t->copy_group;
}

void sim_copy_commit(void)
{
	sim_current->copy_group++;
}

void sim_copy_wait(unsigned groups_left)
{
	struct sim_thread *t = sim_current;
	unsigned n = 0;

	while (n < t->copies && t->copy[n].group + groups_left < t->copy_group)
		n++;
	if (n)
		copy_perform(t, n);
}

/* ---- grids ----------------------------------------------------------------------------------- */

static void fiber_main(void)
{
	struct sim_thread *self = sim_current;
	struct sim_warp *warp = self->warp;

	engine->thread_main(engine->params);

	/* those who wait for all that still run may go on now */
	engine->block.live--;
	warp->live &= ~(1u << self->lane);
	for (unsigned i = 0; i < BARRIERS; i++) {
		struct waiters *w = &engine->barriers[i];

		if (w->arrived && !w->expected && w->arrived == engine->block.live)
			waiters_release(w);
	}
	for (unsigned i = 0; i < 32; i++) {
		unsigned lanes = warp->meeting[i].mask & warp->live;

		if (warp->meeting[i].waiters.arrived &&
		    warp->meeting[i].waiters.arrived == (unsigned)__builtin_popcount(lanes))
			meeting_end(warp, i);
	}
	run_next(self);
	abort(); /* nobody resumes a fiber that has ended */
}

static struct engine *engine_get(void)
{
	struct engine *e = engine;
	size_t bytes = (size_t)SIM_MAX_THREADS * STACK_BYTES;

	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	e->shared = aligned_alloc(1024, SIM_SHARED_LIMIT + 1024);
	if (e->stacks == MAP_FAILED || !e->shared) {
		free(e->shared);
		free(e);
		return NULL;
	}
	for (unsigned i = 0; i < SIM_MAX_THREADS; i++) {
		e->threads[i].stack = e->stacks + (size_t)i * STACK_BYTES;
		mprotect(e->threads[i].stack, GUARD_BYTES, PROT_NONE);
	}
#ifndef __x86_64__
	e->launcher.context = &e->contexts[SIM_MAX_THREADS];
#endif
	return engine = e;
}

static void block_start(struct engine *e, unsigned threads)
{
	struct sim_uint3 dim = e->block.block_dim;

	e->block.live = threads;
	e->run_first = NULL;
	e->run_last = &e->run_first;
	for (unsigned i = 0; i < BARRIERS; i++)
		waiters_clear(&e->barriers[i]);
	for (unsigned w = 0; w * 32 < threads; w++) {
		unsigned lanes = threads - w * 32;

		e->warps[w].live = lanes < 32 ? (1u << lanes) - 1 : ~0u;
		for (unsigned i = 0; i < 32; i++) {
			e->warps[w].meeting[i].mask = 0;
			waiters_clear(&e->warps[w].meeting[i].waiters);
		}
	}
	for (unsigned i = 0; i < threads; i++) {
		struct sim_thread *t = &e->threads[i];

		t->thread_idx.x = i % dim.x;
		t->thread_idx.y = i / dim.x % dim.y;
		t->thread_idx.z = i / dim.x / dim.y;
		t->lane = i % 32;
		t->warp = &e->warps[i / 32];
		t->block = &e->block;
		t->copies = t->copy_group = 0;
		fiber_prepare(t);
		queue_append(&e->run_last, t);
	}
}

static int run_blocks(struct engine *e, unsigned threads, unsigned shared_bytes)
{
	struct sim_uint3 grid = e->block.grid_dim;

	for (uint64_t n = 0; n < (uint64_t)grid.x * grid.y * grid.z; n++) {
		e->block.block_idx.x = (unsigned)(n % grid.x);
		e->block.block_idx.y = (unsigned)(n / grid.x % grid.y);
		e->block.block_idx.z = (unsigned)(n / grid.x / grid.y);
		memset(e->shared, 0xff, shared_bytes); /* NaN in every format */
		block_start(e, threads);
		sim_current = &e->launcher;
		run_next(&e->launcher);
		if (e->block.live) {
			fprintf(stderr,
				"cuda_host: %u of %u threads of block %u,%u,%u wait for ever\n",
				e->block.live, threads, e->block.block_idx.x, e->block.block_idx.y,
				e->block.block_idx.z);
			return -1;
		}
	}
	return 0;
}

int sim_run_grid(const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
		 void (*thread_main)(void **params), void **params)
{
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
	struct engine *e;
	int result = -1;

	if (!threads || threads > SIM_MAX_THREADS || shared_bytes > SIM_SHARED_LIMIT || !grid[0] ||
	    !grid[1] || !grid[2] || grid[1] > 65535 || grid[2] > 65535)
		return -1;
	/* EDEADLK: a test framework jumped out of a grid that crashed on this thread; go on from
	 * here */
	(void)pthread_mutex_lock(&turn);
	e = engine_get();
	if (e) {
		e->thread_main = thread_main;
		e->params = params;
		e->block.shared = e->shared;
		e->block.block_dim = (struct sim_uint3){block[0], block[1], block[2]};
		e->block.grid_dim = (struct sim_uint3){grid[0], grid[1], grid[2]};
		result = run_blocks(e, (unsigned)threads, shared_bytes);
	}
	pthread_mutex_unlock(&turn);
	return result;
}
