/* SPDX-License-Identifier: Apache-2.0
 *
 * A site's counters as records tell them (log_format.h): once in the summary, or where the site was
 * forgotten before.
 */
#ifndef FASHIM_LOG_COUNTERS_H
#define FASHIM_LOG_COUNTERS_H

#include "shim/base/json.h"
#include "shim/log/log_format.h"

/* The number of the site at live_file.sites[place]. */
unsigned log_site_number(unsigned place, const struct live_site *site);

/* The members from "site" on of the site at live_file.sites[place], into an open object. */
void log_counters(struct json *json, unsigned place, const struct live_file *live);

/* "?" for none of them. */
const char *log_reason_name(unsigned reason);
const char *log_state_name(unsigned state);

#endif
