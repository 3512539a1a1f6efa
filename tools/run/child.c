/* SPDX-License-Identifier: Apache-2.0
 *
 * Start, relay, wait, end alike. All signals to be relayed are blocked and taken one by one, so
 * there is no handler and no race between the child's start and the first signal.
 */
#include "tools/run/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a signal found and what the child must start with. */
struct signals {
	sigset_t relayed, before;
	struct sigaction child_action;
};

static const int relayed_signals[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
				      SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};

static void block_signals(struct signals *signals)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};

	sigemptyset(&signals->relayed);
	for (size_t i = 0; i < sizeof(relayed_signals) / sizeof(*relayed_signals); i++)
		sigaddset(&signals->relayed, relayed_signals[i]);
	sigaddset(&signals->relayed, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals->relayed, &signals->before);
	/* Where SIGCHLD is ignored, children leave no status behind. */
	sigaction(SIGCHLD, &standard, &signals->child_action);
}

static void start(char *const *argv, char *const *environment, const struct signals *signals,
		  int report_fd)
{
	int error;

	sigaction(SIGCHLD, &signals->child_action, NULL);
	sigprocmask(SIG_SETMASK, &signals->before, NULL);
	execvpe(argv[0], argv, environment);
	error = errno;
	while (write(report_fd, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* The kernel sends terminal signals to the whole foreground group, the child included. */
static bool came_from_terminal(const siginfo_t *info)
{
	return info->si_code == SI_KERNEL;
}

/* Waits for the child's end, relaying what comes meanwhile. */
static int wait_for(pid_t pid, const struct signals *signals, int *status)
{
	for (;;) {
		pid_t changed = waitpid(pid, status, WNOHANG);
		siginfo_t info;

		if (changed == pid)
			return 0;
		if (changed < 0 && errno != EINTR)
			return -errno;
		if (sigwaitinfo(&signals->relayed, &info) < 0)
			continue;
		if (info.si_signo != SIGCHLD && !came_from_terminal(&info))
			kill(pid, info.si_signo);
	}
}

int child_run(char *const *argv, char *const *environment, pid_t *pid, int *status)
{
	struct signals signals;
	int report[2], error = 0, result;
	ssize_t got;

	if (pipe2(report, O_CLOEXEC))
		return -errno;
	block_signals(&signals);
	*pid = fork();
	if (*pid == 0)
		start(argv, environment, &signals, report[1]);
	result = *pid < 0 ? -errno : 0;
	close(report[1]);
	while (!result && (got = read(report[0], &error, sizeof(error))) < 0 && errno == EINTR)
		;
	close(report[0]);
	if (!result)
		result = wait_for(*pid, &signals, status);
	sigaction(SIGCHLD, &signals.child_action, NULL);
	sigprocmask(SIG_SETMASK, &signals.before, NULL);
	return error ? -error : result;
}

void child_end_alike(int status)
{
	if (WIFSIGNALED(status)) {
		struct rlimit none = {0, 0};
		int signal_number = WTERMSIG(status);
		sigset_t only;

		setrlimit(RLIMIT_CORE, &none);
		signal(signal_number, SIG_DFL);
		sigemptyset(&only);
		sigaddset(&only, signal_number);
		sigprocmask(SIG_UNBLOCK, &only, NULL);
		raise(signal_number);
		exit(128 + signal_number);
	}
	exit(WEXITSTATUS(status));
}
