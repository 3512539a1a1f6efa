/* SPDX-License-Identifier: Apache-2.0
 *
 * Which image a kernel comes from, and what was read of it (kernel_code.h). Modules and libraries
 * stand in a table by handle. It has a lock of its own: images are loaded on any thread, and read
 * with the flow lock held.
 */
#include "shim/code/kernel_code.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/code/kernel_code_parts.h"
#include "shim/code/kernel_names.h"
#include "shim/real/driver.h"
#include "shim/base/message.h"

#define BUCKETS	    1024
#define MODULES_MAX (64u << 10)
#define ROWS_MAX    (1u << 20)	/* kernels in all tables */
#define AT_ONCE_MAX (16u << 20) /* bytes of an image that has to be read while it is loaded, */
#define PACKED_MAX  (4u << 20)	/* and of a fat binary */
#define OWN_MAX	    (1u << 20)	/* of one that is kept, … */
#define OWN_ALL	    (64u << 20) /* … of all of them, */
#define TEXT_MAX    (4u << 20)	/* and of one that is read for what one kernel does */
#define READINGS    3		/* of an image for a kernel each; then for all. Of one that is */
#define SMALL	    (1u << 20)	/* … so small, and unpacked once (unpacked.h), … */
#define MORE	    16		/* … so many */
#define ASKED	    (1u << 31)	/* in what is kept of a kernel: its deeds are known */

struct module {
	const void *handle;
	const void *same;	    /* the library that it belongs to; NULL: none */
	const unsigned char *image; /* while it may be read again, else NULL */
	unsigned char *own;	    /* the same, where it is a copy */
	size_t bytes;
	struct code_table table;
	bool known, exposed;
	unsigned readings;
	struct module *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct module *buckets[BUCKETS];
static size_t modules, rows, own_bytes;
static bool stranger_exposed; /* a variable of a module that is not known, perhaps a library's */
static struct code_targets targets;
static _Atomic pid_t owner; /* CUDA does not survive a fork, and the lock may not either */

/* ---- modules ------------------------------------------------------------------------------------
 */

static struct module **slot_of(const void *handle)
{
	return &buckets[(uintptr_t)handle * 0x9e3779b97f4a7c15ull >> 32 & (BUCKETS - 1)];
}

static struct module *find(const void *handle)
{
	struct module *module = *slot_of(handle);

	while (module && module->handle != handle)
		module = module->next;
	return module;
}

static void drop(const void *handle)
{
	struct module **at = slot_of(handle), *module;

	while (*at && (*at)->handle != handle)
		at = &(*at)->next;
	module = *at;
	if (!module)
		return;
	*at = module->next;
	rows -= module->table.count;
	modules--;
	code_table_free(&module->table);
	if (module->own)
		own_bytes -= module->bytes;
	free(module->own);
	free(module);
}

/* In place of what had the handle before. NULL: no memory, or enough is kept. */
static struct module *add(const void *handle)
{
	struct module **at = slot_of(handle), *module;

	drop(handle);
	module = modules < MODULES_MAX ? calloc(1, sizeof(*module)) : NULL;
	if (!module)
		return NULL;
	module->handle = handle;
	module->next = *at;
	*at = module;
	modules++;
	return module;
}

static bool begin(void)
{
	const pid_t me = getpid();
	pid_t first = 0;

	if (!atomic_compare_exchange_strong(&owner, &first, me) && first != me)
		return false;
	pthread_mutex_lock(&lock);
	return true;
}

/* Every GPU of the process: a library's kernel runs on whichever is current. */
static bool find_targets(void)
{
	const int room = sizeof(targets.sm) / sizeof(*targets.sm);
	int major, minor;
	CUdevice device;

	if (targets.count || driver_resolve() < 0)
		return targets.count != 0;
	for (int i = 0; driver.cuDeviceGet(&device, i) == CUDA_SUCCESS; i++) {
		if (i == room ||
		    driver.cuDeviceGetAttribute(&major,
						CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
						device) != CUDA_SUCCESS ||
		    driver.cuDeviceGetAttribute(&minor,
						CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
						device) != CUDA_SUCCESS) {
			targets.count = 0;
			return false;
		}
		targets.sm[targets.count++] = (uint16_t)(major * 10 + minor);
	}
	return targets.count != 0;
}

/* wanted: as in code_table. */
static void read_now(struct module *module, const unsigned char *image, size_t bytes,
		     const char *wanted)
{
	const bool ready = find_targets();

	rows -= module->table.count;
	code_table_free(&module->table);
	module->readings++;
	module->table.wanted = wanted;
	module->table.layouts = !driver.cuFuncGetParamInfo || !driver.cuKernelGetParamInfo;
	module->known = ready && !code_read_image(image, bytes, &targets, &module->table);
	module->table.wanted = NULL;
	code_table_sort(&module->table);
	if (!module->known || module->table.count > ROWS_MAX - rows) {
		module->known = false;
		code_table_free(&module->table);
	}
	rows += module->table.count;
	message_debug("image of %zu bytes: %s", bytes,
		      module->known ? "its kernels are read" : "its kernels stay unknown");
}

/* What compilers of the program's make at run time is small. */
static void keep(struct module *module, const void *image, size_t bytes)
{
	if (config()->mode < MODE_COMPARE || !module->known || bytes > OWN_MAX ||
	    bytes > OWN_ALL - own_bytes)
		return;
	module->own = malloc(bytes);
	if (!module->own)
		return;
	memcpy(module->own, image, bytes);
	module->bytes = bytes;
	own_bytes += bytes;
}

struct place {
	uintptr_t begin, bytes;
};

/* Is all of it in one piece of that object's file? */
static int holds(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct place *place = data;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const uintptr_t at = place->begin - (info->dlpi_addr + segment->p_vaddr);

		if (segment->p_type == PT_LOAD && at < segment->p_filesz &&
		    place->bytes <= segment->p_filesz - at)
			return 1;
	}
	return 0;
}

