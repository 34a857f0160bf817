// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>

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
