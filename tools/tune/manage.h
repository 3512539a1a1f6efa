/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at what was tuned, and forgetting it. Neither needs a GPU.
 */
#ifndef FASHIM_TUNE_MANAGE_H
#define FASHIM_TUNE_MANAGE_H

#include "tools/base/format.h"

/* Both take the cache that was named, or NULL for all of the user's, say on stderr what is wrong
 * with one, and return the command's exit code. */
int tune_list(const char *named, enum format format);
int tune_clear(const char *named);

#endif