static bool stays(const void *image, size_t bytes)
{
	struct place place = {(uintptr_t)image, bytes};

	return dl_iterate_phdr(holds, &place) == 1;
}

/* ---- told by hooks ------------------------------------------------------------------------------
 */

void kernel_code_loaded(const void *handle, const void *image)
{
	const int kept = errno;
	struct module *module;
	size_t bytes;

	COST(PURPOSE_IMAGES);
	if (!begin())
		return;
	module = add(handle);
	bytes = module && image ? code_image_bytes(&image) : 0;
	if (bytes && stays(image, bytes)) {
		module->image = image;
		module->bytes = bytes;
	} else if (bytes && bytes <= (code_is_fatbin(image) ? PACKED_MAX : AT_ONCE_MAX)) {
		read_now(module, image, bytes, NULL);
		keep(module, image, bytes);
	}
	pthread_mutex_unlock(&lock);
	errno = kept;
}

void kernel_code_loaded_file(const void *handle, const char *path)
{
	const int kept = errno, file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	unsigned char *image = MAP_FAILED;
	struct module *module;
	struct stat status;

	COST(PURPOSE_IMAGES);
	if (begin()) {
		module = add(handle);
		if (module && file >= 0 && !fstat(file, &status) && status.st_size > 0 &&
		    status.st_size <= AT_ONCE_MAX)
			image = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
		if (image != MAP_FAILED) {
			read_now(module, image, (size_t)status.st_size, NULL);
			keep(module, image, (size_t)status.st_size);
			munmap(image, (size_t)status.st_size);
		}
		pthread_mutex_unlock(&lock);
	}
	if (file >= 0)
		close(file);
	errno = kept;
}

void kernel_code_same(const void *handle, const void *library)
{
	const int kept = errno;
	struct module *module;

	COST(PURPOSE_IMAGES);
	if (handle == library || !begin())
		return;
	module = find(handle);
	if (!module || module->same != library) {
		module = add(handle);
		if (module)
			module->same = library;
	}
	pthread_mutex_unlock(&lock);
	errno = kept;
}

/* Of a module that was not read no kernel was launched again. */
static bool reads_constants(const struct module *module)
{
	bool any = false;

	for (size_t i = 0; module->known && i < module->table.count && !any; i++)
		any = module->table.rows[i].deeds & DEED_CONSTANTS;
	return any;
}

bool kernel_code_exposed(const void *handle)
{
	const int kept = errno;
	struct module *module;
	bool news;

	if (!begin())
		return false;
	module = find(handle);
	if (module && module->same)
		module = find(module->same);
	if (module) {
		news = !module->exposed && reads_constants(module);
		module->exposed = true;
	} else {
		news = !stranger_exposed;
		stranger_exposed = true;
	}
	pthread_mutex_unlock(&lock);
	errno = kept;
	return news;
}

void kernel_code_unloaded(const void *handle)
{
	const int kept = errno;

	COST(PURPOSE_IMAGES);
	if (!begin())
		return;
	drop(handle);
	pthread_mutex_unlock(&lock);
	kernel_names_forget(handle);
	errno = kept;
}

/* ---- asked --------------------------------------------------------------------------------------
 */

/* Lock held. Handles of functions and of kernels are not told apart by looking at them
 * (function.c). */
static struct module *module_of(CUfunction function)
{
	struct module *module = NULL;
	CUmodule handle;
	CUlibrary library;

	if (driver.cuFuncGetModule && driver.cuFuncGetModule(&handle, function) == CUDA_SUCCESS)
		module = find(handle);
	if (!module && driver.cuKernelGetLibrary &&
	    driver.cuKernelGetLibrary(&library, (CUkernel)function) == CUDA_SUCCESS)
		module = find(library);
	if (!module)
		module = find(kernel_owner(function));
	return module && module->same ? find(module->same) : module;
}

/* Does its table say all of that kernel? */
static bool is_read(const struct module *module, const char *name)
{
	const struct code_row *row = code_table_row(&module->table, name, strlen(name));

	return module->readings && !(module->known && row && row->deeds & CODE_UNREAD);
}

