// SPDX-License-Identifier: GPL-2.0-only
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>

#include "cli/command.h"
#include "cli/mounts.h"
#include "cli/settings.h"
#include "core/util.h"
#include "files/files.h"

struct mount_settings {
	bool foreground, no_start;
	const char *options, *config;
};

static const struct mount_settings defaults = {};

static const struct option_spec options[] = {
	{ "foreground", 'f', OPTION_FLAG, offsetof(struct mount_settings, foreground), NULL,
	  "stay in the foreground, and log to standard error" },
	{ "options", 'o', OPTION_STRING, offsetof(struct mount_settings, options), "OPTION,...",
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

/* What is in a directory would be hidden. */
static struct error *check_empty(const char *dir)
{
	cleanup_closedir DIR *d = opendir(dir);
	const struct dirent *entry;

	if (!d)
		return error_errno(errno, "cannot mount at %s", dir);
	while ((entry = readdir(d)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			return error_new("cannot mount at %s: the directory is not empty", dir);
	return NULL;
}

/* Makes the directory ready, and takes away what a killed process has left there. */
static struct error *prepare(const char *name, char **ret)
{
	cleanup_free char *dir = NULL;
	bool dead;

	if (mkdir(name, 0755) && errno != EEXIST)
		return error_errno(errno, "cannot make the directory %s", name);
	dir = mount_path(name);
	if (!dir)
		return error_errno(errno, "cannot mount at %s", name);
	if (files_mounted(dir, &dead)) {
		if (!dead)
			return error_new("a tree of blkhist is mounted at %s already", dir);
		try(files_unmount(dir));
	}
	try(check_empty(dir));
	*ret = take(dir);
	return NULL;
}

static struct error *start(const char *config_path)
{
	const struct ladder_settings no_ladders = {};
	cleanup(config_deinit) struct config config;
	const struct live_settings live = { .config = &config };
	bool already;

	config_init(&config);
	try(settings_read(config_path, &no_ladders, NULL, &config));
	return live_start(&system_paths, &live, &already);
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct mount_settings *s = settings;
	cleanup_free char *dir = NULL;
	struct files_settings files = {
		.paths = &system_paths,
		.options = s->options,
		.foreground = s->foreground,
		.status = status_print,
		.log = s->foreground ? log_to_stderr : log_to_syslog,
	};

	(void)status;
	try(prepare(operands->n ? operands->names[0] : MOUNT_DIR, &dir));
	if (!s->no_start && !pins_exist(&system_paths))
		try(start(s->config));
	files.dir = dir;
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
