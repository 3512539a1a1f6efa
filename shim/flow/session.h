/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens once a process: the log is opened when the first GEMM shows, the device is named,
 * the end is arranged for.
 */
#ifndef FASHIM_SESSION_H
#define FASHIM_SESSION_H

#include "shim/log/log_format.h"
#include "shim/op/op.h"

/* Counts a GEMM; at the first one opens the log and registers the end. Flow lock held. */
void session_note_gemm(const struct op *op);

/* Counts an occurrence that no site owns; the first one of a reason is logged with its detail. */
void session_decline(enum reason reason, const char *detail);

/* At exit: takes in what came back and closes the log (flow.c). */
void flow_finish(void);

#endif
