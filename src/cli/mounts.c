// SPDX-License-Identifier: GPL-2.0-only
#include "cli/mounts.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/util.h"

#define LINKS_MAX 32

/* Only the directory's own name is left as it is, as what is mounted there may be dead. */
static char *resolve(const char *name, int links)
{
	cleanup_free char *copy = xstrdup(name), *parent = NULL, *path = NULL, *target = NULL;
	char link[PATH_MAX], *slash, *last;
	size_t len = strlen(copy);
	ssize_t n;

	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	slash = strrchr(copy, '/');
	last = slash ? slash + 1 : copy;
	if (!strcmp(copy, "/") || !strcmp(last, ".") || !strcmp(last, ".."))
		return realpath(copy, NULL);
	if (slash)
		*slash = '\0';
	parent = realpath(!slash ? "." : *copy ? copy : "/", NULL);
	if (!parent)
		return NULL;
	path = xasprintf("%s/%s", strcmp(parent, "/") ? parent : "", last);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return take(path);
	link[n] = '\0';
	if (!links) {
		errno = ELOOP;
		return NULL;
	}
	target = *link == '/' ? xstrdup(link) : xasprintf("%s/%s", parent, link);
	return resolve(target, links - 1);
}

char *mount_path(const char *name)
{
	return resolve(name, LINKS_MAX);
}
