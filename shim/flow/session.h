/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens once a process: the log is opened when the first GEMM shows, and the device is
 * named.
 */
#ifndef FASHIM_SESSION_H
#define FASHIM_SESSION_H

#include "shim/op/op.h"

/* Counts a GEMM, and opens the log at the first one. true: it was opened, and somebody has to close
 * it. Flow lock held. */
bool session_note_gemm(const struct op *op);

#endif
