/* SPDX-License-Identifier: Apache-2.0
 *
 * LD_TRACE_LOADED_OBJECTS makes glibc's and musl's loader print "NAME => PATH (ADDRESS)" lines;
 * LD_WARN and LD_BIND_NOW make glibc's name the symbols that nobody defines. A PT_INTERP is only a
 * path that the file's author chose: nothing but a loader by name is started.
 */
#include "tools/doctor/loader.h"
#include "tools/doctor/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct question {
	const char *interpreter, *path, *preload;
};

static void ask(void *argument)
{
	const struct question *question = argument;

	setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
	setenv("LD_WARN", "yes", 1);
	setenv("LD_BIND_NOW", "yes", 1);
	if (question->preload)
		setenv("LD_PRELOAD", question->preload, 1);
	execl(question->interpreter, question->interpreter, question->path, (char *)NULL);
	_exit(127);
}

static bool is_loader(const char *interpreter)
{
	const char *base = strrchr(interpreter, '/');

	base = base ? base + 1 : interpreter;
	return !strncmp(base, "ld-linux", 8) || !strncmp(base, "ld-musl", 7) ||
	       !strncmp(base, "ld64.so", 7) || !strncmp(base, "ld.so", 5);
}

static void take_line(struct loader_answer *answer, char *line)
{
	char *arrow = strstr(line, " => "), *address = strrchr(line, '(');
	struct loader_library *library = &answer->libraries[answer->count];
	char *path = arrow ? arrow + 4 : line + strspn(line, " \t");

	if (*line != '\t') {
		if (*line && answer->problem_count < LOADER_PROBLEMS)
			answer->problems[answer->problem_count++] = strdup(line);
		return;
	}
	if (answer->count == LOADER_LIBRARIES || !strcmp(line, "\tstatically linked"))
		return;
	if (arrow)
		*arrow = '\0';
	if (address && address > path)
		address[-1] = '\0';
	line += strspn(line, " \t");
	library->name = strdup(line);
	library->path = strcmp(path, "not found") && *path == '/' ? strdup(path) : NULL;
	/* What the kernel maps itself has no file. */
	if (!arrow && *path != '/') {
		free(library->name);
		return;
	}
	answer->count++;
}

int loader_ask(struct loader_answer *answer, const char *interpreter, const char *path,
	       const char *preload)
{
	struct question question = {interpreter, path, preload};
	struct probe *probe;
	int result;

	memset(answer, 0, sizeof(*answer));
	if (!is_loader(interpreter))
		return -ENOTSUP;
	probe = malloc(sizeof(*probe));
	if (!probe)
		return -ENOMEM;
	result = probe_run(probe, ask, &question);
	if (!result) {
		char *rest = probe->text, *line;

		while ((line = strsep(&rest, "\n")))
			take_line(answer, line);
		if (!answer->count)
			result = -EIO;
	}
	free(probe);
	return result;
}

void loader_free(struct loader_answer *answer)
{
	for (int i = 0; i < answer->count; i++) {
		free(answer->libraries[i].name);
		free(answer->libraries[i].path);
	}
	for (int i = 0; i < answer->problem_count; i++)
		free(answer->problems[i]);
}
