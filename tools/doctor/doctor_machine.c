/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine offers. Drivers and libraries are opened in a child process, which may crash or
 * hang on a broken installation; it tells what it found in lines of "key value".
 */
#include "tools/doctor/doctor.h"
#include "kernels/attention.h"
#include "tools/base/options.h"
#include "tools/doctor/kernels.h"
#include "tools/doctor/probe.h"
#include "tools/read/log_place.h"

#include <cuda.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the assembler that made the kernels' images. */
#ifndef KERNELS_CUDA
#define KERNELS_CUDA (CUDA_VERSION / 1000)
#endif

extern char **environ;

enum {
	GPU_MAX = 64,
	ATTRIBUTE_MAJOR = 75,
	ATTRIBUTE_MINOR = 76,
	STUB_LIBRARY = 34,
	NO_DEVICE = 100
};

/* ---- in the child --------------------------------------------------------------------------- */

static void say_place(const char *key, void *symbol)
{
	Dl_info info;

	if (symbol && dladdr(symbol, &info))
		printf("%s %s\n", key, info.dli_fname);
}

static void say_gpu(void *handle, int device, const struct kernels *kernels, int version)
{
	int (*name)(char *, int, int) = dlsym(handle, "cuDeviceGetName");
	int (*attribute)(int *, int, int) = dlsym(handle, "cuDeviceGetAttribute");
	int (*memory)(size_t *, int) = dlsym(handle, "cuDeviceTotalMem_v2");
	int major = 0, minor = 0;
	char text[128] = "?";
	size_t bytes = 0;

	if (!name || !attribute || !memory)
		return;
	name(text, sizeof(text), device);
	attribute(&major, ATTRIBUTE_MAJOR, device);
	attribute(&minor, ATTRIBUTE_MINOR, device);
	memory(&bytes, device);
	printf("gpu%d %d %zu %s\n", device, major * 10 + minor, bytes >> 20, text);
	fflush(stdout);
	if (kernels)
		printf("image%d %s\n", device, kernels_state(kernels, major * 10 + minor, version));
}

/* What the shim would call: driver_calls.def. */
static const struct call {
	const char *name, *older;
	int since;
	const char *lost; /* NULL: everything */
} calls[] = {
#define DRIVER(name, since)		   {#name, NULL, since, NULL},
#define DRIVER_NEWER(name, since, older)   {#name, #older, since, NULL},
#define DRIVER_OPTIONAL(name, since, lost) {#name, NULL, since, lost},
#include "shim/real/driver_calls.def"
#undef DRIVER
#undef DRIVER_NEWER
#undef DRIVER_OPTIONAL
};

enum { CALLS = sizeof(calls) / sizeof(*calls) };

static void say_lacking(void *handle)
{
	for (int i = 0; i < CALLS; i++)
		if (!dlsym(handle, calls[i].name) &&
		    !(calls[i].older && dlsym(handle, calls[i].older)))
			printf("lacks%d yes\n", i);
}

static void ask_driver(void *shim)
{
	struct kernels kernels;
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int (*version)(int *), (*init)(unsigned), (*count)(int *);
	int number = 0, gpus, result;
	bool have_kernels;

	if (!handle) {
		printf("missing %s\n", dlerror());
		return;
	}
	version = dlsym(handle, "cuDriverGetVersion");
	init = dlsym(handle, "cuInit");
	count = dlsym(handle, "cuDeviceGetCount");
	say_place("place", (void *)(uintptr_t)init);
	if (!version || !init || !count) {
		printf("missing libcuda.so.1 lacks cuInit()\n");
		return;
	}
	if (version(&number) == 0)
		printf("version %d.%d\n", number / 1000, number % 1000 / 10);
	fflush(stdout);
	say_lacking(handle);
	fflush(stdout);
	result = init(0);
	printf("init %d\n", result);
	if (result || count(&gpus))
		return;
	printf("count %d\n", gpus);
	fflush(stdout);
	have_kernels = kernels_open(&kernels, shim);
	for (int i = 0; i < gpus && i < GPU_MAX; i++)
		say_gpu(handle, i, have_kernels ? &kernels : NULL, number);
	kernels_close(&kernels);
}

