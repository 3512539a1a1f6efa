/* SPDX-License-Identifier: Apache-2.0
 *
 * Folding is a stream of its own, so that nothing which prints needs to know the width: lines are
 * gathered, measured without their escape sequences, and cut at their last space that fits.
 */
#include "tools/base/terminal.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

enum { NARROWEST = 20, LABEL_COLUMNS = 16 };

/* An environment variable that is set to something, or NULL. */
static const char *setting(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

int color_wanted(const char *when, FILE *stream)
{
	const char *force = setting("CLICOLOR_FORCE"), *allow = setting("CLICOLOR");
	const char *term = setting("TERM");

	if (!strcmp(when, "always"))
		return 1;
	if (!strcmp(when, "never"))
		return 0;
	if (strcmp(when, "auto"))
		return -EINVAL;
	if (setting("NO_COLOR"))
		return 0;
	if (force && strcmp(force, "0"))
		return 1;
	if (allow && !strcmp(allow, "0"))
		return 0;
	return isatty(fileno(stream)) && term && strcmp(term, "dumb");
}

int terminal_width(FILE *stream)
{
	const char *columns = setting("COLUMNS");
	struct winsize size;
	char *end;

	if (columns) {
		long width = strtol(columns, &end, 10);

		if (!*end && width > 0 && width < 100000)
			return width < NARROWEST ? NARROWEST : (int)width;
	}
	if (!isatty(fileno(stream)) || ioctl(fileno(stream), TIOCGWINSZ, &size) || !size.ws_col)
		return 0;
	return size.ws_col < NARROWEST ? NARROWEST : size.ws_col;
}

/* The character at `text`: its bytes, and in *columns how wide it is. An escape sequence counts as
 * one character without width. */
static size_t character_at(const char *text, size_t length, int *columns)
{
	mbstate_t state = {0};
	wchar_t wide;
	size_t bytes;

	*columns = 0;
	if (*text == '\033') {
		for (bytes = 1; bytes < length && text[bytes] != 'm'; bytes++)
			;
		return bytes < length ? bytes + 1 : bytes;
	}
	bytes = mbrtowc(&wide, text, length, &state);
	if (bytes == 0 || bytes > length) {
		*columns = 1;
		return 1;
	}
	*columns = wcwidth(wide) > 0 ? wcwidth(wide) : 0;
	return bytes;
}

int display_width(const char *text)
{
	size_t length = strlen(text);
	int total = 0, columns;

	while (length) {
		size_t bytes = character_at(text, length, &columns);

		total += columns;
		text += bytes;
		length -= bytes;
	}
	return total;
}

/* ---- folding ----------------------------------------------------------------------------------
 */

struct fold {
	FILE *to;
	int width;
	char *line; /* gathered so far, without its newline */
	size_t used, size;
};

/* Where a folded line goes on: below what follows the last two spaces among its first columns. */
static int hanging_column(const char *line, size_t length)
{
	int column = 0, columns, hang = 0, spaces = 0;

	for (size_t at = 0; at < length && column < LABEL_COLUMNS;) {
		size_t bytes = character_at(line + at, length - at, &columns);

		if (line[at] == ' ')
			spaces++;
		else if (columns && spaces >= 2)
			hang = column;
		if (line[at] != ' ' && columns)
			spaces = 0;
		column += columns;
		at += bytes;
	}
	return hang;
}

/* Spaces inside a number ("20 480") are no place to break a line. */
static bool breakable(const char *line, size_t at, size_t length)
{
	return line[at] == ' ' && !(at && at + 1 < length && isdigit((unsigned char)line[at - 1]) &&
				    isdigit((unsigned char)line[at + 1]));
}

static void write_folded(const struct fold *fold, const char *line, size_t length)
{
	int hang = hanging_column(line, length), column = 0, columns;
	size_t start = 0, space = 0;

	if (hang > fold->width / 2)
		hang = 2;
	for (size_t at = 0; at < length;) {
		size_t bytes = character_at(line + at, length - at, &columns);

		if (column + columns > fold->width && space > start) {
			size_t end = space;

			while (end > start && line[end - 1] == ' ')
				end--;
			fwrite(line + start, 1, end - start, fold->to);
			fprintf(fold->to, "\n%*s", hang, "");
			for (start = space; start < length && line[start] == ' ';)
				start++;
			at = start;
			column = hang;
			continue;
		}
		if (breakable(line, at, length) && column > hang)
			space = at;
		column += columns;
		at += bytes;
	}
	fwrite(line + start, 1, length - start, fold->to);
	fputc('\n', fold->to);
}

static ssize_t fold_write(void *cookie, const char *text, size_t length)
{
	struct fold *fold = cookie;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\n') {
			write_folded(fold, fold->line, fold->used);
			fold->used = 0;
			continue;
		}
		if (fold->used == fold->size) {
			size_t size = fold->size ? 2 * fold->size : 256;
			char *larger = realloc(fold->line, size);

			if (!larger)
				return 0;
			fold->line = larger;
			fold->size = size;
		}
		fold->line[fold->used++] = text[i];
	}
	return (ssize_t)length;
}

static int fold_close(void *cookie)
{
	struct fold *fold = cookie;

	fwrite(fold->line, 1, fold->used, fold->to);
	free(fold->line);
	free(fold);
	return 0;
}

FILE *folded_stream(FILE *to, int width)
{
	struct fold *fold = calloc(1, sizeof(*fold));
	cookie_io_functions_t functions = {.write = fold_write, .close = fold_close};
	FILE *stream;

	if (!fold)
		return NULL;
	fold->to = to;
	fold->width = width;
	stream = fopencookie(fold, "w", functions);
	if (!stream)
		free(fold);
	return stream;
}

/* ---- pager ------------------------------------------------------------------------------------
 */

void pager_open(struct pager *pager)
{
	const char *command = getenv("FASHIM_PAGER");
	int ends[2];

	*pager = (struct pager){0};
	if (!command)
		command = getenv("PAGER");
	if (!command)
		command = "less";
	if (!*command || !strcmp(command, "cat") || !isatty(STDOUT_FILENO))
		return;
	fflush(stdout);
	if (pipe(ends))
		return;
	pager->pid = fork();
	if (pager->pid == 0) {
		dup2(ends[0], STDIN_FILENO);
		close(ends[0]);
		close(ends[1]);
		/* Quit when all fits the screen, keep colours, leave the text behind. */
		setenv("LESS", "FRX", 0);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(ends[0]);
	if (pager->pid > 0) {
		pager->saved_stdout = dup(STDOUT_FILENO);
		dup2(ends[1], STDOUT_FILENO);
		/* Whoever quits the pager early has read enough. */
		signal(SIGPIPE, SIG_IGN);
	} else {
		pager->pid = 0;
	}
	close(ends[1]);
}

void pager_close(struct pager *pager)
{
	if (!pager->pid)
		return;
	fflush(stdout);
	dup2(pager->saved_stdout, STDOUT_FILENO);
	close(pager->saved_stdout);
	while (waitpid(pager->pid, NULL, 0) < 0 && errno == EINTR)
		;
	pager->pid = 0;
}
