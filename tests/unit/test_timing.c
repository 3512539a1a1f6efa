/* SPDX-License-Identifier: Apache-2.0
 *
 * Timing over a driver whose clock only moves when it is told to: what each op took is counted to
 * its part of the chain, once, whatever happens between ops.
 */
#include <math.h>
#include <string.h>
#include "tests/cmocka.h"
#include "shim/real/driver.h"
#include "shim/gpu/timing.h"
#include "tests/unit/reader.h"

#define CONTEXT	 ((CUcontext)(uintptr_t)0x10)
#define OTHER	 ((CUcontext)(uintptr_t)0x20)
#define STREAM_A ((CUstream)(uintptr_t)0x100)
#define STREAM_B ((CUstream)(uintptr_t)0x200)

struct driver_calls driver;

static double clock_ms;
static struct CUevent_st {
	double ms;
} events[4096];
static int event_count;
static CUresult elapsed_answer;

static CUresult create(CUevent *event, unsigned flags)
{
	(void)flags;
	*event = &events[event_count++];
	return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
	(void)stream;
	event->ms = clock_ms;
	return CUDA_SUCCESS;
}

static CUresult elapsed(float *ms, CUevent start, CUevent stop)
{
	*ms = (float)(stop->ms - start->ms);
	return elapsed_answer;
}

static int setup(void **state)
{
	clock_ms = 0;
	elapsed_answer = CUDA_SUCCESS;
	driver.cuEventCreate = create;
	driver.cuEventRecord = record;
	driver.cuEventElapsedTime_v2 = elapsed;
	return 0;
}

static void op(struct timing *timing, enum timing_part part, double us)
{
	timing_start(timing, part);
	clock_ms += us / 1e3;
	timing_stop(timing);
	clock_ms += 5; /* the host is slow */
}

static void run_chain(struct timing *timing)
{
	op(timing, TIMING_GEMM1, 100);
	op(timing, TIMING_MIDDLE, 20);
	op(timing, TIMING_MIDDLE, 30);
	op(timing, TIMING_SOFTMAX, 40);
	op(timing, TIMING_GEMM2, 80);
}

/* What timing_write() adds to a record. */
static const struct reader_value *written(const struct timing *timing)
{
	const struct reader_value *value;
	char text[512];
	struct json json;

	json_begin(&json, text, sizeof(text));
	json_open_object(&json, NULL);
	timing_write(timing, &json);
	json_close(&json);
	value = reader_parse(text, json_end(&json));
	assert_non_null(value);
	return value;
}

static void assert_us(double us, double expected)
{
	assert_true(fabs(us - expected) < 0.1);
}

static void ops_are_counted_to_their_parts(void **state)
{
	struct timing *timing = timing_begin(CONTEXT, STREAM_A);
	const struct reader_value *value;

	run_chain(timing);
	assert_us(timing_us(timing), 270);
	value = written(timing);
	assert_us(reader_number(value, "parts_us/gemm1"), 100);
	assert_us(reader_number(value, "parts_us/middle"), 50);
	assert_us(reader_number(value, "parts_us/softmax"), 40);
	assert_us(reader_number(value, "parts_us/gemm2"), 80);
	assert_true(isfinite(reader_number(value, "at_us")));
	timing_drop(timing);
}

static void events_are_used_again(void **state)
{
	struct timing *timing = timing_begin(CONTEXT, STREAM_A);
	int before;

	run_chain(timing);
	timing_drop(timing);
	before = event_count;
	assert_ptr_equal(timing_begin(CONTEXT, STREAM_A), timing);
	run_chain(timing);
	assert_int_equal(event_count, before);
	assert_us(timing_us(timing), 270);
	timing_drop(timing);
}

static void streams_keep_their_numbers(void **state)
{
	static const struct {
		CUcontext context;
		CUstream stream;
	} places[] = {{CONTEXT, STREAM_A}, {CONTEXT, STREAM_B}, {OTHER, STREAM_A}};
	double first[3];

	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 3; i++) {
			struct timing *timing = timing_begin(places[i].context, places[i].stream);
			double number;

			run_chain(timing);
			number = reader_number(written(timing), "stream");
			if (round)
				assert_true(number == first[i]);
			first[i] = number;
			timing_drop(timing);
		}
	assert_true(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
}

static void unknown_times_are_not_written(void **state)
{
	struct timing *timing = timing_begin(CONTEXT, STREAM_A);

	run_chain(timing);
	elapsed_answer = CUDA_ERROR_NOT_READY;
	assert_true(isnan(timing_us(timing)));
	assert_int_equal(reader_count(written(timing), ""), 0);
	timing_drop(timing);
}

static void none_to_be_had_is_harmless(void **state)
{
	struct timing *taken[64];
	int count = 0;

	while (count < 64 && (taken[count] = timing_begin(CONTEXT, STREAM_A)))
		count++;
	assert_in_range(count, 1, 63);
	op(NULL, TIMING_GEMM1, 1);
	assert_true(isnan(timing_us(NULL)));
	assert_int_equal(reader_count(written(NULL), ""), 0);
	timing_drop(NULL);
	while (count)
		timing_drop(taken[--count]);
}

/* Its events are gone with it: they must not be recorded in another one. */
static void a_context_that_went_is_forgotten(void **state)
{
	struct timing *timing = timing_begin(CONTEXT, STREAM_A);
	int before;

	run_chain(timing);
	timing_forget(CONTEXT);
	before = event_count;
	timing = timing_begin(OTHER, STREAM_B);
	run_chain(timing);
	assert_int_equal(event_count - before, 10);
	timing_drop(timing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(ops_are_counted_to_their_parts, setup),
		cmocka_unit_test_setup(events_are_used_again, setup),
		cmocka_unit_test_setup(streams_keep_their_numbers, setup),
		cmocka_unit_test_setup(unknown_times_are_not_written, setup),
		cmocka_unit_test_setup(none_to_be_had_is_harmless, setup),
		cmocka_unit_test_setup(a_context_that_went_is_forgotten, setup),
	};

	return cmocka_run_group_tests_name("timing", tests, NULL, NULL);
}
