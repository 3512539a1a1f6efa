/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim doctor: before a run, or after one that said nothing: is everything here that the shim
 * needs, and will it see what a program does?
 */
#include "tools/commands.h"
#include "tools/base/format.h"
#include "tools/base/help_option.h"
#include "tools/base/json_text.h"
#include "tools/base/quote.h"
#include "tools/base/records.h"
#include "tools/base/shim_library.h"
#include "tools/base/tool.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/prepare.h"

#include <argp.h>
#include <jansson.h>
#include <stdlib.h>

struct doctor_arguments {
	enum format format;
	bool prepare;
	const char *program; /* or the number of a process; NULL: only the machine */
};

enum { KEY_PREPARE = 0x100 };

#define OTHER_FORMATS ", json or csv"

static const struct argp_option doctor_options[] = {
	{"prepare", KEY_PREPARE, NULL, 0,
	 "first compile the kernels for GPUs for which there is text alone (PTX), which may take "
	 "minutes, and keep them in $XDG_CACHE_HOME/fashim",
	 0},
	FORMAT_OPTION(OTHER_FORMATS, 0),
	{0},
};

static const char doctor_doc[] =
	"Looks at this machine, and at PROGRAM without starting it, and says what the shim will "
	"serve, what it will not see, and what can be done about that. Of a process that runs, "
	"PID, "
	"it says whether the shim is in it.\v"
	"Each line begins with ok, note, warn (something is not seen or may go wrong) or FAIL "
	"(fashim cannot serve). JSON: {\"format\":\"fashim-doctor\",\"version\":1,\"machine\":"
	"[{\"state\",\"subject\",\"text\",\"hint\"}],\"program\":[…]}.\n\n"
	"Exit status: 0; 1 when a line says FAIL, or something could not be compiled; 2 for wrong "
	"usage.\n\nExamples:\n"
	"  fashim doctor\n"
	"  fashim doctor --prepare\n"
	"  fashim doctor python3 model.py\n"
	"  fashim doctor 4242";

static error_t doctor_parse(int key, char *arg, struct argp_state *state)
{
	struct doctor_arguments *arguments = state->input;

	switch (key) {
	case 'f':
		arguments->format = format_argument(state, arg, OTHER_FORMATS);
		return 0;
	case KEY_PREPARE:
		arguments->prepare = true;
		return 0;
	case ARGP_KEY_ARGS:
		arguments->program = state->argv[state->next]; /* its arguments do not matter */
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const char *const state_names[] = {"ok", "note", "warn", "FAIL"};

static void print_table(const struct findings *findings)
{
	for (int i = 0; i < findings->count; i++) {
		const struct finding *row = &findings->rows[i];

		printf("  %-5s %-10s ", state_names[row->state], row->subject);
		print_safe(stdout, row->text);
		printf("%s%s\n", *row->hint ? "\n                   -> " : "", row->hint);
	}
}

static json_t *json_of(const struct findings *findings)
{
	json_t *rows = json_array();

	for (int i = 0; i < findings->count; i++) {
		const struct finding *row = &findings->rows[i];
		json_t *text = json_string(row->text);

		json_array_append_new(rows,
				      json_pack("{s:s,s:s,s:o,s:s}", "state",
						state_names[row->state], "subject", row->subject,
						"text", text ? text : json_string("(not UTF-8)"),
						"hint", row->hint));
	}
	return rows;
}

/* The findings of both, and of which of the two each is. */
static void print_csv(const struct findings *machine, const struct findings *program)
{
	json_t *parts[] = {json_of(machine), json_of(program)}, *all = json_array(), *row;
	size_t index;

	for (int i = 0; i < 2; i++) {
		json_array_foreach(parts[i], index, row)
		{
			json_t *record = json_pack("{s:s}", "of", i ? "program" : "machine");

			json_object_update(record, row);
			json_array_append_new(all, record);
		}
		json_decref(parts[i]);
	}
	csv_records(stdout, all, NULL);
}

static void print_json(const struct findings *machine, const struct findings *program)
{
	json_t *root = json_pack("{s:s,s:i,s:o,s:o}", "format", "fashim-doctor", "version", 1,
				 "machine", json_of(machine), "program", json_of(program));

	json_document(root, 0);
}

/* The last line: one sentence, and what to type next. */
static void print_verdict(const struct findings *machine, const struct findings *program,
			  const char *name, bool process)
{
	if (finding_broken(program)) {
		printf("\nfashim cannot serve %s%s as it is: see FAIL above\n",
		       process ? "process " : "", name);
	} else if (finding_broken(machine)) {
		printf("\nfashim cannot serve on this machine as it is: see FAIL above\n");
	} else if (process) {
		printf("\nfashim is in process %s; next: %s top %s\n", name, quoted_tool(), name);
	} else if (name) {
		printf("\nfashim can serve %s; next: %s run ", name, quoted_tool());
		print_quoted(stdout, name);
		putchar('\n');
	} else {
		printf("\nfashim can serve programs that use cuBLAS; next: %s run PROGRAM\n",
		       quoted_tool());
	}
}

int cmd_doctor(int argc, char **argv)
{
	const struct argp parser = {doctor_options,
				    doctor_parse,
				    "[PROGRAM [ARGUMENT...]|PID]",
				    doctor_doc,
				    help_option,
				    NULL,
				    NULL};
	struct doctor_arguments arguments = {0};
	struct findings machine = {0}, program = {0};
	bool process = false;
	char *library;
	int code, error;

	if (argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &arguments))
		return EXIT_USAGE;
	library = shim_library();
	error = arguments.prepare ? doctor_prepare(library) : 0;
	doctor_machine(&machine, library);
	if (arguments.program)
		process = doctor_process(&program, arguments.program);
	if (arguments.program && !process)
		doctor_app(&program, arguments.program, library);
	if (arguments.format == FORMAT_JSON) {
		print_json(&machine, &program);
	} else if (arguments.format == FORMAT_CSV) {
		print_csv(&machine, &program);
	} else {
		puts("this machine");
		print_table(&machine);
		if (arguments.program)
			printf("%s%s\n", process ? "process " : "", arguments.program);
		print_table(&program);
		print_verdict(&machine, &program, arguments.program, process);
	}
	error |= finish_output("findings");
	code = error || finding_broken(&machine) || finding_broken(&program) ? EXIT_FAILED
									     : EXIT_OK;
	findings_free(&machine);
	findings_free(&program);
	free(library);
	return code;
}
