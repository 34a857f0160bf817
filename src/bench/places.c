// SPDX-License-Identifier: GPL-2.0-only
/* Devices, directories and mounts. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <linux/loop.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/context.h"
#include "bench/undo.h"
#include "core/timefmt.h"
#include "core/util.h"

#define LOOPS_TRIED 4096

/* --- directories and mounts --- */

struct error *directory_make(struct context *c, const char *parent, char **ret)
{
	cleanup_free char *real = realpath(parent, NULL), *path = NULL;

	if (!real)
		return error_errno(errno, "cannot use the directory %s", parent);
	path = xasprintf("%s/blkhist-bench-%d-%" PRId64, real, getpid(), clock_ns(CLOCK_REALTIME));
	try(guard_add(c->guard, UNDO_DIRECTORY, "%s", path));
	if (mkdir(path, 0700))
		return error_errno(errno, "cannot make the directory %s", path);
	*ret = take(path);
	return NULL;
}

struct error *trace_dir_empty(struct context *c)
{
	try(undo(UNDO_DIRECTORY, c->trace_dir));
	if (mkdir(c->trace_dir, 0700))
		return error_errno(errno, "cannot make the directory %s", c->trace_dir);
	return NULL;
}

double directory_bytes(const char *path)
{
	cleanup_closedir DIR *dir = opendir(path);
	const struct dirent *e;
	struct stat st;
	double sum = 0;

	while (dir && (e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISDIR(st.st_mode)) {
			cleanup_free char *below = xasprintf("%s/%s", path, e->d_name);

			sum += directory_bytes(below);
		} else
			sum += (double)st.st_size;
	}
	return sum;
}

struct error *mount_if_missing(struct context *c, const char *type, unsigned int magic,
			       const char *path, const char *probe)
{
	cleanup_free char *file = xasprintf("%s/%s", path, probe);

	if (!access(file, F_OK))
		return NULL;
	if (is_mounted(path, magic))
		return error_new("there is no %s; the kernel may be locked down", file);
	try(guard_add(c->guard, UNDO_MOUNT, "%x %s", magic, path));
	if (mount(type, path, type, 0, NULL))
		return error_errno(errno, "cannot mount %s at %s", type, path);
	return NULL;
}

/* --- devices --- */

const char *device_base(const char *path)
{
	return strncmp(path, "/dev/", 5) ? path : path + 5;
}

static struct error *backing_file(struct context *c, unsigned int i, int *ret)
{
	cleanup_free char *path = xasprintf("%s/disk%u", c->dir, i);
	cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int errnum;

	if (fd < 0)
		return error_errno(errno, "cannot make the file %s", path);
	/* Holes would be read without the disk, and filled in the first round only. */
	errnum = posix_fallocate(fd, 0, (off_t)c->settings->size);
	if (errnum)
		return error_errno(errnum,
				   "cannot make the file %s of %" PRIu64
				   " bytes; see --size, --loops, --dir",
				   path, c->settings->size);
	*ret = take_fd(fd);
	return NULL;
}

/* A device of our own: those that there are may be wanted by somebody else. */
static struct error *loop_add(struct context *c, unsigned int from, unsigned int *ret)
{
	cleanup_close int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (control < 0)
		return error_errno(errno, "no loop device is to be had: cannot open "
					  "/dev/loop-control; see: modprobe loop, or --device");
	for (unsigned int n = from; n < from + LOOPS_TRIED; n++) {
		cleanup_free char *there = xasprintf("/sys/block/loop%u", n);

		if (!access(there, F_OK))
			continue;
		try(guard_add(c->guard, UNDO_LOOP, "%u %s/", n, c->dir));
		if (ioctl(control, LOOP_CTL_ADD, n) >= 0) {
			*ret = n;
			return NULL;
		}
		if (errno != EEXIST)
			return error_errno(errno,
					   "no loop device is to be had: cannot make "
					   "/dev/loop%u",
					   n);
		try(guard_forget(c->guard, UNDO_LOOP, "%u %s/", n, c->dir));
	}
	return error_new("no loop device is to be had: all of %u are there", LOOPS_TRIED);
}

static struct error *loop_open(struct context *c, unsigned int i)
{
	unsigned int number = 0, from = i ? c->loops[i - 1] + 1 : 0;
	cleanup_close int file = -1, fd = -1;
	cleanup_free char *path = NULL;
	struct loop_config config = {};

	try(backing_file(c, i, &file));
	try(loop_add(c, from, &number));
	path = xasprintf("/dev/loop%u", number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	config.fd = (uint32_t)file;
	if (fd < 0 || ioctl(fd, LOOP_CONFIGURE, &config))
		return error_errno(errno, "cannot set up %s", path);
	c->loops[i] = number;
	c->devices[c->n_devices++] = take(path);
	return NULL;
}

/* Links are followed: tracers want the name that the kernel has. */
static struct error *device_open(struct context *c, const char *name, bool writes)
{
	cleanup_free char *named = *name == '/' ? xstrdup(name) : xasprintf("/dev/%s", name);
	cleanup_free char *path = realpath(named, NULL);
	struct stat st;
	/* Exclusive: nobody has mounted it or otherwise taken it. */
	cleanup_close int fd =
		path ? open(path, (writes ? O_RDWR | O_EXCL : O_RDONLY) | O_CLOEXEC) : -1;

	if (fd < 0 && errno == EBUSY)
		return error_new("%s is in use (mounted, swap, or a part of another device), and "
				 "this workload would overwrite it",
				 named);
	if (fd < 0)
		return error_errno(errno, "cannot open the device %s", named);
	if (fstat(fd, &st) || !S_ISBLK(st.st_mode))
		return error_new("%s is no block device", named);
	if (writes && !c->settings->overwrite)
		return error_usage(
			"this workload overwrites what is on %s; say --overwrite if that "
			"may be",
			named);
	c->devices[c->n_devices++] = take(path);
	return NULL;
}

struct error *devices_open(struct context *c, unsigned int n_loops, bool writes)
{
	for (const char *const *d = c->settings->devices; *d; d++)
		try(device_open(c, *d, writes));
	if (c->n_devices)
		return NULL;
	for (unsigned int i = 0; i < n_loops; i++)
		try(loop_open(c, i));
	return NULL;
}
