// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>

#include "cli/command.h"
#include "cli/settings.h"
#include "core/util.h"

struct buckets_settings {
	struct ladder_settings ladders;
};

static const struct option_spec options[] = { LADDER_OPTIONS(struct buckets_settings, ladders),
					      {} };

static const struct command_syntax syntax = {
	.usage = "[NAME] [OPTIONS]",
	.summary = "Print the bounds of a disk's buckets, or set them while it runs.",
	.details =
		"Without NAME: those that disks get by default, if no section of the configuration\n"
		"gives them others. A disk and its partitions have the same\n"
		"bounds; NAME may be either. With new bounds their histograms begin anew, at zero. A\n"
		"partition that appears later gets them by the next blkhist command.\n\n" LADDER_DETAILS,
	.options = options,
	.max_operands = 1,
};

static struct error *print(struct live *live, const struct device *device)
{
	struct ladder ladders[LADDER_KINDS];

	try(live_ladders(live, device, ladders));
	for (int i = 0; i < LADDER_KINDS; i++) {
		cleanup_free char *text = ladder_format(&ladders[i]);

		printf("%s %s\n", ladder_names[i], text);
	}
	return NULL;
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct buckets_settings *s = settings;
	cleanup(device_list_deinit) struct device_list devices = {};
	cleanup(live_closep) struct live *live = NULL;
	const struct ladder *wanted[LADDER_KINDS] = {};
	struct ladder parsed[LADDER_KINDS];
	const struct device *device = NULL;
	bool change = false;

	(void)status;
	for (int i = 0; i < LADDER_KINDS; i++) {
		if (!s->ladders.spec[i])
			continue;
		try(ladder_parse((enum dimension)i, s->ladders.spec[i], &parsed[i]));
		wanted[i] = &parsed[i];
		change = true;
	}
	if (change && !operands->n)
		return error_usage(
			"buckets: bounds are set for one disk, so name it; see: blkhist buckets --help");
	try(device_list_read(system_paths.root, &devices));
	if (operands->n)
		try(device_find(&devices, operands->names[0], &device));
	try(live_open(&system_paths, &devices, &live));
	if (device)
		try(live_check_counted(live, device));
	if (!change)
		return print(live, device);
	return live_set_ladders(live, &devices, device, wanted);
}

const struct command cmd_buckets = {
	.name = "buckets",
	.syntax = &syntax,
	.run = run,
	.settings_size = sizeof(struct buckets_settings),
};
