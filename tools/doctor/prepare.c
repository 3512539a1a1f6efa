/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's own linker compiles: no toolkit is needed, and what comes out is for this driver and
 * all later ones. Each part is a file of its own, there as soon as it is compiled.
 */
#include "tools/doctor/prepare.h"
#include "shim/gpu/kernel_cache.h"
#include "shim/gpu/tuned_file.h"
#include "tools/base/folders.h"
#include "tools/base/progress.h"
#include "tools/base/tool.h"
#include "tools/doctor/kernels.h"

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRIVER_CALLS(CALL)                                                                         \
	CALL(cuInit)                                                                               \
	CALL(cuDriverGetVersion)                                                                   \
	CALL(cuDeviceGetCount)                                                                     \
	CALL(cuDeviceGet)                                                                          \
	CALL(cuDeviceGetAttribute)                                                                 \
	CALL(cuDevicePrimaryCtxRetain)                                                             \
	CALL(cuDevicePrimaryCtxRelease)                                                            \
	CALL(cuCtxSetCurrent)                                                                      \
	CALL(cuGetErrorString)                                                                     \
	CALL(cuLinkCreate)                                                                         \
	CALL(cuLinkAddData)                                                                        \
	CALL(cuLinkComplete)                                                                       \
	CALL(cuLinkDestroy)

/* The header renames calls to their newest version; so does this. */
#define QUOTE(name)	#name
#define SYMBOL_OF(name) QUOTE(name)

#define MEMBER(name) __typeof__(name) *name;
static struct {
	DRIVER_CALLS(MEMBER)
} driver;

static int open_driver(void)
{
	const struct {
		const char *symbol;
		void **at;
	} entries[] = {
#define CALL(name) {SYMBOL_OF(name), (void **)&driver.name},
		DRIVER_CALLS(CALL)
#undef CALL
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; library && i < sizeof(entries) / sizeof(*entries); i++) {
		*entries[i].at = dlsym(library, entries[i].symbol);
		if (!*entries[i].at)
			library = NULL;
	}
	if (library)
		return 0;
	complain("there is no NVIDIA driver here that could compile (libcuda.so.1)");
	return -ENODEV;
}

static int failed(const char *what, CUresult result)
{
	const char *text = "?";

	driver.cuGetErrorString(result, &text);
	complain("%s: %s", what, text);
	return -EIO;
}

/* ---- a file --------------------------------------------------------------------------------- */

