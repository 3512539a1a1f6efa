/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences around the text of strangers.
 */
#ifndef FASHIM_ESCAPED_H
#define FASHIM_ESCAPED_H

#include <stdio.h>

/* printf() whose %s go through `escape`. It knows whole and real numbers and bare %s; what must not
 * be escaped, a colour for one, is printed beside it. */
void escaped_printf(FILE *out, void (*escape)(FILE *out, const char *text), const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define safe_printf(out, ...)	  escaped_printf(out, print_safe, __VA_ARGS__)
#define html_printf(out, ...)	  escaped_printf(out, html_text, __VA_ARGS__)
#define markdown_printf(out, ...) escaped_printf(out, markdown_text, __VA_ARGS__)

#endif
