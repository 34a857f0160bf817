// SPDX-License-Identifier: GPL-2.0-only
/* How each kind of thing is undone. */
#include "bench/undo.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <linux/blktrace_api.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/device.h"
#include "core/units.h"
#include "core/util.h"

#define MS 1000

/* Whether a process is of the group and lives: proc(5), stat. */
static bool is_alive_of(const char *pid, pid_t group)
{
	cleanup_free char *path = xasprintf("/proc/%s/stat", pid);
	cleanup(buf_deinit) struct buf stat = {};
	struct error *err = buf_read_file(&stat, "the process", path, 4096);
	const char *name_end = err ? NULL : strrchr(stat.str, ')');
	char state;
	int of;

	error_free(err);
	return name_end && sscanf(name_end, ") %c %*d %d", &state, &of) == 2 && of == group &&
	       state != 'Z' && state != 'X';
}

/*
 * Whether any process of the group lives. Zombies do not: an orphan's is there until the first
 * process takes it, which in a container may be never.
 */
static bool group_is_there(pid_t group)
{
	cleanup_closedir DIR *proc = NULL;
	struct dirent *d;

	waitpid(-group, NULL, WNOHANG);
	if (kill(-group, 0))
		return false;
	proc = opendir("/proc");
	while (proc && (d = readdir(proc)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9' && is_alive_of(d->d_name, group))
			return true;
	return !proc;
}

static bool group_ends(pid_t group, int signum, unsigned int ms)
{
	kill(-group, signum);
	for (unsigned int waited = 0; waited < ms; waited += 10) {
		if (!group_is_there(group))
			return true;
		usleep(10 * MS);
	}
	return !group_is_there(group);
}

/* First in the way that lets a tracer tidy up behind itself. */
static struct error *end_processes(const char *arg)
{
	uint64_t group;

	try(parse_u64(arg, 2, INT32_MAX, &group));
	if (!group_ends((pid_t)group, SIGINT, 2000) && !group_ends((pid_t)group, SIGTERM, 3000) &&
	    !group_ends((pid_t)group, SIGKILL, 5000))
		return error_new("cannot end the processes of group %s: they are still there", arg);
	return NULL;
}

static struct error *stop_collector(const char *arg)
{
	char *const argv[] = { (char *)"blkhist", (char *)"stop", NULL };
	int status, null;
	pid_t pid;

	(void)arg;
	pid = fork();
	if (pid < 0)
		return error_errno(errno, "cannot run blkhist stop");
	if (!pid) {
		null = open("/dev/null", O_RDWR);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_errno(errno, "cannot wait for blkhist stop");
	return status ? error_new("cannot stop the collector; see: blkhist stop") : NULL;
}

static struct error *loop_remove_number(uint64_t number)
{
	cleanup_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	/* Somebody (udev) may have it open for a moment. */
	for (int i = 0; i < 500; i++) {
		if (ioctl(control, LOOP_CTL_REMOVE, number) >= 0 || errno == ENODEV)
			return NULL;
		if (errno != EBUSY)
			break;
		usleep(10 * MS);
	}
	return error_errno(errno, "cannot remove /dev/loop%" PRIu64, number);
}

static struct error *remove_loop(const char *arg)
{
	cleanup_free char *name = xstrdup(arg), *file = NULL, *path = NULL;
	char *space = strchr(name, ' '), backing[4096];
	cleanup_close int fd = -1;
	uint64_t number;

	if (!space)
		return error_new("cannot remove the loop device '%s'", arg);
	*space = '\0';
	try(parse_u64(name, 0, UINT32_MAX, &number));
	path = xasprintf("/dev/loop%s", name);
	file = xasprintf("/sys/block/loop%s/loop/backing_file", name);
	if (!access(file, F_OK)) {
		try(sysfs_read(file, backing, sizeof(backing)));
		/* Somebody else's by now */
		if (strncmp(backing, space + 1, strlen(space + 1)))
			return NULL;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (ioctl(fd, LOOP_CLR_FD) && errno != ENXIO))
			return error_errno(errno, "cannot take its file from %s", path);
		close(take_fd(fd));
	}
	return loop_remove_number(number);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path) && errno != ENOENT ? -1 : 0;
}

/*
 * FTW_MOUNT would pass over files on overlayfs, which have another device number than directories;
 * what is mounted inside is a file system that was made there.
 */
static struct error *remove_directory(const char *path)
{
	if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
		return error_errno(errno, "cannot remove the directory %s", path);
	return NULL;
}

bool is_mounted(const char *path, unsigned int magic)
{
	struct statfs fs;

	return !statfs(path, &fs) && (unsigned int)fs.f_type == magic;
}

/* Nothing else that is mounted there: ours may not have been. */
static struct error *unmount(const char *arg)
{
	char *path;
	unsigned int magic = (unsigned int)strtoul(arg, &path, 16);

	if (*path++ != ' ')
		return error_new("cannot unmount '%s'", arg);
	if (!is_mounted(path, magic))
		return NULL;
	if (umount2(path, UMOUNT_NOFOLLOW) && errno != EINVAL && errno != ENOENT)
		return error_errno(errno, "cannot unmount %s", path);
	return NULL;
}

struct error *file_put(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return error_errno(errno, "cannot write %s to %s", text, path);
	return NULL;
}

/* What is to be open for a file of /sys to be written: the device, if it is of one; else -1. */
static int open_device_of(const char *path)
{
	cleanup_free char *name = NULL, *node = NULL;

	if (sscanf(path, "/sys/class/block/%m[^/]", &name) != 1)
		return -1;
	node = xasprintf("/dev/%s", name);
	return open(node, O_RDONLY | O_CLOEXEC);
}

static struct error *write_back(const char *arg)
{
	cleanup_free char *path = xstrdup(arg);
	cleanup_close int device = -1;
	char *text = strchr(path, ' ');

	if (!text)
		return error_new("cannot write back '%s'", arg);
	*text++ = '\0';
	device = open_device_of(path);
	/* A device that is gone takes its files along. */
	return access(path, F_OK) ? NULL : file_put(path, text);
}

/* blktrace does it itself, unless it was killed. */
static struct error *end_blktrace(const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	ioctl(fd, BLKTRACESTOP);
	ioctl(fd, BLKTRACETEARDOWN);
	return NULL;
}

struct error *undo(enum undo_kind kind, const char *arg)
{
	static struct error *(*const functions[UNDO_NR])(const char *arg) = {
		[UNDO_PROCESSES] = end_processes, [UNDO_COLLECTOR] = stop_collector,
		[UNDO_LOOP] = remove_loop,        [UNDO_DIRECTORY] = remove_directory,
		[UNDO_MOUNT] = unmount,           [UNDO_WRITE] = write_back,
		[UNDO_BLKTRACE] = end_blktrace,
	};

	return functions[kind](arg);
}
