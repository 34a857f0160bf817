// SPDX-License-Identifier: GPL-2.0-only
/* Running programs: fio, tracers, blkhist itself. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/context.h"
#include "core/util.h"

static int redirect(const char *path, int to)
{
	int fd = open(path ? path : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : dup2(fd, to);
}

/* The child; its error is what last_line() of p->err finds. */
static _Noreturn void run_function(const struct program *p)
{
	struct error *err;

	/* Among them the guard's pipe, which it would keep from ending. */
	close_range(STDERR_FILENO + 1, ~0U, 0);
	err = p->function(p->argv);
	if (err)
		(void)!write(STDERR_FILENO, err->message, strlen(err->message));
	_exit(err ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* The child; comes back only if it fails, with errno. */
static void become(struct guard *guard, const struct program *p)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;
	struct error *err;

	/* It says itself that it must be ended: nobody can be killed before that. */
	setpgid(0, 0);
	err = guard_add(guard, UNDO_PROCESSES, "%d", getpid());
	if (err) {
		errno = EPIPE;
		return;
	}
	if (p->own_mounts &&
	    (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)))
		return;
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || redirect(p->out, STDOUT_FILENO) < 0 ||
	    redirect(p->err, STDERR_FILENO) < 0)
		return;
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (p->function)
		run_function(p);
	execvp(p->argv[0], (char *const *)p->argv);
}

struct error *program_spawn(struct context *c, const struct program *p, pid_t *ret)
{
	int failed[2], errnum = 0;
	pid_t pid;

	if (pipe2(failed, O_CLOEXEC))
		return error_errno(errno, "cannot make a pipe");
	pid = fork();
	if (!pid) {
		become(c->guard, p);
		errnum = errno;
		(void)!write(failed[1], &errnum, sizeof(errnum));
		_exit(127);
	}
	close(failed[1]);
	if (pid > 0 && read(failed[0], &errnum, sizeof(errnum)) != sizeof(errnum))
		errnum = 0; /* closed by exec */
	else if (pid < 0)
		errnum = errno;
	close(failed[0]);
	if (errnum) {
		if (pid > 0) {
			waitpid(pid, NULL, 0);
			try(guard_forget(c->guard, UNDO_PROCESSES, "%d", pid));
		}
		return error_errno(errnum, "cannot run %s", p->argv[0]);
	}
	guard_note(c->guard, UNDO_PROCESSES, "%d", pid);
	*ret = pid;
	return NULL;
}

bool program_has_ended(pid_t pid, bool *well)
{
	siginfo_t info = {};
	bool gone = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);

	if (well)
		*well = !gone && info.si_code == CLD_EXITED && !info.si_status;
	return gone || info.si_pid;
}

struct error *program_stop(struct context *c, pid_t pid)
{
	return guard_undo(c->guard, UNDO_PROCESSES, "%d", pid);
}

void context_sleep(struct context *c, unsigned int ms)
{
	struct pollfd p = { .fd = c->settings->signals, .events = POLLIN };

	if (poll(&p, 1, (int)ms) > 0)
		c->interrupted = true;
}

struct error *program_wait(struct context *c, const struct program *p, pid_t pid)
{
	cleanup_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd polls[] = { { .fd = fd, .events = POLLIN },
				  { .fd = c->settings->signals, .events = POLLIN } };
	siginfo_t info = {};

	if (fd < 0)
		return error_errno(errno, "cannot wait for %s", p->argv[0]);
	while (poll(polls, ARRAY_SIZE(polls), -1) < 0)
		if (errno != EINTR)
			return error_errno(errno, "cannot wait for %s", p->argv[0]);
	if (!polls[0].revents) {
		c->interrupted = true;
		return program_stop(c, pid);
	}
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	try(machine_read(&c->ended));
	/* What it has started may have outlived it, so the group is ended in any case. */
	try(program_stop(c, pid));
	if (info.si_code != CLD_EXITED || info.si_status) {
		cleanup_free char *why = last_line(p->err);

		return error_new("%s has failed (%s %d)%s%s", p->argv[0],
				 info.si_code == CLD_EXITED ? "exit status" : "signal",
				 info.si_status, *why ? ": " : "", why);
	}
	return NULL;
}

struct error *program_run(struct context *c, const struct program *p)
{
	pid_t pid;

	try(program_spawn(c, p, &pid));
	return program_wait(c, p, pid);
}

/* The tools of bcc and bpftrace are not in PATH everywhere. */
char *program_find(const char *const *names)
{
	const char *path = getenv("PATH");
	cleanup_free char *dirs =
		xasprintf("%s:/usr/sbin:/sbin:/usr/share/bpftrace/tools:/usr/local/sbin",
			  path ? path : "/usr/bin:/bin");
	char *rest, *dir;

	for (; *names; names++) {
		cleanup_free char *copy = xstrdup(dirs);

		for (rest = copy; (dir = strsep(&rest, ":"));) {
			cleanup_free char *file = xasprintf("%s/%s", dir, *names);

			if (*dir && !access(file, R_OK))
				return take(file);
		}
	}
	return NULL;
}

char *last_line(const char *path)
{
	cleanup(buf_deinit) struct buf text = {};
	struct error *err = path ? buf_read_file(&text, "the file", path, 1 << 20) : NULL;
	char *line;

	error_free(err);
	while (text.len && text.str[text.len - 1] == '\n')
		text.str[--text.len] = '\0';
	if (!text.len)
		return xstrdup("");
	line = strrchr(text.str, '\n');
	return xstrdup(line ? line + 1 : text.str);
}
