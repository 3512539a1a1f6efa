/* SPDX-License-Identifier: Apache-2.0
 *
 * One run against another: a program alone, and under the shim.
 */
#ifndef FASHIM_TESTS_ZOO_COMPARE_H
#define FASHIM_TESTS_ZOO_COMPARE_H

#include "zoo_run.h"

/* fp16 outputs of order one: a few rounding steps. */
#define ZOO_TOLERANCE 4e-3

void zoo_run_plain(struct outcome *outcome, const char *const *argv, const char *more);

/* Under the shim; `log` is begun anew. `more`: further variables, NULL at the end. */
void zoo_run_under(struct outcome *outcome, const char *const *argv, const char *const *more,
		   const char *log);

/* cmocka's failure where they differ in more than O's rounding; `exact`: in anything. */
void zoo_assert_same(const struct outcome *plain, const struct outcome *under,
		     const struct verdict *verdict, bool exact);

/* Reads the log; what it says in a line, in static storage. */
const char *zoo_record_of(struct verdict *verdict, const char *log);

/* The group of programs that are no hazards; the number of failures. */
int zoo_programs(void);

/* A test among them: every hazard that there is has a row. */
void zoo_test_list(void **state);

#endif
