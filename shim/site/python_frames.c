/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread's frames and what they point to cannot change while that thread is inside our call, lock
 * or no lock; taking references could, and asking for the lock could wait for a thread that waits
 * for us. So nothing is called that counts references, allocates or raises.
 *
 * Where the fields lie: CPython 3.13 and 3.14 say it themselves, in a table at the start of
 * _PyRuntime meant for debuggers; 3.9 and 3.10 have their layout in public headers that no longer
 * change. 3.11 and 3.12 export a dump and are not our business. Every pointer is read through the
 * kernel, which answers EFAULT where a debugger's guess would end in SIGSEGV.
 */
#include "shim/site/python_frames.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/real/resolve.h"

#define DEEPEST 200 /* frames looked at, those of the interpreter itself included */

/* Byte offsets. */
struct layout {
	uint64_t frame;		 /* in PyThreadState: the current frame */
	uint64_t previous, code; /* in a frame */
	uint64_t filename, name; /* in PyCodeObject */
	uint64_t type;		 /* in PyObject */
	const char *line;	 /* int f(frame) */
};

/* Where that table keeps them, in words. */
struct table {
	unsigned frame, previous, code, filename, name, type;
};

static const struct table table_3_13 = {23, 29, 30, 35, 36, 45};
static const struct table table_3_14 = {26, 32, 33, 40, 41, 51};

static const struct layout layout_3_10 = {24, 24, 32, 104, 112, 8, "PyFrame_GetLineNumber"};

#define TABLE_WORDS 52

struct reader {
	int pipe[2];
};

/* Copies `size` bytes (a few dozen) from an address that may be wrong. */
static bool read_bytes(const struct reader *reader, uint64_t address, void *to, size_t size)
{
	/* A bare system call: nobody between us and the kernel looks at the address. */
	const long n = syscall(SYS_write, reader->pipe[1], address, size);

	if (n <= 0)
		return false;
	return read(reader->pipe[0], to, size) == n && n == (ssize_t)size;
}

static bool read_word(const struct reader *reader, uint64_t address, uint64_t *word)
{
	return read_bytes(reader, address, word, sizeof(*word));
}

static unsigned version(void)
{
	const unsigned long *number = real_dlsym(RTLD_DEFAULT, "Py_Version"); /* since 3.11 */
	const char *(*text)(void);
	unsigned major, minor;

	if (number)
		return (unsigned)(*number >> 16);
	*(void **)&text = real_dlsym(RTLD_DEFAULT, "Py_GetVersion");
	if (!text || sscanf(text(), "%u.%u", &major, &minor) != 2)
		return 0;
	return major << 8 | minor;
}

static int find_layout(const struct reader *reader, struct layout *layout)
{
	const unsigned number = version();
	const struct table *table = number == 0x30d ? &table_3_13 : &table_3_14;
	uint64_t words[TABLE_WORDS];
	void *runtime;

	if (number == 0x309 || number == 0x30a) {
		*layout = layout_3_10;
		return 0;
	}
	if (number != 0x30d && number != 0x30e)
		return -ENOTSUP;
	runtime = real_dlsym(RTLD_DEFAULT, "_PyRuntime");
	if (!runtime || !read_bytes(reader, (uintptr_t)runtime, words, sizeof(words)) ||
	    memcmp(words, "xdebugpy", 8) != 0 || words[1] >> 16 != number || words[2])
		return -ENOTSUP; /* words[2]: built without the lock */
	layout->frame = words[table->frame];
	layout->previous = words[table->previous];
	layout->code = words[table->code];
	layout->filename = words[table->filename];
	layout->name = words[table->name];
	layout->type = words[table->type];
	layout->line = "PyUnstable_InterpreterFrame_GetLine";
	return 0;
}

