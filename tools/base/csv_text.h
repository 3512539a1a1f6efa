/* SPDX-License-Identifier: Apache-2.0
 *
 * Values between commas (RFC 4180).
 */
#ifndef FASHIM_CSV_TEXT_H
#define FASHIM_CSV_TEXT_H

#include <stdio.h>

/* Writes a text, in quotes where it needs them; what would move a terminal's cursor is shown as
 * '?', as in every other form. */
void csv_text(FILE *out, const char *text);

/* Writes a number; what is unknown is empty. */
void csv_number(FILE *out, double number);

#endif
