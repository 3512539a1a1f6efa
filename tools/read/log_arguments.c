/* SPDX-License-Identifier: Apache-2.0
 *
 * argp hands over what is no option in one go.
 */
#include "tools/read/log_arguments.h"
#include "tools/base/progress.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/read/log_paths.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

error_t log_arguments_parse(struct log_arguments *logs, int key, char *arg,
			    struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		logs->color = "auto";
		return 0;
	case 'c':
		logs->color = arg;
		if (color_wanted(arg, stdout) < 0)
			argp_error(state, "--color takes auto, always or never, not '%s'", arg);
		return 0;
	case 'q':
		progress_quiet();
		return 0;
	case ARGP_KEY_ARGS:
		logs->paths = state->argv + state->next;
		logs->count = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!logs->newest) {
			argp_error(state, "no log named");
			return EINVAL;
		}
		logs->found = log_paths_newest();
		if (!logs->found)
			argp_error(state, "no log named, and there is none here");
		logs->paths = &logs->found;
		logs->count = 1;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether `path`, or the counters beside it, is the file `output`. */
static bool is_read(const char *path, const struct stat *output)
{
	struct stat input;
	char *live = NULL;
	bool same = stat(path, &input) == 0 && same_file(&input, output);

	if (!same && asprintf(&live, "%s.live", path) >= 0)
		same = stat(live, &input) == 0 && same_file(&input, output);
	free(live);
	return same;
}

/* Whether a folder among the logs stands for `output`, too. */
static bool is_in(const char *path, const char *output)
{
	const char *dot = strrchr(output, '.');
	struct stat folder, input;
	char *copy = strdup(output);
	const bool in = copy && dot && (!strcmp(dot, ".jsonl") || !strcmp(dot, ".live")) &&
			stat(dirname(copy), &folder) == 0 && stat(path, &input) == 0 &&
			same_file(&input, &folder);

	free(copy);
	return in;
}

bool log_arguments_name(const struct log_arguments *logs, const char *output)
{
	struct stat info;

	if (!output || !strcmp(output, "-") || stat(output, &info) || !S_ISREG(info.st_mode))
		return false;
	for (int i = 0; i < logs->count; i++) {
		if (!is_read(logs->paths[i], &info) && !is_in(logs->paths[i], output))
			continue;
		complain("%s is one of the logs; name another file to write", output);
		return true;
	}
	return false;
}
