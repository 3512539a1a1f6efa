/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that runs already tells by what is mapped into it whether the shim is there, and has
 * something to look at.
 */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opens /proc/PID/`name`. */
static FILE *open_of(const char *pid, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
	return fopen(path, "r");
}

/* The path of the first mapped file whose name begins like that; false: there is none. */
static bool mapped(const char *pid, const char *name, char path[PATH_MAX])
{
	FILE *maps = open_of(pid, "maps");
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (maps && !found && getline(&line, &size, maps) > 0) {
		const char *file = strchr(line, '/'), *base = file ? strrchr(file, '/') + 1 : "";

		found = !strncmp(base, name, strlen(name));
		if (found)
			snprintf(path, PATH_MAX, "%.*s", (int)strcspn(file, "\n"), file);
	}
	free(line);
	if (maps)
		fclose(maps);
	return found;
}

/* Writes its variables for the shim, a blank between two. Returns whether LD_PRELOAD names it. */
static bool preloads(const char *pid, char *options, size_t size)
{
	FILE *environment = open_of(pid, "environ");
	char *entry = NULL;
	size_t room = 0, used = 0;
	bool named = false;

	*options = '\0';
	while (environment && getdelim(&entry, &room, '\0', environment) > 0) {
		named |= !strncmp(entry, "LD_PRELOAD=", 11) && strstr(entry, "libfashim.so");
		if (!strncmp(entry, "FASHIM", 6) && used < size)
			used += (size_t)snprintf(options + used, size - used, "%s%s",
						 used ? " " : "", entry);
	}
	free(entry);
	if (environment)
		fclose(environment);
	return named;
}

static void say_shim(struct findings *findings, const char *pid, bool named)
{
	char path[PATH_MAX];

	if (mapped(pid, "libfashim.so", path))
		finding_add(findings, FINDING_OK, "shim", "", "%s is loaded", path);
	else if (named)
		finding_add(
			findings, FINDING_BROKEN, "shim",
			"fashim doctor PROGRAM says what keeps it out; or the file is not where "
			"LD_PRELOAD says, as in a container",
			"LD_PRELOAD names it, and it is not loaded");
	else
		finding_add(findings, FINDING_BROKEN, "shim",
			    "start the program again with fashim run, or with LD_PRELOAD set",
			    "it is not loaded, and cannot be while the process runs");
}

static void say_library(struct findings *findings, const char *pid, const char *subject,
			const char *name, const char *missing)
{
	char path[PATH_MAX];

	if (mapped(pid, name, path))
		finding_add(findings, FINDING_OK, subject, "", "%s is loaded", path);
	else
		finding_add(findings, FINDING_NOTE, subject, "", "%s", missing);
}

bool doctor_process(struct findings *findings, const char *word)
{
	char place[64], exe[PATH_MAX], options[400];
	ssize_t length;
	FILE *maps;

	if (!*word || word[strspn(word, "0123456789")] || strlen(word) > 10)
		return false;
	snprintf(place, sizeof(place), "/proc/%s", word);
	if (access(place, F_OK))
		return false;
	strcat(place, "/exe");
	length = readlink(place, exe, sizeof(exe) - 1);
	maps = open_of(word, "maps");
	if (length < 0 || !maps) {
		finding_add(findings, FINDING_BROKEN, "process", "ask as its user, or as root",
			    "process %s cannot be looked at: %s", word, strerror(errno));
		return true;
	}
	fclose(maps);
	exe[length] = '\0';
	finding_add(findings, FINDING_OK, "process", "", "process %s runs %s", word, exe);
	say_shim(findings, word, preloads(word, options, sizeof(options)));
	if (*options)
		finding_add(findings, FINDING_NOTE, "options", "", "%s", options);
	say_library(findings, word, "driver", "libcuda.so",
		    "no libcuda.so is loaded: no CUDA so far");
	say_library(findings, word, "cuBLAS", "libcublas",
		    "no libcublas is loaded: no GEMM of cuBLAS's so far, or cuBLAS is linked into "
		    "the program");
	return true;
}
