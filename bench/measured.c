// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs a command, its standard output to /dev/null, and prints what it took: ns from the fork until
 * it had ended, and the most memory that it had resident, in kB. Exits as the command does.
 *
 *	measured COMMAND [ARGUMENT...]
 *
 * The kernel counts what a process had resident before execve(), too. If a script forked the
 *command, its interpreter would hide what the command needs; this program is smaller than any.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(125);
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char *argv[])
{
	struct rusage used;
	int status;

	if (argc < 2) {
		fprintf(stderr, "measured COMMAND [ARGUMENT...]\n");
		return 125;
	}
	long long began = now_ns();
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child) {
		int null = open("/dev/null", O_WRONLY);

		if (null < 0 || dup2(null, STDOUT_FILENO) < 0)
			die("/dev/null");
		execvp(argv[1], argv + 1);
		die(argv[1]);
	}
	if (wait4(child, &status, 0, &used) < 0)
		die("wait4");
	printf("%lld %ld\n", now_ns() - began, used.ru_maxrss);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
