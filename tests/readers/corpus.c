/* SPDX-License-Identifier: Apache-2.0
 *
 *     corpus FOLDER
 *
 * Hands each file of FOLDER/TARGET to that target, which has to come back. Ends with "N passed, N
 * failed"; a file that ends the process is the last one named.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/readers/targets.h"

#define LARGEST (1 << 20)

static int passed, failed;

static void hand_over(const struct target *target, const char *path)
{
	static uint8_t bytes[LARGEST];
	FILE *file = fopen(path, "rb");
	size_t size;

	if (!file) {
		failed++;
		return;
	}
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	printf("# %s\n", path);
	fflush(stdout);
	target->read(bytes, size);
	passed++;
}

/* `each` for every name in the folder but those that begin with a dot. */
static void walk(const char *folder, void (*each)(const char *path, const char *name))
{
	struct dirent **names;
	const int count = scandir(folder, &names, NULL, alphasort);
	char path[PATH_MAX];

	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			each(path, names[i]->d_name);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
}

static const struct target *target;

static void one_file(const char *path, const char *name)
{
	(void)name;
	hand_over(target, path);
}

static void one_target(const char *path, const char *name)
{
	target = target_named(name);
	if (target) {
		walk(path, one_file);
	} else {
		printf("%s: no such target\n", path);
		failed++;
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 64;
	walk(argv[1], one_target);
	printf("%d passed, %d failed\n", passed, failed);
	return failed || !passed;
}
