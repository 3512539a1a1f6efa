/* SPDX-License-Identifier: Apache-2.0
 *
 * The scanner of sample records against a real JSON parser: numbers bit for bit, whole records
 * field by field, and on damaged lines never stricter than the parser and never outside the line.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include <jansson.h>

#include "tools/read/log_name.h"
#include "tools/read/sample_scan.h"

static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static double random_double(void)
{
	union {
		uint64_t bits;
		double value;
	} number;

	do {
		number.bits = next_random();
	} while (!isfinite(number.value));
	return number.value;
}

static void check_number(const char *text)
{
	const char *at = text;
	double scanned, exact = strtod(text, NULL);

	assert_int_equal(scan_number(&at, text + strlen(text), &scanned), 0);
	assert_int_equal(*at, '\0');
	assert_memory_equal(&scanned, &exact, sizeof(exact));
}

static void numbers_are_exact(void **state)
{
	static const char *const hard[] = {
		"0",
		"-0",
		"0.1",
		"1e22",
		"1e23",
		"-1e-22",
		"9007199254740993",
		"123456789012345678901",
		"1e400",
		"-1e-400",
		"5e-324",
		"2.2250738585072011e-308",
		"0.000001",
		"1E+05",
		"179769313486231570000000000000000000000",
		"0.1234567890123456789012345678901234567890123456789012345678901234567890",
		"10000000000000000000000000000000000000000000000000000000000000000000000.5",
	};
	char text[64];

	for (size_t i = 0; i < sizeof(hard) / sizeof(*hard); i++)
		check_number(hard[i]);
	for (int i = 0; i < 200000; i++) {
		snprintf(text, sizeof(text), "%.*g", 1 + (int)(next_random() % 17),
			 random_double());
		check_number(text);
		snprintf(text, sizeof(text), "%.*f", (int)(next_random() % 8),
			 (double)(next_random() % 100000000) / 1e4);
		check_number(text);
	}
}

static void bad_numbers_are_refused(void **state)
{
	static const char *const bad[] = {"", "-", ".5", "1.", "1e", "1e+", "+1", "nan", "e5"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const char *at = bad[i];
		double value;

		assert_int_not_equal(scan_number(&at, at + strlen(at), &value), 0);
	}
}

static const char record[] =
	"{\"type\":\"sample\",\"site\":3,\"occurrence\":12,\"app_us\":15.25,\"fused_us\":null,"
	"\"max_abs\":1e-4,\"max_rel\":2.5e-3,\"rmse\":1e-5,\"cosine\":0.99999,\"worst_index\":7,"
	"\"worst_app\":0.1,\"worst_fused\":-0.1,\"nonfinite\":0,\"beyond\":0.25,\"reference\":"
	"{\"rows\":64,\"app_max\":1,\"app_rmse\":2,\"fused_max\":3,\"fused_rmse\":4},"
	"\"verdict\":\"not_explained\",\"at_us\":1.5,\"stream\":9,"
	"\"parts_us\":{\"gemm1\":5,\"middle\":6.5,\"x\":[8],\"softmax\":null,\"gemm2\":7},"
	"\"note\":[\"a\\\"]\",{\"x\":true}]}";

static void every_field_is_read(void **state)
{
	struct sample sample;

	assert_int_equal(sample_scan(record, strlen(record), &sample), 0);
	assert_int_equal(sample.site, 3);
	assert_int_equal(sample.occurrence, 12);
	assert_true(sample.app_us == 15.25 && isnan(sample.fused_us));
	assert_true(sample.max_abs == 1e-4 && sample.max_rel == 2.5e-3 && sample.rmse == 1e-5);
	assert_true(sample.cosine == 0.99999 && sample.worst_index == 7 && sample.worst_app == 0.1);
	assert_true(sample.worst_fused == -0.1 && sample.nonfinite == 0 && sample.beyond == 0.25);
	assert_true(sample.reference_rows == 64 && sample.app_max == 1 && sample.app_rmse == 2);
	assert_true(sample.fused_max == 3 && sample.fused_rmse == 4);
	assert_true(sample.at_us == 1.5 && sample.stream == 9);
	assert_true(sample.parts_us[PART_GEMM1] == 5 && sample.parts_us[PART_MIDDLE] == 6.5);
	assert_true(isnan(sample.parts_us[PART_SOFTMAX]) && sample.parts_us[PART_GEMM2] == 7);
	assert_string_equal(sample.verdict, "not_explained");
}

static void every_cut_is_refused(void **state)
{
	for (size_t length = 0; length < strlen(record); length++) {
		/* Exactly as long as the line: a sanitised build sees any step behind it. */
		char *cut = malloc(length + !length);
		struct sample sample;

		assert_non_null(cut);
		memcpy(cut, record, length);
		assert_int_not_equal(sample_scan(cut, length, &sample), 0);
		free(cut);
	}
}

static void never_stricter_than_a_parser(void **state)
{
	const size_t length = strlen(record);
	int accepted = 0;

	for (int i = 0; i < 200000; i++) {
		char line[sizeof(record)];
		struct sample sample;
		json_t *tree;

		memcpy(line, record, sizeof(record));
		for (uint64_t n = next_random() % 3; n < 3; n++)
			line[next_random() % length] =
				" {}[]\",:0123456789.eE-nultrfasxyz\\/"[next_random() % 35];
		tree = json_loadb(line, length, 0, NULL);
		if (json_is_object(tree)) {
			const json_t *number = json_object_get(tree, "app_us");

			accepted++;
			assert_int_equal(sample_scan(line, length, &sample), 0);
			if (json_is_number(number))
				assert_true(sample.app_us == json_number_value(number));
		} else {
			sample_scan(line, length, &sample);
		}
		json_decref(tree);
	}
	assert_true(accepted > 1000);
}

static void depth_is_bounded(void **state)
{
	size_t depth = 100000;
	char *line = malloc(depth + 8);
	struct sample sample;

	assert_non_null(line);
	memcpy(line, "{\"x\":", 5);
	memset(line + 5, '[', depth);
	assert_int_not_equal(sample_scan(line, depth + 5, &sample), 0);
	free(line);
}

static void check_glob(const char *pattern, const char *wanted)
{
	char *glob = log_name_glob(pattern);

	assert_non_null(glob);
	assert_string_equal(glob, wanted);
	free(glob);
}

static void names_become_wildcards(void **state)
{
	char *escaped = log_name_escape("/50%/a");

	assert_string_equal(escaped, "/50%%/a");
	free(escaped);
	setenv("SCAN_TEST", "x*y", 1);
	check_glob("fashim.%e.%p.jsonl", "fashim.*.*.jsonl");
	check_glob("%h-%r-%n-%t", "*-*-*-*");
	check_glob("100%%", "100%");
	check_glob("%q{SCAN_TEST}.log", "x\\*y.log");
	check_glob("%q{SCAN_TEST_UNSET}.log", ".log");
	check_glob("%q{SCAN", "%q{SCAN");
	check_glob("%z%", "%z%");
	check_glob("a[1]?", "a\\[1\\]\\?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_exact),
		cmocka_unit_test(bad_numbers_are_refused),
		cmocka_unit_test(every_field_is_read),
		cmocka_unit_test(every_cut_is_refused),
		cmocka_unit_test(never_stricter_than_a_parser),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(names_become_wildcards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
