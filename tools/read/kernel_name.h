/* SPDX-License-Identifier: Apache-2.0
 *
 * C++ kernel names for people. Logs hold mangled names, often cut short, which no demangler takes.
 */
#ifndef FASHIM_KERNEL_NAME_H
#define FASHIM_KERNEL_NAME_H

#include <stddef.h>

/* "at::native::reduce_kernel<ReduceOp>" for a text that begins with the mangled name, whole or cut;
 * what follows a space stays, and so does any other text. Returns buffer. */
char *kernel_name(const char *text, char *buffer, size_t size);

#endif
