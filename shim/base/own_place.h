/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a file that the shim writes goes. A folder that somebody named is theirs to make: a wrong
 * name must not leave folders behind, least of all as root. What differs from process to process
 * (%h) nobody can make before.
 */
#ifndef FASHIM_OWN_PLACE_H
#define FASHIM_OWN_PLACE_H

#include <limits.h>

/* Into `path`: the pattern expanded (names.h) and absolute; where that is a folder, the file
 * `in_folder`, a pattern too, in it. Folders behind the pattern's first %-word are made. 0 or
 * -errno: of those before it one is missing. */
int own_place(const char *pattern, const char *in_folder, char path[PATH_MAX]);

/* The same in $XDG_STATE_HOME/fashim or ~/.local/state/fashim, which is made. */
int own_place_usual(const char *in_folder, char path[PATH_MAX]);

#endif
