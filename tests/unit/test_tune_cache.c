/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning cache from its writer's side: what is put in comes out, one line a form, others' lines
 * stay, two writers at a time lose nothing, and a file that is not ours is left as it is.
 */
#include "tests/cmocka.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/child.h"
#include "tools/tune/cache.h"

static const struct tuned_machine h200 = {"NVIDIA H200", 13000, UINT64_C(0x0123456789abcdef)};
static char path[512];

static int fresh(void **state)
{
	static int number;

	snprintf(path, sizeof(path), "%s/%d/deep/tune.txt", child_folder(), number++);
	return 0;
}

static struct tune_result result_for(const char *form, const char *kernel)
{
	struct tune_result result = {.choice = true,
				     .us = 4.5,
				     .built_in_us = 5.0,
				     .spread_us = 0.01,
				     .built_in_spread_us = 0.02,
				     .ratio = 0.9,
				     .low = 0.89,
				     .high = 0.91};

	assert_int_equal(call_form_parse(&result.form, form, strlen(form)), 0);
	snprintf(result.kernel, sizeof(result.kernel), "%s", kernel);
	snprintf(result.built_in, sizeof(result.built_in), "wmma_f16_d64_r64");
	return result;
}

static void put(const char *form, const char *kernel)
{
	const struct tune_result result = result_for(form, kernel);

	assert_int_equal(tune_cache_put(path, &h200, &result), 0);
}

static void write_text(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void test_put_and_read(void **state)
{
	struct tune_result kept = result_for("1,8,512,512,64,causal", "tma_f16_d64_r128");
	struct tune_cache cache;
	char text[FORM_TEXT];

	kept.choice = false;
	kept.low = kept.high = NAN;
	put("1,8,512,512,64", "split_f16_d64_p1");
	assert_int_equal(tune_cache_put(path, &h200, &kept), 0);
	assert_int_equal(tune_cache_read(&cache, path), 0);
	assert_true(tuned_same_machine(&cache.machine, &h200));
	assert_int_equal(cache.count, 2);
	assert_string_equal(call_form_text(&cache.results[0].form, text), "1,8,512,512,64,f16");
	assert_true(cache.results[0].choice);
	assert_string_equal(cache.results[0].kernel, "split_f16_d64_p1");
	assert_string_equal(cache.results[0].built_in, "wmma_f16_d64_r64");
	assert_true(cache.results[0].us == 4.5 && cache.results[0].built_in_us == 5.0);
	assert_true(cache.results[0].spread_us == 0.01 &&
		    cache.results[0].built_in_spread_us == 0.02);
	assert_true(cache.results[0].ratio == 0.9 && cache.results[0].low == 0.89 &&
		    cache.results[0].high == 0.91);
	assert_false(cache.results[1].choice);
	assert_true(isnan(cache.results[1].low) && isnan(cache.results[1].high));
	tune_cache_free(&cache);
}

static void test_the_file_as_documented(void **state)
{
	char *text;

	put("1,8,512,512,64", "split_f16_d64_p1");
	text = child_file(path);
	assert_string_equal(text,
			    "fashim-tune 1\ngpu NVIDIA H200\ndriver 13000\nbuild 0123456789abcdef\n"
			    "choice 1,8,512,512,64,f16 split_f16_d64_p1 built_in=wmma_f16_d64_r64 "
			    "us=4.5 built_in_us=5 spread_us=0.01 built_in_spread_us=0.02 ratio=0.9 "
			    "low=0.89 high=0.91\n");
	free(text);
}

static void test_a_form_has_one_line(void **state)
{
	struct tune_cache cache;

	put("1,8,512,512,64", "split_f16_d64_p1");
	put("1,8,256,256,64", "wmma_f16_d64_r32");
	put("1,8,512,512,64", "split_f16_d64_p2");
	assert_int_equal(tune_cache_read(&cache, path), 0);
	assert_int_equal(cache.count, 2);
	assert_string_equal(cache.results[1].kernel, "split_f16_d64_p2");
	tune_cache_free(&cache);
}

static void test_unknown_lines_stay(void **state)
{
	char *text;

	put("1,8,512,512,64", "split_f16_d64_p1");
	write_text("fashim-tune 1\ngpu NVIDIA H200\ndriver 13000\nbuild 0123456789abcdef\n"
		   "# by hand\nlater 1,2 x=3\nchoice 1,8,512,512,64,f16 wmma_f16_d64_r64 new=1");
	put("1,8,512,512,64", "split_f16_d64_p1");
	text = child_file(path);
	assert_non_null(
		strstr(text, "\n# by hand\nlater 1,2 x=3\nchoice 1,8,512,512,64,f16 split"));
	assert_null(strstr(text, "new=1"));
	free(text);
}

static void test_others_files_are_left_alone(void **state)
{
	static const char *const texts[] = {
		"my diary\n",
		"",
		"fashim-tune 2\ngpu NVIDIA H200\ndriver 13000\nbuild 0123456789abcdef\n",
		"fashim-tune 1\ngpu NVIDIA L4\ndriver 13000\nbuild 0123456789abcdef\n",
		"fashim-tune 1\ngpu NVIDIA H200\ndriver 12080\nbuild 0123456789abcdef\n",
		"fashim-tune 1\ngpu NVIDIA H200\ndriver 13000\nbuild 0123456789abcdee\n",
	};
	const struct tune_result result = result_for("1,8,512,512,64", "split_f16_d64_p1");

	put("1,8,512,512,64", "split_f16_d64_p1");
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char *text;

		write_text(texts[i]);
		assert_int_equal(tune_cache_put(path, &h200, &result), -EEXIST);
		text = child_file(path);
		assert_string_equal(text, texts[i]);
		free(text);
	}
}

