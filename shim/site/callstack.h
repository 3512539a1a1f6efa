/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in the program we are: the C frames and, when a Python interpreter is in the process, the
 * Python lines, because those are what the user will edit. Taken once a call site, not once a call.
 */
#ifndef FASHIM_CALLSTACK_H
#define FASHIM_CALLSTACK_H

#define CALLSTACK_FRAMES 24
#define CALLSTACK_TEXT	 160

struct callstack {
	int count;
	char frame[CALLSTACK_FRAMES][CALLSTACK_TEXT]; /* innermost first */
};

/* Frames of the calling thread outside the shim: "symbol+0x12 (libx.so)", "libx.so+0x1234" where
 * the symbol is not exported, "0x7f12" in code of no file. Flow lock held. */
void callstack_native(struct callstack *stack);

/* "/path/model.py:12 forward" for each Python frame of the calling thread, whether or not it holds
 * the interpreter's lock; none where there is no Python or its version is not understood. A long
 * path loses its beginning. */
void callstack_python(struct callstack *stack);

#endif
