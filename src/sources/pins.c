// SPDX-License-Identifier: GPL-2.0-only
#include "sources/pins.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/util.h"

const struct pin_map_info pin_maps[MAP_NR] = {
	[MAP_META] = { .name = "meta" },
	[MAP_HISTS] = { .name = "hists" },
	[MAP_RETIRED] = { .name = "retired" },
	[MAP_BASELINES] = { .name = "baselines" },
	[MAP_PARTS] = { .name = "parts", .object = ".data.parts" },
	[MAP_PART_IDS] = { .name = "part_ids" },
	[MAP_HINTS] = { .name = "hints", .object = ".data.hints" },
	[MAP_PART_POOL] = { .name = "part_pool" },
	[MAP_RULES] = { .name = "rules" },
	[MAP_REGION_IDS] = { .name = "region_ids" },
	[MAP_REGION_POOL] = { .name = "region_pool" },
	[MAP_HEADS] = { .name = "heads" },
	[MAP_SLOTS] = { .name = "slots" },
	[MAP_BIOS] = { .name = "bios" },
	[MAP_LOSSES] = { .name = "losses" },
	[MAP_DISKSTATS] = { .name = "diskstats" },
};

const struct pin_prog_info pin_progs[PROG_NR] = {
	[PROG_COMPLETE] = { .name = "block_rq_complete", .tracepoint = "block_rq_complete" },
	[PROG_COMPLETE_NESTED] = { "block_rq_complete_nested", "block_rq_complete",
				   .nested = true },
	[PROG_REQUEUE] = { .name = "block_rq_requeue", .tracepoint = "block_rq_requeue" },
	[PROG_ISSUE] = { .name = "block_rq_issue", .tracepoint = "block_rq_issue" },
	[PROG_ISSUE_NESTED] = { "block_rq_issue_nested", "block_rq_issue", .nested = true,
				.preempted = true },
	[PROG_BIO_COMPLETE] = { "block_bio_complete", "block_bio_complete", .bios = true },
	[PROG_BIO_COMPLETE_NESTED] = { "block_bio_complete_nested", "block_bio_complete",
				       .bios = true, .nested = true },
	[PROG_COMPLETE_BIOS] = { "block_rq_complete_bios", "block_rq_complete", .bios = true },
	[PROG_SPLIT] = { "block_split", "block_split", .bios = true },
	[PROG_BIO_QUEUE] = { "block_bio_queue", "block_bio_queue", .bios = true },
	[PROG_BIO_QUEUE_NESTED] = { "block_bio_queue_nested", "block_bio_queue", .bios = true,
				    .nested = true, .preempted = true },
};

bool pin_prog_needed(enum pin_prog prog, bool nested, bool preempted)
{
	return (nested || !pin_progs[prog].nested) && (preempted || !pin_progs[prog].preempted);
}

char *pins_path(const struct live_paths *paths, const char *fmt, ...)
{
	cleanup_free char *tail = NULL;
	va_list ap;

	va_start(ap, fmt);
	tail = xvasprintf(fmt, ap);
	va_end(ap);
	return xasprintf("%s/%s", paths->bpffs, tail);
}

struct error *pins_mount(const struct live_paths *paths)
{
	struct statfs fs;

	if (statfs(paths->bpffs, &fs))
		return error_errno(
			errno,
			"cannot use %s (needed to keep the collector; is CONFIG_BPF_SYSCALL on?)",
			paths->bpffs);
	if (fs.f_type == BPF_FS_MAGIC)
		return NULL;
	if (mount("bpf", paths->bpffs, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700"))
		return error_new("cannot mount the BPF file system on %s: %s; as root, run: "
				 "mount -t bpf bpf %s",
				 paths->bpffs, strerror(errno), paths->bpffs);
	return NULL;
}

struct error *pins_lock(const struct live_paths *paths, int *ret)
{
	cleanup_close int fd = open(paths->bpffs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_new("cannot open %s: %s; run blkhist as root, or let this user write "
				 "there",
				 paths->bpffs, strerror(errno));
	while (flock(fd, LOCK_EX)) {
		if (errno != EINTR)
			return error_errno(errno, "cannot lock %s", paths->bpffs);
	}
	*ret = take_fd(fd);
	return NULL;
}

bool pins_exist(const struct live_paths *paths)
{
	cleanup_free char *path = pins_path(paths, "blkhist");
	struct stat st;

	return !lstat(path, &st);
}

struct error *pins_check_owner(const struct live_paths *paths)
{
	cleanup_free char *path = pins_path(paths, "blkhist");
	struct stat st;

	if (lstat(path, &st) || st.st_uid == geteuid())
		return NULL;
	return error_new("the collector in %s belongs to the user with the id %u; run blkhist as "
			 "that user or as root",
			 path, st.st_uid);
}

static struct error *remove_dir(const char *path, int depth)
{
	cleanup_closedir DIR *dir = opendir(path);
	struct dirent *entry;

	if (!dir && errno == ENOENT)
		return NULL;
	if (!dir)
		return error_errno(errno, "cannot list %s", path);
	while ((entry = readdir(dir))) {
		cleanup_free char *child = xasprintf("%s/%s", path, entry->d_name);

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (entry->d_type == DT_DIR && depth > 0)
			try(remove_dir(child, depth - 1));
		else if (unlink(child) && errno != ENOENT)
			return error_errno(errno, "cannot remove %s", child);
	}
	if (rmdir(path))
		return error_errno(errno, "cannot remove %s", path);
	return NULL;
}

struct error *pins_remove(const struct live_paths *paths, const char *dir)
{
	cleanup_free char *links = pins_path(paths, "%s/links", dir);
	cleanup_free char *path = pins_path(paths, "%s", dir);

	/* Links first: from here on nothing is attached, whatever happens. */
	try(remove_dir(links, 0));
	return remove_dir(path, 1);
}