static void ask_blas(void *unused)
{
	static const char *const names[] = {"libcublas.so.13", "libcublas.so.12"};

	(void)unused;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		void *handle = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
		int (*property)(int, int *) = handle ? dlsym(handle, "cublasGetProperty") : NULL;
		int version[3] = {0};

		for (int k = 0; property && k < 3; k++)
			property(k, &version[k]);
		if (!handle)
			continue;
		printf("%s %d.%d.%d\n", names[i], version[0], version[1], version[2]);
		say_place("place", dlsym(handle, "cublasCreate_v2"));
	}
}

static void ask_shim(void *library)
{
	if (!dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
		printf("%s\n", dlerror());
		_exit(1);
	}
}

/* ---- in the tool ---------------------------------------------------------------------------- */

static void check_shim(struct findings *findings, struct probe *probe, const char *library)
{
	if (!library)
		finding_add(findings, FINDING_BROKEN, "shim", "install fashim anew, or run make",
			    "libfashim.so is not where this command looks for it");
	else if (probe_run(probe, ask_shim, (void *)(uintptr_t)library) || probe->exit_code)
		finding_add(findings, FINDING_BROKEN, "shim", "", "%s cannot be loaded: %.*s",
			    library, (int)strcspn(probe->text, "\n"), probe->text);
	else if (strpbrk(library, " :"))
		finding_add(findings, FINDING_BROKEN, "shim", "move it",
			    "%s: LD_PRELOAD cannot hold a path with a space or a colon", library);
	else
		finding_add(findings, FINDING_OK, "shim", "", "%s", library);
}

/* What of an NVIDIA driver a container may have been given. */
static const char *container_hint(bool library)
{
	const bool module = access("/proc/driver/nvidia/version", F_OK) == 0;
	const bool devices = access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;

	if (module && !library)
		return "a container? start it with --gpus all and "
		       "NVIDIA_DRIVER_CAPABILITIES=compute,utility";
	if (module && !devices)
		return "a container? its /dev has no nvidia devices: start it with --gpus all";
	if (access("/usr/lib/wsl/lib/libcuda.so.1", F_OK) == 0 && !library)
		return "WSL: add /usr/lib/wsl/lib to LD_LIBRARY_PATH";
	return library ? "" : "install NVIDIA's driver; without a GPU: make demo, fashim replay";
}

/* image: of kernels_state(); NULL: it could not be looked up. */
static void check_gpu(struct findings *findings, int device, const char *value, const char *image)
{
	int arch = 0, kernels = 0, used = 0;
	size_t mebibytes = 0;
	char subject_text[128];

	if (sscanf(value, "%d %zu %n", &arch, &mebibytes, &used) < 2)
		return;
	snprintf(subject_text, sizeof(subject_text), "%d: %s, sm_%d, %.0f GiB", device,
		 value + used, arch, (double)mebibytes / 1024);
	for (int i = 0; i < attn_variant_total; i++) {
		const struct attn_variant *variant = &attn_variants[i];

		if (variant->family == ATTN_LADDER) /* never chosen */
			continue;
		kernels += variant->needs & ATTN_NEEDS_ARCH ? variant->min_arch == arch
							    : variant->min_arch <= arch;
	}
	if (kernels && image && !strcmp(image, "none"))
		finding_add(findings, FINDING_BROKEN, "GPU", "build for it: make ARCHS=...",
			    "%s: this build has no kernels for it", subject_text);
	else if (kernels && image && !strcmp(image, "text"))
		finding_add(findings, FINDING_BROKEN, "GPU", "fashim doctor --prepare",
			    "%s: this build has no machine code for it, only text, which nobody "
			    "compiled here yet",
			    subject_text);
	else if (kernels)
		finding_add(findings, FINDING_OK, "GPU", "", "%s: %d kernel variants%s",
			    subject_text, kernels,
			    image && !strcmp(image, "prepared") ? ", compiled here" : "");
	else
		finding_add(findings, FINDING_BROKEN, "GPU", "",
			    "%s: no kernel is compiled for it; sm_75 is the oldest", subject_text);
}

