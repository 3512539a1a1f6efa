/* SPDX-License-Identifier: Apache-2.0
 *
 * The asynchronous mode: what is ordered stays so whatever the workers' delays, and what is not
 * ordered really comes apart, for a mode that hid races would be worth nothing.
 */
#include "tests/cmocka.h"
#include <cuda.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { N = 64 };

static CUstream a, b;
static CUdeviceptr p;
static unsigned *pinned;
static sem_t gate; /* a stream waits there until the test goes on, however late that is */

static int open_device(void **state)
{
	CUcontext context;
	void *host;

	sem_init(&gate, 0, 0);
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuMemAlloc(&p, 4 * N) || cuMemAllocHost(&host, 4 * N) ||
	    cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) ||
	    cuStreamCreate(&b, CU_STREAM_NON_BLOCKING))
		return -1;
	pinned = host;
	return 0;
}

static void CUDA_CB slow(void *unused)
{
	(void)unused;
	usleep(30000);
}

static void CUDA_CB held(void *unused)
{
	(void)unused;
	sem_wait(&gate);
}

/* A write on stream a that is held up, then a read on b. */
static unsigned written_then_read(CUevent event)
{
	unsigned value = 0;

	assert_int_equal(cuMemsetD32(p, 1, N), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuLaunchHostFunc(a, held, NULL), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD32Async(p, 2, N, a), CUDA_SUCCESS);
	if (event) {
		assert_int_equal(cuEventRecord(event, a), CUDA_SUCCESS);
		assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
		assert_int_equal(cuStreamWaitEvent(b, event, 0), CUDA_SUCCESS);
	}
	assert_int_equal(cuMemcpyDtoHAsync(pinned, p, 4 * N, b), CUDA_SUCCESS);
	if (event) {
		usleep(30000); /* time to read too early */
		sem_post(&gate);
	}
	assert_int_equal(cuStreamSynchronize(b), CUDA_SUCCESS);
	value = pinned[N - 1];
	if (!event)
		sem_post(&gate);
	assert_int_equal(cuStreamSynchronize(a), CUDA_SUCCESS);
	return value;
}

static void an_event_orders_streams(void **state)
{
	CUevent event;

	assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
	assert_int_equal(written_then_read(event), 2);
	assert_int_equal(cuEventQuery(event), CUDA_SUCCESS);
	assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
}

static void without_it_the_read_is_too_early(void **state)
{
	assert_int_equal(written_then_read(NULL), 1);
}

static void the_legacy_stream_waits_for_blocking_ones(void **state)
{
	CUstream blocking;
	unsigned value;

	assert_int_equal(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD32(p, 3, N), CUDA_SUCCESS);
	assert_int_equal(cuLaunchHostFunc(blocking, slow, NULL), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD32Async(p, 4, N, blocking), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH(&value, p, 4), CUDA_SUCCESS);
	assert_int_equal(value, 4);
	/* and they wait for it */
	assert_int_equal(cuLaunchHostFunc(NULL, slow, NULL), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD32Async(p, 5, N, NULL), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoHAsync(pinned, p, 4, blocking), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(blocking), CUDA_SUCCESS);
	assert_int_equal(pinned[0], 5);
	assert_int_equal(cuStreamDestroy(blocking), CUDA_SUCCESS);
}

