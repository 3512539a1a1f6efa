/* SPDX-License-Identifier: Apache-2.0
 *
 * The options: every row of config.def with its default, good and bad values; unknown names; which
 * programs and sites are selected. Each case is a process of its own, since the environment is read
 * once.
 */
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include "tests/cmocka.h"
#include "shim/base/config.h"
#include "tests/unit/child.h"

static const struct option {
	const char *name, *kind, *initial;
} options[] = {
#define OPTION(field, kind, name, initial, help) {name, #kind, initial},
#include "shim/base/config.def"
#undef OPTION
};

#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

static struct child child;

/* Option `index` has the value `text`. */
struct expectation {
	size_t index;
	const char *text;
};

static void check_option(void *argument)
{
	const struct expectation *expected = argument;
	char value[512];
	const char *name = config_option(expected->index, value, sizeof(value));

	CHECK(name && strcmp(name, options[expected->index].name) == 0);
	if (strcmp(value, expected->text) != 0)
		fprintf(stderr, "%s is '%s', not '%s'\n", name, value, expected->text);
	CHECK(strcmp(value, expected->text) == 0);
}

static void run_option(size_t index, const char *setting, const char *text)
{
	struct expectation expected = {index, text};
	char assignment[256];
	const char *environment[] = {assignment, NULL};

	snprintf(assignment, sizeof(assignment), "%s=%s", options[index].name, setting);
	child_run(&child, environment, check_option, &expected);
	assert_true(child_passed(&child));
}

static void good(size_t index, const char *setting, const char *text)
{
	run_option(index, setting, text);
	assert_string_equal(child.errors, "");
}

/* A bad value: the default, or of a mode off, and one line that names the option and the value. */
static void bad(size_t index, const char *setting)
{
	const bool mode = !strcmp(options[index].kind, "MODE");
	char assignment[128];

	run_option(index, setting, mode ? "off" : options[index].initial);
	snprintf(assignment, sizeof(assignment), "fashim: %s=%s: ", options[index].name, setting);
	assert_memory_equal(child.errors, assignment, strlen(assignment));
	assert_int_equal(strcspn(child.errors, "\n"), strlen(child.errors) - 1);
}

static void check_defaults(void *argument)
{
	char value[512];

	(void)argument;
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		struct expectation expected = {i, options[i].initial};

		check_option(&expected);
	}
	CHECK(!config_option(OPTION_COUNT, value, sizeof(value)));
}

static void check_fields(void *argument)
{
	(void)argument;
	CHECK(config()->mode == MODE_AUDIT);
	CHECK(strcmp(config()->out, "x.%p") == 0);
	CHECK(config()->sample == 5);
	CHECK(config()->tolerance == 1.5);
	CHECK(config()->poison);
	CHECK(config_selects_program() && config_selects_site(1));
	errno = EDOM;
	config();
	CHECK(errno == EDOM);
}

static void test_defaults(void **state)
{
	static const char *const environment[] = {"FASHIM=audit",    "FASHIM_OUT=x.%p",
						  "FASHIM_SAMPLE=5", "FASHIM_TOL=1.5",
						  "FASHIM_POISON=1", NULL};

	child_run(&child, NULL, check_defaults, NULL);
	assert_true(child_passed(&child));
	assert_string_equal(child.errors, "");
	child_run(&child, environment, check_fields, NULL);
	assert_true(child_passed(&child));
}

