// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <syslog.h>

#include "cli/command.h"
#include "cli/mounts.h"
#include "cli/settings.h"
#include "core/util.h"
#include "files/files.h"

struct mount_settings {
	bool foreground, no_start;
	struct option_list options;
	const char *config;
};

static const struct mount_settings defaults = {};

static const struct option_spec options[] = {
	{ "foreground", 'f', OPTION_FLAG, offsetof(struct mount_settings, foreground), NULL,
	  "stay in the foreground, and log to standard error" },
	{ "options", 'o', OPTION_LIST, offsetof(struct mount_settings, options), "OPTION,...",
	  "of the mount: allow_other (others may read), ro, ..." },
	{ "no-start", 0, OPTION_FLAG, offsetof(struct mount_settings, no_start), NULL,
	  "do not start the collector if it is not running" },
	CONFIG_OPTION(struct mount_settings, config),
	{}
};

static const struct command_syntax syntax = {
	.usage = "[OPTIONS] [DIR]",
	.summary = "Serve the histograms as a tree of files, at " MOUNT_DIR " or DIR.",
	.details =
		"DIR/sda/read_request_histo and the like are tables for scripts; writing anything to one\n"
		"resets it. dma is the historical name of service time. DIR/sda/buckets_time (_size,\n"
		"_seek) take bounds. DIR/all.json is what show -f json prints, DIR/status what status\n"
		"prints, DIR/config the configuration. The process that serves the tree keeps nothing:\n"
		"if it is killed, mount again. Collecting goes on without it.",
	.options = options,
	.max_operands = 1,
};

static void log_to_stderr(const char *line)
{
	fprintf(stderr, "blkhist: %s\n", line);
}

static void log_to_syslog(const char *line)
{
	syslog(LOG_WARNING, "%s", line);
}

static struct error *start(void *context)
{
	const struct mount_settings *s = context;
	const struct ladder_settings no_ladders = {};
	cleanup(config_deinit) struct config config;
	const struct live_settings live = { .config = &config };
	bool already;

	config_init(&config);
	if (s->no_start || pins_exist(&system_paths))
		return NULL;
	try(settings_read(s->config, &no_ladders, NULL, &config));
	return live_start(&system_paths, &live, &already);
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	struct mount_settings *s = settings;
	const char *name = operands->n ? operands->names[0] : MOUNT_DIR;
	cleanup(buf_deinit) struct buf joined = {};
	cleanup_free char *dir = NULL;
	struct stat st;
	struct files_settings files = {
		.paths = &system_paths,
		.foreground = s->foreground,
		.start = start,
		.context = s,
		.status = status_print,
		.log = s->foreground ? log_to_stderr : log_to_syslog,
	};

	(void)status;
	if (mkdir(name, 0755) && errno != EEXIST)
		return error_errno(errno, "cannot make the directory %s", name);
	dir = mount_path(name);
	/* What is mounted there may be dead; only that there is nothing is an error. */
	if (!dir || (stat(dir, &st) && errno == ENOENT))
		return error_errno(errno, "cannot mount at %s", name);
	for (unsigned int i = 0; i < s->options.n; i++)
		buf_printf(&joined, "%s%s", i ? "," : "", s->options.value[i]);
	files.dir = dir;
	files.options = joined.str;
	openlog("blkhist", LOG_PID, LOG_DAEMON);
	return files_serve(&files);
}

const struct command cmd_mount = {
	.name = "mount",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct mount_settings),
};
