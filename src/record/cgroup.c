// SPDX-License-Identifier: GPL-2.0-only
#include "record/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "core/util.h"

/* include/linux/exportfs.h, FILEID_KERNFS: the handle is the id of the node. */
#define HANDLE_KERNFS 0xfe

static void endmntentp(FILE **f)
{
	if (*f)
		endmntent(*f);
}

/* Where version 1 has the controller, that is the one; else version 2. */
void cgroups_init(struct cgroups *c, const char *root)
{
	cleanup_free char *path = xasprintf("%s/proc/self/mounts", root);
	cleanup(endmntentp) FILE *f = setmntent(path, "re");
	struct mntent *m;

	*c = (struct cgroups){ .fd = -1 };
	while (f && (m = getmntent(f))) {
		bool v1 = !strcmp(m->mnt_type, "cgroup") && hasmntopt(m, "blkio");

		if (!v1 && (strcmp(m->mnt_type, "cgroup2") || c->mount))
			continue;
		free(c->mount);
		c->mount = xstrdup(m->mnt_dir);
		if (v1)
			break;
	}
	if (c->mount)
		c->fd = open(c->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void cgroups_deinit(struct cgroups *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->known); i++)
		free(c->known[i].path);
	free(c->mount);
	closep(&c->fd);
}

static char *look_up(const struct cgroups *c, uint64_t id)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + sizeof(id)];
	} u = { .handle = { .handle_bytes = sizeof(id), .handle_type = HANDLE_KERNFS } };
	cleanup_free char *link = NULL;
	cleanup_close int fd = -1;
	char path[PATH_MAX];
	size_t mount = strlen(c->mount);
	ssize_t n;

	memcpy(u.handle.f_handle, &id, sizeof(id));
	fd = open_by_handle_at(c->fd, &u.handle, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return xstrdup("");
	link = xasprintf("/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return xstrdup("");
	path[n] = '\0';
	if (strncmp(path, c->mount, mount))
		return xstrdup(path);
	return xstrdup(path[mount] ? path + mount : "/");
}

const char *cgroups_name(struct cgroups *c, uint64_t id)
{
	struct cgroup_name *name = &c->known[id % ARRAY_SIZE(c->known)];

	if (!id || c->fd < 0)
		return "";
	if (!name->path || name->id != id) {
		free(name->path);
		name->path = look_up(c, id);
		name->id = id;
	}
	return name->path;
}
