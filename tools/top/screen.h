/* SPDX-License-Identifier: Apache-2.0
 *
 * A terminal that one text after the other is shown on, in the same place. What stood there before
 * comes back at the end, however that comes.
 */
#ifndef FASHIM_SCREEN_H
#define FASHIM_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

/* Takes the terminal that is stdout. 0 or -errno. */
int screen_open(void);

/* Shows `text`, lines cut to the terminal's width and as many as it is high. */
void screen_show(const char *text);

/* Waits so many seconds, or until somebody wants to leave: by q, Escape, or a signal that ends
 * programs. Whether that is so. */
bool screen_wait(double seconds);

/* Gives the terminal back. */
void screen_close(void);

#endif
