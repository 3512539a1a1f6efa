/* SPDX-License-Identifier: Apache-2.0
 *
 * A file without a name is made in the folder, which leaves no trace; where the file system knows
 * none, one that is removed at once.
 */
#include "tools/read/log_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The pattern up to its first part that differs from process to process. Whether that is all. */
static bool fixed_part(const char *pattern, char *fixed, size_t size)
{
	size_t used = 0;

	for (; *pattern && used + 1 < size; pattern++) {
		if (*pattern == '%' && pattern[1] && strchr("ephrntq", pattern[1]))
			break;
		pattern += *pattern == '%' && pattern[1] == '%';
		fixed[used++] = *pattern;
	}
	fixed[used] = '\0';
	return !*pattern;
}

static int make_file(const char *folder)
{
	char name[PATH_MAX + 32];
	int fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
		snprintf(name, sizeof(name), "%s/.fashim.%d", folder, (int)getpid());
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0)
			unlink(name);
	}
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static bool is_terminal(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	const bool terminal = fd >= 0 && isatty(fd);

	if (fd >= 0)
		close(fd);
	return terminal;
}

/* Whether `path`, which exists, can be a log, or stand beside one. */
static bool is_fit(const char *path, const struct stat *info)
{
	const bool special = !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6);

	if (S_ISCHR(info->st_mode))
		return !is_terminal(path);
	return S_ISDIR(info->st_mode) || (S_ISREG(info->st_mode) && !special);
}

int log_place_look(struct log_place *place, const char *pattern)
{
	struct stat info;
	bool whole;
	char *slash;
	int result;

	*place = (struct log_place){.device = false};
	whole = fixed_part(pattern, place->folder, sizeof(place->folder));
	if (whole && stat(place->folder, &info) == 0) {
		if (!is_fit(place->folder, &info)) {
			snprintf(place->problem, sizeof(place->problem),
				 "%.100s is no place for a log; name a file of its own, or none",
				 place->folder);
			return -EINVAL;
		}
		place->device = S_ISCHR(info.st_mode);
		if (place->device)
			return 0;
	} else {
		whole = false;
	}
	slash = strrchr(place->folder, '/');
	if (slash && !(whole && S_ISDIR(info.st_mode)))
		slash[slash == place->folder] = '\0';
	result = make_file(place->folder);
	if (result == -ENOENT && access(place->folder, F_OK))
		snprintf(place->problem, sizeof(place->problem), "there is no folder %.120s",
			 place->folder);
	else if (result)
		snprintf(place->problem, sizeof(place->problem), "%.100s cannot be written: %s",
			 place->folder, strerror(-result));
	return result;
}

bool log_place_full(const struct log_place *place)
{
	struct statvfs info;

	return statvfs(place->folder, &info) == 0 && info.f_blocks && !info.f_bavail;
}

/* Like mkdir -p; the last one is ours alone, as logs hold command lines. */
static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0777);
		*slash = '/';
	}
	mkdir(path, 0700);
}

char *log_place_state(bool make)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char *folder = NULL;
	int length;

	if (state && *state == '/')
		length = asprintf(&folder, "%s/fashim", state);
	else if (home && *home == '/' && access(home, F_OK) == 0)
		length = asprintf(&folder, "%s/.local/state/fashim", home);
	else
		return NULL;
	if (length < 0)
		return NULL;
	if (make)
		make_folders(folder);
	if (make && make_file(folder)) {
		free(folder);
		return NULL;
	}
	return folder;
}
