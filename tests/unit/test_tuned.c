/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning cache from the shim's side: found where it should be, read once, and of no effect
 * where anything is wrong with it, which the log then tells.
 */
#include "tests/cmocka.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shim/gpu/tuned.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/reader.h"

static const char image[] = "as good as machine code";
static struct tuned_machine here = {"NVIDIA H200", 13000, 0};
static char cache_path[300], cache_setting[400];

#define KERNEL "wmma_f16_d64_r64"
#define CALL   "1,8,512,512,64,f16"

static const char *const with_cache[] = {setting, cache_setting, NULL};

static int fresh_cache(void **state)
{
	static int number;

	here.build = tuned_build(image, sizeof(image));
	fresh(state);
	snprintf(cache_path, sizeof(cache_path), "%s/%d.tune", child_folder(), number++);
	snprintf(cache_setting, sizeof(cache_setting), "FASHIM_TUNE_CACHE=%s", cache_path);
	return 0;
}

static void write_at(const char *where, const char *gpu, int driver, uint64_t build,
		     const char *lines)
{
	FILE *file = fopen(where, "w");

	assert_non_null(file);
	fprintf(file, "fashim-tune 1\ngpu %s\ndriver %d\nbuild %016llx\n%s", gpu, driver,
		(unsigned long long)build, lines);
	fclose(file);
}

static void write_cache(const char *lines)
{
	write_at(cache_path, here.gpu, here.driver, here.build, lines);
}

static struct attn_args call_of(int32_t Sq)
{
	const struct attn_tensor t = {
		.base = 4096, .stride = {8 * 512 * 64, 512 * 64, 64, 1}, .dtype = ATTN_F16};

	return (struct attn_args){
		.q = t,
		.k = t,
		.v = t,
		.o = t,
		.B = 1,
		.H = 8,
		.Sq = Sq,
		.Sk = 512,
		.D = 64,
		.Dv = 64,
		.spec = {.window_left = ATTN_NO_WINDOW, .window_right = ATTN_NO_WINDOW}};
}

/* What the cache says of the call of CALL. */
static const char *kernel_here(void)
{
	const struct attn_args args = call_of(512);

	return tuned_kernel(tuned_open(here.gpu, here.driver, image, sizeof(image)), &args);
}

static void expect_kernel(void *argument)
{
	(void)argument;
	CHECK(kernel_here() && !strcmp(kernel_here(), KERNEL));
}

static void expect_none(void *argument)
{
	(void)argument;
	CHECK(!kernel_here());
}

static void run_with(const char *const *settings, void (*body)(void *))
{
	child_run(&child, settings, body, NULL);
	assert_true(child_passed(&child));
}

/* The log's record of the cache, or NULL. */
static const struct reader_value *record(void)
{
	char *text = exists(path) ? log_text() : NULL;
	const struct reader_value *found = NULL, *line;

	for (int i = 0; text && (line = reader_line(text, i)); i++) {
		const char *type = reader_string(line, "type");

		if (type && !strcmp(type, "tune"))
			found = line;
	}
	free(text);
	return found;
}

/* ---- a good one ----------------------------------------------------------------------------- */

static void test_a_choice_counts(void **state)
{
	write_cache("choice " CALL " " KERNEL " built_in=x us=1\n");
	run_with(with_cache, expect_kernel);
	assert_string_equal(reader_string(record(), "cache"), cache_path);
	assert_true(reader_number(record(), "choices") == 1);
	assert_string_equal(child.errors, "");
}

static void test_other_lines_do_not_matter(void **state)
{
	write_cache("# a word\n\nlater is=better\nkept " CALL " other_kernel\n"
		    "choice " CALL "\nchoice 1,2,x y\nchoice 1,1,1,1,8 no_such_kernel\n"
		    "choice 1,1,1,1,8 ladder/01_minimal\n"
		    "   choice  " CALL "   " KERNEL);
	run_with(with_cache, expect_kernel);
	assert_true(reader_number(record(), "choices") == 1);
}

static void test_the_last_line_counts(void **state)
{
	write_cache("choice " CALL " wmma_f16_d64_r32\nchoice " CALL " " KERNEL "\n");
	run_with(with_cache, expect_kernel);
	write_cache("choice " CALL " " KERNEL "\nkept " CALL " " KERNEL "\n");
	run_with(with_cache, expect_none);
}

