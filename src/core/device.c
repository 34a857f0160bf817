// SPDX-License-Identifier: GPL-2.0-only
#include "core/device.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/util.h"

struct error *sysfs_read(const char *path, char *ret, size_t size)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	if (n < 0)
		return error_errno(errno, "cannot read %s", path);
	if (n && ret[n - 1] == '\n')
		n--;
	ret[n] = '\0';
	return NULL;
}

struct error *sysfs_read_u64(const char *path, uint64_t *ret)
{
	char text[32];

	try(sysfs_read(path, text, sizeof(text)));
	struct error *err = parse_u64(text, 0, UINT64_MAX, ret);

	return err ? error_in_file(err, path) : NULL;
}

/* Like sysfs_read_u64(), but what is not there is @missing. */
static struct error *read_optional(const char *path, uint64_t missing, uint64_t *ret)
{
	struct error *err = sysfs_read_u64(path, ret);

	if (err && err->errnum == ENOENT) {
		error_free(err);
		*ret = missing;
		return NULL;
	}
	return err;
}

static bool exists(const char *dir, const char *name, struct stat *st)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, name);

	return !stat(path, st);
}

static struct error *copy_name(char dst[DEVICE_NAME_MAX], const char *name)
{
	if (strlen(name) >= DEVICE_NAME_MAX)
		return error_new("the device name '%s' is longer than %d bytes", name,
				 DEVICE_NAME_MAX - 1);
	memcpy(dst, name, strlen(name) + 1);
	/* The kernel writes '!' for a '/' in a device's name (cciss/c0d0). */
	for (char *p = dst; (p = strchr(p, '!'));)
		*p = '/';
	return NULL;
}

static struct error *read_numbers(const char *dir, struct device *d)
{
	cleanup_free char *path = xasprintf("%s/dev", dir);
	struct error *err = NULL;
	char text[32], *colon;
	uint64_t major, minor;

	if (d->name.head[0])
		return NULL;
	try(sysfs_read(path, text, sizeof(text)));
	colon = strchr(text, ':');
	if (!colon)
		return error_new("%s has no device number: '%s'", path, text);
	*colon = '\0';
	err = parse_u64(text, 0, (1u << 12) - 1, &major);
	if (!err)
		err = parse_u64(colon + 1, 0, (1u << 20) - 1, &minor);
	if (err)
		return error_in_file(err, path);
	d->name.major = (uint32_t)major;
	d->name.minor = (uint32_t)minor;
	return NULL;
}

/*
 * With several paths to an NVMe namespace each path is a hidden disk, named for the subsystem, the
 * controller and the head (nvme2c0n1, drivers/nvme/host/multipath.c); the head is the disk that is
 * used.
 */
static struct error *read_head(const char *disk_dir, struct device_name *name)
{
	cleanup_free char *path = xasprintf("%s/hidden", disk_dir);
	unsigned int subsystem, controller, head;
	uint64_t hidden;
	int end = 0;

	try(read_optional(path, 0, &hidden));
	if (hidden &&
	    sscanf(name->disk, "nvme%uc%un%u%n", &subsystem, &controller, &head, &end) == 3 &&
	    !name->disk[end])
		snprintf(name->head, sizeof(name->head), "nvme%un%u", subsystem, head);
	return NULL;
}

/* @dir is a device's directory, resolved; @disk_dir that of its disk. */
static struct error *read_device(const char *dir, const char *disk_dir, bool partition,
				 struct device *d)
{
	cleanup_free char *size = xasprintf("%s/size", dir);
	cleanup_free char *start = xasprintf("%s/start", dir);
	cleanup_free char *seq = xasprintf("%s/diskseq", disk_dir);
	struct stat st;

