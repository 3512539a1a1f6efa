/* SPDX-License-Identifier: Apache-2.0
 *
 * The alternate screen, and a keyboard that does not wait for Enter. Signals only set a flag; they
 * end the wait, and so the loop around it, which gives the terminal back.
 */
#include "tools/top/screen.h"
#include "tools/base/safe_text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"

enum { ESCAPE = 27 };

static volatile sig_atomic_t signalled;
static struct termios before;
static bool keyboard; /* is ours */

static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void note(int number)
{
	signalled = number;
}

static void put(const char *text)
{
	size_t left = strlen(text);

	while (left) {
		const ssize_t written = write(STDOUT_FILENO, text, left);

		if (written < 0 && errno != EINTR)
			return;
		if (written > 0) {
			text += written;
			left -= (size_t)written;
		}
	}
}

int screen_open(void)
{
	struct sigaction action = {.sa_handler = note};
	struct termios raw;

	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
		if (sigaction(endings[i], &action, NULL))
			return -errno;
	keyboard = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
	if (keyboard) {
		raw = before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	put(ENTER);
	return 0;
}

/* One line, cut to `width` columns; escape sequences take none. Where it ends. */
static const char *put_line(FILE *out, const char *text, int width)
{
	int column = 0;

	while (*text && *text != '\n') {
		bool harmless;
		size_t length = safe_character(text, &harmless);

		if (*text == ESCAPE) {
			length = strcspn(text, "m\n") + (text[strcspn(text, "m\n")] == 'm');
			fwrite(text, 1, length, out);
		} else if (column++ < width) {
			fwrite(text, 1, length, out);
		}
		text += length;
	}
	return *text ? text + 1 : text;
}

void screen_show(const char *text)
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};
	char *shown = NULL;
	size_t length;
	FILE *out = open_memstream(&shown, &length);

	if (!out)
		return;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	fputs("\033[H", out);
	for (int row = 0; *text && row < size.ws_row; row++) {
		if (row)
			fputs("\r\n", out);
		text = put_line(out, text, size.ws_col);
		fputs("\033[K", out);
	}
	fputs("\033[J", out);
	if (!fclose(out))
		put(shown);
	free(shown);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

bool screen_wait(double seconds)
{
	struct pollfd input = {.fd = keyboard ? STDIN_FILENO : -1, .events = POLLIN};
	const double end = now() + seconds;

	while (!signalled && now() < end) {
		char key = 0;

		if (poll(&input, 1, (int)((end - now()) * 1e3) + 1) <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) <= 0)
			input.fd = -1; /* nobody is there who could type */
		if (key == 'q' || key == 'Q' || key == ESCAPE)
			return true;
	}
	return signalled != 0;
}

void screen_close(void)
{
	put(LEAVE);
	if (keyboard)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
}