static void expect_only_its_form(void *argument)
{
	struct attn_args args = call_of(511);
	const struct tuned *tuned = tuned_open(here.gpu, here.driver, image, sizeof(image));

	(void)argument;
	CHECK(!tuned_kernel(tuned, &args));
	args = call_of(512);
	args.spec.window_right = 0;
	CHECK(!tuned_kernel(tuned, &args));
	args.spec.window_right = ATTN_NO_WINDOW;
	CHECK(tuned_kernel(tuned, &args));
	CHECK(!tuned_kernel(NULL, &args));
}

static void test_other_forms_are_not_meant(void **state)
{
	write_cache("choice " CALL " " KERNEL "\n");
	run_with(with_cache, expect_only_its_form);
}

static void read_once(void *argument)
{
	(void)argument;
	CHECK(kernel_here());
	CHECK(unlink(cache_path) == 0);
	CHECK(kernel_here());
	/* Another model has a cache of its own, which this is not. */
	CHECK(!tuned_kernel(tuned_open("NVIDIA L4", 13000, image, sizeof(image)),
			    &(struct attn_args){0}));
	CHECK(kernel_here());
	CHECK(errno == 0);
}

static void test_it_is_read_once(void **state)
{
	write_cache("choice " CALL " " KERNEL "\n");
	errno = 0;
	run_with(with_cache, read_once);
}

/* ---- where it is ---------------------------------------------------------------------------- */

static void test_the_usual_place(void **state)
{
	char folder[400], file[1200], name[256], xdg[420], home[420];
	const char *const by_xdg[] = {setting, NULL};

	assert_int_equal(tuned_name(&here, name, sizeof(name)), 0);
	snprintf(folder, sizeof(folder), "%s.home", cache_path);
	assert_int_equal(mkdir(folder, 0700), 0);
	snprintf(xdg, sizeof(xdg), "%s/x", folder);
	snprintf(home, sizeof(home), "%s/h", folder);
	assert_int_equal(setenv("XDG_CACHE_HOME", xdg, 1), 0);
	assert_int_equal(setenv("HOME", home, 1), 0);
	run_with(by_xdg, expect_none); /* nobody ever tuned: not a word */
	assert_null(record());

	snprintf(file, sizeof(file), "mkdir -p %s/fashim %s/.cache/fashim", xdg, home);
	assert_int_equal(system(file), 0);
	run_with(by_xdg, expect_none);
	assert_null(record());
	snprintf(file, sizeof(file), "%s/fashim/%s", xdg, name);
	write_at(file, here.gpu, here.driver, here.build, "choice " CALL " " KERNEL "\n");
	run_with(by_xdg, expect_kernel);
	assert_string_equal(reader_string(record(), "cache"), file);

	assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
	run_with(by_xdg, expect_none);
	snprintf(file, sizeof(file), "%s/.cache/fashim/%s", home, name);
	write_at(file, here.gpu, here.driver, here.build, "choice " CALL " " KERNEL "\n");
	run_with(by_xdg, expect_kernel);
	assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0); /* as if it were not set */
	run_with(by_xdg, expect_kernel);
	assert_int_equal(setenv("HOME", "", 1), 0);
	run_with(by_xdg, expect_none);
}

static void test_names(void **state)
{
	struct tuned_machine machine = {"NVIDIA H200 (a/b)", 13000, 255};
	char name[128];

	assert_int_equal(tuned_name(&machine, name, sizeof(name)), 0);
	assert_string_equal(name, "tune-NVIDIA_H200__a_b_-13000-00000000000000ff.txt");
	assert_int_equal(tuned_name(&machine, name, 20), -ENAMETOOLONG);
}

static void expect_off(void *argument)
{
	(void)argument;
	CHECK(!tuned_open(here.gpu, here.driver, image, sizeof(image)));
}

static void test_off(void **state)
{
	const char *const off[] = {setting, "FASHIM_TUNE_CACHE=off", NULL};

	run_with(off, expect_off);
	assert_null(record());
}

/* ---- bad ones ------------------------------------------------------------------------------- */

static void expect_ignored(const char *why)
{
	const char *said;

	run_with(with_cache, expect_none);
	said = reader_string(record(), "ignored");
	assert_non_null(said);
	if (!strstr(said, why))
		fail_msg("said '%s', not '%s'", said, why);
	assert_string_equal(child.errors, ""); /* nothing on stderr, by default */
	unlink(path);
}

static void test_of_another_machine(void **state)
{
	const char *choice = "choice " CALL " " KERNEL "\n";

	write_at(cache_path, "NVIDIA H100", here.driver, here.build, choice);
	expect_ignored("made for NVIDIA H100, driver 13000");
	write_at(cache_path, here.gpu, 12080, here.build, choice);
	expect_ignored("driver 12080");
	write_at(cache_path, here.gpu, here.driver, here.build ^ 1, choice);
	expect_ignored("here is NVIDIA H200, 13000, ");
}

