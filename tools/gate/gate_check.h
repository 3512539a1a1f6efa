/* SPDX-License-Identifier: Apache-2.0
 *
 * How checks are made, for the files that make them.
 */
#ifndef FASHIM_GATE_CHECK_H
#define FASHIM_GATE_CHECK_H

#include "tools/gate/gate.h"

/* A check without a verdict yet, valid until the next is made; NULL when memory is short. */
struct gate_check *gate_check_new(struct gate *gate, const char *name, const struct report_row *row,
				  double limit);

/* Its verdict, once, and the reason. */
void gate_decide(struct gate *gate, struct gate_check *check, enum gate_verdict verdict,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Whether the site never ran the fused kernel for the program: it has nothing to answer for. */
bool gate_out_of_use(const struct report_row *row);

#endif
