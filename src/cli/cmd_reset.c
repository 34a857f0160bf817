// SPDX-License-Identifier: GPL-2.0-only
#include "cli/command.h"
#include "core/util.h"

struct reset_settings {
	struct selection_settings selection;
	const char *format;
	bool print;
};

static const struct reset_settings defaults = { .format = "text" };

static const struct option_spec options[] = {
	SELECTION_OPTIONS(struct reset_settings, selection),
	{ "print", 'p', OPTION_FLAG, offsetof(struct reset_settings, print), NULL,
	  "print exactly what is reset" },
	{ "format", 'f', OPTION_STRING, offsetof(struct reset_settings, format), "text|json",
	  "how --print prints" },
	{}
};

static const struct command_syntax syntax = {
	.usage = "[OPTIONS] [NAME...]",
	.summary = "Let histograms begin at zero again: all, or those named.",
	.details =
		"The kernel's counters only rise; a reset remembers them and show subtracts. No\n"
		"request is lost or counted twice between what --print prints and what follows.",
	.options = options,
	.max_operands = -1,
};

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct reset_settings *s = settings;
	cleanup(session_close) struct session session = {};
	cleanup(snapshot_deinit) struct snapshot snap = {};
	enum output_format format;

	(void)status;
	try(format_parse(s->format, &format));
	try(session_open(operands, &s->selection, &session));
	try(live_reset(session.live, &session.devices, &session.selection, &snap));
	return s->print ? output_snapshot(&snap, format) : NULL;
}

const struct command cmd_reset = {
	.name = "reset",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct reset_settings),
};
