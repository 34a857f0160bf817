// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "config.h"
#include "core/util.h"

struct start_settings {
	struct ladder_settings ladders;
	const char *kinds, *stamp, *bios;
};

static const struct start_settings defaults = {
	.ladders.spec = {
		[DIM_TIME] = BLKHIST_DEFAULT_TIME_LADDER,
		[DIM_SIZE] = BLKHIST_DEFAULT_SIZE_LADDER,
		[DIM_SECTORS] = BLKHIST_DEFAULT_SEEK_LADDER,
	},
	.kinds = "all",
	.stamp = "auto",
	.bios = "auto",
};

static const struct option_spec options[] = {
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
		", size " BLKHIST_DEFAULT_SIZE_LADDER ",\nseek " BLKHIST_DEFAULT_SEEK_LADDER
		".\n\n" LADDER_DETAILS
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

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct start_settings *s = settings;
	struct live_settings live = {};
	int stamp = 0, bios = 0;
	bool already;

	(void)operands, (void)status;
	for (int i = 0; i < LADDER_KINDS; i++) {
		live.texts[i] = s->ladders.spec[i];
		try(ladder_parse((enum dimension)i, live.texts[i], &live.ladders[i]));
	}
	try(hist_kinds_parse(s->kinds, &live.kinds));
	try(choice_parse("stamp", stamp_mode_names, STAMP_NR, s->stamp, &stamp));
	try(choice_parse("bios", bios_mode_names, BIOS_NR, s->bios, &bios));
	live.stamp = (enum stamp_mode)stamp;
	live.bios = (enum bios_mode)bios;
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
