/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python frames of the calling thread, read from the interpreter's own structures. For versions
 * of CPython that export no traceback dump, while this thread does not hold the interpreter's lock.
 */
#ifndef FASHIM_PYTHON_FRAMES_H
#define FASHIM_PYTHON_FRAMES_H

#include "shim/site/callstack.h"

/* Walks the frames of `tstate`, the calling thread's own state. Returns the number of frames, or
 * -ENOTSUP where this interpreter's layout is not known; `stack` then holds none. */
int python_frames(struct callstack *stack, void *tstate);

/* "path:line name" as the next frame; a long path loses its beginning. */
void python_frame_add(struct callstack *stack, const char *path, long line, const char *name);

#endif
