/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch lets go of the interpreter's lock inside its operations, so most of the C API is out of
 * reach when we are called. Three ways, in this order:
 *
 *   1. the interpreter's own dump for crash reports, which needs no lock: _Py_DumpTraceback is
 * exported by CPython 3.11 and 3.12, PyUnstable_DumpTraceback by 3.15;
 *   2. python_frames(), which reads the structures of 3.9, 3.10, 3.13 and 3.14;
 *   3. the C API proper, where this thread happens to hold the lock.
 */
#include "shim/site/callstack.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/site/python_frames.h"
#include "shim/real/resolve.h"

#define DUMP_SIZE 16384

/* Points a function pointer variable to a symbol of the interpreter. */
static bool find(void *function, const char *name)
{
	void *found = real_dlsym(RTLD_DEFAULT, name);

	memcpy(function, &found, sizeof(found));
	return found != NULL;
}

/* `  File "x.py", line 12 in forward` */
static void parse_line(struct callstack *stack, char *line)
{
	static const char head[] = "  File \"", middle[] = "\", line ", in[] = " in ";
	char *path, *number, *name;

	if (strncmp(line, head, sizeof(head) - 1) != 0)
		return;
	path = line + sizeof(head) - 1;
	number = strstr(path, middle);
	if (!number)
		return;
	*number = '\0';
	number += sizeof(middle) - 1;
	name = strstr(number, in);
	if (name)
		python_frame_add(stack, path, strtol(number, NULL, 10), name + sizeof(in) - 1);
}

/* Lets `dump` write into memory; a pipe where the kernel gives no memory file. */
static ssize_t dump_into(char *text, size_t size, void (*dump)(int, void *), void *tstate)
{
	int fds[2] = {-1, -1};
	ssize_t used = 0, n;

	fds[0] = fds[1] = memfd_create("fashim", MFD_CLOEXEC);
	if (fds[0] < 0 && pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return 0;
	dump(fds[1], tstate);
	if (fds[0] == fds[1])
		lseek(fds[0], 0, SEEK_SET);
	while ((size_t)used < size - 1) {
		n = read(fds[0], text + used, size - 1 - (size_t)used);
		if (n <= 0)
			break;
		used += n;
	}
	text[used] = '\0';
	close(fds[0]);
	if (fds[1] != fds[0])
		close(fds[1]);
	return used;
}

static void by_dump(struct callstack *stack, void (*dump)(int, void *), void *tstate)
{
	char text[DUMP_SIZE], *line = text, *newline;

	dump_into(text, sizeof(text), dump, tstate);
	while ((newline = strchr(line, '\n'))) {
		*newline = '\0';
		parse_line(stack, line);
		line = newline + 1;
	}
}

/* Whether this thread is the one that runs Python now. */
static bool holds_lock(const void *tstate)
{
	void *(*current)(void);

	return (find(&current, "PyThreadState_GetUnchecked") ||
		find(&current, "_PyThreadState_UncheckedGet")) &&
	       current() == tstate;
}

/* With the lock held: reference counts and attributes are allowed. */
static void by_api(struct callstack *stack)
{
	void *(*current)(void), *(*back)(void *), *(*code_of)(void *);
	void *(*attribute)(void *, const char *);
	const char *(*utf8)(void *);
	int (*line)(void *);
	void (*incref)(void *), (*decref)(void *), (*clear)(void);
	void *frame;

	if (!find(&current, "PyEval_GetFrame") || !find(&back, "PyFrame_GetBack") ||
	    !find(&code_of, "PyFrame_GetCode") || !find(&attribute, "PyObject_GetAttrString") ||
	    !find(&utf8, "PyUnicode_AsUTF8") || !find(&line, "PyFrame_GetLineNumber") ||
	    !find(&incref, "Py_IncRef") || !find(&decref, "Py_DecRef") ||
	    !find(&clear, "PyErr_Clear"))
		return;
	frame = current();
	incref(frame);
	while (frame && stack->count < CALLSTACK_FRAMES) {
		void *code = code_of(frame), *next;
		void *path = attribute(code, "co_filename"), *name = attribute(code, "co_name");
		const char *path_text = path ? utf8(path) : NULL;
		const char *name_text = name ? utf8(name) : NULL;

		if (path_text && name_text)
			python_frame_add(stack, path_text, line(frame), name_text);
		else
			clear();
		decref(path);
		decref(name);
		decref(code);
		next = back(frame);
		decref(frame);
		frame = next;
	}
	decref(frame);
}

void callstack_python(struct callstack *stack)
{
	const int saved_errno = errno;
	int (*initialized)(void), (*finalizing)(void);
	void (*dump)(int, void *);
	void *(*this_thread)(void);
	void *tstate;

	stack->count = 0;
	if (!find(&initialized, "Py_IsInitialized") || !initialized())
		return;
	/* An interpreter on its way out frees the states of threads that still run. */
	if ((find(&finalizing, "Py_IsFinalizing") || find(&finalizing, "_Py_IsFinalizing")) &&
	    finalizing())
		return;
	tstate = find(&this_thread, "PyGILState_GetThisThreadState") ? this_thread() : NULL;
	if (tstate) {
		int cancel_state;

		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
		if (find(&dump, "PyUnstable_DumpTraceback") || find(&dump, "_Py_DumpTraceback"))
			by_dump(stack, dump, tstate);
		else if (python_frames(stack, tstate) < 0 && holds_lock(tstate))
			by_api(stack);
		pthread_setcancelstate(cancel_state, NULL);
	}
	errno = saved_errno;
}
