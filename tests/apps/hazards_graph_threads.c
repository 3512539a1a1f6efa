/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs with attention in them that more than one thread launches, or beside captures.
 */
#include "graph_bench.h"

#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

struct launcher {
	CUcontext context;
	CUgraphExec exec;
	CUstream stream;
	int launches;
	int turn; /* 1, 2: first, or second; 0: at once */
	pthread_barrier_t *both;
};

static void *launch_often(void *arg)
{
	const struct launcher *l = arg;

	CHECK(cuCtxSetCurrent(l->context));
	for (int k = 0; k < l->launches; k++) {
		pthread_barrier_wait(l->both);
		if (l->turn == 2)
			pthread_barrier_wait(l->both);
		CHECK(cuGraphLaunch(l->exec, l->stream));
		if (l->turn == 1)
			pthread_barrier_wait(l->both);
	}
	CHECK(cuStreamSynchronize(l->stream));
	return NULL;
}

/* Two threads launch it, at the same time or by turns, each on a stream of its own. */
static void launch_twice(CUgraphExec exec, int launches, bool by_turns)
{
	struct launcher l[2];
	pthread_t thread[2];
	pthread_barrier_t both;

	pthread_barrier_init(&both, NULL, 2);
	for (int i = 0; i < 2; i++) {
		l[i] = (struct launcher){.exec = exec,
					 .stream = CU_STREAM_PER_THREAD,
					 .launches = launches,
					 .turn = by_turns ? i + 1 : 0,
					 .both = &both};
		CHECK(cuCtxGetCurrent(&l[i].context));
		if (!by_turns)
			CHECK(cuStreamCreate(&l[i].stream, CU_STREAM_NON_BLOCKING));
		if (pthread_create(&thread[i], NULL, launch_often, &l[i]))
			app_fail("pthread_create", 1);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2 && !by_turns; i++)
		CHECK(cuStreamDestroy(l[i].stream));
	pthread_barrier_destroy(&both);
}

/* Each launch makes the next one's Q, so that which of them comes first makes no difference, but
 * two at once do. */
static CUgraph two_steps(struct bench *b, float factor)
{
	begin(b);
	for (int k = 0; k < 2; k++) {
		chain(b, &b->t);
		app_scale(&b->app, b->t.q, b->t.o, factor, b->n);
	}
	overwrite_scores(b); /* else others wait for what is held of them */
	return end(b);
}

static void two_threads(bool by_turns)
{
	struct bench b;
	CUgraphExec exec;
	CUgraph graph;

	open_known(&b);
	for (int r = 4; r < 10; r++) {
		graph = two_steps(&b, 1.5f);
		CHECK(cuGraphInstantiate(&exec, graph, 0));
		CHECK(cuGraphDestroy(graph));
		bench_inputs(&b, r);
		CHECK(cuStreamSynchronize(b.app.stream));
		launch_twice(exec, 6, by_turns);
		observe_o(&b, &b.t, r);
		CHECK(cuGraphExecDestroy(exec));
	}
	bench_close(&b);
}

CASE(graph_two_threads, two_threads(false))
/* By turns, on what is the thread's own default stream. */
CASE(graph_per_thread, two_threads(true))

/* The same where launches of another thread, and of what the graph was before it was updated, are
 * still under way; and what it is now was changed by hand, as far as anybody can tell. */
static void graph_two_threads_later(void)
{
	CUDA_KERNEL_NODE_PARAMS nothing = {0};
	CUgraphExecUpdateResultInfo info;
	struct bench b;
	CUgraphExec exec;
	CUgraph first, second;

	open_known(&b);
	for (int r = 4; r < 16; r++) {
		first = two_steps(&b, 1.5f);
		second = two_steps(&b, -1.5f);
		CHECK(cuGraphInstantiate(&exec, first, 0));
		bench_inputs(&b, r);
		for (int k = 0; k < 4; k++)
			launch(&b, exec);
		for (int k = 0; k < 4; k++)
			CHECK(cuGraphLaunch(exec, b.app.stream));
		cuGraphKernelNodeSetParams(NULL, &nothing); /* is refused */
		CHECK(cuGraphExecUpdate(exec, second, &info));
		launch_twice(exec, 1, false);
		CHECK(cuStreamSynchronize(b.app.stream));
		observe_o(&b, &b.t, r);
		app_observe(&b.report, "O scaled", r, b.t.q, b.n);
		CHECK(cuGraphExecDestroy(exec));
		CHECK(cuGraphDestroy(first));
		CHECK(cuGraphDestroy(second));
	}
	bench_close(&b);
}