static void test_nothing_to_put(void **state)
{
	const struct tune_result result = result_for("1,8,512,512,64", "");

	assert_int_equal(tune_cache_put(path, &h200, &result), -ENODATA);
	assert_int_not_equal(access(path, F_OK), 0);
}

static void test_a_folder_in_the_way(void **state)
{
	const struct tune_result result = result_for("1,8,512,512,64", "split_f16_d64_p1");
	struct tune_cache cache;

	put("1,8,512,512,64", "split_f16_d64_p1");
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(tune_cache_put(path, &h200, &result) < 0);
	assert_true(tune_cache_read(&cache, path) < 0);
	tune_cache_free(&cache);
}

static void test_reading_what_is_none(void **state)
{
	struct tune_cache cache;

	assert_int_equal(tune_cache_read(&cache, "/nonexistent/tune.txt"), -ENOENT);
	tune_cache_free(&cache);
	put("1,8,512,512,64", "split_f16_d64_p1");
	write_text("fashim-tune 9\n");
	assert_int_equal(tune_cache_read(&cache, path), -EPROTO);
	tune_cache_free(&cache);
	write_text("{\"type\":\"header\"}\n");
	assert_int_equal(tune_cache_read(&cache, path), -EINVAL);
	tune_cache_free(&cache);
}

/* Eight writers, ten forms each. */
static void test_writers_at_a_time(void **state)
{
	struct tune_cache cache;
	int status;

	for (int w = 0; w < 8; w++)
		if (fork() == 0) {
			for (int i = 1; i <= 10; i++) {
				struct tune_result result =
					result_for("1,1,1,1,8", "wmma_f16_d64_r32");

				result.form.B = w + 1;
				result.form.Sq = i;
				if (tune_cache_put(path, &h200, &result))
					_exit(1);
			}
			_exit(0);
		}
	for (int w = 0; w < 8; w++) {
		wait(&status);
		assert_int_equal(status, 0);
	}
	assert_int_equal(tune_cache_read(&cache, path), 0);
	assert_int_equal(cache.count, 80);
	tune_cache_free(&cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_put_and_read, fresh),
		cmocka_unit_test_setup(test_the_file_as_documented, fresh),
		cmocka_unit_test_setup(test_a_form_has_one_line, fresh),
		cmocka_unit_test_setup(test_unknown_lines_stay, fresh),
		cmocka_unit_test_setup(test_others_files_are_left_alone, fresh),
		cmocka_unit_test_setup(test_nothing_to_put, fresh),
		cmocka_unit_test_setup(test_a_folder_in_the_way, fresh),
		cmocka_unit_test_setup(test_reading_what_is_none, fresh),
		cmocka_unit_test_setup(test_writers_at_a_time, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
