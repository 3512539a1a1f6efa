/* SPDX-License-Identifier: Apache-2.0
 *
 * One file to send with a question: the logs, what `fashim report` says of them, the trace where
 * one was recorded, and the versions.
 */
#ifndef FASHIM_REPORT_BUNDLE_H
#define FASHIM_REPORT_BUNDLE_H

#include "tools/sites/report.h"

struct bundle {
	const char *output; /* NULL: fashim-bundle.tar.gz, where there is none yet */
	const char *trace;  /* NULL: the one that the log names, where it is still there */
	bool private_parts; /* arguments, host and folders are wanted as well */
};

/* Writes the bundle of the logs that `report` was made of, and says on stdout what is in it. 0, or
 * -errno after a line on stderr. */
int report_bundle(const struct report *report, const struct bundle *bundle);

#endif
