/* SPDX-License-Identifier: Apache-2.0
 *
 * argp hands over what is no option in one go.
 */
#include "log_arguments.h"
#include "terminal.h"

#include <errno.h>
#include <stdio.h>

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
	case ARGP_KEY_ARGS:
		logs->paths = state->argv + state->next;
		logs->count = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no log named");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}
