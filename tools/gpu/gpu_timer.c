/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph of n calls replays them back to back; launching it costs the host some µs once, which a
 * replay ahead of the first event hides.
 */
#include "tools/gpu/gpu_timer.h"
#include "tools/base/progress.h"
#include "tools/base/tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_US 1000.0 /* of work in a round */
#define SHORT_US 50.0	/* up to here all sets take part */

enum { WARM_CALLS = 3, CALLS_FEWEST = 20, CALLS_SLOW = 4, REPLAYS_MOST = 20 };

/* ---- capture -------------------------------------------------------------------------------- */

static int enqueue(const struct gpu_work *work, int calls, CUstream stream)
{
	int result = 0;

	for (int n = 0; !result && n < calls; n++)
		result = work->enqueue(work->subject, n % work->sets, stream);
	return result;
}

/* µs of a call, launched plainly; good enough to choose how many to capture. */
static int estimate(struct gpu_timer *timer, double *us)
{
	const struct gpu_driver *driver = &timer->gpu->driver;
	const CUstream stream = timer->gpu->stream;
	float ms = 0;
	int result = enqueue(&timer->work, WARM_CALLS, stream);

	if (!result)
		result = gpu_check(timer->gpu, driver->cuStreamSynchronize(stream), "warming up");
	if (!result)
		result = gpu_check(timer->gpu, driver->cuEventRecord(timer->begin, stream),
				   "cuEventRecord");
	if (!result)
		result = enqueue(&timer->work, WARM_CALLS, stream);
	if (!result)
		result = gpu_check(timer->gpu, driver->cuEventRecord(timer->end, stream),
				   "cuEventRecord");
	if (!result)
		result = gpu_check(timer->gpu, driver->cuEventSynchronize(timer->end),
				   "cuEventSynchronize");
	if (!result)
		result = gpu_check(timer->gpu,
				   driver->cuEventElapsedTime(&ms, timer->begin, timer->end),
				   "cuEventElapsedTime");
	*us = fmax(1e3 * (double)ms / WARM_CALLS, 0.1);
	return result;
}

static int choose_calls(double us, int sets)
{
	const int all = sets > CALLS_FEWEST ? sets : CALLS_FEWEST;
	const int enough = us <= SHORT_US ? all : (int)(ROUND_US / us);

	return enough > all ? all : enough < CALLS_SLOW ? CALLS_SLOW : enough;
}

