/* SPDX-License-Identifier: Apache-2.0
 *
 * Who ran, where and how, for the commands that put reports side by side.
 */
#include "tools/sites/report_identity.h"
#include "tools/base/escaped.h"
#include "tools/base/markdown_text.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/sites/report_names.h"

#include <stdlib.h>

void print_identity(const char *name, const struct report *report, bool color)
{
	const struct run_log *run = report->set.runs[0];
	char *command = report_command(run), device[300];

	fputs(color ? BOLD : "", stdout);
	safe_printf(stdout, "%s%s", name, run->path);
	if (report->set.count > 1)
		printf(" and %d more", report->set.count - 1);
	fputs(color ? PLAIN : "", stdout);
	safe_printf(stdout, "\n  %s\n  %s, fashim %s, mode %s\n", command ? command : "?",
		    report_device(run, device, sizeof(device)), text_of(run->header, "fashim"),
		    text_of(run->header, "mode"));
	free(command);
}

void print_above(void (*print)(const void *context), const void *context, bool markdown)
{
	FILE *before = stdout;
	char *text = NULL;
	size_t size;
	FILE *memory = markdown ? open_memstream(&text, &size) : NULL;

	if (memory)
		stdout = memory;
	print(context);
	stdout = before;
	if (!memory)
		return;
	fclose(memory);
	markdown_lines(stdout, text);
	free(text);
}
