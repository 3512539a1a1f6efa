/* SPDX-License-Identifier: Apache-2.0
 *
 * A tuning cache under the whole shim, on the simulated GPU: what it names is what is launched, and
 * the log says so; what does not fit is not; and `fashim tune` writes one that the shim reads.
 */
#include "tests/cmocka.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/child.h"
#include "zoo_run.h"

#define FORM  "1,4,256,256,64,f16,bias=qk:f16"
#define OTHER "wmma_f16_d64_r64"

static char log_path[600], cache_path[600], log_setting[700], cache_setting[700], preload[700];
static char build[32]; /* of the kernels, as the shim says it */

/* ---- a run and its log ---------------------------------------------------------------------- */

/* The log's last record of a type; NULL: there is none. */
static json_t *record_of(const char *type)
{
	FILE *file = fopen(log_path, "r");
	json_t *found = NULL;
	char *line = NULL;
	size_t size = 0;

	assert_non_null(file);
	while (getline(&line, &size, file) > 0) {
		json_t *record = json_loads(line, 0, NULL);
		const char *is = json_string_value(json_object_get(record, "type"));

		if (is && !strcmp(is, type)) {
			json_decref(found);
			found = record;
		} else {
			json_decref(record);
		}
	}
	free(line);
	fclose(file);
	return found;
}

static const char *text_in(const json_t *record, const char *key)
{
	const char *text = json_string_value(json_object_get(record, key));

	return text ? text : "";
}

/* Runs a few layers under the shim; `more` is one more setting, or NULL. The site's record. */
static json_t *run_demo(const char *more)
{
	const char *const argv[] = {"apps/sim/demo", "6", NULL};
	const char *const settings[] = {
		preload, log_setting, "FASHIM_MIN_SPEEDUP=0", "FASHIM_BUDGET=0", cache_setting,
		more,	 NULL};
	struct outcome outcome;
	struct verdict verdict;
	json_t *site;

	unlink(log_path);
	zoo_run(&outcome, argv, settings, false);
	assert_int_equal(outcome.status, 0);
	zoo_free(&outcome);
	zoo_read_log(log_path, &verdict);
	assert_int_equal(verdict.violations, 0);
	assert_int_equal(verdict.sites, 1);
	assert_true(verdict.replaced > 0);
	site = record_of("site");
	assert_non_null(site);
	return site;
}

static void write_cache(const char *kernel)
{
	FILE *file = fopen(cache_path, "w");

	assert_non_null(file);
	fprintf(file, "fashim-tune 1\ngpu simgpu (CPU)\ndriver 13000\nbuild %s\nchoice %s %s\n",
		build, FORM, kernel);
	fclose(file);
}

static void expect(json_t *site, const char *kernel, const char *chosen_by)
{
	assert_string_equal(text_in(site, "form"), FORM);
	assert_string_equal(text_in(site, "chosen_by"), chosen_by);
	if (kernel)
		assert_string_equal(text_in(site, "kernel"), kernel);
	else
		assert_string_not_equal(text_in(site, "kernel"), OTHER);
	json_decref(site);
}

/* A cache of another build tells in passing which one this is. */
static int set_up(void **state)
{
	char *log = zoo_scratch("log.jsonl"), *cache = zoo_scratch("tune.txt");
	char *library = zoo_path("sim/libfashim.so");
	static const char here[] = "here is simgpu (CPU), 13000, ";
	const char *said, *at;
	json_t *record;

	snprintf(log_path, sizeof(log_path), "%s", log);
	snprintf(cache_path, sizeof(cache_path), "%s", cache);
	snprintf(log_setting, sizeof(log_setting), "FASHIM_OUT=%s", log);
	snprintf(cache_setting, sizeof(cache_setting), "FASHIM_TUNE_CACHE=%s", cache);
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", library);
	free(log);
	free(cache);
	free(library);
	strcpy(build, "0");
	write_cache(OTHER);
	expect(run_demo(NULL), NULL, "built_in");
	record = record_of("tune");
	said = text_in(record, "ignored");
	at = strstr(said, here);
	assert_non_null(at);
	snprintf(build, sizeof(build), "%s", at + strlen(here));
	json_decref(record);
	return 0;
}

/* ---- what the shim does with it ------------------------------------------------------------- */

