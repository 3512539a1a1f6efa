/* SPDX-License-Identifier: Apache-2.0
 *
 * A fixed number of rows: more than anybody reads.
 */
#include "tools/doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void finding_add(struct findings *findings, enum finding_state state, const char *subject,
		 const char *hint, const char *format, ...)
{
	struct finding *row = &findings->rows[findings->count];
	va_list args;

	if (findings->count == FINDINGS)
		return;
	*row = (struct finding){.state = state, .subject = subject, .hint = hint};
	va_start(args, format);
	if (vasprintf(&row->text, format, args) >= 0)
		findings->count++;
	va_end(args);
}

void findings_free(struct findings *findings)
{
	for (int i = 0; i < findings->count; i++)
		free(findings->rows[i].text);
	findings->count = 0;
}

const struct finding *finding_broken(const struct findings *findings)
{
	for (int i = 0; i < findings->count; i++)
		if (findings->rows[i].state == FINDING_BROKEN)
			return &findings->rows[i];
	return NULL;
}
