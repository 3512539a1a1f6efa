/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock decides: nothing is said for two seconds, and then five times a second at most.
 */
#include "tools/base/progress.h"
#include "tools/base/safe_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 2.0
#define BETWEEN	 0.2

static bool quiet, shown;
static double begin, last; /* 0: nothing was begun, nothing was said */

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

bool progress_wanted(void)
{
	return !quiet && isatty(STDERR_FILENO);
}

void progress(const char *what, double done, double all, const char *unit)
{
	const double time = now();
	char name[48];

	if (begin == 0)
		begin = time;
	if (time - begin < PATIENCE || time - last < BETWEEN || !progress_wanted())
		return;
	last = time;
	shown = true;
	snprintf(name, sizeof(name), "%s", what);
	safe_text(name);
	if (all > 0)
		fprintf(stderr, "\r\033[K%s: %.0f %%", name, 100 * done / all);
	else
		fprintf(stderr, "\r\033[K%s: %.0f %s", name, done, unit);
}

void progress_hide(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}

void progress_end(void)
{
	progress_hide();
	begin = last = 0;
}

void progress_quiet(void)
{
	quiet = true;
}
