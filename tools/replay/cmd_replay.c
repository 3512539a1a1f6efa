/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim replay: a recorded program's calls once more, without the program and without a GPU, and
 * what the recogniser made of each attention chain, step by step. Stories that differ only in their
 * op numbers are told once and counted.
 */
#include "tools/commands.h"
#include "tools/base/escaped.h"
#include "tools/base/format.h"
#include "tools/base/help_option.h"
#include "tools/base/progress.h"
#include "tools/base/json_text.h"
#include "tools/base/tool.h"
#include "tools/read/kernel_name.h"
#include "tools/replay/explain.h"

#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define TOLD 256 /* different stories that are recognised again */

struct replay_arguments {
	bool json, all;
	int rounds;
	const char *mode, *path;
	json_t *stories; /* JSON only */
	struct told {
		uint64_t key;
		unsigned long count;
		uint64_t chain;
	} told[TOLD];
	int told_count;
};

#define OTHER_FORMATS " or json"

static const struct argp_option replay_options[] = {
	{"all", 'a', NULL, 0, "tell every chain, also those like one before", 0},
	{"rounds", 'r', "N", 0, "play the trace N times; short ones are only learned otherwise", 0},
	{"mode", 'm', "MODE", 0, "audit, compare or replace (default)", 0},
	FORMAT_OPTION(OTHER_FORMATS, 0),
	QUIET_OPTION(0),
	{0},
};

static const char replay_doc[] =
	"Runs the recogniser over a trace that a program left with FASHIM_RECORD, and says at each "
	"call what it decided and why. Needs no GPU; comparisons count as passed.\v"
	"S is what Q times K gave, v1, v2 … what the steps made of it. TRACE may end in .gz.\n\n"
	"JSON: {\"format\":\"fashim-replay\",\"version\":1,\"ops\",\"gemms\",\"launches\","
	"\"stories\":[{\"chain\",\"count\",\"lines\":[{\"op\",\"call\",\"text\"}]}],\"sites\":[…],"
	"\"reasons\":{…}}.\n\n"
	"Exit status: 0; 1 when the trace cannot be read; 2 for wrong usage.\n\nExamples:\n"
	"  fashim run -e FASHIM_RECORD=run.trace python3 model.py\n"
	"  fashim replay -r 3 run.trace";

static error_t replay_parse(int key, char *arg, struct argp_state *state)
{
	struct replay_arguments *arguments = state->input;
	char *end;

	switch (key) {
	case 'q':
		progress_quiet();
		return 0;
	case 'a':
		arguments->all = true;
		return 0;
	case 'r':
		arguments->rounds = (int)strtol(arg, &end, 10);
		if (*end || arguments->rounds < 1 || arguments->rounds > 1000)
			argp_error(state, "-r takes a number from 1 to 1000, not '%s'", arg);
		return 0;
	case 'm':
		if (strcmp(arg, "audit") && strcmp(arg, "compare") && strcmp(arg, "replace"))
			argp_error(state, "no mode '%s'; audit, compare or replace", arg);
		arguments->mode = arg;
		return 0;
	case 'f':
		arguments->json = format_argument(state, arg, OTHER_FORMATS) == FORMAT_JSON;
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->path)
			argp_error(state, "unexpected argument '%s'", arg);
		arguments->path = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no trace named");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211u;
	return hash * 31;
}

/* The same for stories that differ in numbers of ops and chains alone. */
static uint64_t key_of(const struct replay_story *story)
{
	uint64_t key = 14695981039346656037u;

	for (int i = 0; i < story->line_count; i++)
		key = hash_text(hash_text(key, story->lines[i].call), story->lines[i].text);
	return key;
}

/* The story's place among those told; a new one has count 0. NULL: no room. */
static struct told *find_told(struct replay_arguments *arguments, const struct replay_story *story)
{
	const uint64_t key = key_of(story);

	for (int i = 0; i < arguments->told_count; i++)
		if (arguments->told[i].key == key)
			return &arguments->told[i];
	if (arguments->told_count == TOLD)
		return NULL;
	arguments->told[arguments->told_count] = (struct told){.key = key, .chain = story->chain};
	return &arguments->told[arguments->told_count++];
}

static void print_story(const struct replay_story *story)
{
	if (story->chain)
		printf("chain %llu\n", (unsigned long long)story->chain);
	else
		puts("no chain");
	for (int i = 0; i < story->line_count; i++) {
		const struct replay_line *line = &story->lines[i];
		char call[160];

		if (!i || line->op != line[-1].op)
			safe_printf(stdout, "%8ld  %s\n", line->op,
				    kernel_name(line->call, call, sizeof(call)));
		safe_printf(stdout, "            %s\n", line->text);
	}
}

static json_t *json_story(const struct replay_story *story)
{
	json_t *lines = json_array();

	for (int i = 0; i < story->line_count; i++)
		json_array_append_new(lines, json_pack("{s:I,s:o,s:o}", "op",
						       (json_int_t)story->lines[i].op, "call",
						       json_text(story->lines[i].call), "text",
						       json_text(story->lines[i].text)));
	return json_pack("{s:I,s:i,s:o}", "chain", (json_int_t)story->chain, "count", 1, "lines",
			 lines);
}

