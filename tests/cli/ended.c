/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a command and says on stderr how it ended, telling a signal from an exit code that only
 * looks like one: "exit 3", "signal 11", "signal 11 with core".
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc < 2)
		return 2;
	pid = fork();
	if (pid == 0) {
		execvp(argv[1], argv + 1);
		_exit(99);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 2;
	if (WIFSIGNALED(status))
		fprintf(stderr, "signal %d%s\n", WTERMSIG(status),
			WCOREDUMP(status) ? " with core" : "");
	else
		fprintf(stderr, "exit %d\n", WEXITSTATUS(status));
	return 0;
}
