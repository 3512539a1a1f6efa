/* SPDX-License-Identifier: Apache-2.0
 *
 * Where libfashim.so is.
 */
#ifndef FASHIM_SHIM_LIBRARY_H
#define FASHIM_SHIM_LIBRARY_H

/* Absolute name of libfashim.so beside this executable (a build tree) or in ../lib/fashim
 * (installed). Malloc'ed; NULL, with one line on stderr, where there is none. */
char *shim_library(void);

#endif
