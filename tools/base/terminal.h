/* SPDX-License-Identifier: Apache-2.0
 *
 * The terminal that a report is read on: how wide it is, whether it shows colours, and a pager
 * where the text may be longer than the screen.
 */
#ifndef FASHIM_TERMINAL_H
#define FASHIM_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* Escape sequences for a stream that shows colours. */
#define BOLD   "\033[1m"
#define DIM    "\033[2m"
#define RED    "\033[31m"
#define GREEN  "\033[32m"
#define YELLOW "\033[33m"
#define PLAIN  "\033[0m"

/* "auto", "always" or "never" to a decision for `stream`; -EINVAL for any other word. auto:
 * NO_COLOR (not empty) says no; then CLICOLOR_FORCE (not empty, not 0) says yes; then CLICOLOR=0
 * says no; what is left is decided by `stream` being a terminal whose TERM is not "dumb". */
int color_wanted(const char *when, FILE *stream);

/* Columns that a line on `stream` may have: COLUMNS where that is a number, else the terminal's; 0
 * without limit, which is what a file or a pipe has. */
int terminal_width(FILE *stream);

/* Columns that `text` takes when printed; escape sequences take none. Needs setlocale() before. */
int display_width(const char *text);

/* A stream that folds lines longer than `width` at spaces and passes them to `to`; a folded line
 * goes on below its own text, not below the label in front of it. fclose() flushes it and leaves
 * `to` open. NULL when memory is short. */
FILE *folded_stream(FILE *to, int width);

/* Sends all that follows on stdout through $FASHIM_PAGER, $PAGER or less, where stdout is a
 * terminal and that is not empty or "cat". pager_close() waits until the reader has left it. */
struct pager {
	pid_t pid; /* 0: none was started */
	int saved_stdout;
};

void pager_open(struct pager *pager);
void pager_close(struct pager *pager);

#endif
