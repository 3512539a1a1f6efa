/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user asked for: the FASHIM* environment, read once. The options are the rows of
 * config.def and nothing else; a value that makes no sense is named on stderr and its default
 * taken.
 */
#ifndef FASHIM_CONFIG_H
#define FASHIM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_mode { MODE_OFF, MODE_AUDIT, MODE_COMPARE, MODE_REPLACE };
enum config_ask { ASK_OFF, ASK_CHAIN, ASK_ALL };
enum config_graphs { GRAPHS_OFF, GRAPHS_PROVE, GRAPHS_TRUST };

/* One field per row; strings live as long as the process. */
struct config {
#define CONFIG_MODE				 enum config_mode
#define CONFIG_ASK				 enum config_ask
#define CONFIG_GRAPHS				 enum config_graphs
#define CONFIG_STRING				 const char *
#define CONFIG_COUNT				 uint64_t
#define CONFIG_FLAG				 bool
#define CONFIG_NUMBER				 double
#define OPTION(field, kind, name, initial, help) CONFIG_##kind field;
#include "shim/base/config.def"
#undef OPTION
#undef CONFIG_MODE
#undef CONFIG_ASK
#undef CONFIG_GRAPHS
#undef CONFIG_STRING
#undef CONFIG_COUNT
#undef CONFIG_FLAG
#undef CONFIG_NUMBER
};

/* The environment as it was on the first call, never NULL; in a set-uid process off, and nothing is
 * read; every later call costs one load. Any
 * thread. The first call may write to stderr, so it is for processes that use CUDA. */
const struct config *config(void);

/* Whether FASHIM_ONLY and FASHIM_SKIP leave this program, or site number `site` of it, to the shim.
 * Entries are globs of a program's name or "#" and a site's number; FASHIM_SKIP wins. */
bool config_selects_program(void);
bool config_selects_site(int site);

/* Option number `index` in the order of config.def, for the log: its environment name, and its
 * value in force as text in `value`. NULL past the last one. */
const char *config_option(size_t index, char *value, size_t size);

#endif
