/* SPDX-License-Identifier: Apache-2.0
 *
 * -h beside argp's own -? and --help, for every command.
 */
#ifndef FASHIM_HELP_OPTION_H
#define FASHIM_HELP_OPTION_H

#include <argp.h>

/* The children of a command's parser. */
extern const struct argp_child help_option[];

#endif
