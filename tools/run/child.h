/* SPDX-License-Identifier: Apache-2.0
 *
 * A program as a child that nobody notices to be one: signals go through, its end becomes ours.
 */
#ifndef FASHIM_CHILD_H
#define FASHIM_CHILD_H

#include <sys/types.h>

/* Runs argv[0], found as execvp does, with `environment`, and waits for its end. Signals that
 * arrive from outside are passed on; those that the terminal sends to both are left to the child, a
 * stop and its continuation too. Its pid in *pid, its wait status in *status. 0, or -errno of what
 * kept it from starting (then nothing ran). */
int child_run(char *const *argv, char *const *environment, pid_t *pid, int *status);

/* Ends this process as the child ended: same exit code, or the same signal (without a core file).
 */
void child_end_alike(int status) __attribute__((noreturn));

#endif
