/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of the cgroups that I/O is accounted to. */
#ifndef BLKHIST_RECORD_CGROUP_H
#define BLKHIST_RECORD_CGROUP_H

#include <stdint.h>

struct cgroups {
	char *mount; /* of the hierarchy that has the io (blkio) controller; NULL: none */
	int fd;      /* of it, or -1 */
	struct cgroup_name {
		uint64_t id;
		char *path;
	} known[64]; /* by id, the last one that was asked for */
};

/* @root is put before /proc; without any such hierarchy all names are "". */
void cgroups_init(struct cgroups *c, const char *root);
void cgroups_deinit(struct cgroups *c);

/* The path below the mount, "/" for the root; "" if it is not known. Valid until the next call. */
const char *cgroups_name(struct cgroups *c, uint64_t id);

#endif
