// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>

#include "cli/command.h"
#include "cli/settings.h"
#include "core/util.h"

struct start_settings {
	struct ladder_settings ladders;
	const char *kinds, *stamp, *bios, *config;
};

static const struct start_settings defaults = { .stamp = "auto", .bios = "auto" };

static const struct option_spec options[] = {
	CONFIG_OPTION(struct start_settings, config),
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
	.details = DEFAULT_LADDERS
	"\n\n"
	"A configuration has a section [default], and sections named by a pattern for names\n"
	"of disks, [nvme*], [sd[a-c]]. Each may have time, size, seek, kinds (as the options)\n"
	"and ignore = yes. The first section whose pattern matches a disk holds for it and its\n"
	"partitions, now or when it appears; what it leaves out is as in [default]. Options\n"
	"given here replace what [default] says. With --config /dev/null there is none.\n\n" LADDER_DETAILS
	"\n\nWith --stamp kernel the kernel's own issue stamp is used where there is one, which\n"
	"costs less; since Linux 6.9 it may be as old as the submission of the I/O.",
	.options = options,
};

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct start_settings *s = settings;
	cleanup(config_deinit) struct config config;
	struct live_settings live = { .config = &config };
	int stamp = 0, bios = 0;
	bool already;

	(void)operands, (void)status;
	config_init(&config);
	try(choice_parse("start", "stamp", stamp_mode_names, STAMP_NR, s->stamp, &stamp));
	try(choice_parse("start", "bios", bios_mode_names, BIOS_NR, s->bios, &bios));
	live.stamp = (enum stamp_mode)stamp;
	live.bios = (enum bios_mode)bios;
	try(settings_read(s->config, &s->ladders, s->kinds, &config));
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
