/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs in pairs (zoo_compare.h).
 */
#include "tests/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zoo_compare.h"

void zoo_run_plain(struct outcome *outcome, const char *const *argv, const char *more)
{
	const char *const environment[] = {more, NULL};

	zoo_run(outcome, argv, environment, true);
}

void zoo_run_under(struct outcome *outcome, const char *const *argv, const char *const *more,
		   const char *log)
{
	char preload[600], out[600], *library = zoo_path("sim/libfashim.so");
	const char *environment[16] = {preload, out, "FASHIM_MIN_SPEEDUP=0", NULL};
	int count = 3;

	for (; more && *more && count < 14; more++)
		environment[count++] = *more;
	environment[count++] = "FASHIM_BUDGET=0"; /* where `more` has not said otherwise */
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", library);
	snprintf(out, sizeof(out), "FASHIM_OUT=%s", log);
	unlink(log);
	zoo_run(outcome, argv, environment, true);
	free(library);
}

void zoo_assert_same(const struct outcome *plain, const struct outcome *under,
		     const struct verdict *verdict, bool exact)
{
	const double difference = zoo_difference(plain, under);
	int where;

	if (plain->status != under->status)
		fail_msg("status 0x%x, plain 0x%x; stderr: %s", (unsigned)under->status,
			 (unsigned)plain->status, under->errors);
	if (strcmp(plain->errors, under->errors) != 0)
		fail_msg("other stderr: %s", under->errors);
	if (verdict->violations)
		fail_msg("violation: %s", verdict->violation);
	if (exact || verdict->replaced == 0) {
		if (strcmp(plain->text, under->text) != 0)
			fail_msg("nothing was replaced, yet results differ by %g", difference);
		return;
	}
	if (!(difference <= ZOO_TOLERANCE))
		fail_msg("results differ by %g", difference);
	if (!zoo_same_text(plain->text, under->text, true, &where))
		fail_msg("line %d differs", where);
}

const char *zoo_record_of(struct verdict *verdict, const char *log)
{
	static char text[800];

	zoo_read_log(log, verdict);
	snprintf(text, sizeof(text), "replaced %ld of %ld, materialised %ld, reasons:%s",
		 verdict->replaced, verdict->seen, verdict->materialised, verdict->reasons);
	return text;
}