/* With its table, if it can be had, and all that it can say of the kernel. NULL: it cannot. */
static struct module *module_read(CUfunction function, const char *name)
{
	struct module *module = module_of(function);

	/* What it lies in may have been closed without a word. */
	if (module && module->image && !is_read(module, name) &&
	    stays(module->image, module->bytes))
		read_now(module, module->image, module->bytes,
			 module->readings < (module->bytes > SMALL ? READINGS : MORE) ? name
										      : NULL);
	return module && module->known ? module : NULL;
}

/* *exposed: the program may have written the module's constants. */
static uint32_t ask(CUfunction function, const char *name, uint32_t *kept, bool *exposed)
{
	uint32_t deeds = kept ? *kept : 0;

	*exposed = true;
	if (driver_resolve() < 0 || ((!deeds || deeds & DEED_CONSTANTS) && !begin()))
		return DEED_UNKNOWN;
	if (!deeds || deeds & DEED_CONSTANTS) {
		const struct module *module;

		COST(PURPOSE_IMAGES);
		if (!deeds) {
			module = module_read(function, name);
			deeds = (module ? code_table_deeds(&module->table, name) : DEED_UNKNOWN) |
				ASKED;
		}
		module = deeds & DEED_CONSTANTS ? module_of(function) : NULL;
		*exposed = !module || module->exposed || stranger_exposed;
		pthread_mutex_unlock(&lock);
	}
	if (kept)
		*kept = deeds;
	return deeds & ~ASKED;
}

static const char *gravest(uint32_t deeds)
{
	static const char *const words[] = {
#define DEED(name, phrase) phrase,
#include "shim/code/kernel_code.def"
	};

	deeds &= (1u << DEEDS) - 1;
	return deeds ? words[__builtin_ctz(deeds)] : NULL;
}

const char *kernel_code_hindrance(CUfunction handle, const char *name, uint32_t *known)
{
	bool exposed;
	uint32_t deeds = ask(handle, name, known, &exposed);

	return gravest(exposed ? deeds : deeds & ~(uint32_t)DEED_CONSTANTS);
}

bool kernel_code_variables(CUfunction handle, const char *name, uint32_t *known)
{
	bool exposed;
	uint32_t deeds = ask(handle, name, known, &exposed);

	return deeds & CODE_KEEPS || (deeds & DEED_CONSTANTS && exposed);
}

/* Whatever leads to other memory, or to other code. */
#define REACHES                                                                                    \
	(DEED_UNKNOWN | DEED_LAUNCHES | DEED_INDIRECT | DEED_GLOBALS | DEED_TEXTURES | DEED_MAPS | \
	 CODE_UNPROVEN | CODE_UNREAD)

enum code_reach kernel_code_reach(CUfunction handle, const char *name, uint32_t *known)
{
	bool exposed;
	uint32_t deeds = ask(handle, name, known, &exposed);

	if (deeds & DEED_FOLLOWS)
		return CODE_FOLLOWS;
	if (deeds & CODE_SAYS_NEAR)
		deeds &= ~CODE_UNPROVEN;
	return deeds & REACHES ? CODE_BY_VALUE : CODE_NEAR;
}

int kernel_code_beside(CUfunction handle, const char *name)
{
	const struct module *module;
	int found = -1;

	if (driver_resolve() < 0 || !begin())
		return -1;
	COST(PURPOSE_IMAGES);
	module = module_read(handle, name);
	if (module)
		found = code_table_row(&module->table, name, strlen(name)) != NULL;
	pthread_mutex_unlock(&lock);
	return found;
}

int kernel_code_layout(CUfunction handle, const char *name, unsigned room, unsigned *offset,
		       unsigned *size)
{
	struct code_layout layout;
	struct module *module;
	bool known;

	if (driver_resolve() < 0 || !begin())
		return -1;
	COST(PURPOSE_IMAGES);
	module = module_read(handle, name);
	known = module && code_table_layout(&module->table, name, &layout) && layout.count <= room;
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; known && i < layout.count; i++) {
		offset[i] = layout.offset[i];
		size[i] = layout.size[i];
	}
	return known ? (int)layout.count : -1;
}

int kernel_code_text(CUfunction handle, const char *name, struct code_text *text)
{
	struct code_table table = {.wanted = name, .text = text};
	struct module *module;
	const unsigned char *image;
	int error = -ENOENT;

	memset(text, 0, sizeof(*text));
	if (driver_resolve() < 0 || !begin())
		return error;
	COST(PURPOSE_IMAGES);
	module = module_of(handle);
	image = !module ? NULL : module->own ? module->own : module->image;
	if (image && module->bytes <= TEXT_MAX && (module->own || stays(image, module->bytes)) &&
	    find_targets())
		error = code_read_image(image, module->bytes, &targets, &table);
	pthread_mutex_unlock(&lock);
	code_table_free(&table);
	if (!error && text->code && !text->several)
		return 0;
	free(text->code);
	text->code = NULL;
	return error == -ENOMEM ? error : -ENOENT;
}
