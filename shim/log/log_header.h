/* SPDX-License-Identifier: Apache-2.0
 *
 * The first and the last record of a log: what ran where under which options, and what came of it.
 */
#ifndef FASHIM_LOG_HEADER_H
#define FASHIM_LOG_HEADER_H

#include <stdint.h>

#include "shim/base/json.h"
#include "shim/log/log_format.h"

#define LOG_LACKS 16

struct log_device {
	char gpu[256], uuid[64]; /* "" not known */
	int sm, driver, cublas;	 /* 0 not known */
	const char *lacks[LOG_LACKS];
	unsigned lack_count;
};

/* The members of "header" and of "summary" after "type" (log_format.h), into an open object. */
void log_header(struct json *json, const struct log_device *device);
void log_summary(struct json *json, const struct live_file *live, uint64_t start_ns);

#endif
