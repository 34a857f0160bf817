/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Block devices as /sys knows them. Every path takes a root ("" is the running system), so that
 * copies of real trees test it. Names always come from /sys by device number; identity is the sysfs
 * node of the device and the diskseq of its disk, since numbers and names are reused.
 */
#ifndef BLKHIST_CORE_DEVICE_H
#define BLKHIST_CORE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "core/hist.h"

struct device {
	struct device_name name;
	uint64_t sysfs_id;      /* inode number of its directory in /sys */
	uint64_t disk_sysfs_id; /* likewise of its disk; equal for a whole disk */
	uint64_t diskseq;       /* of its disk; 0 if the kernel has none */
	uint64_t start;         /* sector of the disk that it begins at; 0 for a whole disk */
	uint64_t sectors;
	uint32_t partno;    /* 0 for a whole disk */
	bool request_based; /* its disk has hardware queues (queue directory "mq") */
	bool gone;          /* not in /sys any more, added by a source that still knows of it */
};

struct device_list {
	struct device *devices; /* sorted by name, a disk before its partitions */
	unsigned int n;
};

/* All block devices below @root/sys/class/block. */
struct error *device_list_read(const char *root, struct device_list *ret) must_check;
void device_list_deinit(struct device_list *list);

/* Whether this very device is still there, by two looks into /sys. */
bool device_is_there(const char *root, const struct device *device);

/* Whether one of them has a size and no requests. */
bool device_list_has_bios(const struct device_list *list);

void device_list_add(struct device_list *list, const struct device *device);
void device_list_sort(struct device_list *list);

/* The name that the kernel gives to a partition. */
void partition_name(const char disk[DEVICE_NAME_MAX], uint32_t partno, char ret[DEVICE_NAME_MAX]);

/* major << 20 | minor, as the kernel and traces have it. */
uint32_t device_number(const struct device *device);

/* By that number, a disk or partition; NULL if there is none. */
const struct device *device_by_number(const struct device_list *list, uint32_t number);
/* The same, with a new look into /sys if none is known; *@ret may be NULL. */
struct error *device_by_number_now(const char *root, struct device_list *list, uint32_t number,
				   const struct device **ret) must_check;

/* Of those that are there; NULL if there is none. */
const struct device *device_by_id(const struct device_list *list, uint64_t sysfs_id);

/*
 * The device that a person means: a name in /sys ("sda1"), or a path to a device node or a link to
 * one ("/dev/sda1", "/dev/mapper/x", "/dev/disk/by-id/..."). One that is gone is known by its name
 * or by what its node was called, and only if none that is there has the name. Owned by @list.
 */
struct error *device_find(const struct device_list *list, const char *name,
			  const struct device **ret) must_check;

/* Reads a small file of /sys, without its newline; at most @size - 1 bytes. */
struct error *sysfs_read(const char *path, char *ret, size_t size) must_check;
struct error *sysfs_read_u64(const char *path, uint64_t *ret) must_check;

/* The path of a file that /sys has of a device; the caller frees it. */
char *device_path(const char *root, const char *name, const char *file);

/*
 * The hardware queues of a disk: their number, and the most requests that one can have at once (its
 * tags, or those of the scheduler). Zero for a disk without requests.
 */
struct error *device_queues(const char *root, const char *disk, uint64_t *n_queues,
			    uint64_t *tags) must_check;

#endif