static void write_raw(const char *text, size_t size)
{
	FILE *file = fopen(cache_path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, size, file), size);
	fclose(file);
}

static void test_what_is_no_cache(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"fashim-tune",
		"fashim-tune \n",
		"fashim-tune one\n",
		"fashim-tune 1",
		"fashim-tune 1\ngpu NVIDIA H200\n",
		"fashim-tune 1\ndriver 13000\ngpu NVIDIA H200\nbuild 0\n",
		"fashim-tune 1\ngpu NVIDIA H200\ndriver x\nbuild 0\n",
		"fashim-tune 1\ngpu NVIDIA H200\ndriver -3\nbuild 0\n",
		"fashim-tune 1\ngpu NVIDIA H200\ndriver 99999999999\nbuild 0\n",
		"fashim-tune 1\ngpu NVIDIA H200\ndriver 13000\nbuild xyz\n",
		"{\"type\":\"header\"}\n",
		"\177ELF\001\377\n",
	};
	char *large = malloc(TUNED_LARGEST + 1);

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		write_raw(texts[i], strlen(texts[i]));
		expect_ignored("no tuning cache");
	}
	write_raw("fashim-tune 2\n", 14);
	expect_ignored("another version");
	memset(large, 'x', TUNED_LARGEST + 1);
	write_raw(large, TUNED_LARGEST + 1);
	expect_ignored("too large");
	free(large);
}

/* Nothing is read beyond a zero byte, nor believed because of one. */
static void test_zero_bytes(void **state)
{
	static const char behind[] = "\0choice " CALL " " KERNEL "\n";
	char text[512];
	const int length =
		snprintf(text, sizeof(text), "fashim-tune 1\ngpu %s\ndriver %d\nbuild %016llx\n",
			 here.gpu, here.driver, (unsigned long long)here.build);

	memcpy(text + length, behind, sizeof(behind));
	write_raw(text, (size_t)length + sizeof(behind));
	run_with(with_cache, expect_none);
	assert_true(reader_number(record(), "choices") == 0);
}

static void test_what_cannot_be_read(void **state)
{
	expect_ignored("No such file");
	assert_int_equal(mkdir(cache_path, 0700), 0);
	expect_ignored("not a regular file");
	assert_int_equal(rmdir(cache_path), 0);
	assert_int_equal(mkfifo(cache_path, 0600), 0); /* nobody will ever write to it */
	expect_ignored("not a regular file");
}

static void test_a_warning_where_asked_for(void **state)
{
	const char *const settings[] = {setting, cache_setting, "FASHIM_LOG=warn", NULL};

	run_with(settings, expect_none);
	assert_non_null(strstr(child.errors, "is ignored: No such file"));
	assert_null(strchr(strchr(child.errors, '\n') + 1, '\n'));
}

static void test_the_build(void **state)
{
	char other[sizeof(image)];

	memcpy(other, image, sizeof(image));
	assert_true(tuned_build(other, sizeof(other)) == here.build);
	for (size_t i = 0; i < sizeof(other); i++) {
		other[i] ^= 1;
		assert_true(tuned_build(other, sizeof(other)) != here.build);
		other[i] ^= 1;
		assert_true(tuned_build(other, i) != here.build);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_choice_counts, fresh_cache),
		cmocka_unit_test_setup(test_other_lines_do_not_matter, fresh_cache),
		cmocka_unit_test_setup(test_the_last_line_counts, fresh_cache),
		cmocka_unit_test_setup(test_other_forms_are_not_meant, fresh_cache),
		cmocka_unit_test_setup(test_it_is_read_once, fresh_cache),
		cmocka_unit_test_setup(test_the_usual_place, fresh_cache),
		cmocka_unit_test_setup(test_names, fresh_cache),
		cmocka_unit_test_setup(test_off, fresh_cache),
		cmocka_unit_test_setup(test_of_another_machine, fresh_cache),
		cmocka_unit_test_setup(test_what_is_no_cache, fresh_cache),
		cmocka_unit_test_setup(test_zero_bytes, fresh_cache),
		cmocka_unit_test_setup(test_what_cannot_be_read, fresh_cache),
		cmocka_unit_test_setup(test_a_warning_where_asked_for, fresh_cache),
		cmocka_unit_test_setup(test_the_build, fresh_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
