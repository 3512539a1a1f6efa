/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded behind the shim: refuses calls that the shim itself makes, and no others. FAULT says
 * which, as KIND:HOW:N:
 *   driver   functions of the simulated driver and cuBLAS (tests/simgpu/refuse.h)
 *   memory   malloc and its kind
 *   file     open, write and their kind
 *   locks    none: noted is which functions of the driver are called with a lock of the shim's
 *   fills    none, but what the shim fills with bytes stays as it is
 *   launches the program's own launches of graphs
 *   copies   the shim's
 *   once     the N-th call (from 1; 0: none, they are counted)
 *   from     that and all later ones
 *   late     launches: none is refused, but all take their time
 *   sticky   driver: that one, and the context is broken for everybody
 * A call is the shim's when it returns into the shim's code. A function that the shim exports
 * forwards the program's call, though: what such a function calls of the driver is the program's.
 * FAULT_FOUND names a file of sizeof(struct fault_found) bytes that is told what was counted and
 * refused.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/faults/fault.h"
#include "tests/simgpu/refuse.h"

#define REFUSAL 2   /* CUDA_ERROR_OUT_OF_MEMORY */
#define BROKEN	719 /* CUDA_ERROR_LAUNCH_FAILED */

enum kind { NONE, DRIVER, MEMORY, FILES, LOCKS, FILLS, LAUNCHES, COPIES };

static enum kind kind;
static bool from, sticky, late;
static long wanted;
static uintptr_t begin, end; /* code of the shim */
static struct fault_found own, *found = &own;

static int look_at(struct dl_phdr_info *object, size_t size, void *unused)
{
	(void)size, (void)unused;
	if (!strstr(object->dlpi_name, "libfashim.so"))
		return 0;
	for (int i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_LOAD && object->dlpi_phdr[i].p_flags & PF_X) {
			begin = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
			end = begin + object->dlpi_phdr[i].p_memsz;
			found->text = object->dlpi_phdr[i].p_vaddr;
		}
	return 1;
}

static __attribute__((constructor)) void start(void)
{
	const char *text = getenv("FAULT"), *file = getenv("FAULT_FOUND");
	char what[16], how[8];
	void *memory;
	int fd;

	if (!text || sscanf(text, "%15[a-z]:%7[a-z]:%ld", what, how, &wanted) != 3)
		return;
	fd = file ? open(file, O_RDWR | O_CLOEXEC) : -1;
	if (fd >= 0) {
		memory = mmap(NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (memory != MAP_FAILED)
			found = memory;
		close(fd);
	}
	dl_iterate_phdr(look_at, NULL);
	from = !strcmp(how, "from");
	sticky = !strcmp(how, "sticky");
	late = !strcmp(how, "late");
	kind = !strcmp(what, "driver")	   ? DRIVER
	       : !strcmp(what, "memory")   ? MEMORY
	       : !strcmp(what, "file")	   ? FILES
	       : !strcmp(what, "locks")	   ? LOCKS
	       : !strcmp(what, "fills")	   ? FILLS
	       : !strcmp(what, "launches") ? LAUNCHES
	       : !strcmp(what, "copies")   ? COPIES
					   : NONE;
}

static bool is_forwarded(const void *caller)
{
	Dl_info info;

	return dladdr((const char *)caller - 1, &info) && info.dli_sname &&
	       strncmp(info.dli_sname, "cu", 2) == 0;
}

static bool refuses(enum kind of, const char *name, const void *caller)
{
	const uintptr_t at = (uintptr_t)caller;
	long number;
	bool refused;

	if (of != kind || at < begin || at >= end ||
	    ((of == DRIVER || of == LAUNCHES || of == COPIES) &&
	     is_forwarded(caller) != (of == LAUNCHES)))
		return false;
	number = atomic_fetch_add(&found->count, 1) + 1;
	refused = wanted && (number == wanted || (from && number > wanted));
	if (number == wanted) {
		snprintf(found->name, sizeof(found->name), "%s", name);
		found->caller = at - begin + found->text;
	}
	return refused;
}

/* ---- locks ----------------------------------------------------------------------------------- */

#define CALLER __builtin_return_address(0)

static __thread int locks_held;

static bool is_ours(const void *caller)
{
	return (uintptr_t)caller >= begin && (uintptr_t)caller < end;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*next)(pthread_mutex_t *);

	if (!next)
		next = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	locks_held += is_ours(CALLER);
	return next(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	static int (*next)(pthread_mutex_t *);

	if (!next)
		next = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	locks_held -= is_ours(CALLER) && locks_held > 0; /* perhaps by trylock */
	return next(mutex);
}

static void note_locked(const char *name)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int at = 0;

	pthread_mutex_lock(&lock);
	while (at < FAULT_LOCKED - 1 && found->locked[at][0] &&
	       strcmp(found->locked[at], name) != 0)
		at++;
	snprintf(found->locked[at], sizeof(found->locked[at]), "%s", name);
	pthread_mutex_unlock(&lock);
}