static int capture(struct gpu_timer *timer)
{
	const struct gpu *gpu = timer->gpu;
	const struct gpu_driver *driver = &gpu->driver;
	CUresult ended;
	int result;

	result = gpu_check(
		gpu, driver->cuStreamBeginCapture(gpu->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
		"capturing a graph");
	if (result)
		return result;
	result = enqueue(&timer->work, timer->calls, gpu->stream);
	ended = driver->cuStreamEndCapture(gpu->stream, &timer->captured);
	if (!result)
		result = gpu_check(gpu, ended, "capturing a graph");
	if (!result)
		result = gpu_check(
			gpu, driver->cuGraphInstantiateWithFlags(&timer->graph, timer->captured, 0),
			"instantiating a graph");
	return result;
}

int gpu_timer_make(struct gpu_timer *timer, const struct gpu *gpu, const struct gpu_work *work)
{
	double us;
	int result;

	memset(timer, 0, sizeof(*timer));
	timer->gpu = gpu;
	timer->work = *work;
	timer->replays = 1;
	result = gpu_check(gpu, gpu->driver.cuEventCreate(&timer->begin, 0), "cuEventCreate");
	if (!result)
		result = gpu_check(gpu, gpu->driver.cuEventCreate(&timer->end, 0), "cuEventCreate");
	if (!result)
		result = estimate(timer, &us);
	if (result)
		return result;
	timer->calls = choose_calls(us, work->sets);
	result = capture(timer);
	if (!result)
		result = gpu_timer_round(timer, &us);
	if (!result)
		timer->replays = (int)fmin(fmax(ROUND_US / (us * timer->calls), 1), REPLAYS_MOST);
	return result;
}

void gpu_timer_free(struct gpu_timer *timer)
{
	const struct gpu_driver *driver = &timer->gpu->driver;

	if (timer->graph)
		driver->cuGraphExecDestroy(timer->graph);
	if (timer->captured)
		driver->cuGraphDestroy(timer->captured);
	if (timer->begin)
		driver->cuEventDestroy(timer->begin);
	if (timer->end)
		driver->cuEventDestroy(timer->end);
	memset(timer, 0, sizeof(*timer));
}

/* ---- rounds --------------------------------------------------------------------------------- */

int gpu_timer_round(void *subject, double *us)
{
	const struct gpu_timer *timer = subject;
	const struct gpu *gpu = timer->gpu;
	const struct gpu_driver *driver = &gpu->driver;
	CUresult result = driver->cuGraphLaunch(timer->graph, gpu->stream);
	float ms = 0;

	if (result == CUDA_SUCCESS)
		result = driver->cuEventRecord(timer->begin, gpu->stream);
	for (int n = 0; result == CUDA_SUCCESS && n < timer->replays; n++)
		result = driver->cuGraphLaunch(timer->graph, gpu->stream);
	if (result == CUDA_SUCCESS)
		result = driver->cuEventRecord(timer->end, gpu->stream);
	if (result == CUDA_SUCCESS)
		result = driver->cuEventSynchronize(timer->end);
	if (result == CUDA_SUCCESS)
		result = driver->cuEventElapsedTime(&ms, timer->begin, timer->end);
	*us = 1e3 * (double)ms / timer->replays / timer->calls;
	return gpu_check(gpu, result, "replaying a graph");
}

int race(const struct racer *racers, int count, int rounds, double *us, const char *what)
{
	int result = 0;

	for (int n = 0; n < rounds; n++) {
		if (what)
			progress(what, n, rounds, "rounds");
		for (int i = 0; !result && i < count; i++) {
			const int r = n % 2 ? count - 1 - i : i;

			result = racers[r].round(racers[r].subject, &us[r * rounds + n]);
		}
	}
	if (what)
		progress_end();
	return result;
}

int gpu_measure(const struct gpu *gpu, const struct gpu_work *works, int count, int rounds,
		double *us)
{
	struct gpu_timer *timers = calloc((size_t)count, sizeof(*timers));
	struct racer *racers = calloc((size_t)count, sizeof(*racers));
	int made = 0, result = timers && racers ? 0 : -ENOMEM;

	if (result)
		complain("out of memory");
	for (; !result && made < count; made++) {
		result = gpu_timer_make(&timers[made], gpu, &works[made]);
		racers[made] = (struct racer){gpu_timer_round, &timers[made]};
	}
	if (!result)
		result = race(racers, count, rounds, us, NULL);
	for (int i = 0; i < made; i++)
		gpu_timer_free(&timers[i]);
	free(timers);
	free(racers);
	return result;
}

/* ---- which kernels -------------------------------------------------------------------------- */

/* Entries of the driver that are newer than the header's oldest may be missing. */
static const char *kernel_name(const struct gpu_driver *driver, CUgraphNode node)
{
	CUDA_KERNEL_NODE_PARAMS kernel = {0};
	const char *name = NULL;

	if (driver->cuGraphKernelNodeGetParams(node, &kernel) != CUDA_SUCCESS)
		return NULL;
	if (kernel.func && driver->cuFuncGetName &&
	    driver->cuFuncGetName(&name, kernel.func) == CUDA_SUCCESS)
		return name;
	if (kernel.kern && driver->cuKernelGetName &&
	    driver->cuKernelGetName(&name, kernel.kern) == CUDA_SUCCESS)
		return name;
	return NULL;
}

static bool is_kernel(const struct gpu_driver *driver, CUgraphNode node)
{
	CUgraphNodeType type;

	return driver->cuGraphNodeGetType(node, &type) == CUDA_SUCCESS &&
	       type == CU_GRAPH_NODE_TYPE_KERNEL;
}

/* The graph holds the same kernels once for each call. */
static char *names_of(const struct gpu_driver *driver, const CUgraphNode *nodes, size_t count)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	bool known = true;

	if (!out)
		return NULL;
	for (size_t i = 0, written = 0; known && i < count; i++) {
		const char *name;

		if (!is_kernel(driver, nodes[i]))
			continue;
		name = kernel_name(driver, nodes[i]);
		known = name != NULL;
		if (known)
			fprintf(out, "%s%s", written++ ? "\n" : "", name);
	}
	fclose(out);
	if (known && text && *text)
		return text;
	free(text);
	return NULL;
}

char *gpu_timer_kernels(const struct gpu_timer *timer)
{
	const struct gpu_driver *driver = &timer->gpu->driver;
	CUgraphNode *nodes;
	size_t count = 0;
	char *names = NULL;

	if (driver->cuGraphGetNodes(timer->captured, NULL, &count) != CUDA_SUCCESS || !count)
		return NULL;
	nodes = calloc(count, sizeof(*nodes));
	if (nodes && driver->cuGraphGetNodes(timer->captured, nodes, &count) == CUDA_SUCCESS)
		names = names_of(driver, nodes, count / (size_t)timer->calls);
	free(nodes);
	return names;
}

/* ---- attention kernels as work -------------------------------------------------------------- */

int gpu_variant_make(struct gpu_variant *variant, const struct gpu *gpu, int index,
		     const struct gpu_operands *operands, int sets)
{
	int result = 0;

	*variant = (struct gpu_variant){gpu, index, sets, NULL};
	variant->calls = calloc((size_t)sets, sizeof(*variant->calls));
	if (!variant->calls) {
		complain("out of memory");
		return -ENOMEM;
	}
	for (int n = 0; !result && n < sets; n++)
		result = gpu_check_kernels(
			gpu, gpu->kernels.fashim_kernels_prepare(&variant->calls[n], index,
								 &operands[n].args));
	return result;
}

void gpu_variant_free(struct gpu_variant *variant)
{
	for (int n = 0; variant->calls && n < variant->sets; n++)
		variant->gpu->kernels.fashim_kernels_free(variant->calls[n]);
	free(variant->calls);
	variant->calls = NULL;
}

static int enqueue_variant(void *subject, int n, CUstream stream)
{
	const struct gpu_variant *variant = subject;

	return gpu_check_kernels(variant->gpu, variant->gpu->kernels.fashim_kernels_launch(
						       variant->calls[n], stream));
}

struct gpu_work gpu_variant_work(struct gpu_variant *variant)
{
	return (struct gpu_work){enqueue_variant, variant, variant->sets};
}