static void test_it_decides(void **state)
{
	json_t *record;

	write_cache(OTHER);
	expect(run_demo(NULL), OTHER, "tuned");
	record = record_of("tune");
	assert_string_equal(text_in(record, "cache"), cache_path);
	assert_int_equal(json_integer_value(json_object_get(record, "choices")), 1);
	json_decref(record);
}

static void test_what_does_not_fit_does_not(void **state)
{
	write_cache("wmma_bf16_d256_r32");
	expect(run_demo(NULL), NULL, "built_in");
	write_cache("decode_f16_d64");
	expect(run_demo(NULL), NULL, "built_in");
}

static void test_a_forced_kernel_wins(void **state)
{
	write_cache(OTHER);
	expect(run_demo("FASHIM_KERNEL=wmma_f16_d64_r128"), "wmma_f16_d64_r128", "forced");
}

/* Of our image, what is needed: the helpers, and the part that the kernel is in, once. */
static void test_one_part_is_loaded(void **state)
{
	static const char call[] = "cuModuleLoadData ";
	char *calls = zoo_scratch("calls"), *text, wanted[700];
	int loads = 0;

	snprintf(wanted, sizeof(wanted), "SIMGPU_LOG=%s", calls);
	unlink(calls);
	json_decref(run_demo(wanted));
	text = child_file(calls);
	assert_non_null(text);
	for (const char *at = text; (at = strstr(at, call)); at += strlen(call))
		loads++;
	assert_int_equal(loads, 2);
	free(text);
	free(calls);
}

static void test_off(void **state)
{
	char kept[sizeof(cache_setting)];
	json_t *record;

	write_cache(OTHER);
	memcpy(kept, cache_setting, sizeof(kept));
	strcpy(cache_setting, "FASHIM_TUNE_CACHE=off");
	expect(run_demo(NULL), NULL, "built_in");
	record = record_of("tune");
	assert_null(record);
	memcpy(cache_setting, kept, sizeof(kept));
}

/* ---- what writes it ------------------------------------------------------------------------- */

/* Times of the simulated GPU mean nothing, but all the steps are gone. */
static void test_the_tuner(void **state)
{
	char *kernels = zoo_path("sim/libfashim_kernels.so"), library[700];
	const char *const argv[] = {"fashim",	     "tune",	    "--shape",
				    "1,2,16,24,64",  "--rounds=10", "--top=2",
				    "--format=json", library,	    NULL};
	const char *const settings[] = {"LC_ALL=C.UTF-8", cache_setting, NULL};
	struct outcome outcome;
	json_t *root, *cache, *shape, *candidate;
	int decided = 0, failed = 0;
	size_t i;

	snprintf(library, sizeof(library), "--library=%s", kernels);
	free(kernels);
	unlink(cache_path);
	zoo_run(&outcome, argv, settings, false);
	if (outcome.status)
		print_message("%s", outcome.errors);
	assert_int_equal(outcome.status, 0);
	root = json_loads(outcome.text, 0, NULL);
	assert_string_equal(text_in(root, "format"), "fashim-tune");
	cache = json_array_get(json_object_get(root, "caches"), 0);
	assert_string_equal(text_in(cache, "gpu"), "simgpu (CPU)");
	assert_string_equal(text_in(cache, "cache"), cache_path);
	assert_string_equal(text_in(cache, "build"), build); /* as the shim has it */
	shape = json_array_get(json_object_get(cache, "shapes"), 0);
	assert_string_equal(text_in(shape, "form"), "1,2,16,24,64,f16");
	json_array_foreach(json_object_get(shape, "candidates"), i, candidate)
	{
		decided += !strcmp(text_in(candidate, "fate"), "decided");
		failed += !strcmp(text_in(candidate, "fate"), "failed") ||
			  !strcmp(text_in(candidate, "fate"), "wrong");
	}
	assert_int_equal(decided, 2);
	assert_int_equal(failed, 0);
	assert_int_equal(access(cache_path, R_OK), 0);
	json_decref(root);
	zoo_free(&outcome);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_decides),
		cmocka_unit_test(test_what_does_not_fit_does_not),
		cmocka_unit_test(test_a_forced_kernel_wins),
		cmocka_unit_test(test_one_part_is_loaded),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_the_tuner),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