static void test_rows(void **state)
{
	int kinds = 0;

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const char *kind = options[i].kind;

		good(i, "", options[i].initial); /* empty is as good as not set */
		if (strcmp(kind, "MODE") == 0) {
			kinds |= 1;
			good(i, "off", "off");
			good(i, "Audit", "audit");
			good(i, "COMPARE", "compare");
			good(i, "replace", "replace");
			bad(i, "on");
			bad(i, "replac");
			bad(i, "audi");
			assert_non_null(strstr(child.errors, "using off"));
		} else if (strcmp(kind, "ASK") == 0) {
			kinds |= 32;
			good(i, "off", "off");
			good(i, "Chain", "chain");
			good(i, "all", "all");
			bad(i, "1");
		} else if (strcmp(kind, "GRAPHS") == 0) {
			kinds |= 64;
			good(i, "prove", "prove");
			good(i, "Trust", "trust");
			good(i, "off", "off");
			good(i, "1", "prove");
			good(i, "on", "prove");
			good(i, "0", "off");
			bad(i, "2");
			bad(i, "proven");
		} else if (strcmp(kind, "COUNT") == 0) {
			kinds |= 2;
			good(i, "0", "0");
			good(i, "18446744073709551615", "18446744073709551615");
			bad(i, "18446744073709551616");
			bad(i, "-1");
			bad(i, "1k");
			bad(i, " 1");
			bad(i, "1.5");
		} else if (strcmp(kind, "FLAG") == 0) {
			kinds |= 4;
			good(i, "1", "1");
			good(i, "on", "1");
			good(i, "TRUE", "1");
			good(i, "0", "0");
			good(i, "off", "0");
			bad(i, "2");
			bad(i, "y");
		} else if (strcmp(kind, "NUMBER") == 0) {
			kinds |= 8;
			good(i, "0.5", "0.5");
			good(i, "1e3", "1000");
			good(i, "3", "3");
			bad(i, "0,5");
			bad(i, "-1");
			bad(i, "nan");
			bad(i, "inf");
			bad(i, "0x10");
			bad(i, "1e999");
			bad(i, ".");
		} else if (strcmp(options[i].name, "FASHIM_LOG") == 0) {
			good(i, "warn", "warn");
			good(i, "none", "none");
			good(i, "debug:act,log", "debug:act,log");
			bad(i, "loud");
			bad(i, "debug:");
			bad(i, "debug:site,");
			bad(i, "debug:sites");
			bad(i, "debug:site,sit");
		} else {
			assert_string_equal(kind, "STRING");
			kinds |= 16;
			good(i, "a b,c=d%p", "a b,c=d%p");
		}
	}
	assert_int_equal(kinds, 127);
}

static void check_string_copied(void *argument)
{
	(void)argument;
	CHECK(strcmp(config()->kernel, "abc") == 0);
	setenv("FASHIM_KERNEL", "xyz", 1);
	memcpy(getenv("FASHIM_KERNEL"), "qqq", 3);
	CHECK(strcmp(config()->kernel, "abc") == 0);
}

static void test_string_copied(void **state)
{
	static const char *const environment[] = {"FASHIM_KERNEL=abc", NULL};

	child_run(&child, environment, check_string_copied, NULL);
	assert_true(child_passed(&child));
}

static void check_long(void *argument)
{
	char text[20000];

	(void)argument;
	memset(text, 'k', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	setenv("FASHIM_KERNEL", text, 1);
	CHECK(strcmp(config()->kernel, "") == 0);
	CHECK(strcmp(config()->out, "fashim.%e.%p.jsonl") == 0);
}

static void test_long(void **state)
{
	child_run(&child, NULL, check_long, NULL);
	assert_true(child_passed(&child));
	assert_non_null(strstr(child.errors, "FASHIM_KERNEL=kkk"));
}

/* A host that has set a locale with a decimal comma before we look. */
static void check_comma(void *argument)
{
	char value[64];

	CHECK(setlocale(LC_ALL, argument));
	CHECK(config()->tolerance == 2.5);
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (config_option(i, value, sizeof(value)) &&
		    strcmp(options[i].name, "FASHIM_TOL") == 0)
			CHECK(strcmp(value, "2.5") == 0);
	snprintf(value, sizeof(value), "%.1f", 0.5);
	CHECK(strcmp(value, "0,5") == 0);
}

static void test_comma(void **state)
{
	static const char *const environment[] = {"FASHIM_TOL=2.5", NULL};
	const char *name = child_comma_locale();

	if (!name)
		skip();
	child_run(&child, environment, check_comma, (void *)(uintptr_t)name);
	assert_true(child_passed(&child));
}

static void only_parse(void *argument)
{
	(void)argument;
	config();
	config();
	config_selects_program();
}

static void test_unknown(void **state)
{
	static const char *const environment[] = {"FASHIM_SAMPEL=3", "FASHIM_WHATEVER_ELSE=1",
						  "FASHIMA=1", "XFASHIM_OUT=1", NULL};

	child_run(&child, environment, only_parse, NULL);
	assert_true(child_passed(&child));
	assert_non_null(
		strstr(child.errors,
		       "fashim: unknown option FASHIM_SAMPEL; did you mean FASHIM_SAMPLE?\n"));
	assert_non_null(strstr(child.errors, "fashim: unknown option FASHIM_WHATEVER_ELSE\n"));
	/* Names that only look alike are not ours, and nothing is said twice. */
	assert_null(strstr(child.errors, "FASHIMA"));
	assert_null(strstr(child.errors, "FASHIM_OUT"));
	assert_int_equal(
		strlen(child.errors),
		strlen("fashim: unknown option FASHIM_SAMPEL; did you mean FASHIM_SAMPLE?\n"
		       "fashim: unknown option FASHIM_WHATEVER_ELSE\n"));
}

static void test_silence(void **state)
{
	static const char *const environment[] = {"FASHIM_SAMPEL=3", "FASHIM=wrong",
						  "FASHIM_LOG=none", NULL};

	child_run(&child, environment, only_parse, NULL);
	assert_true(child_passed(&child));
	assert_string_equal(child.errors, "");
}

struct selection {
	const char *only, *skip;
	int program, site1, site3, site33;
};

static void check_selection(void *argument)
{
	const struct selection *s = argument;

	setenv("FASHIM_ONLY", s->only, 1);
	setenv("FASHIM_SKIP", s->skip, 1);
	CHECK(config_selects_program() == s->program);
	CHECK(config_selects_site(1) == s->site1);
	CHECK(config_selects_site(3) == s->site3);
	CHECK(config_selects_site(33) == s->site33);
}

static void test_selection(void **state)
{
	static const struct selection cases[] = {
		{"", "", 1, 1, 1, 1},
		{"test_config", "", 1, 1, 1, 1},
		{"test_*,other", "", 1, 1, 1, 1},
		{"other", "", 0, 0, 0, 0},
		{"", "other", 1, 1, 1, 1},
		{"", "*conf[ij]g", 0, 0, 0, 0},
		{"test_config", "test_config", 0, 0, 0, 0},
		{"#3", "", 1, 0, 1, 0},
		{"other,#3", "", 0, 0, 0, 0},
		{"#1,#33,test*", "", 1, 1, 0, 1},
		{"", "#3", 1, 1, 0, 1},
		{"#1,#3", "#3", 1, 1, 0, 0},
		{",,", ",", 1, 1, 1, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct selection selection = cases[i];

		child_run(&child, NULL, check_selection, &selection);
		assert_true(child_passed(&child));
		assert_string_equal(child.errors, "");
	}
}

static void test_bad_site(void **state)
{
	static const char *const environment[] = {"FASHIM_SKIP=#x,#2", NULL};

	child_run(&child, environment, only_parse, NULL);
	assert_string_equal(child.errors,
			    "fashim: FASHIM_SKIP: '#x' is no site number; write #3\n");
}

static void *ask(void *argument)
{
	return config() == argument && config()->sample == 7 ? argument : NULL;
}

static void ask_together(void *argument)
{
	pthread_t threads[8];
	void *answer;

	(void)argument;
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, ask, (void *)(uintptr_t)config());
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], &answer);
		CHECK(answer == (const void *)config());
	}
}

