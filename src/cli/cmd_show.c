// SPDX-License-Identifier: GPL-2.0-only
#include "cli/command.h"
#include "core/util.h"

struct show_settings {
	struct selection_settings selection;
	const char *format;
	bool total, all;
};

static const struct show_settings defaults = { .format = "text" };

static const struct option_spec options[] = {
	SELECTION_OPTIONS(struct show_settings, selection),
	{ "format", 'f', OPTION_STRING, offsetof(struct show_settings, format), "text|json",
	  "tables for people, or one JSON object (blkhist/1)" },
	{ "total", 0, OPTION_FLAG, offsetof(struct show_settings, total), NULL,
	  "all sizes in one row" },
	{ "all", 'a', OPTION_FLAG, offsetof(struct show_settings, all), NULL,
	  "also devices that are gone, as long as their counters are kept" },
	{}
};

static const struct command_syntax syntax = {
	.usage = "[OPTIONS] [NAME...]",
	.summary = "Show histograms, of all disks or of those named.",
	.details =
		"NAME is a disk or partition: sda, sda1, /dev/sda1, /dev/disk/by-id/... A disk shows\n"
		"itself (with its partitions summed up) and its partitions. Histograms that have\n"
		"counted nothing are left out. With --all, NAME may be a device that is gone; all that\n"
		"had this name are shown.",
	.options = options,
	.max_operands = -1,
};

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct show_settings *s = settings;
	cleanup(session_close) struct session session = {};
	cleanup(snapshot_deinit) struct snapshot snap = {};
	enum output_format format;

	(void)status;
	try(format_parse(s->format, &format));
	try(s->all ? session_open_all(operands, &s->selection, &session) :
		     session_open(operands, &s->selection, &session));
	try(live_read(session.live, &session.devices, &session.selection, &snap));
	if (s->total)
		snapshot_total(&snap);
	return output_snapshot(&snap, format);
}

const struct command cmd_show = {
	.name = "show",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct show_settings),
};
