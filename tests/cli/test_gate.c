/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdicts of `fashim gate` and the pairing of sites that it shares with `fashim diff`: a limit
 * is kept exactly when the interval allows it, and a site is paired with the one that is most like
 * it, once.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tools/gate/gate.h"
#include "tools/sites/report_read.h"
#include "tools/sites/site_match.h"

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static double uniform(void)
{
	return (double)(next_random() >> 11) / 9007199254740992.0;
}

/* ---- pairing ------------------------------------------------------------------------------------
 */

static struct site_log site_at(int sk, const char *python, const char *stack)
{
	struct site_log site = {.number = 1};

	site.record = json_pack("{s:i,s:i,s:i,s:i,s:i,s:s,s:s,s:f,s:o,s:o}", "B", 1, "H", 8, "Sq",
				sk, "Sk", sk, "D", 64, "dtype", "f16", "mask", "none", "scale",
				0.125, "python", *python ? json_pack("[s]", python) : json_array(),
				"stack", *stack ? json_pack("[s]", stack) : json_array());
	assert_non_null(site.record);
	return site;
}

static void likeness_survives_versions(void **state)
{
	static const struct {
		const char *python_a, *stack_a, *python_b, *stack_b;
		enum site_likeness likeness;
	} rows[] = {
		{"m.py:1 f", "a.so+0x1", "m.py:1 f", "a.so+0x1", SITE_LIKE_ALL},
		{"m.py:1 f", "a.so+0x1", "m.py:9 f", "b.so+0x7", SITE_LIKE_CALLERS},
		{"/x/3.11/m.py:1 f", "", "/y/3.12/m.py:1 f", "", SITE_LIKE_CALLERS},
		{"m.py:1 f", "", "m.py:1 g", "", SITE_LIKE_SHAPE},
		{"m.py:1 f", "", "n.py:1 f", "", SITE_LIKE_SHAPE},
		{"m.py:1 f", "a.so+0x1", "", "a.so+0x2", SITE_LIKE_SHAPE},
		{"", "a.so+0x1", "", "a.so+0x2", SITE_LIKE_CALLERS},
		{"", "libcublas.so.12+0x1", "", "libcublas.so.13+0x2", SITE_LIKE_CALLERS},
		{"", "a.so+0x1", "", "ab.so+0x1", SITE_LIKE_SHAPE},
		{"", "app+0x1", "", "", SITE_LIKE_SHAPE},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct site_log a = site_at(64, rows[i].python_a, rows[i].stack_a);
		struct site_log b = site_at(64, rows[i].python_b, rows[i].stack_b);
		struct site_log longer = site_at(65, rows[i].python_a, rows[i].stack_a);
		struct site_log bare = {.number = 1};

		if (site_likeness(&a, &b) != rows[i].likeness)
			fail_msg("row %zu: likeness %d", i, site_likeness(&a, &b));
		assert_int_equal(site_likeness(&b, &a), rows[i].likeness);
		assert_int_equal(site_likeness(&a, &longer), SITE_DIFFERENT);
		assert_int_equal(site_likeness(&a, &bare), SITE_DIFFERENT);
		json_decref(a.record);
		json_decref(b.record);
		json_decref(longer.record);
	}
}

enum { MANY = 12 };

/* A report of sites that are drawn from few shapes and few places, so that many are alike. */
static struct report random_report(struct site_log *sites, struct report_row *rows)
{
	static const char *const places[] = {"m.py:1 f", "m.py:2 f", "m.py:1 g", "n.py:1 f"};
	struct report report = {.rows = rows, .row_count = (int)(next_random() % (MANY + 1))};

	for (int i = 0; i < report.row_count; i++) {
		sites[i] = site_at(1 + (int)(next_random() % 3), places[next_random() % 4], "");
		rows[i] = (struct report_row){.site = &sites[i]};
	}
	return report;
}

static void check_pairs(const struct report *a, const struct report *b)
{
	bool seen_a[MANY] = {0}, seen_b[MANY] = {0};
	struct site_pair *pairs;
	int count;

	assert_int_equal(site_match(a, b, &pairs, &count), 0);
	for (int i = 0; i < count; i++) {
		const struct site_pair *pair = &pairs[i];

		assert_true(pair->a || pair->b);
		if (pair->a) {
			assert_false(seen_a[pair->a - a->rows]);
			seen_a[pair->a - a->rows] = true;
		}
		if (pair->b) {
			assert_false(seen_b[pair->b - b->rows]);
			seen_b[pair->b - b->rows] = true;
		}
		if (pair->a && pair->b)
			assert_int_equal(pair->how, site_likeness(pair->a->site, pair->b->site));
		/* Whoever fits this one better must have found somebody who fits as well. */
		for (int k = 0; k < count && pair->a; k++) {
			enum site_likeness better =
				pairs[k].b ? site_likeness(pair->a->site, pairs[k].b->site)
					   : SITE_DIFFERENT;

			if (better > pair->how)
				assert_true(pairs[k].how >= better);
		}
	}
	for (int i = 0; i < a->row_count; i++)
		assert_true(seen_a[i]);
	for (int i = 0; i < b->row_count; i++)
		assert_true(seen_b[i]);
	free(pairs);
}

