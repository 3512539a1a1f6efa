/* SPDX-License-Identifier: Apache-2.0
 *
 * Strangers' text in a page. A log may hold anything: names that look like markup, escape
 * sequences, half characters.
 */
#ifndef FASHIM_HTML_TEXT_H
#define FASHIM_HTML_TEXT_H

#include <stdio.h>

/* Text as it stands, whatever it holds: markup is escaped, control characters and bytes that are no
 * UTF-8 become U+FFFD. Serves attributes in double quotes too. */
void html_text(FILE *out, const char *text);

#endif
