/* SPDX-License-Identifier: Apache-2.0
 *
 * Rests as a program's products come, by a clock of the test's: when one begins, which products
 * pass unseen, and what becomes of one that is no faster at first, or at all.
 */
#include "tests/cmocka.h"

#include <time.h>

#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/flow/record.h"
#include "shim/flow/rest.h"
#include "shim/gpu/ledger.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"

#define US	1000ull
#define AWAKE	(100 * US) /* a product takes, of it … */
#define OURS	(20 * US)
#define FASTER	(50 * US)
#define SLOWER	(150 * US)
#define UNSEEN	16   /* of so many products of a rest one is seen */
#define TRIAL	256  /* products of a rest after which it may be known to pay … */
#define LONG	1024 /* … or to cost */
#define WINDOW	128
#define PATIENT 64 /* windows after a rest that cost, the first time */

static uint64_t now, ours;
static struct live_file counters;
static const struct config options = {.mode = MODE_REPLACE, .budget = 5};

struct driver_calls driver;
struct site sites[SITES];
int site_count;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	time->tv_sec = (time_t)(now / 1000000000u);
	time->tv_nsec = (long)(now % 1000000000u);
	return 0;
}

const struct config *config(void)
{
	return &options;
}

struct live_file *log_live(void)
{
	return &counters;
}

uint64_t cost_host_ns(void)
{
	return ours;
}

bool record_wanted(void)
{
	return false;
}

bool ledger_on_stand_in(void)
{
	return false;
}

double ledger_percent(void)
{
	return 5;
}

uint64_t ledger_saved_ns(void)
{
	return 0;
}

/* The GPU waits for the program. */
static CUresult CUDAAPI is_empty(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

static enum rest product(uint64_t ns)
{
	const struct op op = {.kind = OP_GEMM};

	now += ns;
	return rest_turn(&op, true);
}

/* How many windows of products come until a rest begins. */
static int windows_awake(void)
{
	for (int i = 0; i < 2 * PATIENT * WINDOW; i++) {
		ours += OURS;
		if (product(AWAKE) == REST_BEGINS)
			return (i + WINDOW - 1) / WINDOW;
	}
	fail_msg("no rest begins");
	return 0;
}

static void fall_asleep(void)
{
	windows_awake();
	assert_true(rest_begun());
	assert_false(rest_now());
	assert_false(rest_passes());
	assert_int_equal(product(AWAKE), REST_NOT);
	assert_true(rest_now());
}

/* One of those that are seen, and those before it. */
static enum rest seen(uint64_t each)
{
	for (int i = 1; i < UNSEEN; i++)
		assert_true(rest_passes());
	assert_false(rest_passes());
	return product(UNSEEN * each);
}

static int begin(void **state)
{
	driver.cuStreamQuery = is_empty;
	if (!now)
		now = 1000000000u;
	rest_break();
	return state ? 0 : -1;
}

static void test_faster(void **state)
{
	assert_false(rest_passes());
	fall_asleep();
	for (int i = 0; i < 2 * LONG / UNSEEN; i++)
		assert_int_equal(seen(FASTER), REST_ON);
	rest_break();
	assert_false(rest_passes());
}

/* Other work on the machine slows the first products: that is not held against it. */
static void test_slow_at_first(void **state)
{
	fall_asleep();
	for (int i = 0; i < 5 * TRIAL / 4 / UNSEEN; i++)
		assert_int_equal(seen(SLOWER), REST_ON);
	for (int i = 0; i < 2 * LONG / UNSEEN; i++)
		assert_int_equal(seen(FASTER), REST_ON);
}

/* None begins soon after one that cost. */
static void test_slower(void **state)
{
	fall_asleep();
	for (int i = 1; i < LONG / UNSEEN; i++)
		assert_int_equal(seen(SLOWER), REST_ON);
	assert_int_equal(seen(SLOWER), REST_NOT);
	assert_false(rest_begun());
	assert_true(windows_awake() > PATIENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_faster, begin),
		cmocka_unit_test_setup(test_slow_at_first, begin),
		cmocka_unit_test_setup(test_slower, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
