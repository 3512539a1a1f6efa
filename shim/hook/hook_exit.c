/* SPDX-License-Identifier: Apache-2.0
 *
 * The program leaves: main returns, or somebody calls exit(). What is held back is computed before
 * the first exit handler runs. A handler of ours would be too late, whenever it was registered:
 * cuBLAS makes things as a shape wants them for the first time, registers their destructors, and
 * these run first; it then ends in a crash (seen with cuBLAS 13).
 */
#include <stddef.h>

#include "shim/flow/flow.h"
#include "shim/hook/hook.h"
#include "shim/real/resolve.h"

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void),
			   void (*)(void), void *);

EXPORT start_function __libc_start_main;
EXPORT _Noreturn void exit(int status);

static main_function *program_main;
static __typeof__(&exit) real_exit; /* looked for while there is one thread, and no handler runs */

static __typeof__(&exit) find_exit(void)
{
	return (__typeof__(&exit))resolve_stub("exit", NULL);
}

static int main_of_program(int count, char **arguments, char **environment)
{
	const int status = program_main(count, arguments, environment);

	flow_exits();
	return status;
}

/* What the program's entry calls, whose versions differ in nothing that is passed on here. */
int __libc_start_main(main_function *main, int count, char **arguments, void (*init)(void),
		      void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
	start_function *start = (start_function *)resolve_stub("__libc_start_main", NULL);

	program_main = main;
	real_exit = find_exit();
	return start(main_of_program, count, arguments, init, fini, loader_fini, stack_end);
}

void exit(int status)
{
	__typeof__(&exit) leave = real_exit ? real_exit : find_exit();

	flow_exits();
	leave(status);
	__builtin_unreachable(); /* leave() is not known not to return */
}
