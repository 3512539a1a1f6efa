/* SPDX-License-Identifier: Apache-2.0
 *
 * Occurrences that no site owns: counted by reason.
 */
#ifndef FASHIM_DECLINE_H
#define FASHIM_DECLINE_H

#include "shim/log/log_format.h"

/* Counts one; the first of a reason is logged with its detail. Flow lock held. */
void log_decline(enum reason reason, const char *detail);

#endif
