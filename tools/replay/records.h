/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core would write to its log, kept for the explanation.
 */
#ifndef FASHIM_REPLAY_RECORDS_H
#define FASHIM_REPLAY_RECORDS_H

#include "shim/log/log_format.h"

#define RECORDS_MAX 32

/* Since records_clear(). */
extern struct records {
	int decline_count; /* occurrences that no site owns */
	struct {
		enum reason reason;
		char detail[96];
	} declines[RECORDS_MAX];
	int site_count; /* "site" records */
	char *sites[RECORDS_MAX];
	char violation[256]; /* the latest; "" */
} records;

/* Frees what is left in sites[], too. */
void records_clear(void);

#endif
