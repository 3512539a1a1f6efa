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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 128
#define NAMED	128 /* frames: programs come back through the same ones, site after site */

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

/* Finding a name takes up to half a millisecond in a library with as many symbols as PyTorch's, so
 * that they are kept. (Of a library that took an unloaded one's place, they may be the other's.) */
static const char *name_of(void *address)
{
	static struct {
		void *address;
		char text[CALLSTACK_TEXT];
	} named[NAMED], *slot;
	Dl_info info;

	slot = &named[(uintptr_t)address / 4 % NAMED];
	if (slot->address != address) {
		/* A return address may already lie in the next function. */
		const bool known = dladdr((char *)address - 1, &info) != 0;

		name_frame(slot->text, address, &info, known);
		slot->address = address;
	}
	return slot->text;
}

/* Index of the first frame past our own. Before them may stand the unwinder's. */
static int skip_ours(void *const *addresses, int depth)
{
	Dl_info ours, info;
	int i = 0, past = 0;

	if (!dladdr((void *)(uintptr_t)callstack_native, &ours))
		return 0;
	for (; i < depth; i++) {
		const bool is_ours = dladdr((char *)addresses[i] - 1, &info) != 0 &&
				     info.dli_fbase == ours.dli_fbase;

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
	for (int i = skip_ours(addresses, depth); i < depth && stack->count < CALLSTACK_FRAMES; i++)
		memcpy(stack->frame[stack->count++], name_of(addresses[i]), CALLSTACK_TEXT);
	pthread_setcancelstate(cancel_state, NULL);
	errno = saved_errno;
}