/* Functions that the driver is too old for: those of the same version and loss in one line. */
static void check_calls(struct findings *findings, const struct probe *probe)
{
	bool lacks[CALLS + 1] = {false};
	char names[512], key[16], text[8];

	for (int i = 0; i < CALLS; i++) {
		snprintf(key, sizeof(key), "lacks%d", i);
		lacks[i] = probe_value(probe->text, key, text, sizeof(text));
	}
	for (int i = 0; i < CALLS; i++) {
		size_t used = 0;

		if (!lacks[i])
			continue;
		names[0] = '\0';
		for (int k = i; k < CALLS; k++) {
			if (!lacks[k] || calls[k].since != calls[i].since ||
			    strcmp(calls[k].lost ? calls[k].lost : "",
				   calls[i].lost ? calls[i].lost : "") != 0 ||
			    used >= sizeof(names) - 1)
				continue;
			lacks[k] = k == i;
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? ", " : "", calls[k].name);
		}
		finding_add(findings, calls[i].lost ? FINDING_NOTE : FINDING_BROKEN, "driver",
			    calls[i].lost ? "" : "update the driver",
			    "it lacks %s (CUDA %d.%d): %s", names, calls[i].since / 1000,
			    calls[i].since % 1000 / 10,
			    calls[i].lost ? calls[i].lost : "nothing is replaced");
	}
}

static void check_driver(struct findings *findings, struct probe *probe, const char *library)
{
	char text[512], version[32] = "?", key[16], image[16];
	int init = 0, count = 0;

	if (probe_run(probe, ask_driver, (void *)(uintptr_t)library))
		return;
	probe_value(probe->text, "version", version, sizeof(version));
	if (probe_value(probe->text, "missing", text, sizeof(text))) {
		finding_add(findings, FINDING_BROKEN, "driver", container_hint(false), "%s", text);
		return;
	}
	if (probe->signal || probe->late) {
		finding_add(findings, FINDING_BROKEN, "driver", "try nvidia-smi; reboot",
			    "libcuda.so.1 (CUDA %s) %s in cuInit()", version,
			    probe->late ? "hangs" : "crashes");
		return;
	}
	if (probe_value(probe->text, "init", text, sizeof(text)))
		init = atoi(text);
	if (probe_value(probe->text, "count", text, sizeof(text)))
		count = atoi(text);
	if (init == STUB_LIBRARY)
		finding_add(findings, FINDING_BROKEN, "driver",
			    "take the toolkit's stubs folder out of LD_LIBRARY_PATH",
			    "libcuda.so.1 is the toolkit's stub, not a driver");
	else if (init)
		finding_add(findings, FINDING_BROKEN, "driver", container_hint(true),
			    init == NO_DEVICE ? "CUDA %s: cuInit() finds no GPU (error %d)"
					      : "CUDA %s: cuInit() fails with error %d",
			    version, init);
	else
		finding_add(findings, FINDING_OK, "driver", "", "CUDA %s, %s", version,
			    probe_value(probe->text, "place", text, sizeof(text)) ? text : "?");
	if (!init && atoi(version) < KERNELS_CUDA)
		finding_add(findings, FINDING_WARN, "driver",
			    "update the driver, or take a build with PORTABLE=1",
			    "it speaks CUDA %s, and the kernels were built with CUDA %d: they may "
			    "not load",
			    version, KERNELS_CUDA);
	if (!init)
		check_calls(findings, probe);
	if (!init && !count)
		finding_add(findings, FINDING_BROKEN, "GPU", "unset CUDA_VISIBLE_DEVICES",
			    "none is visible");
	for (int i = 0; i < count && i < GPU_MAX; i++) {
		const char *state;

		snprintf(key, sizeof(key), "image%d", i);
		state = probe_value(probe->text, key, image, sizeof(image));
		snprintf(key, sizeof(key), "gpu%d", i);
		if (probe_value(probe->text, key, text, sizeof(text)))
			check_gpu(findings, i, text, state);
	}
}

