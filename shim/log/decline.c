/* SPDX-License-Identifier: Apache-2.0
 *
 * A record for the first of each reason (decline.h).
 */
#include "shim/log/log_counters.h"
#include "shim/log/decline.h"

#include "shim/base/json.h"
#include "shim/log/log.h"
#include "shim/base/message.h"
#include "shim/base/tracepoint.h"

void log_decline(enum reason reason, const char *detail)
{
	struct json *json;

	TRACEPOINT2(passed_on, reason, log_live()->reasons[reason]);
	if (log_live()->reasons[reason]++)
		return;
	json = log_record("decline");
	json_int(json, "site", 0);
	json_string(json, "reason", log_reason_name(reason));
	json_string(json, "detail", detail ? detail : "");
	log_commit(json);
	message_debug("passed on: %s %s", log_reason_name(reason), detail ? detail : "");
}
