/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of strangers inside Markdown.
 */
#ifndef FASHIM_MARKDOWN_TEXT_H
#define FASHIM_MARKDOWN_TEXT_H

#include <stdio.h>

/* Writes text for a table's cell or a sentence so that nothing in it is taken for markup. */
void markdown_text(FILE *out, const char *text);

/* Lines of a text, which is cut up, as lines of one paragraph. */
void markdown_lines(FILE *out, char *text);

#endif
