// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/mounts.h"
#include "core/util.h"
#include "files/files.h"

static const struct option_spec options[] = { {} };

static const struct command_syntax syntax = {
	.usage = "[DIR]",
	.summary = "Take the tree of files away again. Collecting goes on.",
	.options = options,
	.max_operands = 1,
};

char *mount_path(const char *name)
{
	cleanup_free char *copy = xstrdup(name), *parent = NULL;
	size_t len = strlen(copy);
	char *slash;

	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	slash = strrchr(copy, '/');
	if (!strcmp(copy, "/") || !strcmp(slash ? slash + 1 : copy, ".") ||
	    !strcmp(slash ? slash + 1 : copy, ".."))
		return realpath(copy, NULL);
	if (slash)
		*slash = '\0';
	parent = realpath(!slash ? "." : *copy ? copy : "/", NULL);
	if (!parent)
		return NULL;
	return xasprintf("%s/%s", strcmp(parent, "/") ? parent : "", slash ? slash + 1 : copy);
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const char *name = operands->n ? operands->names[0] : MOUNT_DIR;
	cleanup_free char *dir = mount_path(name);

	(void)settings, (void)status;
	if (!dir)
		return error_errno(errno, "cannot unmount %s", name);
	return files_unmount(dir);
}

const struct command cmd_unmount = {
	.name = "unmount",
	.syntax = &syntax,
	.run = run,
	.settings_size = 1,
};
