// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>

#include "cli/command.h"

static const struct option_spec options[] = { {} };

static const struct command_syntax syntax = {
	.usage = "",
	.summary = "Stop collecting and remove everything from the kernel, histograms included.",
	.options = options,
};

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	bool was_running;

	(void)settings, (void)operands, (void)status;
	try(live_stop(&system_paths, &was_running));
	printf(was_running ? "blkhist has stopped.\n" : "blkhist was not collecting.\n");
	return NULL;
}

const struct command cmd_stop = { .name = "stop", .syntax = &syntax, .run = run };