static void hear(const struct replay_story *story, void *argument)
{
	struct replay_arguments *arguments = argument;
	struct told *told = find_told(arguments, story);

	if (told)
		told->count++;
	if (told && told->count > 1 && !arguments->all)
		return;
	if (arguments->json)
		json_array_append_new(arguments->stories, json_story(story));
	else
		print_story(story);
}

static void print_sites(const struct replay_arguments *arguments,
			const struct replay_result *result)
{
	for (int i = 0; !arguments->all && i < arguments->told_count; i++)
		if (arguments->told[i].count > 1 && arguments->told[i].chain)
			printf("%lu more like chain %llu\n", arguments->told[i].count - 1,
			       (unsigned long long)arguments->told[i].chain);
		else if (arguments->told[i].count > 1)
			printf("%lu more without a chain\n", arguments->told[i].count - 1);
	printf("\n%ld ops, %llu GEMMs, %llu launches, %d attention site%s\n", result->ops,
	       (unsigned long long)result->gemms, (unsigned long long)result->launches,
	       result->site_count, result->site_count == 1 ? "" : "s");
	for (int i = 0; i < result->site_count; i++) {
		const struct replay_site *site = &result->sites[i];

		printf("site %d [%lld,%lld,%lld,%lld,%lld] %s", site->number, (long long)site->B,
		       (long long)site->H, (long long)site->Sq, (long long)site->Sk,
		       (long long)site->D, site->state);
		if (strcmp(site->reason, "none"))
			printf(": %s%s%s%s", site->reason, *site->detail ? " (" : "", site->detail,
			       *site->detail ? ")" : "");
		printf("; %llu chains, %llu replaced, %llu compared",
		       (unsigned long long)site->seen, (unsigned long long)site->replaced,
		       (unsigned long long)site->compared);
		if (site->materialised || site->snapshots)
			printf(", %llu made real after all, %llu inputs copied",
			       (unsigned long long)site->materialised,
			       (unsigned long long)site->snapshots);
		putchar('\n');
	}
	for (int i = 0; i < result->reason_count; i++)
		printf("%s: %llu without a site: %s\n", result->reasons[i].name,
		       (unsigned long long)result->reasons[i].count, result->reasons[i].sentence);
}

static json_t *json_site(const struct replay_site *site)
{
	json_t *record = site->record ? json_loads(site->record, 0, NULL) : NULL;

	if (!record)
		record = json_pack("{s:i}", "site", site->number);
	/* Where this command stands is not where the program stood. */
	json_object_del(record, "type");
	json_object_del(record, "stack");
	json_object_del(record, "python");
	json_object_update_new(
		record, json_pack("{s:s,s:s,s:o,s:I,s:I,s:I,s:I,s:I}", "state", site->state,
				  "reason", site->reason, "detail", json_text(site->detail), "seen",
				  (json_int_t)site->seen, "replaced", (json_int_t)site->replaced,
				  "compared", (json_int_t)site->compared, "materialised",
				  (json_int_t)site->materialised, "snapshots",
				  (json_int_t)site->snapshots));
	return record;
}

static void print_json(const struct replay_arguments *arguments, const struct replay_result *result)
{
	json_t *sites = json_array(), *reasons = json_object(), *root;

	for (int i = 0; !arguments->all && i < arguments->told_count; i++)
		json_object_set_new(json_array_get(arguments->stories, (size_t)i), "count",
				    json_integer((json_int_t)arguments->told[i].count));
	for (int i = 0; i < result->site_count; i++)
		json_array_append_new(sites, json_site(&result->sites[i]));
	for (int i = 0; i < result->reason_count; i++)
		json_object_set_new(reasons, result->reasons[i].name,
				    json_integer((json_int_t)result->reasons[i].count));
	root = json_pack("{s:s,s:i,s:I,s:I,s:I,s:o,s:o,s:o}", "format", "fashim-replay", "version",
			 1, "ops", (json_int_t)result->ops, "gemms", (json_int_t)result->gemms,
			 "launches", (json_int_t)result->launches, "stories", arguments->stories,
			 "sites", sites, "reasons", reasons);
	json_document(root, 0);
}

int cmd_replay(int argc, char **argv)
{
	const struct argp parser = {replay_options, replay_parse, "TRACE", replay_doc,
				    help_option,    NULL,	  NULL};
	static struct replay_arguments arguments = {.rounds = 1, .mode = "replace"};
	struct replay_result *result = calloc(1, sizeof(*result));
	int code;

	if (!result || argp_parse(&parser, argc, argv, 0, NULL, &arguments))
		return EXIT_USAGE;
	arguments.stories = json_array();
	code = replay_explain(arguments.path, arguments.rounds, arguments.mode, hear, &arguments,
			      result)
		       ? EXIT_FAILED
		       : EXIT_OK;
	if (code == EXIT_OK && arguments.json)
		print_json(&arguments, result);
	else if (code == EXIT_OK)
		print_sites(&arguments, result);
	for (int i = 0; i < REPLAY_SITES; i++)
		free(result->sites[i].record);
	free(result);
	return code == EXIT_OK && finish_output("explanation") ? EXIT_FAILED : code;
}
