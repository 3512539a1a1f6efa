/* SPDX-License-Identifier: Apache-2.0
 *
 * A Python program's CUDA libraries come with `import`, so its own file says nothing: the installed
 * packages do. They are found by their metadata; none is imported.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/probe.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct package {
	const char *name;
	const char *library; /* that calls cuBLAS, below the package; NULL: not one alone */
	const char *note;
} packages[] = {
	{"torch", "lib/libtorch_cuda.so",
	 "attn_implementation=\"eager\" and spelt-out attention are recognised; "
	 "scaled_dot_product_attention is fused already"},
	{"ctranslate2", NULL, "opens cuBLAS at run time: the shim answers its dlsym()"},
	{"cupy", NULL, "its cuBLAS calls bind to the shim"},
	{"tensorflow", NULL,
	 "XLA generates kernels of its own for most of attention: only GEMMs that it leaves to "
	 "cuBLAS are seen"},
	{"jaxlib", NULL,
	 "XLA generates kernels of its own for most of attention: only GEMMs that it leaves to "
	 "cuBLAS are seen"},
};

enum { PACKAGE_COUNT = sizeof(packages) / sizeof(*packages) };

/* One line for each package that is there: NAME VERSION FOLDER. */
static const char script[] =
	"import sys, importlib.util as u, importlib.metadata as m\n"
	"for name in sys.argv[1:]:\n"
	"    try:\n"
	"        found = u.find_spec(name)\n"
	"        if found and found.submodule_search_locations:\n"
	"            print(name, m.version(name), list(found.submodule_search_locations)[0])\n"
	"    except Exception:\n"
	"        pass\n";

static void ask(void *argument)
{
	const char *words[PACKAGE_COUNT + 4] = {argument, "-c", script};

	for (int i = 0; i < PACKAGE_COUNT; i++)
		words[3 + i] = packages[i].name;
	execv(argument, (char *const *)(uintptr_t)words);
	_exit(127);
}

static void ask_path(void *argument)
{
	execl(argument, argument, "-c", "import sys; print('path', sys.executable)", (char *)NULL);
	_exit(127);
}

bool doctor_python_path(const char *python, char *path, size_t size)
{
	struct probe *probe = malloc(sizeof(*probe));
	char copy[PATH_MAX];
	bool told;

	snprintf(copy, sizeof(copy), "%s", python);
	told = probe && probe_run(probe, ask_path, copy) == 0 &&
	       probe_value(probe->text, "path", path, size);
	free(probe);
	return told;
}

void doctor_python(struct findings *findings, const char *python)
{
	struct probe *probe = malloc(sizeof(*probe));
	char path[PATH_MAX], interpreter[PATH_MAX];
	int found = 0;

	snprintf(interpreter, sizeof(interpreter), "%s", python);
	if (!probe || probe_run(probe, ask, interpreter)) {
		free(probe);
		return;
	}
	for (int i = 0; i < PACKAGE_COUNT; i++) {
		char value[PATH_MAX + 64], *folder;

		if (!probe_value(probe->text, packages[i].name, value, sizeof(value)))
			continue;
		folder = strchr(value, ' ');
		if (!folder)
			continue;
		*folder++ = '\0';
		found++;
		finding_add(findings, FINDING_NOTE, "package", "", "%s %s: %s", packages[i].name,
			    value, packages[i].note);
		if (!packages[i].library)
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, packages[i].library);
		if (access(path, R_OK) == 0)
			doctor_object(findings, strrchr(path, '/') + 1, path);
		else
			finding_add(findings, FINDING_WARN, "package", "install its CUDA build",
				    "%s is a build without CUDA", packages[i].name);
	}
	if (!found)
		finding_add(findings, FINDING_NOTE, "package", "",
			    "%s has none of the packages that usually bring CUDA", python);
	free(probe);
}
