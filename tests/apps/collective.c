/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread and two devices: attention on the first, then something on both streams of which each
 * waits until the other has begun, as the kernels of a collective do, with work on the second
 * device in between. Whoever makes the second stream wait for more of the first than came before
 * the collective is stuck. Wants a device that works by itself (SIMGPU_ASYNC), and two of them.
 */
#include "app.h"

#include <math.h>
#include <semaphore.h>
#include <time.h>

enum { HEADS = 3, ROWS = 80, DEPTH = 32, REPETITIONS = 60, PATIENCE_S = 3 };

static const struct app_shape shape = {HEADS, ROWS, ROWS, DEPTH};
static const size_t n = (size_t)HEADS * ROWS * DEPTH, scores = (size_t)HEADS * ROWS * ROWS;
static sem_t begun[2];
static int stuck; /* devices that the other one left alone */

static void CUDA_CB meet_other(void *number)
{
	const long me = (long)number;
	struct timespec until;

	sem_post(&begun[me]);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += stuck ? 0 : PATIENCE_S;
	if (sem_timedwait(&begun[1 - me], &until))
		__atomic_fetch_add(&stuck, 1, __ATOMIC_RELAXED);
}

int main(void)
{
	struct app_report report = {0};
	CUstream stream, other_stream;
	CUcontext other;
	CUdevice second;
	struct app app;

	app_open(&app, NULL);
	CHECK(cuDeviceGet(&second, 1));
	CHECK(cuDevicePrimaryCtxRetain(&other, second));
	CHECK(cuCtxSetCurrent(other));
	CHECK(cuStreamCreate(&other_stream, CU_STREAM_NON_BLOCKING));
	CUdeviceptr apart = app_alloc(4096);
	CHECK(cuCtxSetCurrent(app.context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&app, stream);
	CUdeviceptr q = app_alloc(n * 2), k = app_alloc(n * 2), v = app_alloc(n * 2);
	CUdeviceptr o = app_alloc(n * 2), s = app_alloc(scores * 2), p = app_alloc(scores * 2);
	sem_init(&begun[0], 0, 0);
	sem_init(&begun[1], 0, 0);
	for (int r = 0; r < REPETITIONS; r++) {
		app_upload_random(q, n, 3 * (uint64_t)r);
		app_upload_random(k, n, 3 * (uint64_t)r + 1);
		app_upload_random(v, n, 3 * (uint64_t)r + 2);
		app_scores(&app, shape, q, k, s);
		app_scale(&app, s, s, 1 / sqrtf(DEPTH), scores);
		app_softmax(&app, p, s, (size_t)HEADS * ROWS, ROWS);
		app_context(&app, shape, p, v, o);
		CHECK(cuLaunchHostFunc(stream, meet_other, (void *)0));
		CHECK(cuCtxSetCurrent(other));
		CHECK(cuMemsetD8Async(apart, (unsigned char)r, 4096, other_stream));
		CHECK(cuLaunchHostFunc(other_stream, meet_other, (void *)1));
		CHECK(cuStreamSynchronize(other_stream));
		CHECK(cuCtxSetCurrent(app.context));
		CHECK(cuStreamSynchronize(stream));
		app_observe(&report, "O", r, o, n);
	}
	app_report(&report);
	printf("stuck %d\n", stuck);
	app_close(&app);
	return 0;
}