static void check_blas(struct findings *findings, struct probe *probe)
{
	char version[64], place[PATH_MAX];
	int found = 0;

	if (probe_run(probe, ask_blas, NULL))
		return;
	/* Each library's line has its place's line behind it. */
	for (const char *line = probe->text; *line; line = strchrnul(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "libcublas.so.%63[^\n]", version) == 1 &&
		    probe_value(line, "place", place, sizeof(place))) {
			finding_add(findings, FINDING_OK, "cuBLAS", "", "%s, %s",
				    strchr(version, ' ') ? strchr(version, ' ') + 1 : version,
				    place);
			found++;
		}
	}
	if (!found)
		finding_add(
			findings, FINDING_NOTE, "cuBLAS", "",
			"none on the loader's path; programs may bring their own, PyTorch does");
}

static void check_toolkit(struct findings *findings)
{
	const char *const roots[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		if (!roots[i])
			continue;
		snprintf(path, sizeof(path), "%s/bin/nvcc", roots[i]);
		if (access(path, X_OK) == 0) {
			finding_add(findings, FINDING_OK, "toolkit", "", "%s", roots[i]);
			return;
		}
	}
	finding_add(findings, FINDING_NOTE, "toolkit", "", "none; only building fashim needs one");
}

static void check_environment(struct findings *findings)
{
	for (char *const *entry = environ; *entry; entry++)
		option_known(*entry); /* says so itself */
	for (int i = 0; i < option_row_count; i++) {
		const char *value = getenv(option_rows[i].name);

		if (value && *value && !option_valid(&option_rows[i], value))
			finding_add(findings, FINDING_WARN, "options", "see fashim env",
				    "%s=%s is no %s; the shim takes %s", option_rows[i].name, value,
				    option_kind_name(option_rows[i].kind),
				    option_instead(&option_rows[i]));
		else if (value && *value)
			finding_add(findings, FINDING_NOTE, "options", "", "%s=%s",
				    option_rows[i].name, value);
	}
}

/* As the shim will find it. */
static void check_log(struct findings *findings)
{
	const char *pattern = getenv("FASHIM_OUT");
	const bool usual = !pattern || !*pattern;
	struct log_place place;
	char path[PATH_MAX], *instead;

	if (usual)
		pattern = option_find("FASHIM_OUT")->standard;
	if (!strcmp(pattern, "none"))
		return;
	snprintf(path, sizeof(path), "%s%s", *pattern == '/' ? "" : "./", pattern);
	if (!log_place_look(&place, path)) {
		finding_add(findings, FINDING_OK, "log", "", "%s can be written", pattern);
		return;
	}
	instead = log_place_state(false);
	if (instead)
		finding_add(findings, FINDING_WARN, "log", "set FASHIM_OUT, or -o",
			    "%s; %sthe log will be in %s", place.problem,
			    usual ? "" : "fashim run refuses it, of the library alone ", instead);
	else
		finding_add(findings, FINDING_BROKEN, "log", "set FASHIM_OUT, or -o", "%s",
			    place.problem);
	free(instead);
}

void doctor_machine(struct findings *findings, const char *library)
{
	struct probe *probe = malloc(sizeof(*probe));

	if (!probe)
		return;
	check_shim(findings, probe, library);
	check_driver(findings, probe, library);
	check_blas(findings, probe);
	check_toolkit(findings);
	check_log(findings);
	check_environment(findings);
	free(probe);
}
