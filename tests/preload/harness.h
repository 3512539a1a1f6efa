/* SPDX-License-Identifier: Apache-2.0
 *
 * What the preload tests share. A test program starts itself anew with the preload and the library
 * path that it needs, found beside its own executable, so that it can be run as it stands.
 */
#ifndef FASHIM_TESTS_HARNESS_H
#define FASHIM_TESTS_HARNESS_H

/* setjmp.h, stdarg.h, stddef.h, stdint.h: cmocka wants them first */
#include "tests/cmocka.h"

/* Path of a file beside the running program; static storage, overwritten by the next call but
 * seven. */
const char *beside(const char *file);

/* Executes the program again with LD_PRELOAD set to `preload` (a file beside it; NULL: none) and
 * with its own folder's `libraries` (NULL: none) searched first. Returns in the new process only.
 */
void start_under(char **argv, const char *preload, const char *libraries);

/* SONAME, or else file name without folders, of the object that holds an address. "" if none does.
 */
const char *owner(const void *address);

#endif
