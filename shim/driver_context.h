/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own driver calls run in a given context, also while another stream is being captured, and
 * leave the thread as they found it:
 *
 *     struct driver_context here;
 *     if (driver_enter(&here, context)) { …; driver_leave(&here); }
 */
#ifndef FASHIM_DRIVER_CONTEXT_H
#define FASHIM_DRIVER_CONTEXT_H

#include <cuda.h>
#include <stdbool.h>

struct driver_context {
	bool pushed;
	CUstreamCaptureMode mode;
};

bool driver_enter(struct driver_context *here, CUcontext context);
void driver_leave(struct driver_context *here);

/* Does the current context still live? At the end of a process it may not. */
bool driver_context_lives(void);

/* Work enqueued on `later` from now on waits for what is on `earlier` now. */
void driver_order(CUstream earlier, CUstream later);

#endif