static sem_t launching;

static void *launch_once(void *arg)
{
	const struct launcher *l = arg;

	CHECK(cuCtxSetCurrent(l->context));
	sem_post(&launching);
	CHECK(cuGraphLaunch(l->exec, l->stream));
	return NULL;
}

/* A capture begins and ends while another thread is about to launch it; then it is launched again.
 * Each launch makes the next one's Q. */
static void graph_late_launch(void)
{
	struct launcher l = {0};
	pthread_t thread;
	struct bench b;
	CUgraph graph;
	CUstream captured;

	open_known(&b);
	CHECK(cuCtxGetCurrent(&l.context));
	CHECK(cuStreamCreate(&l.stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
	sem_init(&launching, 0, 0);
	for (int r = 4; r < 8; r++) {
		graph = two_steps(&b, 1.5f);
		CHECK(cuGraphInstantiate(&l.exec, graph, 0));
		CHECK(cuGraphDestroy(graph));
		bench_inputs(&b, r);
		launch(&b, l.exec);
		for (int k = 0; k < 4; k++) {
			if (pthread_create(&thread, NULL, launch_once, &l))
				app_fail("pthread_create", 1);
			sem_wait(&launching);
			usleep(10000);
			CHECK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
			CHECK(cuStreamEndCapture(captured, &graph));
			CHECK(cuGraphDestroy(graph));
			pthread_join(thread, NULL);
			CHECK(cuGraphLaunch(l.exec, b.app.stream));
			CHECK(cuStreamSynchronize(b.app.stream));
			CHECK(cuStreamSynchronize(l.stream));
			observe_o(&b, &b.t, 10 * r + k);
		}
		CHECK(cuGraphExecDestroy(l.exec));
	}
	bench_close(&b);
}

/* A chain whose output is the next launch's Q. */
static CUgraphExec one_step(struct bench *b)
{
	begin(b);
	chain(b, &b->t);
	app_scale(&b->app, b->t.q, b->t.o, 1.5f, b->n);
	overwrite_scores(b);
	return end_ready(b);
}

/* The stream of the latest launch is captured when the next one comes, on another stream. */
static void graph_stream_captured(void)
{
	struct bench b;
	CUgraphExec exec, other;
	CUstream streams[2];

	open_known(&b);
	streams[0] = b.app.stream;
	CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	exec = one_step(&b);
	bench_inputs(&b, 4);
	for (int r = 4; r < 14; r++) {
		CHECK(cuGraphLaunch(exec, streams[0]));
		if (r < 10)
			CHECK(cuStreamSynchronize(streams[0]));
		begin(&b);
		app_copy(&b.app, b.spare, b.t.o, b.n);
		CHECK(cuGraphLaunch(exec, streams[1]));
		other = end_ready(&b);
		CHECK(cuStreamSynchronize(streams[1]));
		observe_o(&b, &b.t, r);
		launch(&b, other);
		app_observe(&b.report, "O copied", r, b.spare, b.n);
		CHECK(cuGraphExecDestroy(other));
	}
	close_known(&b, exec);
}

/* It is launched on a stream that joins a capture afterwards, and another capture begins before
 * that one ends. */
static void graph_stream_joins(void)
{
	struct bench b;
	CUgraphExec exec, other;
	CUgraph empty;
	CUstream streams[3];
	CUevent fork, join;

	open_known(&b);
	streams[0] = b.app.stream;
	for (int i = 1; i < 3; i++)
		CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	exec = one_step(&b);
	bench_inputs(&b, 4);
	for (int r = 4; r < 14; r++) {
		CHECK(cuGraphLaunch(exec, streams[r % 2]));
		CHECK(cuStreamSynchronize(streams[r % 2]));
		begin(&b);
		CHECK(cuGraphLaunch(exec, streams[1]));
		CHECK(cuEventRecord(fork, streams[0]));
		CHECK(cuStreamWaitEvent(streams[1], fork, 0));
		CHECK(cuStreamBeginCapture(streams[2], CU_STREAM_CAPTURE_MODE_GLOBAL));
		CHECK(cuStreamEndCapture(streams[2], &empty));
		b.app.stream = streams[1];
		app_copy(&b.app, b.spare, b.t.o, b.n);
		b.app.stream = streams[0];
		CHECK(cuEventRecord(join, streams[1]));
		CHECK(cuStreamWaitEvent(streams[0], join, 0));
		other = end_ready(&b);
		CHECK(cuGraphDestroy(empty));
		CHECK(cuStreamSynchronize(streams[1]));
		observe_o(&b, &b.t, r);
		launch(&b, other);
		app_observe(&b.report, "O copied", r, b.spare, b.n);
		CHECK(cuGraphExecDestroy(other));
	}
	close_known(&b, exec);
}

/* ---- two threads capture -------------------------------------------------------------------- */

static sem_t begun, ended;

/* On the thread's own default stream, until the other's capture has ended. */
static void *capture_beside(void *context)
{
	CUgraph graph;

	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
	sem_post(&begun);
	sem_wait(&ended);
	CHECK(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
	CHECK(cuGraphDestroy(graph));
	return NULL;
}

static void graph_both_capture(void)
{
	pthread_t thread;
	struct bench b;
	CUcontext context;
	CUgraph graph;
	CUstream stream;

	open_known(&b);
	CHECK(cuCtxGetCurrent(&context));
	sem_init(&begun, 0, 0);
	sem_init(&ended, 0, 0);
	stream = b.app.stream;
	b.app.stream = CU_STREAM_PER_THREAD;
	CHECK(cuStreamBeginCapture(b.app.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	app_copy(&b.app, b.spare, b.t.p, b.scores);
	if (pthread_create(&thread, NULL, capture_beside, context))
		app_fail("pthread_create", 1);
	sem_wait(&begun);
	graph = end(&b);
	sem_post(&ended);
	pthread_join(thread, NULL);
	b.app.stream = stream;
	run_behind(&b, graph);
}

static void *end_too_early(void *arg)
{
	const struct bench *b = arg;
	CUgraph graph;

	CHECK(cuCtxSetCurrent(b->app.context));
	if (!cuStreamEndCapture(b->app.stream, &graph))
		app_fail("the end of another thread's capture", 1);
	return NULL;
}

/* It is refused to another thread, and over nevertheless: what comes next runs at once. */
static void graph_end_refused(void)
{
	pthread_t thread;
	struct bench b;
	CUgraph none;

	open_known(&b);
	begin(&b);
	app_copy(&b.app, b.spare, b.t.q, b.n);
	if (pthread_create(&thread, NULL, end_too_early, &b))
		app_fail("pthread_create", 1);
	pthread_join(thread, NULL);
	for (int r = 4; r < 12; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		app_copy(&b.app, b.spare, b.t.p, b.scores);
		CHECK(cuStreamSynchronize(b.app.stream));
		observe_o(&b, &b.t, r);
		app_observe(&b.report, "copy", r, b.spare, b.scores);
	}
	if (!cuStreamEndCapture(b.app.stream, &none))
		app_fail("the end of a capture that has ended", 1);
	bench_close(&b);
}

const struct hazard hazards_graph_threads[] = {
	ONCE(graph_two_threads, "an executable graph, by two threads at once"),
	ONCE(graph_per_thread, "… by turns, on the default stream of each"),
	ONCE(graph_two_threads_later, "… once it was updated"),
	ONCE(graph_stream_captured, "its stream is captured when it is launched again"),
	ONCE(graph_stream_joins, "… is captured with another when a third begins to be"),
	ONCE(graph_late_launch, "another stream is captured while it is being launched"),
	ONCE(graph_both_capture, "two threads capture, each its own default stream"),
	ONCE(graph_end_refused, "another thread would end the capture, and may not"),
	{0},
};