/* ---- the driver ------------------------------------------------------------------------------ */

int fault_refuses(const char *name, const void *caller)
{
	if (kind == LOCKS && locks_held && is_ours(caller))
		note_locked(name);
	if (kind == FILLS)
		return !strcmp(name, "cuMemsetD8Async") && refuses(FILLS, name, caller) ? SIM_LOST
											: 0;
	if (kind == LAUNCHES || kind == COPIES) {
		bool refused;

		if (strcmp(name, "cuGraphLaunch") != 0)
			return 0;
		refused = refuses(kind, name, caller);
		if (late && is_ours(caller) && is_forwarded(caller))
			usleep(50000);
		return refused && !late ? REFUSAL : 0;
	}
	if (sticky && strncmp(name, "cublas", 6) == 0) /* it breaks no context */
		return 0;
	if (!refuses(DRIVER, name, caller))
		return 0;
	return sticky ? -BROKEN : REFUSAL;
}

/* ---- memory and files ----------------------------------------------------------------------- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

static bool no_memory(const char *name, const void *caller)
{
	if (kind != MEMORY || !refuses(MEMORY, name, caller))
		return false;
	errno = ENOMEM;
	return true;
}

static bool no_file(const char *name, const void *caller, int error)
{
	if (kind != FILES || !refuses(FILES, name, caller))
		return false;
	errno = error;
	return true;
}

void *malloc(size_t bytes)
{
	return no_memory("malloc", CALLER) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	return no_memory("calloc", CALLER) ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
	return no_memory("realloc", CALLER) ? NULL : __libc_realloc(memory, bytes);
}

#define NEXT(function)                                                                             \
	({                                                                                         \
		static __typeof__(&function) next;                                                 \
		if (!next)                                                                         \
			next = (__typeof__(&function))dlsym(RTLD_NEXT, #function);                 \
		next;                                                                              \
	})

#define WRAP(type, function, parameters, arguments, test, answer)                                  \
	type function parameters                                                                   \
	{                                                                                          \
		if (test)                                                                          \
			return answer;                                                             \
		return NEXT(function) arguments;                                                   \
	}

WRAP(char *, strdup, (const char *text), (text), no_memory("strdup", CALLER), NULL)
WRAP(locale_t, newlocale, (int mask, const char *name, locale_t base), (mask, name, base),
     no_memory("newlocale", CALLER), NULL)
WRAP(ssize_t, write, (int fd, const void *data, size_t bytes), (fd, data, bytes),
     no_file("write", CALLER, ENOSPC), -1)
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t bytes, off_t offset),
     (fd, data, bytes, offset), no_file("pwrite", CALLER, ENOSPC), -1)
WRAP(ssize_t, read, (int fd, void *data, size_t bytes), (fd, data, bytes),
     no_file("read", CALLER, EIO), -1)
WRAP(off_t, lseek, (int fd, off_t offset, int whence), (fd, offset, whence),
     no_file("lseek", CALLER, EINVAL), -1)
WRAP(int, ftruncate, (int fd, off_t bytes), (fd, bytes), no_file("ftruncate", CALLER, EFBIG), -1)
WRAP(int, posix_fallocate, (int fd, off_t offset, off_t bytes), (fd, offset, bytes),
     no_file("posix_fallocate", CALLER, ENOSPC), ENOSPC)
WRAP(int, fstat, (int fd, struct stat *out), (fd, out), no_file("fstat", CALLER, EBADF), -1)
WRAP(int, stat, (const char *path, struct stat *out), (path, out), no_file("stat", CALLER, EACCES),
     -1)
WRAP(int, lstat, (const char *path, struct stat *out), (path, out),
     no_file("lstat", CALLER, EACCES), -1)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags),
     no_file("memfd_create", CALLER, EMFILE), -1)
WRAP(int, pipe2, (int ends[2], int flags), (ends, flags), no_file("pipe2", CALLER, EMFILE), -1)
WRAP(char *, getcwd, (char *path, size_t size), (path, size), no_file("getcwd", CALLER, EACCES),
     NULL)
WRAP(ssize_t, readlink, (const char *path, char *out, size_t size), (path, out, size),
     no_file("readlink", CALLER, EACCES), -1)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), no_file("mkdir", CALLER, EACCES),
     -1)

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (no_memory("mmap", CALLER) || no_file("mmap", CALLER, ENODEV))
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list more;

	va_start(more, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(more, mode_t);
	va_end(more);
	if (no_file("open", CALLER, EMFILE))
		return -1;
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
