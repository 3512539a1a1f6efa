/* SPDX-License-Identifier: Apache-2.0
 *
 * A shared object with the call stack code in it, as libfashim.so is, for test_callstack and for a
 * Python that loads it with ctypes: probe() prints the Python frames, one a line.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/site/callstack.h"
#include "shim/real/resolve.h"
#include "tests/unit/callstack_probe.h"

void *real_dlsym(void *handle, const char *name)
{
	const char *hidden = getenv("CALLSTACK_HIDE"); /* names that this interpreter shall lack */

	if (hidden && strstr(hidden, name))
		return NULL;
	return dlsym(handle, name);
}

int probe(void)
{
	struct callstack stack;

	callstack_python(&stack);
	for (int i = 0; i < stack.count; i++)
		printf("%s\n", stack.frame[i]);
	fflush(stdout);
	return stack.count;
}

/* Two of our own frames above the caller's: they must not show. */
static __attribute__((noinline)) void inner(struct callstack *stack)
{
	callstack_native(stack);
	__asm__ volatile("" ::: "memory");
}

void probe_native(struct callstack *stack)
{
	inner(stack);
	__asm__ volatile("" ::: "memory");
}
