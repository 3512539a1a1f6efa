/* SPDX-License-Identifier: Apache-2.0
 *
 * Attentions of one thread, while a stream of its waits for a function of the host's that another
 * thread lets go, after a product of its own. None of the calls in between waits for the device, so
 * nothing is stuck; whoever waits for that stream on behalf of the first thread must let the second
 * one through. Wants a device that works by itself (SIMGPU_ASYNC).
 *
 *     waits [memory]
 *
 * memory: the last time the device has none left, S was overwritten, and P is read.
 */
#include "app.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEADS = 3, ROWS = 80, DEPTH = 32, REPETITIONS = 12, PATIENCE_S = 5 };

static const struct app_shape shape = {HEADS, ROWS, ROWS, DEPTH};
static const size_t n = (size_t)HEADS * ROWS * DEPTH, scores = (size_t)HEADS * ROWS * ROWS;
static sem_t begun, done;
static int stuck; /* repetitions in which the other thread did not come */

static void CUDA_CB wait_for_other(void *unused)
{
	struct timespec until;

	(void)unused;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	if (sem_timedwait(&done, &until))
		__atomic_fetch_add(&stuck, 1, __ATOMIC_RELAXED);
}

static void *other_thread(void *context)
{
	struct app app = {0};

	CHECK(cuCtxSetCurrent(context));
	app_open_here(&app);
	CHECK(cuStreamCreate(&app.stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&app, app.stream);
	CUdeviceptr q = app_alloc(n * 2), k = app_alloc(n * 2), s = app_alloc(scores * 2);
	app_upload_random(q, n, 1);
	app_upload_random(k, n, 2);
	sem_post(&done);
	for (int r = 0; r < REPETITIONS; r++) {
		sem_wait(&begun);
		usleep(20000);
		app_scores(&app, shape, q, k, s);
		sem_post(&done);
	}
	CHECK(cuStreamSynchronize(app.stream));
	return NULL;
}

/* The device's, to the last piece. */
static void take_memory(void)
{
	CUdeviceptr unused;

	for (size_t bytes = 1ull << 40; bytes >= 4096;)
		if (cuMemAlloc(&unused, bytes) != CUDA_SUCCESS)
			bytes /= 2;
}

int main(int argc, char **argv)
{
	const bool memory = argc > 1 && strcmp(argv[1], "memory") == 0;
	struct app_report report = {0};
	CUstream held, stream;
	pthread_t other;
	struct app app;

	app_open(&app, NULL);
	CHECK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&app, stream);
	CUdeviceptr q = app_alloc(n * 2), k = app_alloc(n * 2), v = app_alloc(n * 2);
	CUdeviceptr o = app_alloc(n * 2), s = app_alloc(scores * 2), p = app_alloc(scores * 2);
	CUdeviceptr read = app_alloc(scores * 2);
	sem_init(&begun, 0, 0);
	sem_init(&done, 0, 0);
	if (pthread_create(&other, NULL, other_thread, app.context))
		app_fail("pthread_create", 1);
	sem_wait(&done);
	for (int r = 0; r < REPETITIONS; r++) {
		const bool last = r == REPETITIONS - 1;

		if (memory && last)
			take_memory();
		app_upload_random(q, n, 3 * (uint64_t)r);
		app_upload_random(k, n, 3 * (uint64_t)r + 1);
		app_upload_random(v, n, 3 * (uint64_t)r + 2);
		CHECK(cuLaunchHostFunc(held, wait_for_other, NULL));
		sem_post(&begun);
		app_scores(&app, shape, q, k, s);
		app_scale(&app, s, s, 1 / sqrtf(DEPTH), scores);
		app_softmax(&app, p, s, (size_t)HEADS * ROWS, ROWS);
		app_context(&app, shape, p, v, o);
		if (memory && last) {
			CHECK(cuMemsetD8Async(s, 0, scores * 2, stream));
			CHECK(cuMemcpyDtoDAsync(read, p, scores * 2, stream));
		}
		CHECK(cuStreamSynchronize(stream));
		CHECK(cuStreamSynchronize(held));
		app_observe(&report, "O", r, o, n);
		if (memory && last)
			app_observe(&report, "P", r, read, scores);
	}
	if (pthread_join(other, NULL))
		app_fail("pthread_join", 1);
	app_report(&report);
	printf("stuck %d\n", stuck);
	app_close(&app);
	return 0;
}
