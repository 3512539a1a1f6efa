/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of all subcommands for speaking to a person: one-line complaints, suggestions for typos,
 * and numbers with the unit and grouping that a reader expects.
 */
#include "tools/base/tool.h"
#include "tools/base/progress.h"
#include "tools/base/safe_text.h"

#include <ctype.h>
#include <errno.h>
#include <langinfo.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *speaker; /* NULL: just fashim */

void complain_as(const char *rank)
{
	speaker = rank;
}

void complain(const char *format, ...)
{
	char line[4096], *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	va_list args;

	if (!stream)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (speaker)
		fprintf(stream, "fashim[%s]: ", speaker);
	else
		fputs("fashim: ", stream);
	print_safe(stream, line);
	fputc('\n', stream);
	fclose(stream);
	fflush(stdout);
	progress_hide();
	/* Nobody left to tell where this fails. */
	if (write(STDERR_FILENO, text, size) < 0)
		errno = 0;
	free(text);
}

int finish_output(const char *what)
{
	int error;

	if ((!fflush(stdout) && !ferror(stdout)) || errno == EPIPE)
		return 0;
	error = errno;
	complain("writing the %s: %s", what, strerror(error));
	return error ? -error : -EIO;
}

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b; words longer than the
 * table are never alike. */
static int edit_distance(const char *a, const char *b)
{
	enum { LONGEST = 40 };
	int rows[LONGEST + 1][LONGEST + 1];
	int la = (int)strlen(a), lb = (int)strlen(b);

	if (la > LONGEST || lb > LONGEST)
		return LONGEST;
	for (int i = 0; i <= la; i++) {
		for (int j = 0; j <= lb; j++) {
			int best;

			if (i == 0 || j == 0) {
				rows[i][j] = i + j;
				continue;
			}
			int ca = tolower((unsigned char)a[i - 1]);
			int cb = tolower((unsigned char)b[j - 1]);

			best = rows[i - 1][j - 1] + (ca != cb);
			if (rows[i - 1][j] + 1 < best)
				best = rows[i - 1][j] + 1;
			if (rows[i][j - 1] + 1 < best)
				best = rows[i][j - 1] + 1;
			if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
			    cb == tolower((unsigned char)a[i - 2]) && rows[i - 2][j - 2] + 1 < best)
				best = rows[i - 2][j - 2] + 1;
			rows[i][j] = best;
		}
	}
	return rows[la][lb];
}

const char *did_you_mean(const char *word, const char *const *candidates, int count)
{
	const char *found = NULL;
	/* Of a short word an edit leaves little: "foo" is not "log". */
	int best = (int)strlen(word) < 4 ? 1 : 1 + (int)strlen(word) / 3;

	for (int i = 0; i < count; i++) {
		int distance = edit_distance(word, candidates[i]);

		if (distance <= best && (!found || distance < best)) {
			best = distance;
			found = candidates[i];
		}
	}
	return found;
}

bool utf8_output(void)
{
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

void print_safe(FILE *stream, const char *text)
{
	while (*text) {
		bool harmless;
		const size_t length = safe_character(text, &harmless);

		if (harmless)
			fwrite(text, 1, length, stream);
		else
			fputc('?', stream);
		text += length;
	}
}

char *format_count(char *buffer, size_t size, unsigned long long value)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%llu", value);
	size_t out = 0;

	for (int i = 0; i < length && out + 2 < size; i++) {
		if (i && (length - i) % 3 == 0 && length > 4)
			buffer[out++] = ' ';
		buffer[out++] = digits[i];
	}
	buffer[out] = '\0';
	return buffer;
}

char *format_duration(char *buffer, size_t size, double us)
{
	const char *micro = utf8_output() ? "µs" : "us";
	double magnitude = fabs(us);

	if (magnitude >= 1e6)
		snprintf(buffer, size, "%.3g s", us / 1e6);
	else if (magnitude >= 1e3)
		snprintf(buffer, size, "%.3g ms", us / 1e3);
	else
		snprintf(buffer, size, "%.3g %s", us, micro);
	/* %.3g turns to exponents from 1000 on; such a run is told in whole units. */
	if (magnitude >= 1e9)
		snprintf(buffer, size, "%.0f s", us / 1e6);
	return buffer;
}
