/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of checks grows while it is made; its verdicts are counted as they are given.
 */
#include "tools/gate/gate_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct bootstrap_interval unknown = {NAN, NAN, NAN};

struct gate_check *gate_check_new(struct gate *gate, const char *name, const struct report_row *row,
				  double limit)
{
	struct gate_check *checks =
		realloc(gate->checks, (size_t)(gate->count + 1) * sizeof(*checks));

	if (!checks)
		return NULL;
	gate->checks = checks;
	checks += gate->count++;
	*checks =
		(struct gate_check){.name = name, .row = row, .limit = limit, .measured = unknown};
	return checks;
}

void gate_decide(struct gate *gate, struct gate_check *check, enum gate_verdict verdict,
		 const char *format, ...)
{
	va_list args;

	check->verdict = verdict;
	gate->tally[verdict]++;
	va_start(args, format);
	vsnprintf(check->why, sizeof(check->why), format, args);
	va_end(args);
}

bool gate_out_of_use(const struct report_row *row)
{
	return !strcmp(row->site->state, "declined") && !row->site->counters.replaced;
}
