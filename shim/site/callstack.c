/* SPDX-License-Identifier: Apache-2.0
 *
 * The C frames: glibc unwinds, dladdr names. Frames at the top that belong to the object this code
 * is in are the shim's own and left out.
 */
#include "shim/site/callstack.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/site/symbols.h"

#define DEEPEST 128
#define NAMED	1024 /* frames: programs come back through the same ones, site after site */
#define TRIES	4    /* places for each */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "at::native::addmm" for _ZN2at6native5addmmE…: of a C++ name that part which says most and is
 * easy to read off. Other names as they are. */
static void readable(const char *symbol, char *text, size_t size)
{
	const char *p = symbol;
	bool nested = false;
	size_t used = 0;

	if (strncmp(p, "_Z", 2) == 0) {
		p += 2;
		nested = *p == 'N';
		p += nested;
		p += nested && *p == 'K';
		if (strncmp(p, "St", 2) == 0) {
			used = (size_t)snprintf(text, size, "std");
			p += 2;
		}
		while (*p >= '1' && *p <= '9') {
			char *name;
			const size_t length = strtoul(p, &name, 10);

			if (length > strlen(name) || used + length + 3 > size)
				break;
			if (used)
				used += (size_t)snprintf(text + used, size - used, "::");
			memcpy(text + used, name, length);
			used += length;
			p = name + length;
			if (!nested)
				break;
		}
	}
	if (used)
		text[used] = '\0';
	else
		snprintf(text, size, "%s", symbol);
}

static void name_frame(char *text, void *address, const Dl_info *info, bool known)
{
	char symbol[111];

	if (!known || !info->dli_fname) {
		snprintf(text, CALLSTACK_TEXT, "0x%lx", (unsigned long)(uintptr_t)address);
	} else if (info->dli_sname) {
		readable(info->dli_sname, symbol, sizeof(symbol));
		snprintf(text, CALLSTACK_TEXT, "%s+0x%lx (%.30s)", symbol,
			 (unsigned long)((uintptr_t)address - (uintptr_t)info->dli_saddr),
			 last_part(info->dli_fname));
	} else {
		snprintf(text, CALLSTACK_TEXT, "%.130s+0x%lx", last_part(info->dli_fname),
			 (unsigned long)((uintptr_t)address - (uintptr_t)info->dli_fbase));
	}
}

/* Names that were found are kept. (Of a library that took an unloaded one's place, they may be the
 * other's.) */
static struct named {
	void *address;
	char text[CALLSTACK_TEXT];
} named[NAMED];

/* Where its name is or belongs: that of another address goes. */
static struct named *place_of(void *address)
{
	const uintptr_t home = ((uintptr_t)address * 0x9e3779b97f4a7c15ull) >> 32;

	for (unsigned i = 0; i < TRIES; i++) {
		struct named *place = &named[(home + i) % NAMED];

		if (place->address == address || !place->address)
			return place;
	}
	return &named[home % NAMED];
}

static void keep_name(void *address, const Dl_info *info, bool known)
{
	struct named *place = place_of(address);

	name_frame(place->text, address, info, known);
	place->address = address;
}

/* All frames whose names are not known and that lie in the object of the first of these. A return
 * address may already lie in the next function. */
static void name_object(void *const *addresses, int count)
{
	struct symbol_at asked[CALLSTACK_FRAMES];
	const uintptr_t first = (uintptr_t)addresses[0] - 1;
	struct image image;
	Dl_info info;
	int found = 0;

	if (image_of((void *)first, &image) && image.path[0]) {
		for (int i = 0; i < count; i++)
			if ((uintptr_t)addresses[i] - 1 - image.begin < image.end - image.begin &&
			    place_of(addresses[i])->address != addresses[i])
				asked[found++].address = (uintptr_t)addresses[i] - 1;
		if (symbols_find(&image, asked, found)) {
			for (int i = 0; i < found; i++) {
				info = (Dl_info){.dli_fname = image.path,
						 .dli_fbase = (void *)image.begin,
						 .dli_sname = asked[i].name,
						 .dli_saddr = (void *)asked[i].begin};
				keep_name((void *)(asked[i].address + 1), &info, true);
			}
			return;
		}
	}
	keep_name(addresses[0], &info, dladdr((void *)first, &info) != 0);
}

/* Index of the first frame past our own. Before them may stand the unwinder's. */
static int skip_ours(void *const *addresses, int depth)
{
	struct image ours;
	int i = 0, past = 0;

	if (!image_of((void *)(uintptr_t)callstack_native, &ours))
		return 0;
	for (; i < depth; i++) {
		const bool is_ours =
			(uintptr_t)addresses[i] - 1 - ours.begin < ours.end - ours.begin;

		if (is_ours)
			past = i + 1;
		else if (past)
			break;
	}
	return past;
}

void callstack_native(struct callstack *stack)
{
	const int saved_errno = errno;
	void *addresses[DEEPEST];
	int depth, cancel_state;

	stack->count = 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	depth = backtrace(addresses, DEEPEST);
	for (int i = skip_ours(addresses, depth); i < depth && stack->count < CALLSTACK_FRAMES;
	     i++) {
		const int rest = depth - i, room = CALLSTACK_FRAMES - stack->count;

		/* Of many at once one may have had to go for another. */
		for (int n = rest < room ? rest : room;
		     place_of(addresses[i])->address != addresses[i]; n = 1)
			name_object(&addresses[i], n);
		memcpy(stack->frame[stack->count++], place_of(addresses[i])->text, CALLSTACK_TEXT);
	}
	pthread_setcancelstate(cancel_state, NULL);
	errno = saved_errno;
}
