/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that are left half way: an upload from where there is no memory, out of which the handler
 * of the fault jumps, and threads that are cancelled in the midst of their attentions. With
 * SIMGPU_LOG each call of the driver is where a thread may be cancelled, as calls of real drivers
 * that read a file are.
 */
#include "app.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { HEADS = 2, ROWS = 48, DEPTH = 32, REPETITIONS = 12, FAULTS = 4, THREADS = 24 };

static const struct app_shape shape = {HEADS, ROWS, ROWS, DEPTH};
static const size_t n = (size_t)HEADS * ROWS * DEPTH, scores = (size_t)HEADS * ROWS * ROWS;

struct attention {
	struct app app;
	CUdeviceptr q, k, v, o, s, p;
};

static void allocate(struct attention *a)
{
	a->q = app_alloc(n * 2), a->k = app_alloc(n * 2), a->v = app_alloc(n * 2);
	a->o = app_alloc(n * 2), a->s = app_alloc(scores * 2), a->p = app_alloc(scores * 2);
}

static void attend(struct attention *a, int repetition)
{
	app_upload_random(a->q, n, 3 * (uint64_t)repetition);
	app_upload_random(a->k, n, 3 * (uint64_t)repetition + 1);
	app_upload_random(a->v, n, 3 * (uint64_t)repetition + 2);
	app_scores(&a->app, shape, a->q, a->k, a->s);
	app_scale(&a->app, a->s, a->s, 1 / sqrtf(DEPTH), scores);
	app_softmax(&a->app, a->p, a->s, (size_t)HEADS * ROWS, ROWS);
	app_context(&a->app, shape, a->p, a->v, a->o);
}

static sigjmp_buf before;

static void jump(int signal)
{
	(void)signal;
	siglongjmp(before, 1);
}

static int faults(CUdeviceptr to)
{
	struct sigaction action = {.sa_handler = jump, .sa_flags = SA_NODEFER};
	const void *nowhere = (const void *)(uintptr_t)16;
	volatile int met = 0;

	sigaction(SIGSEGV, &action, NULL);
	for (volatile int i = 0; i < FAULTS; i++) {
		if (sigsetjmp(before, 1))
			met++;
		else if (i % 2)
			cuMemcpyHtoD(to, nowhere, 64);
		else
			cuMemcpyHtoDAsync(to, nowhere, 64, CU_STREAM_LEGACY);
	}
	return met;
}

static void *until_cancelled(void *context)
{
	struct attention own = {0};

	CHECK(cuCtxSetCurrent(context));
	app_open_here(&own.app);
	allocate(&own);
	for (int i = 0;; i++)
		attend(&own, i);
	return NULL;
}

int main(void)
{
	struct app_report report = {0};
	struct attention a = {0};
	pthread_t thread;
	int met = 0;

	app_open(&a.app, NULL);
	allocate(&a);
	for (int r = 0; r < REPETITIONS; r++) {
		attend(&a, r);
		app_observe(&report, "O", r, a.o, n);
		if (r == REPETITIONS / 2)
			met = faults(a.q);
	}
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&thread, NULL, until_cancelled, a.app.context))
			app_fail("pthread_create", 1);
		usleep(4000 + (useconds_t)(i * 1777 % 20000));
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	attend(&a, 0);
	app_observe(&report, "O", REPETITIONS, a.o, n);
	app_report(&report);
	printf("faults %d\n", met);
	app_close(&a.app);
	return 0;
}