static bool write_all(int fd, const void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		const ssize_t n = write(fd, (const char *)data + done, bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/* Whole or not at all. */
static int keep(const char *path, const struct kernel_cache_header *header, const void *code)
{
	char fresh[PATH_MAX + 8];
	int fd, error = make_folders(path);

	if (error)
		goto out;
	snprintf(fresh, sizeof(fresh), "%s.XXXXXX", path);
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0 || !write_all(fd, header, sizeof(*header)) ||
	    !write_all(fd, code, header->bytes) || fsync(fd) || rename(fresh, path))
		error = errno ? -errno : -EIO;
	if (fd >= 0)
		close(fd);
	if (error && fd >= 0)
		unlink(fresh);
out:
	if (error)
		complain("%s: %s", path, strerror(-error));
	return error;
}

/* ---- parts ---------------------------------------------------------------------------------- */

static int compile(const char *path, struct kernel_cache_header *header, const void *part,
		   size_t bytes)
{
	CUlinkState state = NULL;
	void *code = NULL;
	size_t size = 0;
	CUresult result;
	int error;

	result = driver.cuLinkCreate(0, NULL, NULL, &state);
	if (result == CUDA_SUCCESS)
		result =
			driver.cuLinkAddData(state, CU_JIT_INPUT_FATBINARY, (void *)(uintptr_t)part,
					     bytes, "fashim", 0, NULL, NULL);
	if (result == CUDA_SUCCESS)
		result = driver.cuLinkComplete(state, &code, &size);
	if (result == CUDA_SUCCESS) {
		header->bytes = size;
		header->code = tuned_number(code, size);
		error = keep(path, header, code);
	} else {
		error = failed("the driver does not compile the kernels", result);
	}
	if (state)
		driver.cuLinkDestroy(state);
	return error;
}

/* What one GPU came to. */
struct prepared {
	int parts, made;
	size_t bytes; /* of code, that was made */
};

static int prepare_part(struct prepared *prepared, const void *part, size_t bytes, int arch,
			int version)
{
	struct kernel_cache_header header = {
		.arch = arch, .driver = version, .part = tuned_number(part, bytes)};
	char path[PATH_MAX], *file;
	int error;

	if (kernel_cache_read(&file, part, bytes, arch, version)) {
		free(file);
		return 0;
	}
	if (kernel_cache_path(path, sizeof(path), part, bytes, arch)) {
		complain("there is no place for a cache: neither XDG_CACHE_HOME nor HOME is an "
			 "absolute path");
		return -ENOENT;
	}
	memcpy(header.magic, KERNEL_CACHE_MAGIC, sizeof(header.magic));
	error = compile(path, &header, part, bytes);
	prepared->made += !error;
	prepared->bytes += header.bytes;
	return error;
}

static int prepare_parts(const struct kernels *kernels, const struct kernel_image *image, int arch,
			 int version)
{
	const void *parts[KERNELS_PARTS];
	struct prepared prepared = {.parts = kernels_parts(kernels, image, parts)};
	int error = 0;

	for (int i = 0; i < prepared.parts && !error; i++) {
		progress("compiling kernels", i, prepared.parts, NULL);
		error = prepare_part(&prepared, parts[i], kernels->part_bytes(parts[i]), arch,
				     version);
	}
	progress_end();
	if (!error)
		complain("kernels for sm_%d: %d parts compiled (%.1f MiB), %d were there", arch,
			 prepared.made, (double)prepared.bytes / (1 << 20),
			 prepared.parts - prepared.made);
	return error;
}

/* ---- GPUs ----------------------------------------------------------------------------------- */

static int prepare_gpu(const struct kernels *kernels, int number, int version)
{
	const struct kernel_image *image;
	int major = 0, minor = 0, error;
	CUcontext context;
	CUdevice device;
	CUresult result;

	driver.cuDeviceGet(&device, number);
	driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	image = kernels->image_for(10 * major + minor);
	if (!image || !image->ptx)
		return 0;
	result = driver.cuDevicePrimaryCtxRetain(&context, device);
	if (result != CUDA_SUCCESS)
		return failed("the GPU cannot be used", result);
	result = driver.cuCtxSetCurrent(context);
	error = result == CUDA_SUCCESS ? prepare_parts(kernels, image, 10 * major + minor, version)
				       : failed("the GPU cannot be used", result);
	driver.cuCtxSetCurrent(NULL);
	driver.cuDevicePrimaryCtxRelease(device);
	return error;
}

static int prepare(const char *shim)
{
	struct kernels kernels = {0};
	int version = 0, count = 0, error = open_driver();
	CUresult result;

	if (error)
		return error;
	result = driver.cuInit(0);
	if (result == CUDA_SUCCESS)
		result = driver.cuDeviceGetCount(&count);
	if (result != CUDA_SUCCESS)
		return failed("the driver finds no GPU", result);
	driver.cuDriverGetVersion(&version);
	if (!kernels_open(&kernels, shim)) {
		complain("libfashim_kernels.so is not beside the shim, or does not load");
		error = -ENOENT;
	}
	for (int i = 0; i < count && !error; i++)
		error = prepare_gpu(&kernels, i, version);
	kernels_close(&kernels);
	return error;
}

/* In a child: a driver may crash, and one that was begun with cannot be begun again behind a fork,
 * as the doctor's other questions want it. */
int doctor_prepare(const char *shim)
{
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(prepare(shim) ? EXIT_FAILED : EXIT_OK);
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		complain("the driver was ended by signal %d while it compiled", WTERMSIG(status));
	return status ? -EIO : 0;
}
