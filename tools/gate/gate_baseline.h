/* SPDX-License-Identifier: Apache-2.0
 *
 * A log against an earlier one: what was replaced still is, and no site got slower or drifts more
 * by so much that chance does not explain it.
 */
#ifndef FASHIM_GATE_BASELINE_H
#define FASHIM_GATE_BASELINE_H

#include "tools/gate/gate.h"

/* The checks against gate->baseline. 0 or -ENOMEM. */
int gate_check_baseline(struct gate *gate);

#endif
