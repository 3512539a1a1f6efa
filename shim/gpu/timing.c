/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of event pairs, created as they are needed and used again in their own context.
 */
#include "shim/gpu/timing.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/clock.h"
#include "shim/chain/chain.h"
#include "shim/base/names.h"
#include "shim/real/driver.h"

#define TIMINGS 24
#define OPS	64 /* steps of a chain, and parts of two products */
#define STREAMS 64

struct timing {
	bool used;
	bool graph; /* a graph's launches record */
	CUcontext context;
	CUstream stream;
	uint64_t begun_ns; /* CLOCK_REALTIME */
	int count;
	enum timing_part part[OPS];
	CUevent start[OPS], stop[OPS];
};

static struct timing timings[TIMINGS];

/* Streams in the order in which they were first timed: their numbers in the log. */
static struct known_stream {
	CUcontext context;
	CUstream stream;
} streams[STREAMS];

static const char *const part_names[TIMING_PARTS] = {
	[TIMING_GEMM1] = "gemm1",
	[TIMING_MIDDLE] = "middle",
	[TIMING_SOFTMAX] = "softmax",
	[TIMING_GEMM2] = "gemm2",
};

struct timing *timing_begin(CUcontext context, CUstream stream)
{
	for (int i = 0; i < TIMINGS; i++) {
		struct timing *timing = &timings[i];

		if (timing->used || (timing->context && timing->context != context))
			continue;
		timing->used = true;
		timing->context = context;
		timing->stream = stream;
		timing->begun_ns = clock_ns(CLOCK_REALTIME);
		timing->count = 0;
		return timing;
	}
	return NULL;
}

struct timing *timing_of_graph(CUcontext context, CUstream stream)
{
	struct timing *timing = calloc(1, sizeof(*timing));

	if (timing)
		*timing = (struct timing){.graph = true, .context = context, .stream = stream};
	return timing;
}

void timing_free(struct timing *timing)
{
	for (int i = 0; timing && i < OPS; i++) {
		if (timing->start[i])
			driver.cuEventDestroy_v2(timing->start[i]);
		if (timing->stop[i])
			driver.cuEventDestroy_v2(timing->stop[i]);
	}
	free(timing);
}

void timing_again(struct timing *timing)
{
	if (timing)
		timing->begun_ns = clock_ns(CLOCK_REALTIME);
}

static void record(const struct timing *timing, CUevent event)
{
	if (timing->graph)
		driver.cuEventRecordWithFlags(event, timing->stream, CU_EVENT_RECORD_EXTERNAL);
	else
		driver.cuEventRecord(event, timing->stream);
}

void timing_start(struct timing *timing, enum timing_part part)
{
	const int at = timing ? timing->count : 0;

	if (!timing || at == OPS)
		return;
	if (!timing->start[at] &&
	    (driver.cuEventCreate(&timing->start[at], CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
	     driver.cuEventCreate(&timing->stop[at], CU_EVENT_DEFAULT) != CUDA_SUCCESS))
		return;
	timing->part[at] = part;
	record(timing, timing->start[at]);
}

void timing_stop(struct timing *timing)
{
	if (timing && timing->count < OPS && timing->stop[timing->count])
		record(timing, timing->stop[timing->count++]);
}

static void swap(CUevent *a, CUevent *b)
{
	const CUevent kept = *a;

	*a = *b;
	*b = kept;
}

bool timing_join(struct timing *timing, struct timing *other)
{
	if (!timing || !other || timing->count + other->count > OPS)
		return false;
	for (int i = 0; i < other->count; i++) {
		timing->part[timing->count] = other->part[i];
		swap(&timing->start[timing->count], &other->start[i]);
		swap(&timing->stop[timing->count++], &other->stop[i]);
	}
	return true;
}

void timing_drop(struct timing *timing)
{
	if (timing)
		timing->used = false;
}

double timing_between(CUevent start, CUevent stop)
{
	float ms = 0;

	return driver.cuEventElapsedTime_v2(&ms, start, stop) == CUDA_SUCCESS ? ms * 1e3 : NAN;
}

/* Of each part, and of all of them: the sum is NAN as soon as one op has no time. */
static double parts_us(const struct timing *timing, double us[TIMING_PARTS])
{
	double sum = 0;

	memset(us, 0, TIMING_PARTS * sizeof(*us));
	if (!timing || !timing->count)
		return NAN;
	for (int i = 0; i < timing->count; i++) {
		const double one = timing_between(timing->start[i], timing->stop[i]);

		us[timing->part[i]] += one;
		sum += one;
	}
	return sum;
}

double timing_us(const struct timing *timing)
{
	double us[TIMING_PARTS];

	return parts_us(timing, us);
}

/* From 1; 0 for those that came when the table was full. */
static int stream_number(CUcontext context, CUstream stream)
{
	for (int i = 0; i < STREAMS; i++) {
		struct known_stream *known = &streams[i];

		if (!known->stream)
			*known = (struct known_stream){context, stream};
		if (known->context == context && known->stream == stream)
			return i + 1;
	}
	return 0;
}

void timing_write(const struct timing *timing, struct json *json)
{
	double us[TIMING_PARTS];

	if (!isfinite(parts_us(timing, us)))
		return;
	json_double(json, "at_us", (double)(int64_t)(timing->begun_ns - names_start_ns()) / 1e3);
	json_int(json, "stream", stream_number(timing->context, timing->stream));
	json_open_object(json, "parts_us");
	for (int i = 0; i < TIMING_PARTS; i++)
		json_double(json, part_names[i], us[i]);
	json_close(json);
}

void timing_forget(CUcontext context)
{
	for (int i = 0; i < TIMINGS; i++)
		if (timings[i].context == context)
			memset(&timings[i], 0, sizeof(timings[i]));
}