static void test_threads(void **state)
{
	static const char *const environment[] = {"FASHIM_SAMPLE=7", NULL};

	child_run(&child, environment, ask_together, NULL);
	assert_true(child_passed(&child));
}

/* ---- what the C library answers ------------------------------------------------------------- */

static bool is_secure, has_no_locale;

unsigned long getauxval(unsigned long type)
{
	static unsigned long (*real)(unsigned long);

	if (type == AT_SECURE)
		return is_secure;
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "getauxval");
	return real(type);
}

locale_t newlocale(int mask, const char *name, locale_t base)
{
	static locale_t (*real)(int, const char *, locale_t);

	if (has_no_locale)
		return (locale_t)0;
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "newlocale");
	return real(mask, name, base);
}

static void check_secure(void *argument)
{
	(void)argument;
	is_secure = true;
	CHECK(config()->mode == MODE_OFF);
	CHECK(strcmp(config()->out, "none") == 0);
	CHECK(!config()->record[0] && !config()->rules[0] && !config()->tune_cache[0]);
	CHECK(!config_selects_program());
}

/* A set-uid process takes nothing from who started it, and does not complain of it. */
static void test_secure(void **state)
{
	const char *const environment[] = {"FASHIM=replace",	   "FASHIM_OUT=/tmp/x",
					   "FASHIM_RECORD=/tmp/y", "FASHIM_RULES=/tmp/z",
					   "FASHIM_LOG=debug",	   "FASHIM_TOL=x",
					   "FASHIM_TUNE_CACHE=t",  NULL};

	child_run(&child, environment, check_secure, NULL);
	assert_true(child_passed(&child));
	assert_string_equal(child.errors, "");
}

static void check_without_locale(void *argument)
{
	char value[512];

	(void)argument;
	has_no_locale = true;
	for (size_t i = 0; i < OPTION_COUNT; i++)
		CHECK(config_option(i, value, sizeof(value)));
}

static void test_without_locale(void **state)
{
	child_run(&child, NULL, check_without_locale, NULL);
	assert_true(child_passed(&child));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),      cmocka_unit_test(test_rows),
		cmocka_unit_test(test_string_copied), cmocka_unit_test(test_long),
		cmocka_unit_test(test_comma),	      cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_silence),	      cmocka_unit_test(test_selection),
		cmocka_unit_test(test_bad_site),      cmocka_unit_test(test_threads),
		cmocka_unit_test(test_secure),	      cmocka_unit_test(test_without_locale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
