/* SPDX-License-Identifier: Apache-2.0
 *
 * Words as a shell reads them back, for commands that a person is told to type.
 */
#ifndef FASHIM_QUOTE_H
#define FASHIM_QUOTE_H

#include <stdio.h>

/* Writes one word, in quotes where it needs them. */
void print_quoted(FILE *stream, const char *word);

/* The same in memory. Malloc'ed, or NULL. */
char *quoted(const char *word);

/* This command as it was called, for lines to type: "fashim" where PATH has it, else its place. */
const char *quoted_tool(void);

#endif
