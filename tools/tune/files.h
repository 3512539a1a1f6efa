/* SPDX-License-Identifier: Apache-2.0
 *
 * Where tuning caches lie: the one file that was named, or those in the user's cache folder.
 */
#ifndef FASHIM_TUNE_FILES_H
#define FASHIM_TUNE_FILES_H

#include "shim/gpu/tuned_file.h"

/* `named`, else FASHIM_TUNE_CACHE, which may say "off" to the shim alone; NULL: neither. */
const char *tune_named_file(const char *named);

/* The file of a machine: `named` (or NULL), else its own in the folder. Malloc'ed; NULL, with one
 * line on stderr, where there is no place for one. */
char *tune_file(const char *named, const struct tuned_machine *machine);

/* All caches: `named` alone, or every one in the folder, sorted; malloc'ed, as are they. A folder
 * that is not there holds none. How many; -errno with one line on stderr. */
int tune_files(const char *named, char ***files);
void tune_files_free(char **files, int count);

#endif
