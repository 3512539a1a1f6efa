/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions and lines for C frames that the shim could only tell as FILE+0xOFFSET, since the file
 * exports no symbol there.
 */
#ifndef FASHIM_SYMBOLISE_H
#define FASHIM_SYMBOLISE_H

#include "tools/read/log_reader.h"

/* Puts "function at file.c:12 (FILE+0xOFFSET)" in the place of frames of the program itself, where
 * the log is of this machine, the program's file is at hand and not younger than the run, and
 * addr2line (binutils) finds something. Else a frame stays as it is. */
void symbolise(struct log_set *set);

#endif
