/* SPDX-License-Identifier: Apache-2.0
 *
 * argp knows no -h, and most people type it first.
 */
#include "tools/base/help_option.h"

static const struct argp_option options[] = {{NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != 'h')
		return ARGP_ERR_UNKNOWN;
	argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
	return 0;
}

static const struct argp parser = {options, parse, NULL, NULL, NULL, NULL, NULL};

const struct argp_child help_option[] = {{&parser, 0, NULL, 0}, {0}};
