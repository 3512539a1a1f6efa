/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that read logs have in common on their command line: the logs, and --color.
 */
#ifndef FASHIM_LOG_ARGUMENTS_H
#define FASHIM_LOG_ARGUMENTS_H

#include <argp.h>
#include <stdbool.h>

struct log_arguments {
	const char *color; /* "auto" where it is not named */
	char **paths;	   /* into argv, one at least */
	int count;
	bool newest; /* without names the newest log here is meant */
	char *found; /* that one, or NULL; for free() */
};

/* A row of a command's options, in group `group`. */
#define LOG_COLOR_OPTION(group)                                                                    \
	{                                                                                          \
		"color", 'c', "WHEN", 0, "auto (default), always or never", group                  \
	}

/* Takes --color and the names of logs; ARGP_ERR_UNKNOWN for any other key. For the end of a
 * command's own parser. */
error_t log_arguments_parse(struct log_arguments *logs, int key, char *arg,
			    struct argp_state *state);

/* Whether the file `output` (NULL and - are none) is one of those that would be read: writing to it
 * would destroy a log. Then a line on stderr says so. */
bool log_arguments_name(const struct log_arguments *logs, const char *output);

#endif
