/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading, merging, building: one after the other.
 */
#include "tools/sites/report_read.h"
#include "tools/base/tool.h"
#include "tools/read/log_paths.h"

#include <errno.h>

int report_read(struct report *report, char *const *paths, int count)
{
	int result = 0;

	for (int i = 0; i < count; i++) {
		int error = log_set_read(&report->set, paths[i], 0);

		result = error ? error : result;
	}
	if (report->set.count && (report_merge_ranks(&report->set) || report_build(report, NULL))) {
		complain("out of memory");
		report_free(report);
		return -ENOMEM;
	}
	return result;
}
