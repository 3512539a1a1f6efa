/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for shim/log/log.c and shim/flow/session.c: nothing is written, everything is
 * remembered.
 */
#include "tools/replay/records.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/log/log.h"
#include "shim/flow/session.h"
#include "shim/log/decline.h"

struct records records;

static struct live_file live;
static struct json line;
static char buffer[64 * 1024];
static bool is_site;

void records_clear(void)
{
	for (int i = 0; i < records.site_count; i++)
		free(records.sites[i]);
	memset(&records, 0, sizeof(records));
}

struct live_file *log_live(void)
{
	return &live;
}

struct json *log_record(const char *type)
{
	is_site = !strcmp(type, "site");
	json_begin(&line, buffer, sizeof(buffer));
	json_open_object(&line, NULL);
	json_string(&line, "type", type);
	return &line;
}

void log_commit(struct json *record)
{
	json_close(record);
	if (json_end(record) && is_site && records.site_count < RECORDS_MAX)
		records.sites[records.site_count++] = strdup(buffer);
}

void log_violation(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(records.violation, sizeof(records.violation), format, arguments);
	va_end(arguments);
}

bool log_open(void)
{
	return false;
}

void log_device(const char *gpu, const char *uuid, int sm, int driver, int cublas)
{
	(void)gpu, (void)uuid, (void)sm, (void)driver, (void)cublas;
}

void log_driver_lacks(const char *function)
{
	(void)function;
}

void log_finish(void)
{
}

bool session_note_gemm(const struct op *op)
{
	(void)op;
	live.gemms++;
	return false;
}

void log_decline(enum reason reason, const char *detail)
{
	const int n = records.decline_count;

	live.reasons[reason]++;
	if (n == RECORDS_MAX)
		return;
	records.declines[n].reason = reason;
	snprintf(records.declines[n].detail, sizeof(records.declines[n].detail), "%s",
		 detail ? detail : "");
	records.decline_count++;
}