static void every_site_is_paired_once(void **state)
{
	for (int round = 0; round < 500; round++) {
		struct site_log sites_a[MANY], sites_b[MANY];
		struct report_row rows_a[MANY], rows_b[MANY];
		struct report a = random_report(sites_a, rows_a);
		struct report b = random_report(sites_b, rows_b);

		check_pairs(&a, &b);
		for (int i = 0; i < a.row_count; i++)
			json_decref(sites_a[i].record);
		for (int i = 0; i < b.row_count; i++)
			json_decref(sites_b[i].record);
	}
}

/* ---- verdicts -----------------------------------------------------------------------------------
 */

/* A log of one site with `count` samples whose fused time is about `ratio` of the app's. */
static void write_log(const char *path, int count, double ratio, double drift)
{
	FILE *out = fopen(path, "w");

	assert_non_null(out);
	fprintf(out,
		"{\"type\":\"header\",\"format\":\"fashim-log\",\"version\":%d,\"mode\":"
		"\"replace\","
		"\"gpu\":\"G\"}\n"
		"{\"type\":\"site\",\"site\":1,\"B\":1,\"H\":1,\"Sq\":8,\"Sk\":8,\"D\":64,"
		"\"dtype\":\"f16\",\"mask\":\"none\",\"stack\":[\"app+0x1\"]}\n",
		LOG_FORMAT_VERSION);
	for (int i = 0; i < count; i++)
		fprintf(out,
			"{\"type\":\"sample\",\"site\":1,\"occurrence\":%d,\"app_us\":%.3f,"
			"\"fused_us\":%.3f,\"max_rel\":%.6g,\"verdict\":\"ok\"}\n",
			i + 2, 100 * (1 + 0.1 * uniform()), 100 * ratio * (1 + 0.1 * uniform()),
			drift * (1 + uniform()));
	fputs("{\"type\":\"summary\",\"end\":\"exit\",\"sites\":[{\"site\":1,\"state\":"
	      "\"verified\","
	      "\"reason\":\"none\",\"seen\":100,\"replaced\":60,\"compared\":20}]}\n",
	      out);
	assert_int_equal(fclose(out), 0);
}

static struct report read_log(int count, double ratio, double drift)
{
	char path[] = "/tmp/test_gate.XXXXXX", *paths[] = {path};
	struct report report = {0};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	write_log(path, count, ratio, drift);
	assert_int_equal(report_read(&report, paths, 1), 0);
	unlink(path);
	return report;
}

static const struct gate_limits no_limits = {NAN, NAN, NAN, NAN, NAN};

/* The verdict of the only site (index 0) or of all sites (the last check). */
static enum gate_verdict verdict_of(const struct report *report, const struct report *baseline,
				    struct gate_limits limits, const char *check)
{
	struct gate gate = {.report = report, .baseline = baseline, .limits = limits};
	int found = -1;

	assert_int_equal(gate_build(&gate), 0);
	for (int i = 0; i < gate.count && found < 0; i++) {
		if (!strcmp(gate.checks[i].name, check))
			found = (int)gate.checks[i].verdict;
	}
	assert_true(found >= 0);
	assert_int_equal(gate_passed(&gate), gate.tally[GATE_FAIL] == 0);
	gate_free(&gate);
	return (enum gate_verdict)found;
}

static void ratio_is_judged_on_the_upper_end(void **state)
{
	for (int round = 0; round < 20; round++) {
		struct report report =
			read_log(6 + (int)(next_random() % 20), 0.5 + uniform(), 1e-3);
		struct gate_limits limits = no_limits;
		double upper = 1 / report.rows[0].speedup.low;

		assert_true(upper > 1 / report.rows[0].speedup.ratio);
		limits.max_ratio = upper * 1.0001;
		assert_int_equal(verdict_of(&report, NULL, limits, "max-ratio"), GATE_PASS);
		limits.max_ratio = upper * 0.9999;
		assert_int_equal(verdict_of(&report, NULL, limits, "max-ratio"), GATE_FAIL);
		report_free(&report);
	}
}