/* A str as UTF-8, cut at `size`; long ones lose their beginning where `keep_end`. */
static bool read_string(const struct reader *reader, const struct layout *layout, uint64_t object,
			char *text, size_t size, bool keep_end)
{
	const uint64_t str_type = (uintptr_t)real_dlsym(RTLD_DEFAULT, "PyUnicode_Type");
	uint32_t (*character)(void *, ssize_t);
	ssize_t (*length)(void *);
	ssize_t count, i = 0;
	size_t used = 0;
	uint64_t type;

	*(void **)&character = real_dlsym(RTLD_DEFAULT, "PyUnicode_ReadChar");
	*(void **)&length = real_dlsym(RTLD_DEFAULT, "PyUnicode_GetLength");
	if (!character || !length || !str_type ||
	    !read_word(reader, object + layout->type, &type) || type != str_type)
		return false;
	count = length((void *)(uintptr_t)object);
	if (keep_end && count > (ssize_t)size - 1)
		i = count - ((ssize_t)size - 1);
	for (; i < count && used + 4 < size; i++) {
		const uint32_t c = character((void *)(uintptr_t)object, i);

		if (c < 0x80) {
			text[used++] = (char)c;
		} else if (c < 0x800) {
			text[used++] = (char)(0xc0 | c >> 6);
			text[used++] = (char)(0x80 | (c & 0x3f));
		} else if (c < 0x10000) {
			text[used++] = (char)(0xe0 | c >> 12);
			text[used++] = (char)(0x80 | (c >> 6 & 0x3f));
			text[used++] = (char)(0x80 | (c & 0x3f));
		} else {
			text[used++] = (char)(0xf0 | (c >> 18 & 7));
			text[used++] = (char)(0x80 | (c >> 12 & 0x3f));
			text[used++] = (char)(0x80 | (c >> 6 & 0x3f));
			text[used++] = (char)(0x80 | (c & 0x3f));
		}
	}
	text[used] = '\0';
	return true;
}

void python_frame_add(struct callstack *stack, const char *path, long line, const char *name)
{
	char *frame, tail[100];
	size_t length = strlen(path), room;

	if (stack->count >= CALLSTACK_FRAMES)
		return;
	frame = stack->frame[stack->count++];
	if (line > 0)
		snprintf(tail, sizeof(tail), ":%ld %s", line, name);
	else
		snprintf(tail, sizeof(tail), ":? %s", name);
	room = CALLSTACK_TEXT - 1 - strlen(tail);
	if (length > room) {
		path += length - room + 3;
		while ((*path & 0xc0) == 0x80) /* not from the middle of a character */
			path++;
		snprintf(frame, CALLSTACK_TEXT, "...%s%s", path, tail);
	} else {
		snprintf(frame, CALLSTACK_TEXT, "%s%s", path, tail);
	}
}

static void walk(struct callstack *stack, const struct reader *reader, const struct layout *layout,
		 uint64_t tstate)
{
	const uint64_t code_type = (uintptr_t)real_dlsym(RTLD_DEFAULT, "PyCode_Type");
	int (*line)(void *);
	uint64_t frame;

	*(void **)&line = real_dlsym(RTLD_DEFAULT, layout->line);
	if (!line || !code_type || !read_word(reader, tstate + layout->frame, &frame))
		return;
	for (int i = 0; i < DEEPEST && frame && stack->count < CALLSTACK_FRAMES; i++) {
		char path[512], name[128];
		uint64_t code, type, filename, title;

		if (!read_word(reader, frame + layout->code, &code))
			return;
		code &= ~UINT64_C(7); /* 3.14 keeps tags in the low bits */
		/* The interpreter's own entry frames run no code object. */
		if (read_word(reader, code + layout->type, &type) && type == code_type &&
		    read_word(reader, code + layout->filename, &filename) &&
		    read_word(reader, code + layout->name, &title) &&
		    read_string(reader, layout, filename, path, sizeof(path), true) &&
		    read_string(reader, layout, title, name, sizeof(name), false))
			python_frame_add(stack, path, line((void *)(uintptr_t)frame), name);
		if (!read_word(reader, frame + layout->previous, &frame))
			return;
	}
}

int python_frames(struct callstack *stack, void *tstate)
{
	struct reader reader;
	struct layout layout;
	int result;

	stack->count = 0;
	if (pipe2(reader.pipe, O_CLOEXEC | O_NONBLOCK) != 0)
		return -errno;
	result = find_layout(&reader, &layout);
	if (result == 0)
		walk(stack, &reader, &layout, (uintptr_t)tstate);
	close(reader.pipe[0]);
	close(reader.pipe[1]);
	return result < 0 ? result : stack->count;
}
