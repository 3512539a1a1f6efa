/* SPDX-License-Identifier: Apache-2.0
 *
 * Stderr of a child goes to an unlinked file, so that a chatty child never blocks.
 */
#include "tests/unit/child.h"

#include <ftw.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

static char folder[64];
static pid_t folder_owner;

static void clear_environment(void)
{
	static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
					    "SLURM_PROCID"};

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
		unsetenv(ranks[i]);
	for (char **entry = environ; *entry;) {
		char name[256];

		if (strncmp(*entry, "FASHIM", 6) == 0) {
			snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
			unsetenv(name);
			entry = environ;
		} else {
			entry++;
		}
	}
}

void child_run(struct child *child, const char *const *environment, void (*body)(void *),
	       void *argument)
{
	FILE *errors = tmpfile();
	size_t n;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS};

		/* cmocka would go on with the next test, here too. */
		for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
			signal(crashes[i], SIG_DFL);
		dup2(fileno(errors), STDERR_FILENO);
		clear_environment();
		for (; environment && *environment; environment++)
			putenv(strdup(*environment));
		body(argument);
		fflush(NULL);
		_exit(0);
	}
	waitpid(pid, &child->status, 0);
	rewind(errors);
	n = fread(child->errors, 1, sizeof(child->errors) - 1, errors);
	child->errors[n] = '\0';
	fclose(errors);
}

int child_passed(const struct child *child)
{
	if (WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0)
		return 1;
	fprintf(stderr, "child ended with status 0x%x and said:\n%s", (unsigned)child->status,
		child->errors);
	return 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void remove_folder(void)
{
	if (getpid() == folder_owner)
		nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *child_folder(void)
{
	if (!folder[0]) {
		const char *base = getenv("TMPDIR");

		snprintf(folder, sizeof(folder), "%.40s/fashim-XXXXXX", base ? base : "/tmp");
		if (!mkdtemp(folder))
			abort();
		folder_owner = getpid();
		atexit(remove_folder);
	}
	return folder;
}

const char *child_comma_locale(void)
{
	static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8"};
	char command[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		locale_t locale = newlocale(LC_ALL_MASK, names[i], (locale_t)0);

		if (locale) {
			freelocale(locale);
			return names[i];
		}
	}
	snprintf(command, sizeof(command),
		 "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", child_folder());
	if (system(command) != 0)
		return NULL;
	setenv("LOCPATH", child_folder(), 1);
	return names[0];
}

char *child_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;

	if (!file)
		return NULL;
	if (getdelim(&text, &size, '\0', file) < 0) {
		free(text);
		text = strdup("");
	}
	fclose(file);
	return text;
}