static void the_legacy_stream_does_not_wait_for_others(void **state)
{
	unsigned value;

	assert_int_equal(cuMemsetD32(p, 6, N), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuLaunchHostFunc(a, held, NULL), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD32Async(p, 7, N, a), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH(&value, p, 4), CUDA_SUCCESS);
	sem_post(&gate);
	assert_int_equal(value, 6);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

static void pageable_memory_may_change_after_the_call(void **state)
{
	unsigned source = 8, value = 0;

	assert_int_equal(cuLaunchHostFunc(a, held, NULL), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyHtoDAsync(p, &source, 4, a), CUDA_SUCCESS);
	source = 9;
	pinned[0] = 10;
	assert_int_equal(cuMemcpyHtoDAsync(p + 4, pinned, 4, a), CUDA_SUCCESS);
	pinned[0] = 11; /* a race, which the simulated device loses */
	sem_post(&gate);
	assert_int_equal(cuStreamSynchronize(a), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH(&value, p, 4), CUDA_SUCCESS);
	assert_int_equal(value, 8);
	assert_int_equal(cuMemcpyDtoH(&value, p + 4, 4), CUDA_SUCCESS);
	assert_int_equal(value, 11);
}

static void time_passes_between_events(void **state)
{
	CUevent from, to;
	float ms = -1;

	cuEventCreate(&from, 0);
	cuEventCreate(&to, 0);
	assert_int_equal(cuEventRecord(from, a), CUDA_SUCCESS);
	assert_int_equal(cuLaunchHostFunc(a, slow, NULL), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(to, a), CUDA_SUCCESS);
	assert_int_equal(cuEventElapsedTime(&ms, from, to), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuEventSynchronize(to), CUDA_SUCCESS);
	assert_int_equal(cuEventElapsedTime(&ms, from, to), CUDA_SUCCESS);
	assert_true(ms >= 30 && ms < 3000);
}

static atomic_int inside, most_inside, runs;

static void CUDA_CB alone(void *unused)
{
	const int others = atomic_fetch_add(&inside, 1);

	(void)unused;
	if (others >= atomic_load(&most_inside))
		atomic_store(&most_inside, others + 1);
	usleep(500);
	atomic_fetch_sub(&inside, 1);
	atomic_fetch_add(&runs, 1);
}

struct launcher {
	CUgraphExec exec;
	CUstream stream;
};

static void *launch(void *argument)
{
	const struct launcher *l = argument;

	for (int i = 0; i < 20; i++)
		if (cuGraphLaunch(l->exec, l->stream))
			return NULL;
	cuStreamSynchronize(l->stream);
	return NULL;
}

/* Whatever their streams, and whichever threads launch it. */
static void a_graph_runs_once_at_a_time(void **state)
{
	struct launcher l[2];
	pthread_t thread[2];
	CUgraph graph;

	assert_int_equal(cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
	assert_int_equal(cuLaunchHostFunc(a, alone, NULL), CUDA_SUCCESS);
	assert_int_equal(cuStreamEndCapture(a, &graph), CUDA_SUCCESS);
	assert_int_equal(cuGraphInstantiate(&l[0].exec, graph, 0), CUDA_SUCCESS);
	l[0].stream = a;
	l[1] = (struct launcher){l[0].exec, b};
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, launch, &l[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(runs, 40);
	assert_int_equal(most_inside, 1);
	assert_int_equal(cuGraphExecDestroy(l[0].exec), CUDA_SUCCESS);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
}

static void forked_streams_must_join(void **state)
{
	CUstream stream, other;
	CUgraph graph;
	CUevent event;

	cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
	cuEventCreate(&event, 0);
	for (int joined = 0; joined < 2; joined++) {
		assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
		cuEventRecord(event, stream);
		assert_int_equal(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
		assert_int_equal(cuMemsetD8Async(p, 0, 16, other), CUDA_SUCCESS);
		cuEventRecord(event, other);
		if (joined)
			assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
		assert_int_equal(cuStreamEndCapture(stream, &graph),
				 joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	}
	cuGraphDestroy(graph);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_orders_streams),
		cmocka_unit_test(without_it_the_read_is_too_early),
		cmocka_unit_test(the_legacy_stream_waits_for_blocking_ones),
		cmocka_unit_test(the_legacy_stream_does_not_wait_for_others),
		cmocka_unit_test(pageable_memory_may_change_after_the_call),
		cmocka_unit_test(time_passes_between_events),
		cmocka_unit_test(a_graph_runs_once_at_a_time),
		cmocka_unit_test(forked_streams_must_join),
	};

	setenv("SIMGPU_ASYNC", "300", 1);
	return cmocka_run_group_tests(tests, open_device, NULL);
}