/* What "all sites" is judged on. */
static void sums_weigh_their_parts(void **state)
{
	static const double threes[] = {3, 3, 3, 3, 3}, twos[] = {2, 2, 2, 2, 2};
	static const double ones[] = {1, 1, 1, 1, 1}, spread[] = {1, 2, 3, 4, 5, 6, 7};
	struct bootstrap_part parts[] = {{threes, 5, twos, 5, 10}, {ones, 5, twos, 5, 30}};
	const struct bootstrap_part alone = {spread, 7, threes, 5, 12};
	struct bootstrap_interval sum, single;

	assert_int_equal(bootstrap_sum_ratio(parts, 2, BOOTSTRAP_SEED, &sum), 0);
	assert_true(sum.ratio == 60.0 / 80 && sum.low == sum.ratio && sum.high == sum.ratio);
	assert_int_equal(bootstrap_sum_ratio(&alone, 1, BOOTSTRAP_SEED, &sum), 0);
	assert_int_equal(bootstrap_ratio(spread, 7, threes, 5, BOOTSTRAP_SEED, &single), 0);
	assert_true(single.low < single.high);
	assert_true(fabs(sum.low - single.low) < 1e-12 && fabs(sum.high - single.high) < 1e-12);
	parts[1].m = BOOTSTRAP_FEWEST - 1;
	assert_int_equal(bootstrap_sum_ratio(parts, 2, BOOTSTRAP_SEED, &sum), -ENODATA);
	assert_int_equal(bootstrap_sum_ratio(parts, 0, BOOTSTRAP_SEED, &sum), -ENODATA);
}

static void few_samples_are_skipped_and_then_fail(void **state)
{
	for (int count = 0; count <= BOOTSTRAP_FEWEST; count++) {
		struct report report = read_log(count, 0.5, 1e-3);
		struct gate_limits limits = no_limits;
		struct gate gate = {.report = &report};

		limits.max_ratio = 10;
		gate.limits = limits;
		assert_int_equal(gate_build(&gate), 0);
		assert_int_equal(gate.tally[GATE_SKIP], 1);
		assert_int_equal(gate.tally[GATE_FAIL], 1);
		assert_null(gate.checks[gate.count - 1].row);
		gate_free(&gate);
		report_free(&report);
	}
}

static void shares_and_drift_are_plain_limits(void **state)
{
	struct report report = read_log(12, 0.5, 1e-3);
	struct gate_limits limits = no_limits;

	limits.min_replaced = 0.75; /* 60 of 100 - 20 */
	assert_int_equal(verdict_of(&report, NULL, limits, "min-replaced"), GATE_PASS);
	limits.min_replaced = 0.7501;
	assert_int_equal(verdict_of(&report, NULL, limits, "min-replaced"), GATE_FAIL);
	limits = no_limits;
	limits.max_drift = report.rows[0].site->max_rel;
	assert_int_equal(verdict_of(&report, NULL, limits, "max-drift"), GATE_PASS);
	limits.max_drift *= 0.999;
	assert_int_equal(verdict_of(&report, NULL, limits, "max-drift"), GATE_FAIL);
	report_free(&report);
}

static void baseline_forgives_what_is_not_sure(void **state)
{
	struct report old = read_log(20, 0.5, 1e-3), same = read_log(20, 0.5, 1e-3);
	struct report slower = read_log(20, 0.7, 9e-3), unsure = read_log(4, 0.7, 9e-3);
	struct gate_limits limits = no_limits;

	limits.max_slowdown = 1.05;
	limits.max_drift_growth = 2;
	assert_int_equal(verdict_of(&same, &old, limits, "max-slowdown"), GATE_PASS);
	assert_int_equal(verdict_of(&same, &old, limits, "max-drift-growth"), GATE_PASS);
	assert_int_equal(verdict_of(&same, &old, limits, "still-replaced"), GATE_PASS);
	assert_int_equal(verdict_of(&slower, &old, limits, "max-slowdown"), GATE_FAIL);
	assert_int_equal(verdict_of(&slower, &old, limits, "max-drift-growth"), GATE_FAIL);
	assert_int_equal(verdict_of(&unsure, &old, limits, "max-slowdown"), GATE_SKIP);
	report_free(&old);
	report_free(&same);
	report_free(&slower);
	report_free(&unsure);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(likeness_survives_versions),
		cmocka_unit_test(every_site_is_paired_once),
		cmocka_unit_test(ratio_is_judged_on_the_upper_end),
		cmocka_unit_test(sums_weigh_their_parts),
		cmocka_unit_test(few_samples_are_skipped_and_then_fail),
		cmocka_unit_test(shares_and_drift_are_plain_limits),
		cmocka_unit_test(baseline_forgives_what_is_not_sure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
