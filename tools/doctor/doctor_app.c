/* SPDX-License-Identifier: Apache-2.0
 *
 * A program before it is started: will the loader take the shim in, and which libraries then call
 * what the shim watches? Scripts are followed to their interpreter; nothing of the program runs.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/elf_image.h"
#include "tools/doctor/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { SCRIPT_DEPTH = 4 };

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* As execvp() finds it. */
static bool find_program(const char *word, char path[PATH_MAX])
{
	const char *rest = getenv("PATH");

	if (strchr(word, '/')) {
		snprintf(path, PATH_MAX, "%s", word);
		return access(path, F_OK) == 0;
	}
	for (rest = rest ? rest : "/usr/local/bin:/usr/bin:/bin"; rest;) {
		const size_t length = strcspn(rest, ":");
		struct stat info;

		snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, rest, length ? "/" : "./", word);
		if (access(path, X_OK) == 0 && stat(path, &info) == 0 && S_ISREG(info.st_mode))
			return true;
		rest = rest[length] ? rest + length + 1 : NULL;
	}
	return false;
}

/* The program that a "#!" line names, with env(1) looked through; as it stands there when there is
 * no such program. False: it is no script. */
static bool script_interpreter(const char *path, char interpreter[PATH_MAX])
{
	char line[512], *word, *rest = line + 2;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t length = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (fd >= 0)
		close(fd);
	if (length < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[length] = '\0';
	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(NULL, " \t", &rest);
	if (word && !strcmp(base_name(word), "env"))
		do
			word = strtok_r(NULL, " \t", &rest);
		while (word && (*word == '-' || strchr(word, '=')));
	if (word && !find_program(word, interpreter))
		snprintf(interpreter, PATH_MAX, "%s", word);
	return word;
}

static bool is_python(const char *path)
{
	return !strncmp(base_name(path), "python", 6);
}

/* Version managers put a script where people expect the interpreter. */
static bool python_behind(const char *path, char interpreter[PATH_MAX])
{
	return is_python(path) && script_interpreter(path, interpreter) &&
	       !is_python(interpreter) && doctor_python_path(path, interpreter, PATH_MAX);
}

/* Would the kernel ask the loader for caution, so that it ignores LD_PRELOAD? */
static void check_rights(struct findings *findings, const char *path)
{
	struct stat info;

	if (stat(path, &info))
		return;
	if (access(path, X_OK))
		finding_add(findings, FINDING_BROKEN, "file", "chmod +x", "%s cannot be executed",
			    path);
	if (((info.st_mode & S_ISUID) && info.st_uid != getuid()) ||
	    ((info.st_mode & S_ISGID) && info.st_gid != getgid()))
		finding_add(findings, FINDING_BROKEN, "rights",
			    "start a copy of it that has not the bit",
			    "%s is set-uid or set-gid: LD_PRELOAD is ignored", path);
	if (getuid() && getxattr(path, "security.capability", NULL, 0) > 0)
		finding_add(findings, FINDING_BROKEN, "rights",
			    "start a copy of it: file capabilities are not copied",
			    "%s has file capabilities: LD_PRELOAD is ignored", path);
}

static bool is_shim(const char *path)
{
	return !strcmp(base_name(path), "libfashim.so");
}

/* What is preloaded already, by the environment or the machine's administrator. */
static void check_neighbours(struct findings *findings, const char *list, const char *where,
			     uint16_t machine)
{
	char *copy = strdup(list), *rest = copy, *word;
	char name[32];

	while (copy && (word = strsep(&rest, " :\n\t"))) {
		struct elf_image image;

		if (!strchr(word, '/') || elf_open(&image, word))
			continue;
		if (image.machine != machine)
			finding_add(findings, FINDING_WARN, "LD_PRELOAD", "take it out of the list",
				    "%s of %s is built for %s: the loader complains and goes on",
				    word, where,
				    elf_machine_name(image.machine, name, sizeof(name)));
		else if (!is_shim(word))
			finding_add(findings, FINDING_NOTE, "LD_PRELOAD", "",
				    "%s of %s is loaded behind the shim", word, where);
		elf_close(&image);
	}
	free(copy);
}

static void check_preloads(struct findings *findings, uint16_t machine)
{
	const char *list = getenv("LD_PRELOAD");
	char text[4096] = "";
	FILE *file = fopen("/etc/ld.so.preload", "re");

	if (list)
		check_neighbours(findings, list, "LD_PRELOAD", machine);
	if (!file)
		return;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	check_neighbours(findings, text, "/etc/ld.so.preload", machine);
}

/* The libraries the program starts with, and whether the shim is among them. */
static void check_libraries(struct findings *findings, const struct elf_image *image,
			    const char *path, const char *library)
{
	struct loader_answer *answer = malloc(sizeof(*answer));
	bool taken = !library;
	int missing = 0;
	int result = answer ? loader_ask(answer, image->interpreter, path, library) : -ENOMEM;

	for (int i = 0; !result && i < answer->count; i++) {
		const struct loader_library *row = &answer->libraries[i];

		taken = taken || (row->path && !strcmp(row->path, library));
		missing += !row->path;
		if (!row->path)
			finding_add(findings, FINDING_BROKEN, "libraries",
				    "add its folder to LD_LIBRARY_PATH, or install it",
				    "%s is needed and was not found", row->name);
	}
	for (int i = 0; !result && !missing && i < answer->problem_count; i++)
		finding_add(findings, FINDING_WARN, "loader", "", "%s", answer->problems[i]);
	if (result)
		finding_add(findings, FINDING_WARN, "loader", "",
			    "its loader %s gave no answer; libraries were not looked at",
			    image->interpreter);
	else if (!taken)
		finding_add(findings, FINDING_BROKEN, "loader", "",
			    "the loader does not take %s into this program", library);
	else if (!missing)
		finding_add(findings, FINDING_OK, "loader", "",
			    "takes the shim in; all %d libraries were found", answer->count);
	doctor_object(findings, base_name(path), path);
	for (int i = 0; !result && i < answer->count; i++)
		if (answer->libraries[i].path && !is_shim(answer->libraries[i].path))
			doctor_object(findings, base_name(answer->libraries[i].name),
				      answer->libraries[i].path);
	if (answer)
		loader_free(answer);
	free(answer);
}

/* Machine and way of loading; true when there is a point in looking at libraries. */
static bool check_image(struct findings *findings, const struct elf_image *image, const char *path,
			uint16_t machine)
{
	char name[32], wanted[32];

	if (image->machine != machine || image->bits != 64) {
		finding_add(findings, FINDING_BROKEN, "file", "",
			    "%s is a program for %d-bit %s, the shim is for %s", path, image->bits,
			    elf_machine_name(image->machine, name, sizeof(name)),
			    elf_machine_name(machine, wanted, sizeof(wanted)));
		return false;
	}
	if (image->truncated) {
		finding_add(findings, FINDING_BROKEN, "file", "", "%s is damaged", path);
		return false;
	}
	if (!image->interpreter) {
		finding_add(findings, FINDING_BROKEN, "file", "link it dynamically",
			    "%s is statically linked: LD_PRELOAD cannot reach it", path);
		return false;
	}
	if (strstr(image->interpreter, "ld-musl")) {
		finding_add(findings, FINDING_BROKEN, "file", "",
			    "%s is built on musl, the shim on glibc", path);
		return false;
	}
	finding_add(findings, FINDING_OK, "file", "", "%s: %s, dynamically linked%s%s%s", path,
		    elf_machine_name(image->machine, name, sizeof(name)),
		    image->rpath || image->runpath ? ", looks for libraries in " : "",
		    image->rpath     ? image->rpath
		    : image->runpath ? image->runpath
				     : "",
		    image->rpath ? " (RPATH, before LD_LIBRARY_PATH)" : "");
	return true;
}

static uint16_t machine_of(const char *library)
{
	struct elf_image image;
	uint16_t machine;

	if (elf_open(&image, library ? library : "/proc/self/exe"))
		return 0;
	machine = image.machine;
	elf_close(&image);
	return machine;
}

/* What no look at files can tell. */
static void say_unseen(struct findings *findings, int first)
{
	bool blas = false, kernels = false;

	for (int i = first; i < findings->count; i++) {
		blas |= !strcmp(findings->rows[i].subject, "cuBLAS");
		kernels |= !strcmp(findings->rows[i].subject, "kernels");
	}
	if (!blas && !kernels) {
		finding_add(findings, FINDING_NOTE, "cuBLAS",
			    "if it only starts the program in question, name that one instead",
			    "nothing that it starts with uses CUDA; what it loads or starts later "
			    "is seen when it comes");
		return;
	}
	if (!blas)
		finding_add(findings, FINDING_NOTE, "cuBLAS", "",
			    "nothing that it starts with calls cuBLAS: GEMMs of its own kernels "
			    "are not recognised");
	finding_add(findings, FINDING_NOTE, "DEEPBIND",
		    "look with: LD_DEBUG=bindings PROGRAM 2>&1 | grep cublasGemm",
		    "a library opened with RTLD_DEEPBIND or by dlmopen() looks past the shim, and "
		    "no file shows it: while one is there that calls CUDA, nothing is replaced, "
		    "and the log names it");
}

void doctor_app(struct findings *findings, const char *word, const char *library)
{
	const uint16_t machine = machine_of(library);
	const int first = findings->count;
	char path[PATH_MAX], interpreter[PATH_MAX];
	struct elf_image image;
	int result;

	if (!find_program(word, path)) {
		finding_add(findings, FINDING_BROKEN, "file", "", "%s was not found%s", word,
			    strchr(word, '/') ? "" : " in PATH");
		return;
	}
	check_rights(findings, path);
	for (int i = 0; i < SCRIPT_DEPTH &&
			(python_behind(path, interpreter) || script_interpreter(path, interpreter));
	     i++) {
		finding_add(findings, FINDING_NOTE, "script", "", "%s is run by %s", path,
			    interpreter);
		snprintf(path, sizeof(path), "%s", interpreter);
		check_rights(findings, path);
	}
	result = elf_open(&image, path);
	if (result) {
		finding_add(findings, FINDING_BROKEN, "file", "", "%s: %s", path,
			    result == -ENOEXEC ? "neither an ELF program nor a script"
					       : strerror(-result));
		return;
	}
	check_preloads(findings, machine);
	if (check_image(findings, &image, path, machine)) {
		check_libraries(findings, &image, path, library);
		if (is_python(path) && library)
			doctor_python(findings, path);
		say_unseen(findings, first);
	}
	elf_close(&image);
}
