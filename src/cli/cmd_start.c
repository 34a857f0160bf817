// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "config.h"
#include "core/util.h"

#define CONFIG_PATH "/etc/blkhist.conf"

struct start_settings {
	struct ladder_settings ladders;
	const char *kinds, *stamp, *bios, *config;
};

static const struct start_settings defaults = { .stamp = "auto", .bios = "auto" };

static const char *const built_in[CONFIG_NR] = {
	[CONFIG_TIME] = BLKHIST_DEFAULT_TIME_LADDER,
	[CONFIG_SIZE] = BLKHIST_DEFAULT_SIZE_LADDER,
	[CONFIG_SEEK] = BLKHIST_DEFAULT_SEEK_LADDER,
	[CONFIG_KINDS] = "all",
	[CONFIG_IGNORE] = "no",
};

static const struct option_spec options[] = {
	{ "config", 'c', OPTION_STRING, offsetof(struct start_settings, config), "FILE",
	  "settings by name of disk; else " CONFIG_PATH ", if it is there" },
	LADDER_OPTIONS(struct start_settings, ladders),
	{ "kinds", 'k', OPTION_STRING, offsetof(struct start_settings, kinds), "KIND,...",
	  "collect only these: request, service, queue, seek" },
	{ "stamp", 0, OPTION_STRING, offsetof(struct start_settings, stamp), "auto|own|kernel",
	  "where the issue time comes from; the default is exact" },
	{ "bios", 0, OPTION_STRING, offsetof(struct start_settings, bios), "auto|on|off",
	  "count devices without requests (dm, md, zram): auto while there are any" },
	{}
};

static const struct command_syntax syntax = {
	.usage = "[OPTIONS]",
	.summary = "Start collecting; nothing stays resident. Harmless if it is running.",
	.details =
		"Default ladders: time " BLKHIST_DEFAULT_TIME_LADDER
		", size " BLKHIST_DEFAULT_SIZE_LADDER ",\nseek " BLKHIST_DEFAULT_SEEK_LADDER ".\n\n"
		"A configuration has a section [default], and sections named by a pattern for names\n"
		"of disks, [nvme*], [sd[a-c]]. Each may have time, size, seek, kinds (as the options)\n"
		"and ignore = yes. The first section whose pattern matches a disk holds for it and its\n"
		"partitions, now or when it appears; what it leaves out is as in [default]. Options\n"
		"given here replace what [default] says. With --config /dev/null there is none.\n\n" LADDER_DETAILS
		"\n\nWith --stamp kernel the kernel's own issue stamp is used where there is one, which\n"
		"costs less; since Linux 6.9 it may be as old as the submission of the I/O.",
	.options = options,
};

/* The position of @name in @names. */
static struct error *choice_parse(const char *option, const char *const *names, int n,
				  const char *name, int *ret)
{
	for (int i = 0; i < n; i++) {
		if (!strcmp(names[i], name)) {
			*ret = i;
			return NULL;
		}
	}
	return error_usage("--%s '%s' is unknown; see: blkhist start --help", option, name);
}

/* The file that is named, or that of the system if it is there. */
static struct error *read_config(const char *path, struct config *config)
{
	cleanup_free char *of_system = xasprintf("%s" CONFIG_PATH, system_paths.root);
	struct error *err;

	if (path)
		return config_read(path, config);
	err = config_read(of_system, config);
	if (err && err->errnum == ENOENT) {
		error_free(err);
		return NULL;
	}
	return err;
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct start_settings *s = settings;
	cleanup(config_deinit) struct config config;
	struct live_settings live = { .config = &config };
	int stamp = 0, bios = 0;
	bool already;

	(void)operands, (void)status;
	config_init(&config);
	try(choice_parse("stamp", stamp_mode_names, STAMP_NR, s->stamp, &stamp));
	try(choice_parse("bios", bios_mode_names, BIOS_NR, s->bios, &bios));
	live.stamp = (enum stamp_mode)stamp;
	live.bios = (enum bios_mode)bios;
	try(read_config(s->config, &config));
	for (int i = 0; i < LADDER_KINDS; i++)
		if (s->ladders.spec[i])
			try(config_set(&config.rules[0], (enum config_item)i, s->ladders.spec[i]));
	if (s->kinds)
		try(config_set(&config.rules[0], CONFIG_KINDS, s->kinds));
	try(config_complete(&config, built_in));
	try(live_start(&system_paths, &live, &already));
	printf(already ? "blkhist is already collecting with these settings.\n" :
			 "blkhist is collecting. See: blkhist show\n");
	return NULL;
}

const struct command cmd_start = {
	.name = "start",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct start_settings),
};
