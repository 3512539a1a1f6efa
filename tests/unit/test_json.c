/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON writer: what it writes another library reads back as the same value, in any locale, and
 * what does not fit or is no JSON is never passed off as whole.
 */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"
#include "shim/base/json.h"
#include "tests/unit/child.h"
#include "tests/unit/reader.h"

static char buffer[4096];

static void test_record(void **state)
{
	struct json json;

	json_begin(&json, buffer, sizeof(buffer));
	json_open_object(&json, NULL);
	json_string(&json, "type", "site");
	json_int(&json, "low", INT64_MIN);
	json_uint(&json, "high", UINT64_MAX);
	json_null(&json, "nothing");
	json_string(&json, "absent", NULL);
	json_open_array(&json, "list");
	json_int(&json, NULL, 1);
	json_open_object(&json, NULL);
	json_close(&json);
	json_open_array(&json, NULL);
	json_close(&json);
	json_string(&json, NULL, "x");
	json_close(&json);
	json_open_object(&json, "inner");
	json_double(&json, "pi", 3.25);
	json_close(&json);
	json_close(&json);
	assert_int_equal(json_end(&json), strlen(buffer));
	assert_string_equal(buffer, "{\"type\":\"site\",\"low\":-9223372036854775808,"
				    "\"high\":18446744073709551615,\"nothing\":null,"
				    "\"absent\":null,\"list\":[1,{},[],\"x\"],"
				    "\"inner\":{\"pi\":3.25}}");
}

static const char *written_string(const char *bytes, size_t count)
{
	struct json json;
	size_t length;

	json_begin(&json, buffer, sizeof(buffer));
	json_string_n(&json, NULL, bytes, count);
	length = json_end(&json);
	assert_true(length > 0);
	return reader_string(reader_parse(buffer, length), "");
}

