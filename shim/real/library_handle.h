/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles of cuBLAS and cuBLASLt, whose making and end are seen: which library made which.
 */
#ifndef FASHIM_LIBRARY_HANDLE_H
#define FASHIM_LIBRARY_HANDLE_H

#include "shim/base/range.h"

struct library;

/* Made by, and destroyed in, a library. */
void library_handle_made(const void *handle, struct library *library);
void library_handle_gone(const void *handle);

/* NULL: not known. */
struct library *library_of_handle(const void *handle);

/* The program's memory that products of the handle work in from now on; empty: the library's own.
 */
void library_handle_set_workspace(const void *handle, struct range workspace);
struct range library_handle_workspace(const void *handle);

#endif
