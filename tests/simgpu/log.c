/* SPDX-License-Identifier: Apache-2.0
 *
 * The call log: with SIMGPU_LOG=FILE each driver call appends one line, the ABI-exact name and the
 * main arguments as key=value, so that a test can assert what reached the driver. Lines are single
 * writes to a file opened for appending; several threads and processes may share it.
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int sim_log_fd = -1;

static __attribute__((constructor)) void open_log(void)
{
	const char *path = getenv("SIMGPU_LOG");

	if (path && *path)
		sim_log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

void sim_log(const char *name, const char *format, ...)
{
	char line[512];
	int saved = errno;
	va_list args;

	int length = snprintf(line, sizeof(line), "%s", name);
	va_start(args, format);
	length += vsnprintf(line + length, sizeof(line) - length, format, args);
	va_end(args);
	if (length > (int)sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (write(sim_log_fd, line, length) < 0)
		sim_log_fd = -1;
	errno = saved;
}

/* Where the exports without an implementation lead. */
CUresult sim_unsupported(const char *name)
{
	if (sim_log_fd >= 0)
		sim_log(name, " unsupported");
	return CUDA_ERROR_NOT_SUPPORTED;
}