static void test_strings(void **state)
{
	static const char utf8[] =
		"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf \xed\x9f\xbf \xee\x80\x80";
	static const char *const good[] = {"", "plain", "\"quoted\" \\ back/slash",
					   "tab\tline\nbell\a\x01\x1f\x7f", utf8};
	static const struct {
		const char *bytes, *read;
	} bad[] = {
		{"a\xff"
		 "b",
		 "a\xef\xbf\xbd"
		 "b"},
		{"\xc3", "\xef\xbf\xbd"},		  /* cut off */
		{"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"}, /* overlong */
		{"\xe0\x9f\xbf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* surrogate */
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\x80z", "\xef\xbf\xbdz"},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_string_equal(written_string(good[i], strlen(good[i])), good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_string_equal(written_string(bad[i].bytes, strlen(bad[i].bytes)),
				    bad[i].read);
	/* Every two bytes there are: no pair can break a line. */
	for (int i = 0x0101; i <= 0xffff; i++) {
		const char two[2] = {(char)(i >> 8), (char)i};

		if (!(i & 0xff))
			continue;
		assert_non_null(written_string(two, 2));
		assert_null(strchr(buffer, '\n'));
	}
}

static bool survives(double number)
{
	struct json json;
	size_t length;

	json_begin(&json, buffer, sizeof(buffer));
	json_double(&json, NULL, number);
	length = json_end(&json);
	return length && reader_number(reader_parse(buffer, length), "") == number;
}

static bool written_as(double number, const char *text)
{
	struct json json;

	json_begin(&json, buffer, sizeof(buffer));
	json_double(&json, NULL, number);
	return json_end(&json) && strcmp(buffer, text) == 0;
}

/* How many numbers do not come through. */
static int wrong_doubles(void)
{
	static const double some[] = {0.0,     1.0,	 -1.5,	     0.1,	1e-300, DBL_MAX,
				      DBL_MIN, 4.9e-324, 123456.789, 1.0 / 3.0, 1e15,	1e16};
	uint64_t random = UINT64_C(88172645463325252);
	int wrong = 0;

	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		wrong += !survives(some[i]);
	for (int i = 0; i < 2000; i++) {
		double number;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		memcpy(&number, &random, sizeof(number));
		wrong += isfinite(number) && !survives(number);
	}
	wrong += !written_as((double)NAN, "null");
	wrong += !written_as((double)INFINITY, "null");
	wrong += !written_as(-(double)INFINITY, "null");
	wrong += !written_as(0.1, "0.1");
	wrong += !written_as(15.5, "15.5");
	wrong += !written_as(-3, "-3");
	return wrong;
}

static void test_doubles(void **state)
{
	assert_int_equal(wrong_doubles(), 0);
}

static bool uses_comma(void)
{
	char text[32];

	snprintf(text, sizeof(text), "%.1f", 0.5);
	return strcmp(text, "0,5") == 0;
}

/* A host with a decimal comma: for the process, and for the thread; left as it was. */
static void in_comma_locale(void *name)
{
	locale_t locale;

	CHECK(setlocale(LC_ALL, name) && uses_comma());
	CHECK(wrong_doubles() == 0);
	CHECK(uses_comma());
	CHECK(setlocale(LC_ALL, "C") && !uses_comma());
	locale = newlocale(LC_ALL_MASK, name, (locale_t)0);
	CHECK(locale);
	uselocale(locale);
	CHECK(uses_comma());
	CHECK(wrong_doubles() == 0);
	CHECK(uses_comma() && uselocale((locale_t)0) == locale);
}

static void test_locale(void **state)
{
	const char *name = child_comma_locale();
	struct child child;

	if (!name)
		skip();
	child_run(&child, NULL, in_comma_locale, (void *)(uintptr_t)name);
	assert_true(child_passed(&child));
}

static void write_sample(struct json *json, size_t size)
{
	json_begin(json, buffer, size);
	json_open_object(json, NULL);
	json_string(json, "key", "a\"\xff\xc3\xa9");
	json_open_array(json, "list");
	json_double(json, NULL, 0.1);
	json_int(json, NULL, -7);
	json_close(json);
	json_close(json);
}

/* With every size of buffer: whole, or known not to be, and no byte beyond it touched. */
static void test_overflow(void **state)
{
	struct json json;
	size_t whole;

	write_sample(&json, sizeof(buffer));
	whole = json_end(&json);
	assert_true(whole > 0);
	for (size_t size = 0; size < whole + 8; size++) {
		memset(buffer, '#', sizeof(buffer));
		write_sample(&json, size);
		assert_int_equal(json_end(&json), size > whole ? whole : 0);
		for (size_t i = size; i < whole + 16; i++)
			assert_int_equal(buffer[i], '#');
	}
}

static void test_misuse(void **state)
{
	struct json json;

	json_begin(&json, buffer, sizeof(buffer));
	assert_int_equal(json_end(&json), 0); /* nothing */
	json_open_object(&json, NULL);
	assert_int_equal(json_end(&json), 0); /* not closed */
	json_int(&json, NULL, 1);	      /* no key in an object */
	json_close(&json);
	assert_int_equal(json_end(&json), 0);

	json_begin(&json, buffer, sizeof(buffer));
	json_open_array(&json, NULL);
	json_int(&json, "key", 1); /* a key in an array */
	json_close(&json);
	assert_int_equal(json_end(&json), 0);

	json_begin(&json, buffer, sizeof(buffer));
	json_int(&json, NULL, 1);
	json_int(&json, NULL, 2); /* two roots */
	assert_int_equal(json_end(&json), 0);

	json_begin(&json, buffer, sizeof(buffer));
	json_close(&json); /* nothing open */
	json_int(&json, NULL, 1);
	assert_int_equal(json_end(&json), 0);

	json_begin(&json, buffer, sizeof(buffer));
	for (int i = 0; i < JSON_DEPTH + 5; i++) /* too deep */
		json_open_array(&json, NULL);
	for (int i = 0; i < JSON_DEPTH + 5; i++)
		json_close(&json);
	assert_int_equal(json_end(&json), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record),	 cmocka_unit_test(test_strings),
		cmocka_unit_test(test_doubles),	 cmocka_unit_test(test_locale),
		cmocka_unit_test(test_overflow), cmocka_unit_test(test_misuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
