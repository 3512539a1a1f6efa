/* SPDX-License-Identifier: Apache-2.0
 *
 * Who ran, where and how, for the commands that put reports side by side.
 */
#include "tools/sites/report_identity.h"
#include "tools/base/markdown_text.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/sites/report_names.h"

#include <stdlib.h>

void print_identity(const char *name, const struct report *report, bool color)
{
	const struct run_log *run = report->set.runs[0];
	char *command = report_command(run), device[300];

	printf("%s%s", color ? BOLD : "", name);
	print_safe(stdout, run->path);
	if (report->set.count > 1)
		printf(" and %d more", report->set.count - 1);
	printf("%s\n  ", color ? PLAIN : "");
	print_safe(stdout, command ? command : "?");
	fputs("\n  ", stdout);
	print_safe(stdout, report_device(run, device, sizeof(device)));
	fputs(", fashim ", stdout);
	print_safe(stdout, text_of(run->header, "fashim"));
	fputs(", mode ", stdout);
	print_safe(stdout, text_of(run->header, "mode"));
	putchar('\n');
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
