/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the files are that the command needs at run time.
 */
#ifndef FASHIM_SHIM_LIBRARY_H
#define FASHIM_SHIM_LIBRARY_H

/* Absolute name of a file beside this executable (a build tree), or in ../lib/fashim or
 * ../share/fashim (installed). Malloc'ed; NULL, with one line on stderr, where there is none. */
char *installed_file(const char *name);

/* That of libfashim.so. */
char *shim_library(void);

#endif
