/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of a form, and the numbers of its runs.
 */
#include "tools/export/export.h"

#include <errno.h>
#include <string.h>

FILE *export_stream(struct export *export)
{
	FILE *stream = strcmp(export->path, "-") ? fopen(export->path, "we") : stdout;

	if (!stream)
		snprintf(export->problem, sizeof(export->problem), "%s", strerror(errno));
	return stream;
}

int export_stream_close(struct export *export, FILE *stream)
{
	bool bad = fflush(stream) || ferror(stream);
	int error = bad ? errno : 0;

	if (stream != stdout && fclose(stream) && !bad) {
		bad = true;
		error = errno;
	}
	if (bad)
		snprintf(export->problem, sizeof(export->problem), "%s",
			 strerror(error ? error : EIO));
	return bad ? -(error ? error : EIO) : 0;
}

int export_run_index(const struct export *export, const struct run_log *run)
{
	int index = export->set.count - 1;

	while (index > 0 && export->set.runs[index] != run)
		index--;
	return index;
}
