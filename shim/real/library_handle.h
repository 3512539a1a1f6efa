/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles of cuBLAS and cuBLASLt, whose making and end are seen: which library made which.
 */
#ifndef FASHIM_LIBRARY_HANDLE_H
#define FASHIM_LIBRARY_HANDLE_H

struct library;

/* Made by, and destroyed in, a library. */
void library_handle_made(const void *handle, struct library *library);
void library_handle_gone(const void *handle);

/* NULL: not known. */
struct library *library_of_handle(const void *handle);

#endif
