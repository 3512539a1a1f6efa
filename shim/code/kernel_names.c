/* SPDX-License-Identifier: Apache-2.0
 *
 * An open-addressing table by handle (kernel_names.h). What is forgotten leaves a row without a
 * name, so that others are still found behind it; growing drops these.
 */
#include "shim/code/kernel_names.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim/real/driver.h"

#define ROWS_MAX (1u << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct row {
	const void *kernel, *owner;
	char *name;
} * rows;
static size_t room, used; /* a power of two; with those that were forgotten */

static bool wanted(void)
{
	return driver_resolve() == 0 && !(driver.cuFuncGetName && driver.cuKernelGetName &&
					  driver.cuFuncGetModule && driver.cuKernelGetLibrary);
}

/* The kernel's row, or the free one where it would be. */
static struct row *row_of(const void *kernel)
{
	size_t at = (uintptr_t)kernel * 0x9e3779b97f4a7c15ull >> 32;

	for (at &= room - 1; rows[at].kernel && rows[at].kernel != kernel;)
		at = (at + 1) & (room - 1);
	return &rows[at];
}

static const struct row *find(const void *kernel)
{
	const struct row *row = room && kernel ? row_of(kernel) : NULL;

	return row && row->name ? row : NULL;
}

static bool grow(void)
{
	struct row *old = rows, *fresh;
	const size_t old_room = room;
	size_t kept = 0;

	for (size_t i = 0; i < old_room; i++)
		kept += old[i].name != NULL;
	if (kept >= ROWS_MAX)
		return false;
	for (room = 1024; room < 4 * kept;)
		room *= 2;
	fresh = calloc(room, sizeof(*fresh));
	if (!fresh) {
		room = old_room;
		return false;
	}
	rows = fresh;
	used = kept;
	for (size_t i = 0; i < old_room; i++)
		if (old[i].name)
			*row_of(old[i].kernel) = old[i];
	free(old);
	return true;
}

/* Lock held. Takes the name, which may be NULL for lack of memory. */
static void note(const void *kernel, const void *owner, char *name)
{
	struct row *row;

	if (!kernel || !name || (2 * used >= room && !grow())) {
		free(name);
		return;
	}
	row = row_of(kernel);
	used += !row->kernel;
	free(row->name);
	*row = (struct row){kernel, owner, name};
}

void kernel_named(const void *kernel, const void *owner, const char *name)
{
	if (!wanted())
		return;
	pthread_mutex_lock(&lock);
	note(kernel, owner, strdup(name));
	pthread_mutex_unlock(&lock);
}

void kernel_named_alike(const void *function, const void *kernel)
{
	const struct row *row;

	if (!wanted())
		return;
	pthread_mutex_lock(&lock);
	row = find(kernel);
	if (row)
		note(function, row->owner, strdup(row->name));
	pthread_mutex_unlock(&lock);
}

void kernel_names_forget(const void *owner)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < room; i++)
		if (rows[i].name && rows[i].owner == owner) {
			free(rows[i].name);
			rows[i].name = NULL;
		}
	pthread_mutex_unlock(&lock);
}

char *kernel_name(CUfunction handle)
{
	const struct row *row;
	char *name;

	pthread_mutex_lock(&lock);
	row = find(handle);
	name = row ? strdup(row->name) : NULL;
	pthread_mutex_unlock(&lock);
	return name;
}

const void *kernel_owner(CUfunction handle)
{
	const struct row *row;
	const void *owner;

	pthread_mutex_lock(&lock);
	row = find(handle);
	owner = row ? row->owner : NULL;
	pthread_mutex_unlock(&lock);
	return owner;
}