	if (stat(dir, &st))
		return error_errno(errno, "cannot read %s", dir);
	d->sysfs_id = st.st_ino;
	if (stat(disk_dir, &st))
		return error_errno(errno, "cannot read %s", disk_dir);
	d->disk_sysfs_id = st.st_ino;
	try(copy_name(d->name.disk, strrchr(disk_dir, '/') + 1));
	if (partition) {
		cleanup_free char *number = xasprintf("%s/partition", dir);
		uint64_t partno;

		try(copy_name(d->name.partition, strrchr(dir, '/') + 1));
		try(sysfs_read_u64(number, &partno));
		d->partno = (uint32_t)partno;
	}
	try(read_head(disk_dir, &d->name));
	try(read_numbers(dir, d));
	try(read_optional(seq, 0, &d->diskseq));
	try(read_optional(size, 0, &d->sectors));
	try(read_optional(start, 0, &d->start));
	d->request_based = exists(disk_dir, "mq", &st);
	return NULL;
}

static struct error *read_entry(const char *root, const char *name, struct device *d)
{
	cleanup_free char *link = xasprintf("%s/sys/class/block/%s", root, name);
	cleanup_free char *dir = realpath(link, NULL);
	cleanup_free char *disk_dir = dir ? xstrdup(dir) : NULL;
	struct stat st;
	bool partition;

	if (!dir)
		return error_errno(errno, "cannot read %s", link);
	partition = exists(dir, "partition", &st);
	if (partition)
		*strrchr(disk_dir, '/') = '\0';
	return read_device(dir, disk_dir, partition, d);
}

static int compare(const void *pa, const void *pb)
{
	const struct device *a = pa, *b = pb;
	int c = device_name_compare(&a->name, &b->name);

	if (!c)
		c = COMPARE(a->gone, b->gone);
	if (!c)
		c = COMPARE(a->diskseq, b->diskseq);
	return c ? c : COMPARE(a->sysfs_id, b->sysfs_id);
}

void device_list_add(struct device_list *list, const struct device *device)
{
	list->devices = xreallocarray(list->devices, list->n + 1, sizeof(*device));
	list->devices[list->n++] = *device;
}

void device_list_sort(struct device_list *list)
{
	if (list->n)
		qsort(list->devices, list->n, sizeof(*list->devices), compare);
}

void partition_name(const char disk[DEVICE_NAME_MAX], uint32_t partno, char ret[DEVICE_NAME_MAX])
{
	size_t len = strnlen(disk, DEVICE_NAME_MAX);
	bool digit = len && disk[len - 1] >= '0' && disk[len - 1] <= '9';

	snprintf(ret, DEVICE_NAME_MAX, "%.*s%s%" PRIu32, (int)len, disk, digit ? "p" : "", partno);
}

struct error *device_list_read(const char *root, struct device_list *ret)
{
	cleanup_free char *path = xasprintf("%s/sys/class/block", root);
	cleanup_closedir DIR *dir = opendir(path);
	cleanup(device_list_deinit) struct device_list list = {};
	struct dirent *entry;

	if (!dir)
		return error_errno(errno, "cannot list the block devices in %s", path);
	while ((entry = readdir(dir))) {
		struct device d = {};
		struct error *err;

		if (entry->d_name[0] == '.')
			continue;
		err = read_entry(root, entry->d_name, &d);
		if (err && (err->errnum == ENOENT || err->errnum == ENODEV)) {
			error_free(err); /* gone in the meantime */
			continue;
		}
		if (err)
			return err;
		device_list_add(&list, &d);
	}
	device_list_sort(&list);
	*ret = list;
	list = (struct device_list){};
	return NULL;
}

void device_list_deinit(struct device_list *list)
{
	free(list->devices);
	*list = (struct device_list){};
}

bool device_is_there(const char *root, const struct device *device)
{
	cleanup_free char *dir = device_path(root, device_name_own(&device->name), "");
	cleanup_free char *path = device_path(root, device->name.disk, "diskseq");
	uint64_t diskseq;
	struct stat st;

	if (stat(dir, &st) || st.st_ino != device->sysfs_id)
		return false;
	if (!device->diskseq)
		return true;

	struct error *err = sysfs_read_u64(path, &diskseq);

	if (err) {
		error_free(err);
		return false;
	}
	return diskseq == device->diskseq;
}

