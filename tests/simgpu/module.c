/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules, libraries, functions and kernels.
 *
 * A module image is one of two things. A shared object for this machine is loaded (from a memory
 * file where it came as bytes) and its functions are the symbols sim_kernel_<name>. Anything made
 * for a GPU (cubin, fat binary, PTX) stands for fashim's own kernels and becomes libsimkernels.so,
 * which lies beside this library. With SIMGPU_RUN=none kernels of all images but fashim's own do
 * nothing, and whoever asks for their parameters has to look into the image. With SIMGPU_JIT=off
 * text is refused, also in a fat binary (link.c makes a cubin of it). A CUfunction and a CUkernel
 * are different handles here, as on the real driver: either can be launched, each has its own
 * getters. Loading and unloading a module wait for all that its context was given, as CUDA 13.0
 * does on an H100 (tests/gpu/busy_device.c).
 */
#include "sim.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STATIC_SHARED  49152
#define CUBIN_MACHINE  190
#define FATBIN_MAGIC   0xba55ed50u
#define FATBIN_WRAPPER 0x466243b1u
#define FATBIN_TEXT    1

struct sim_module {
	enum sim_magic magic; /* SIM_MODULE or SIM_LIBRARY; 0 once unloaded */
	void *object;
	struct sim_function *functions;
	struct sim_module *module;     /* of a library: what cuLibraryGetModule gives */
	const struct sim_context *ctx; /* of a module: it goes with its context */
	struct sim_module *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_module *modules; /* never freed: late callers may still hold a handle */

/* ---- images ----------------------------------------------------------------------------- */

static size_t elf_bytes(const Elf64_Ehdr *e)
{
	const Elf64_Phdr *p = (const void *)((const char *)e + e->e_phoff);
	size_t end = e->e_shoff + (size_t)e->e_shnum * e->e_shentsize;

	for (int i = 0; i < e->e_phnum; i++)
		if (p[i].p_offset + p[i].p_filesz > end)
			end = p[i].p_offset + p[i].p_filesz;
	return end;
}

static void *load_bytes(const void *image, size_t bytes)
{
	int fd = memfd_create("simgpu-module", MFD_CLOEXEC);
	char path[32];
	void *object = NULL;

	if (fd < 0)
		return NULL;
	if (write(fd, image, bytes) == (ssize_t)bytes) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	close(fd);
	return object;
}

static void *load_own_kernels(void)
{
	char path[4096];
	Dl_info info;
	const char *slash;

	if (!dladdr((void *)load_own_kernels, &info) || !(slash = strrchr(info.dli_fname, '/')))
		return NULL;
	snprintf(path, sizeof(path), "%.*s/libsimkernels.so", (int)(slash - info.dli_fname),
		 info.dli_fname);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static bool host_elf(const Elf64_Ehdr *e)
{
	return e->e_ident[EI_CLASS] == ELFCLASS64 && e->e_type == ET_DYN &&
	       e->e_machine == EM_X86_64;
}

/* What stands for a stranger's image: all but what kernels.mk makes for the simulated GPU. */
static char strange;

static bool is_strange(const void *image)
{
	static const char own[] = ".version 8.0 // of the host build";

	return sim_runs_nothing() && strncmp(image, own, sizeof(own) - 1) != 0;
}

static int do_nothing(const unsigned grid[3], const unsigned block[3], unsigned shared,
		      void **params)
{
	(void)grid, (void)block, (void)shared, (void)params;
	return 0;
}

/* PTX, or a fat binary whose first entry, hence all of ours, is that. */
static bool is_text(const void *image)
{
	uint16_t header, kind;
	uint32_t word;

	memcpy(&word, image, sizeof(word));
	if (word != FATBIN_MAGIC)
		return memcmp(image, ELFMAG, SELFMAG) != 0 && word != FATBIN_WRAPPER;
	memcpy(&header, (const char *)image + 6, sizeof(header));
	memcpy(&kind, (const char *)image + header, sizeof(kind));
	return kind == FATBIN_TEXT;
}

static bool compiles(void)
{
	const char *value = getenv("SIMGPU_JIT");

	return !value || strcmp(value, "off") != 0;
}

static CUresult load_image(const void *image, void **object)
{
	const Elf64_Ehdr *e = image;
	uint32_t word;

	memcpy(&word, image, sizeof(word));
	if (!compiles() && is_text(image))
		return CUDA_ERROR_JIT_COMPILATION_DISABLED;
	if (is_strange(image) && (memcmp(image, ELFMAG, SELFMAG) || !host_elf(e))) {
		*object = &strange;
		return CUDA_SUCCESS;
	}
	if (!memcmp(image, ELFMAG, SELFMAG)) {
		if (host_elf(e)) {
			*object = load_bytes(image, elf_bytes(e));
			return *object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
		}
		if (e->e_machine != CUBIN_MACHINE)
			return CUDA_ERROR_INVALID_IMAGE;
	} else if (word != FATBIN_MAGIC && word != FATBIN_WRAPPER) {
		if (!strstr(image, ".version")) /* PTX is text, and ends with NUL */
			return CUDA_ERROR_INVALID_IMAGE;
	}
	*object = load_own_kernels();
	return *object ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

static CUresult load_file(const char *path, void **object)
{
	char head[sizeof(Elf64_Ehdr)] = {0};
	FILE *f = fopen(path, "rb");

	if (!f)
		return CUDA_ERROR_FILE_NOT_FOUND;
	size_t got = fread(head, 1, sizeof(head), f);
	fclose(f);
	if (got == sizeof(head) && !memcmp(head, ELFMAG, SELFMAG) && host_elf((void *)head)) {
		*object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		return *object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
	}
	*object = load_own_kernels();
	return *object ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

/* object: by address, since the caller fills it in the same argument list. */
static CUresult new_module(enum sim_magic magic, CUresult loaded, void *const *object, void *out)
{
	struct sim_module *m;

	if (loaded != CUDA_SUCCESS)
		return loaded;
	m = calloc(1, sizeof(*m));
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->magic = magic;
	m->object = *object;
	m->ctx = magic == SIM_MODULE ? sim_current() : NULL;
	pthread_mutex_lock(&lock);
	m->next = modules;
	modules = m;
	pthread_mutex_unlock(&lock);
	*(struct sim_module **)out = m;
	return CUDA_SUCCESS;
}

static struct sim_module *module_of(void *handle, enum sim_magic magic)
{
	struct sim_module *m = handle;

	return m && m->magic == magic ? m : NULL;
}

/* Finds or makes the handle of a kernel; the same name gives the same handle. */
static CUresult lookup(struct sim_module *m, const char *name, enum sim_magic magic,
		       struct sim_function **out)
{
	struct sim_function *f;
	char symbol[1024];

	pthread_mutex_lock(&lock);
	for (f = m->functions; f && (f->magic != magic || strcmp(f->name, name)); f = f->next)
		;
	if (!f) {
		static const struct sim_kernel nothing = {.run = do_nothing};
		snprintf(symbol, sizeof(symbol), "sim_kernel_%s", name);
		const struct sim_kernel *k =
			m->object == &strange ? &nothing : dlsym(m->object, symbol);
		f = k ? calloc(1, sizeof(*f)) : NULL;
		if (f) {
			f->magic = magic;
			f->kernel = k;
			f->name = strdup(name);
			f->owner = m;
			f->max_dynamic_shared = STATIC_SHARED;
			f->next = m->functions;
			m->functions = f;
		}
	}
	pthread_mutex_unlock(&lock);
	*out = f;
	return f ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static struct sim_function *handle_of(const void *handle, enum sim_magic magic)
{
	struct sim_function *f = (struct sim_function *)(uintptr_t)handle;

	return f && f->magic == magic ? f : NULL;
}

struct sim_function *sim_function(CUfunction handle)
{
	struct sim_function *f = handle_of(handle, SIM_FUNCTION);

	return f ? f : handle_of(handle, SIM_KERNEL_HANDLE);
}

/* ---- modules ---------------------------------------------------------------------------- */

CUresult CUDAAPI cuModuleLoad(CUmodule *out, const char *path)
{
	void *object = NULL;

	SIM_ENTER_CONTEXT(" path=%s", path ? path : "");
	if (!out || !path || !ctx)
		return CUDA_ERROR_INVALID_VALUE;
	sim_context_drain(ctx);
	return new_module(SIM_MODULE, load_file(path, &object), &object, out);
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *out, const void *image)
{
	void *object = NULL;

	SIM_ENTER_CONTEXT(" image=%p", image);
	if (!out || !image || !ctx)
		return CUDA_ERROR_INVALID_VALUE;
	sim_context_drain(ctx);
	return new_module(SIM_MODULE, load_image(image, &object), &object, out);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
				    CUjit_option *options, void **values)
{
	(void)count;
	(void)options;
	(void)values;
	SIM_LOG(" image=%p", image);
	return cuModuleLoadData(out, image);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
	SIM_LOG(" image=%p", image);
	return cuModuleLoadData(out, image);
}

static void end_module(struct sim_module *m)
{
	m->magic = 0;
	for (struct sim_function *f = m->functions; f; f = f->next)
		f->magic = 0;
}

void sim_modules_end(const struct sim_context *ctx)
{
	pthread_mutex_lock(&lock);
	for (struct sim_module *m = modules; m; m = m->next)
		if (m->magic == SIM_MODULE && m->ctx == ctx)
			end_module(m);
	pthread_mutex_unlock(&lock);
}

CUresult CUDAAPI cuModuleUnload(CUmodule handle)
{
	SIM_ENTER_CONTEXT(" module=%p", (void *)handle);
	struct sim_module *m = module_of(handle, SIM_MODULE);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_context_drain(ctx);
	end_module(m);
	return CUDA_SUCCESS; /* the code stays mapped: a graph may still hold it */
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
	struct sim_function *f;

	SIM_ENTER(" name=%s", name ? name : "");
	struct sim_module *m = module_of(handle, SIM_MODULE);
	if (!out || !name || !m)
		return m ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	CUresult result = lookup(m, name, SIM_FUNCTION, &f);
	if (result == CUDA_SUCCESS)
		*out = (CUfunction)f;
	return result;
}

/* A variable with a name of C's. */
CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr *out, size_t *bytes, CUmodule handle,
				   const char *name)
{
	SIM_ENTER_CONTEXT(" name=%s", name ? name : "");
	struct sim_module *m = module_of(handle, SIM_MODULE);
	void *at = m && name ? dlsym(m->object, name) : NULL;
	Elf64_Sym *symbol;
	Dl_info info;
	if (!at || !dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return CUDA_ERROR_NOT_FOUND;
	sim_register(ctx, (uintptr_t)at, symbol->st_size); /* may have been before */
	if (out)
		*out = (uintptr_t)at;
	if (bytes)
		*bytes = symbol->st_size;
	return CUDA_SUCCESS;
}

/* ---- libraries -------------------------------------------------------------------------- */

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *out, const void *image, CUjit_option *jit,
				   void **jit_values, unsigned int jit_count,
				   CUlibraryOption *options, void **values, unsigned int count)
{
	void *object = NULL;

	SIM_ENTER(" image=%p", image);
	(void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	return new_module(SIM_LIBRARY, load_image(image, &object), &object, out);
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit,
				       void **jit_values, unsigned int jit_count,
				       CUlibraryOption *options, void **values, unsigned int count)
{
	void *object = NULL;

	SIM_ENTER(" path=%s", path ? path : "");
	(void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
	if (!out || !path)
		return CUDA_ERROR_INVALID_VALUE;
	return new_module(SIM_LIBRARY, load_file(path, &object), &object, out);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary handle)
{
	SIM_ENTER(" library=%p", (void *)handle);
	struct sim_module *m = module_of(handle, SIM_LIBRARY);
	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	m->magic = 0;
	for (struct sim_function *f = m->functions; f; f = f->next)
		f->magic = 0;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
	struct sim_function *f;

	SIM_ENTER(" name=%s", name ? name : "");
	struct sim_module *m = module_of(handle, SIM_LIBRARY);
	if (!out || !name || !m)
		return m ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	CUresult result = lookup(m, name, SIM_KERNEL_HANDLE, &f);
	if (result == CUDA_SUCCESS)
		*out = (CUkernel)f;
	return result;
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
	SIM_ENTER_CONTEXT(" library=%p", (void *)handle);
	struct sim_module *m = module_of(handle, SIM_LIBRARY);
	if (!out || !m || !ctx)
		return m ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	if (!m->module) {
		CUresult result = new_module(SIM_MODULE, CUDA_SUCCESS, &m->object, &m->module);
		if (result != CUDA_SUCCESS)
			return result;
	}
	*out = (CUmodule)m->module;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
	struct sim_function *f;

	SIM_ENTER_CONTEXT(" kernel=%p", (void *)handle);
	struct sim_function *k = handle_of(handle, SIM_KERNEL_HANDLE);
	if (!out || !k || !ctx)
		return k ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	CUresult result = lookup(k->owner, k->name, SIM_FUNCTION, &f);
	if (result == CUDA_SUCCESS)
		*out = (CUfunction)f;
	return result;
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *out, CUkernel handle)
{
	SIM_ENTER(" kernel=%p", (void *)handle);
	struct sim_function *k = handle_of(handle, SIM_KERNEL_HANDLE);
	if (!out || !k)
		return k ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*out = k->owner;
	return CUDA_SUCCESS;
}

/* ---- getters, the same for either kind of handle ---------------------------------------- */

static CUresult parameter(const struct sim_function *f, size_t i, size_t *offset, size_t *size)
{
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (f->kernel->run == do_nothing)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (i >= f->kernel->param_count || !offset)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = f->kernel->param_offset[i];
	if (size)
		*size = f->kernel->param_size[i];
	return CUDA_SUCCESS;
}

static CUresult get_attribute(const struct sim_function *f, CUfunction_attribute what, int *value)
{
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	switch (what) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = 32;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = 90;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = f->max_dynamic_shared;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = f->preferred_carveout;
		break;
	default:
		*value = 0;
	}
	return CUDA_SUCCESS;
}

static CUresult set_attribute(struct sim_function *f, CUfunction_attribute what, int value)
{
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (what == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
		if (value < 0 || value > 232448)
			return CUDA_ERROR_INVALID_VALUE;
		f->max_dynamic_shared = value > STATIC_SHARED ? value : STATIC_SHARED;
	} else if (what == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
		f->preferred_carveout = value;
	}
	return CUDA_SUCCESS;
}

static CUresult get_name(const struct sim_function *f, const char **name)
{
	if (!f || !name)
		return f ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*name = f->name;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction f)
{
	SIM_ENTER(" function=%p", (void *)f);
	return get_name(handle_of(f, SIM_FUNCTION), name);
}

CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel k)
{
	SIM_ENTER(" kernel=%p", (void *)k);
	return get_name(handle_of(k, SIM_KERNEL_HANDLE), name);
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *size)
{
	SIM_ENTER(" function=%p index=%zu", (void *)f, index);
	return parameter(handle_of(f, SIM_FUNCTION), index, offset, size);
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset, size_t *size)
{
	SIM_ENTER(" kernel=%p index=%zu", (void *)k, index);
	return parameter(handle_of(k, SIM_KERNEL_HANDLE), index, offset, size);
}

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute what, CUfunction f)
{
	SIM_ENTER(" function=%p attribute=%d", (void *)f, what);
	return get_attribute(sim_function(f), what, value);
}

CUresult CUDAAPI cuKernelGetAttribute(int *value, CUfunction_attribute what, CUkernel k,
				      CUdevice device)
{
	SIM_ENTER(" kernel=%p attribute=%d device=%d", (void *)k, what, device);
	return get_attribute(handle_of(k, SIM_KERNEL_HANDLE), what, value);
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction f, CUfunction_attribute what, int value)
{
	SIM_ENTER(" function=%p attribute=%d value=%d", (void *)f, what, value);
	return set_attribute(sim_function(f), what, value);
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute what, int value, CUkernel k,
				      CUdevice device)
{
	SIM_ENTER(" kernel=%p attribute=%d value=%d device=%d", (void *)k, what, value, device);
	return set_attribute(handle_of(k, SIM_KERNEL_HANDLE), what, value);
}

CUresult CUDAAPI cuFuncGetModule(CUmodule *out, CUfunction handle)
{
	SIM_ENTER(" function=%p", (void *)handle);
	struct sim_function *f = handle_of(handle, SIM_FUNCTION);
	if (!f || !out)
		return f ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	*out = f->owner;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config)
{
	SIM_ENTER(" function=%p config=%d", (void *)f, config);
	return sim_function(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuFuncLoad(CUfunction f)
{
	SIM_ENTER(" function=%p", (void *)f);
	return sim_function(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction f)
{
	SIM_ENTER(" function=%p", (void *)f);
	if (!state || !sim_function(f))
		return CUDA_ERROR_INVALID_VALUE;
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads,
							     size_t shared)
{
	SIM_ENTER(" function=%p threads=%d shared=%zu", (void *)f, threads, shared);
	if (!blocks || !sim_function(f) || threads <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	int by_threads = 2048 / threads, by_shared = (int)(233472 / (shared + 1024));
	*blocks = by_threads < by_shared ? by_threads : by_shared;
	if (*blocks > 32)
		*blocks = 32;
	return CUDA_SUCCESS;
}
