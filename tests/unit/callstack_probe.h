/* SPDX-License-Identifier: Apache-2.0
 *
 * What callstack_probe.so exports.
 */
#ifndef CALLSTACK_PROBE_H
#define CALLSTACK_PROBE_H

#include "shim/site/callstack.h"

int probe(void);			    /* prints the Python frames, returns how many */
void probe_native(struct callstack *stack); /* the C frames of its caller */

#endif
