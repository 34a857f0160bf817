// SPDX-License-Identifier: GPL-2.0-only
#include "cli/command.h"
#include "core/util.h"
#include "outputs/json.h"
#include "outputs/text.h"

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
	cleanup(device_list_deinit) struct device_list devices = {};
	cleanup(selection_deinit) struct live_selection selection = {};
	cleanup(live_closep) struct live *live = NULL;
	cleanup(snapshot_deinit) struct snapshot snap = {};
	cleanup(buf_deinit) struct buf out = {};
	enum output_format format;

	(void)status;
	try(format_parse(s->format, &format));
	try(device_list_read(system_paths.root, &devices));
	try(selection_parse(&devices, operands, &s->selection, &selection));
	try(live_open(&system_paths, &devices, &live));
	try(live_reset(live, &devices, &selection, &snap));
	if (!s->print)
		return NULL;
	if (format == FORMAT_JSON)
		json_snapshot(&snap, &out);
	else
		text_snapshot(&snap, output_width(), &out);
	return output_write(&out);
}

const struct command cmd_reset = {
	.name = "reset",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct reset_settings),
};
