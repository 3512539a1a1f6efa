/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim list: the tables that are compiled in. fashim reasons: the one that people ask for most.
 */
#include "tools/commands.h"
#include "tools/base/format.h"
#include "tools/base/help_option.h"
#include "tools/base/tool.h"
#include "tools/list/check_rules.h"
#include "tools/list/listing.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

struct list_arguments {
	enum format format;
	const struct listing *listing; /* NULL: say which there are */
	const char *check;	       /* a file of rules to look at instead; NULL: none */
};

enum { KEY_CHECK = 256 };

#define OTHER_FORMATS ", json, csv, markdown or tsv"

static const struct argp_option list_options[] = {
	FORMAT_OPTION(OTHER_FORMATS, 0),
	{"check", KEY_CHECK, "FILE", 0,
	 "look at a file of FASHIM_RULES instead, and say what is wrong with it, line by line", 0},
	{0},
};

static const struct argp_option reasons_options[] = {
	FORMAT_OPTION(OTHER_FORMATS, 0),
	{0},
};

static const char list_doc[] =
	"Prints a table that fashim is compiled from: kernels, rules, reasons or options; without "
	"a name, which tables there are.\v"
	"JSON: {\"format\":\"fashim-TABLE\",\"version\":1,\"TABLE\":[{…}]} with the table's "
	"columns as members. tsv is csv without heads, quotes and commas, for cut and awk.\n\nExit "
	"status: 0; 1 where "
	"--check finds a mistake, or the shim would not read the file; 2 for wrong "
	"usage.\n\nExamples:\n"
	"  fashim list kernels\n"
	"  fashim list rules -f tsv | cut -f1\n"
	"  fashim list rules --check my.rules";

static const char reasons_doc[] =
	"Prints every reason for which the shim leaves attention alone, and what can be done about "
	"it.\v"
	"JSON: {\"format\":\"fashim-reasons\",\"version\":1,\"reasons\":[{\"name\",\"sentence\","
	"\"hint\"}]}.\n\nExamples:\n"
	"  fashim reasons\n"
	"  fashim reasons -f json";

static error_t list_parse(int key, char *arg, struct argp_state *state)
{
	struct list_arguments *arguments = state->input;

	switch (key) {
	case 'f':
		arguments->format = format_argument(state, arg, OTHER_FORMATS);
		return 0;
	case KEY_CHECK:
		arguments->check = arg;
		return 0;
	case ARGP_KEY_END:
		if (arguments->check &&
		    (!arguments->listing || strcmp(arguments->listing->name, "rules")))
			argp_error(state,
				   "only rules can be checked: fashim list rules --check FILE");
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->listing)
			argp_error(state, "unexpected argument '%s'", arg);
		arguments->listing = listing_named(arg);
		if (!arguments->listing)
			argp_error(state, "no table '%s'; kernels, rules, reasons or options", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int run(int argc, char **argv, const struct argp *parser, const struct listing *listing)
{
	struct list_arguments arguments = {.listing = listing};
	int mistakes = 0;

	if (argp_parse(parser, argc, argv, 0, NULL, &arguments))
		return EXIT_USAGE;
	if (arguments.check)
		mistakes = check_rules(arguments.check);
	else if (arguments.listing)
		listing_print(arguments.listing, arguments.format);
	for (int i = 0; !arguments.listing && i < listing_count; i++)
		printf("%-8s %s\n", listings[i].name, listings[i].doc);
	return finish_output("table") || mistakes ? EXIT_FAILED : EXIT_OK;
}

int cmd_list(int argc, char **argv)
{
	const struct argp parser = {list_options, list_parse,  "[kernels|rules|reasons|options]",
				    list_doc,	  help_option, NULL,
				    NULL};

	return run(argc, argv, &parser, NULL);
}

int cmd_reasons(int argc, char **argv)
{
	const struct argp parser = {reasons_options, list_parse, "",  reasons_doc,
				    help_option,     NULL,	 NULL};

	return run(argc, argv, &parser, listing_named("reasons"));
}
