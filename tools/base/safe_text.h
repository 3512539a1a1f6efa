/* SPDX-License-Identifier: Apache-2.0
 *
 * Characters of a text from a stranger: a log, a path. Some are orders to a terminal or a viewer,
 * not text: control characters, in UTF-8 those of two bytes, too; those that turn the direction of
 * what follows, so that it reads as something else; and line ends that only some programs know.
 */
#ifndef FASHIM_SAFE_TEXT_H
#define FASHIM_SAFE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at `text`, which is not its end; *harmless: whether it is one that can be
 * shown. What is no UTF-8 cannot, a byte at a time. */
size_t safe_character(const char *text, bool *harmless);

/* Puts '?' in the place of every character that is not harmless. Returns text. */
char *safe_text(char *text);

#endif
