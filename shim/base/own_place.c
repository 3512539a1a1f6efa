/* SPDX-License-Identifier: Apache-2.0
 *
 * What a %-word stands for never leads into another folder (names.h), so that the pattern's folders
 * up to the first are those of the name.
 */
#include "shim/base/own_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/base/names.h"

/* 0: it is one. */
static int look_for_folder(const char *name)
{
	struct stat status;

	if (stat(name, &status) != 0)
		return -errno;
	return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

static int name_in(const char *pattern, const char *in_folder, char path[PATH_MAX])
{
	char name[PATH_MAX], longer[PATH_MAX];
	int used = 0, n;

	path[0] = '\0';
	if (names_expand(pattern, name, sizeof(name)) < 0)
		return -ENAMETOOLONG;
	n = (int)strlen(name);
	if ((n && name[n - 1] == '/') || !look_for_folder(name)) {
		n = snprintf(longer, sizeof(longer), "%s%s%s", pattern,
			     n && name[n - 1] == '/' ? "" : "/", in_folder);
		if (n >= (int)sizeof(longer) || names_expand(longer, name, sizeof(name)) < 0)
			return -ENAMETOOLONG;
	}
	if (name[0] != '/') {
		if (!getcwd(path, PATH_MAX - 1))
			return -errno;
		used = (int)strlen(path);
		path[used++] = '/';
	}
	n = snprintf(path + used, PATH_MAX - (size_t)used, "%s", name);
	return n < PATH_MAX - used ? 0 : -ENAMETOOLONG;
}

/* The pattern's folders before its first %-word; "": it names none. */
static void fixed_folder(const char *pattern, char folder[PATH_MAX])
{
	size_t used = 0;
	char *slash;

	for (; *pattern && used + 1 < PATH_MAX; pattern++) {
		if (*pattern == '%' && *++pattern != '%')
			break;
		folder[used++] = *pattern;
	}
	folder[used] = '\0';
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	else
		folder[0] = '\0';
}

/* Folders of `path`, as far as they are missing; failures show when the file is created. */
static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0777);
		*slash = '/';
	}
}

int own_place(const char *pattern, const char *in_folder, char path[PATH_MAX])
{
	int error = name_in(pattern, in_folder, path);
	char folder[PATH_MAX];

	if (error)
		return error;
	fixed_folder(pattern, folder);
	error = folder[0] ? look_for_folder(folder) : 0;
	if (!error)
		make_folders(path);
	return error;
}

/* Logs hold command lines: what is made anew is the user's alone. */
int own_place_usual(const char *in_folder, char path[PATH_MAX])
{
	const char *state = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
	char folder[PATH_MAX], name[PATH_MAX];
	int length;

	if (state && *state == '/')
		length = snprintf(folder, sizeof(folder), "%s/fashim", state);
	else if (home && *home == '/' && !look_for_folder(home))
		length = snprintf(folder, sizeof(folder), "%s/.local/state/fashim", home);
	else
		return -ENOENT;
	if (length < 0 || (size_t)length >= sizeof(folder) ||
	    names_expand(in_folder, name, sizeof(name)) < 0)
		return -ENAMETOOLONG;
	make_folders(folder);
	mkdir(folder, 0700);
	length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
	return length >= 0 && length < PATH_MAX ? 0 : -ENAMETOOLONG;
}
