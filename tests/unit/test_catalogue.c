/* SPDX-License-Identifier: Apache-2.0
 *
 * The catalogue of what real programs do, recognised without a GPU: the recorded trace of each case
 * is played to the core, in a process of its own, and what the core makes of it is held against the
 * case's row in tests/traces/traces.def. Kernels do not run here and comparisons always agree, so
 * that a row says which sites there are, what they compute and what is refused; what a GPU says
 * beyond that is in tests/gpu/reference/catalogue.json, and the two may not contradict each other.
 */
#include <stdbool.h>
#include "tests/cmocka.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "shim/site/site.h"
#include "tests/unit/child.h"
#include "tests/unit/meaning.h"
#include "tests/unit/reader.h"
#include "tests/unit/replay.h"
#include "tools/replay/below.h"

#define TEXT	  256
#define MAX_SITES 16

enum kind { KIND_RULE, KIND_DATA, KIND_DECLINED, KIND_PASSED };

struct row {
	enum kind kind;
	const char *number, *name;
	unsigned seen, replaced, late, sites, declined;
	const char *reasons, *shape, *words;
};

static const struct row rows[] = {
#define BY_RULE(number, name, seen, replaced, late, shape, words)                                  \
	{KIND_RULE, #number, #name, seen, replaced, late, 0, 0, "", shape, words},
#define BY_DATA(number, name, seen, shape, words)                                                  \
	{KIND_DATA, #number, #name, seen, 0, 0, 1, 0, "", shape, words},
#define DECLINED(number, name, seen, sites, reasons, shape)                                        \
	{KIND_DECLINED, #number, #name, seen, 0, 0, sites, sites, reasons, shape, NULL},
#define PASSED_BY(number, name, reasons)                                                           \
	{KIND_PASSED, #number, #name, 0, 0, 0, 0, 0, reasons, NULL, NULL},
#include "tests/traces/traces.def"
};

static const struct {
	const char *name, *text;
} layouts[] = {
#define LAYOUT(name, text) {#name, text},
#include "tests/traces/traces.def"
};

static const struct {
	const char *name, *what, *sentence;
	unsigned number;
} odd[] = {
#define ODD(name, what, number, sentence) {#name, #what, sentence, number},
#include "tests/traces/traces.def"
};

static const struct {
	const char *name, *outcome, *sentence;
} on_gpu[] = {
#define ON_GPU(name, outcome, sentence) {#name, outcome, sentence},
#include "tests/traces/traces.def"
};

static const struct {
	const char *number, *name, *sentence;
} absent[] = {
#define NOT_RECORDED(number, name, sentence) {#number, #name, sentence},
#include "tests/traces/traces.def"
};

static const char *const programs[] = {
#define PROGRAM(name, ...) #name,
#include "tests/traces/traces.def"
};

#define COUNT(table) ((int)(sizeof(table) / sizeof(*(table))))

/* ---- one case
 * ------------------------------------------------------------------------------------ */

/* What was said of each site when it was first compared. */
static struct {
	char words[TEXT], layout[TEXT];
} told[MAX_SITES + 1];

static int verdicts;
static uint64_t fused;
static const char *surprise; /* a fused launch computed something else; static storage */

static void watch(void)
{
	static char words[TEXT];
	bool known = false;

	if (below.verdicts != verdicts && below.site <= MAX_SITES) {
		verdicts = below.verdicts;
		meaning_words(&below.args, &below.args.spec, words, sizeof(words));
		if (!told[below.site].words[0]) {
			memcpy(told[below.site].words, words, sizeof(words));
			meaning_layout(&below.args, told[below.site].layout, TEXT);
		}
	}
	if (below.count[ACT_FUSED] == fused || surprise)
		return;
	fused = below.count[ACT_FUSED];
	meaning_words(&below.args, &below.args.spec, words, sizeof(words));
	for (int i = 1; i <= MAX_SITES; i++)
		known = known || !strcmp(words, told[i].words);
	if (!known)
		surprise = words;
}

static const char *shape_of(const struct site *site)
{
	static char text[TEXT];

	snprintf(text, sizeof(text), "%lld,%lld,%lld,%lld,%lld %s", (long long)site->B,
		 (long long)site->H, (long long)site->Sq, (long long)site->Sk, (long long)site->D,
		 meaning_dtype(site->dtype));
	return text;
}

/* A count of the row, or what is known to come out in its place. */
static unsigned stated(const struct row *row, const char *what, unsigned number)
{
	for (int i = 0; i < COUNT(odd); i++)
		if (!strcmp(odd[i].name, row->name) && !strcmp(odd[i].what, what))
			number = odd[i].number;
	return number;
}

static unsigned sites_in(const char *words)
{
	unsigned count = 1;

	while ((words = strchr(words, ';'))) {
		words++;
		count++;
	}
	return count;
}

/* The sites' words, behind one another. */
static const char *all_words(void)
{
	static char text[MAX_SITES * TEXT];
	size_t used = 0;

	for (int i = 1; i <= site_count && i <= MAX_SITES; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
					 i > 1 ? "; " : "", told[i].words);
	return text;
}

static bool among_candidates(const char *wanted)
{
	char words[TEXT];

	for (int i = 0; i < below.guesses; i++) {
		meaning_words(&below.args, &below.guess[i], words, sizeof(words));
		if (!strcmp(words, wanted))
			return true;
	}
	return false;
}

static void check_by_rule(const struct row *row, const struct replay *got)
{
	CHECK(got->sites == sites_in(row->words));
	CHECK(got->declined == stated(row, "declined", 0));
	CHECK(got->verified == got->sites - got->declined);
	CHECK(got->replaced == row->replaced);
	CHECK(got->materialised == row->late);
	CHECK(!strcmp(all_words(), row->words));
	CHECK(!surprise);
}

static void check_by_data(const struct row *row, const struct replay *got)
{
	CHECK(got->sites == 1);
	/* Without its kernels running, what a pointer is for may stay open; and a kernel without a
	 * rule that is pointed into P's allocation each time counts as a reader. */
	CHECK(!got->declined || !strcmp(got->reasons, " unaccounted_pointer") ||
	      (!strcmp(got->reasons, " scores_read_by") && got->materialised >= 8));
	CHECK(!row->words || among_candidates(row->words));
}

static void check_declined(const struct row *row, const struct replay *got)
{
	CHECK(got->sites == row->sites && got->declined == row->sites);
	CHECK(got->replaced == got->materialised); /* for nothing: it was made after all */
	CHECK(got->reasons[0] && !strcmp(got->reasons + 1, row->reasons));
}

static void check_passed_by(const struct row *row, const struct replay *got)
{
	CHECK(got->sites == 0 && got->fused == 0);
	CHECK(got->reasons[0] && !strcmp(got->reasons + 1, row->reasons));
}

static void replay_case(void *argument)
{
	static void (*const check[])(const struct row *, const struct replay *) = {
		check_by_rule, check_by_data, check_declined, check_passed_by};
	const struct row *row = argument;
	struct replay got;

	CHECK(replay_watched(trace_path(row->name), 1, &got, watch) == 0);
	fprintf(stderr, "%s %s: seen %llu, replaced %llu, late %llu, declined %llu of %llu,%s\n",
		row->number, row->name, (unsigned long long)got.seen,
		(unsigned long long)got.replaced, (unsigned long long)got.materialised,
		(unsigned long long)got.declined, (unsigned long long)got.sites, got.reasons);
	for (int i = 0; i < site_count && i < MAX_SITES; i++)
		fprintf(stderr, "\"%s\", \"%s\", \"%s\"\n", shape_of(&sites[i]), told[i + 1].words,
			told[i + 1].layout);
	CHECK(got.seen == row->seen);
	CHECK(got.fused == got.replaced);
	for (int i = 0; i < site_count; i++) {
		CHECK(!strcmp(shape_of(&sites[i]), row->shape));
		CHECK(sites[i].Dv == sites[i].D);
		CHECK(row->kind == KIND_DECLINED || sites[i].by_data == (row->kind == KIND_DATA));
	}
	check[row->kind](row, &got);
	for (int i = 0; i < COUNT(layouts); i++)
		CHECK(strcmp(layouts[i].name, row->name) ||
		      !strcmp(layouts[i].text, told[1].layout));
	exit(0); /* with the exit handlers: a sanitizer looks for leaks there */
}

static void test_case(void **state)
{
	const char *const environment[] = {"FASHIM_OUT=none", NULL};
	static struct child child;

	child_run(&child, environment, replay_case, *state);
	assert_true(child_passed(&child));
}

/* ---- the lists
 * ----------------------------------------------------------------------------------- */

static const struct row *row_named(const char *name)
{
	for (int i = 0; i < COUNT(rows); i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

static bool recorded_program(const char *name)
{
	for (int i = 0; i < COUNT(programs); i++)
		if (!strcmp(programs[i], name))
			return true;
	return false;
}

static bool is_absent(const char *name)
{
	for (int i = 0; i < COUNT(absent); i++)
		if (!strcmp(absent[i].name, name))
			return true;
	return false;
}

/* Every trace has a row, every row a trace. */
static void test_every_trace(void **state)
{
	const int expected = COUNT(rows) + COUNT(programs);
	glob_t found;

	assert_int_equal(glob(TRACES "/*.trace.gz", 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *path = found.gl_pathv[i] + strlen(TRACES "/");
		char name[TEXT];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(path, "."), path);
		if (!row_named(name) && !recorded_program(name))
			fail_msg("tests/traces/%s has no row", path);
	}
	assert_int_equal(found.gl_pathc, expected);
	globfree(&found);
	for (int i = 0; i < COUNT(layouts); i++)
		assert_non_null(row_named(layouts[i].name));
	for (int i = 0; i < COUNT(odd); i++)
		assert_non_null(row_named(odd[i].name));
	for (int i = 0; i < COUNT(on_gpu); i++)
		assert_non_null(row_named(on_gpu[i].name));
}

static bool has_word(const char *words, const char *word)
{
	const size_t length = strlen(word);
	const char *at = strstr(words, word);

	while (at && !((at == words || at[-1] == ' ') && (!at[length] || at[length] == ' ')))
		at = strstr(at + 1, word);
	return at != NULL;
}

static const char *outcome_by_rule(const char *name)
{
	for (int i = 0; i < COUNT(on_gpu); i++)
		if (!strcmp(on_gpu[i].name, name))
			return on_gpu[i].outcome;
	return "replaced";
}

/* A row against what became of the case on a GPU. */
static void agree(const struct row *row, const struct reader_value *json, int n)
{
	char path[64];
	const char *number, *outcome, *route, *reason;

#define FIELD(field) (snprintf(path, sizeof(path), "cases/%d/" field, n), reader_string(json, path))
	number = FIELD("number");
	outcome = FIELD("outcome");
	route = FIELD("routes/0");
	reason = FIELD("reasons/0");
#undef FIELD
	assert_string_equal(number, row->number);
	if (row->kind == KIND_RULE)
		assert_string_equal(outcome, outcome_by_rule(row->name));
	if (row->kind == KIND_DECLINED)
		assert_memory_equal(outcome, "declined", 8);
	if (row->kind == KIND_DECLINED && !has_word(row->reasons, reason))
		fail_msg("%s: %s here, %s on a GPU", row->name, row->reasons, reason);
	if (route && (row->kind == KIND_RULE || row->kind == KIND_DATA))
		assert_int_equal(!strcmp(route, "rule"), row->kind == KIND_RULE);
	/* Candidates are named where data alone decided. */
	if (row->kind == KIND_DATA && row->words)
		assert_string_equal(route, "data");
}

static const struct reader_value *read_reference(void)
{
	char *text = child_file(REFERENCE);
	const struct reader_value *json;

	assert_non_null(text);
	json = reader_parse(text, strlen(text));
	assert_non_null(json);
	free(text);
	return json;
}

/* Every case of the catalogue is played here, or said not to be; and nothing else is. */
static void test_every_case(void **state)
{
	const struct reader_value *json = read_reference();
	const long cases = reader_count(json, "cases");
	int played = 0, excused = 0;

	for (int n = 0; n < cases; n++) {
		char path[64];
		const char *name;

		snprintf(path, sizeof(path), "cases/%d/name", n);
		name = reader_string(json, path);
		if (row_named(name)) {
			agree(row_named(name), json, n);
			played++;
		} else if (is_absent(name)) {
			assert_false(recorded_program(name));
			excused++;
		} else if (!recorded_program(name)) {
			fail_msg("%s is not played, and nothing says why", name);
		}
	}
	assert_int_equal(played, COUNT(rows));
	assert_int_equal(excused, COUNT(absent));
}

/* The numbers themselves: P01 to P36, N01 to N08, I01 to I30. */
static void test_every_number(void **state)
{
	static const struct {
		char letter;
		int last;
	} parts[] = {{'P', 36}, {'N', 8}, {'I', 30}, {'U', 8}};

	for (int p = 0; p < COUNT(parts); p++)
		for (int n = 1; n <= parts[p].last; n++) {
			char number[16];
			bool found = false;

			snprintf(number, sizeof(number), "%c%02d", parts[p].letter, n);
			for (int i = 0; i < COUNT(rows); i++)
				found = found || !strcmp(rows[i].number, number);
			if (!found)
				fail_msg("%s has no trace", number);
		}
}

int main(void)
{
	static struct CMUnitTest tests[COUNT(rows) + 3];
	int count = COUNT(rows);

	for (int i = 0; i < count; i++)
		tests[i] = (struct CMUnitTest){.name = rows[i].name,
					       .test_func = test_case,
					       .initial_state = (void *)(uintptr_t)&rows[i]};
	tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_every_trace);
	tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_every_case);
	tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_every_number);
	return cmocka_run_group_tests_name("catalogue", tests, NULL, NULL);
}