bool device_list_has_bios(const struct device_list *list)
{
	for (unsigned int i = 0; i < list->n; i++)
		if (!list->devices[i].request_based && list->devices[i].sectors)
			return true;
	return false;
}

uint32_t device_number(const struct device *device)
{
	return device->name.major << 20 | device->name.minor;
}

const struct device *device_by_number(const struct device_list *list, uint32_t number)
{
	for (unsigned int i = 0; i < list->n; i++)
		if (device_number(&list->devices[i]) == number)
			return &list->devices[i];
	return NULL;
}

struct error *device_by_number_now(const char *root, struct device_list *list, uint32_t number,
				   const struct device **ret)
{
	const struct device *found = device_by_number(list, number);

	if (!found) {
		struct device_list now = {};

		try(device_list_read(root, &now));
		device_list_deinit(list);
		*list = now;
		found = device_by_number(list, number);
	}
	*ret = found;
	return NULL;
}

const struct device *device_by_id(const struct device_list *list, uint64_t sysfs_id)
{
	for (unsigned int i = 0; i < list->n; i++)
		if (list->devices[i].sysfs_id == sysfs_id && !list->devices[i].gone)
			return &list->devices[i];
	return NULL;
}

/* Those that are gone come behind those that are there; NULL if there is none. */
static const struct device *by_name(const struct device_list *list, const char *name)
{
	for (unsigned int i = 0; i < list->n; i++)
		if (!strcmp(device_name_own(&list->devices[i].name), name))
			return &list->devices[i];
	return NULL;
}

struct error *device_find(const struct device_list *list, const char *name,
			  const struct device **ret)
{
	cleanup_free char *wanted = xstrdup(name);
	struct stat st;

	/* /sys itself writes '!' for '/': both spellings are known. */
	for (char *p = wanted; (p = strchr(p, '!'));)
		*p = '/';
	*ret = by_name(list, wanted);
	if (*ret)
		return NULL;
	if (!strchr(name, '/'))
		return error_new(
			"there is no block device '%s': see /sys/class/block for their names",
			name);
	if (stat(name, &st)) {
		int errnum = errno;

		if (!strncmp(wanted, "/dev/", strlen("/dev/")))
			*ret = by_name(list, wanted + strlen("/dev/"));
		if (*ret && (*ret)->gone)
			return NULL;
		return error_errno(errnum, "cannot find the block device '%s'", name);
	}
	if (!S_ISBLK(st.st_mode))
		return error_new("'%s' is not a block device", name);
	for (unsigned int i = 0; i < list->n; i++) {
		const struct device_name *n = &list->devices[i].name;

		if (!list->devices[i].gone && n->major == major(st.st_rdev) &&
		    n->minor == minor(st.st_rdev)) {
			*ret = &list->devices[i];
			return NULL;
		}
	}
	return error_new("'%s' is device %u:%u, which /sys does not have", name, major(st.st_rdev),
			 minor(st.st_rdev));
}

char *device_path(const char *root, const char *name, const char *file)
{
	cleanup_free char *in_sys = xstrdup(name);

	for (char *p = in_sys; (p = strchr(p, '/'));)
		*p = '!';
	return xasprintf("%s/sys/class/block/%s/%s", root, in_sys, file);
}

struct error *device_queues(const char *root, const char *disk, uint64_t *n_queues, uint64_t *tags)
{
	cleanup_free char *path = device_path(root, disk, "mq");
	cleanup_free char *requests = device_path(root, disk, "queue/nr_requests");
	cleanup_closedir DIR *dir = opendir(path);
	uint64_t n = 0, most = 0, value;
	struct dirent *entry;

	if (!dir && errno != ENOENT)
		return error_errno(errno, "cannot list %s", path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;

		cleanup_free char *nr = xasprintf("%s/%s/nr_tags", path, entry->d_name);

		try(read_optional(nr, 0, &value));
		most = value > most ? value : most;
		n++;
	}
	if (n) {
		try(read_optional(requests, 0, &value));
		most = value > most ? value : most;
	}
	*n_queues = n;
	*tags = most;
	return NULL;
}
