/* SPDX-License-Identifier: Apache-2.0
 *
 * When a program would be faster without the shim. Times on host and GPU are like those of models
 * on one H100; the shim's share and how often streams are empty are made up.
 */
#include "shim/flow/rest.h"
#include "tests/cmocka.h"

#define US 1000ull

static void a_gpu_that_waits_gains_nothing(void **state)
{
	/* CLIP, 4 layers, a forward: the host needs 5.0 ms, of which 1.1 are the shim's; the GPU is
	 * busy for 1.8, and would be for 2.0 more. */
	struct rest_window window = {
		.wall = 5000 * US, .host = 1100 * US, .saved = 2000 * US, .asked = 32, .idle = 21};

	assert_true(rest_pays(&window, 5));
	/* The half of what it may cost is no burden. */
	window.host = 125 * US;
	assert_false(rest_pays(&window, 5));
	assert_true(rest_pays(&window, 1));
}

static void a_busy_gpu_gains(void **state)
{
	/* Whisper's encoder: 4.0 ms on the host, but it was 6.4 on the GPU, which is 3.0 now. */
	const struct rest_window window = {
		.wall = 4000 * US, .host = 900 * US, .saved = 3400 * US, .asked = 32, .idle = 10};
	/* Nothing was saved, yet the program waits for the GPU and not for the host. */
	const struct rest_window busy = {
		.wall = 5000 * US, .host = 600 * US, .saved = 0, .asked = 32, .idle = 2};

	assert_false(rest_pays(&window, 5));
	assert_false(rest_pays(&busy, 5));
}

static void what_is_waited_for_is_busy(void **state)
{
	/* An encoder of images: 25 products of a forward are launched in 4.0 ms, all of them find
	 * the GPU empty, and its last ones are waited for. */
	struct rest_window window = {.wall = 10000 * US,
				     .host = 600 * US,
				     .waited = 6000 * US,
				     .saved = 4400 * US,
				     .asked = 6,
				     .idle = 6};

	assert_false(rest_pays(&window, 5));
	window.saved = 2000 * US;
	assert_true(rest_pays(&window, 5));
}

static void what_is_not_known_changes_nothing(void **state)
{
	const struct rest_window unasked = {.wall = 1000 * US, .host = 900 * US},
				 whole = {.wall = 10, .host = 10, .asked = 1, .idle = 1},
				 free = {.wall = 1000 * US,
					 .host = 500 * US,
					 .asked = 4,
					 .idle = 4};

	assert_false(rest_pays(&unasked, 5));
	assert_false(rest_pays(&whole, 5));
	assert_false(rest_pays(&free, 0));
	assert_true(rest_pays(&free, 5));
}

static void watching_takes_a_fifth_of_the_budget(void **state)
{
	/* BERT, a forward and a third: 0.5 ms of 6.6 are a hundredth of 50 */
	const struct rest_window window = {.wall = 6600 * US, .host = 500 * US},
				 cheap = {.wall = 6600 * US, .host = 60 * US};

	assert_int_equal(rest_from_watching(&window, 5), 50000 * US - 6600 * US);
	assert_int_equal(rest_from_watching(&window, 50), 0);
	assert_int_equal(rest_from_watching(&cheap, 5), 0);
	assert_int_equal(rest_from_watching(&window, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gpu_that_waits_gains_nothing),
		cmocka_unit_test(a_busy_gpu_gains),
		cmocka_unit_test(what_is_waited_for_is_busy),
		cmocka_unit_test(what_is_not_known_changes_nothing),
		cmocka_unit_test(watching_takes_a_fifth_of_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
