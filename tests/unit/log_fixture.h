/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the log share.
 */
#ifndef TEST_LOG_FIXTURE_H
#define TEST_LOG_FIXTURE_H

#include "tests/unit/child.h"

extern struct child child;			     /* the last one run */
extern char path[256], live_path[300], setting[300]; /* log, LOG.live, "FASHIM_OUT=..." */
extern const char *const environment[];		     /* setting */

/* A setup function: new paths. */
int fresh(void **state);

/* Runs `body` in a child with `environment`; it must pass. */
void run(void (*body)(void *));

/* The log, which must be there; to be freed. */
char *log_text(void);

int exists(const char *name);

/* One record {"type":"sample","site":number,"app_us":15.5}. */
void write_sample(int number);

#endif
