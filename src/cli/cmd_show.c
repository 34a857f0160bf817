// SPDX-License-Identifier: GPL-2.0-only
#include "cli/command.h"
#include "cli/traces.h"
#include "core/util.h"

struct show_settings {
	struct selection_settings selection;
	const char *format;
	bool total, all;
	struct trace_options trace;
};

static const struct show_settings defaults = { .format = "text", .trace = TRACE_DEFAULTS };

static const struct option_spec options[] = {
	SELECTION_OPTIONS(struct show_settings, selection),
	{ "format", 'f', OPTION_STRING, offsetof(struct show_settings, format), "text|json",
	  "tables for people, or one JSON object (blkhist/1)" },
	{ "total", 0, OPTION_FLAG, offsetof(struct show_settings, total), NULL,
	  "all sizes in one row" },
	{ "all", 'a', OPTION_FLAG, offsetof(struct show_settings, all), NULL,
	  "also devices that are gone, as long as their counters are kept" },
	TRACE_OPTIONS(struct show_settings, trace),
	{}
};

static const struct command_syntax syntax = {
	.usage = "[OPTIONS] [NAME...]",
	.summary = "Show histograms, of all disks or of those named.",
	.details =
		"NAME is a disk or partition: sda, sda1, /dev/sda1, /dev/disk/by-id/... A disk shows\n"
		"itself (with its partitions summed up) and its partitions. Histograms that have\n"
		"counted nothing are left out. With --all, NAME may be a device that is gone; all that\n"
		"had this name are shown.\n\n" TRACE_DETAILS,
	.options = options,
	.max_operands = -1,
};

static struct error *show(const struct show_settings *s, enum output_format format,
			  struct snapshot *snap)
{
	if (s->total)
		snapshot_total(snap);
	return output_snapshot(snap, format);
}

static struct error *show_live(const struct show_settings *s, const struct operands *operands,
			       enum output_format format)
{
	cleanup(session_close) struct session session = {};
	cleanup(snapshot_deinit) struct snapshot snap = {};

	try(s->all ? session_open_all(operands, &s->selection, &session) :
		     session_open(operands, &s->selection, &session));
	try(live_read(session.live, &session.devices, &session.selection, &snap));
	return show(s, format, &snap);
}

static struct error *show_trace(const struct show_settings *s, const struct operands *operands,
				enum output_format format, int *status)
{
	cleanup(trace_session_close) struct trace_session session = {};
	cleanup(snapshot_deinit) struct snapshot snap = {};
	enum trace_state state;

	try(selection_masks(&s->selection, &session.selection.kinds, &session.selection.ops));
	try(trace_session_open("show", &s->trace, operands, &session));
	try(trace_session_read(&session, INT64_MAX, &state));
	try(trace_session_end(&session, status));
	trace_session_snapshot(&session, 0, &snap);
	return show(s, format, &snap);
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct show_settings *s = settings;
	enum output_format format;

	try(format_parse(s->format, &format));
	try(trace_options_check("show", &s->trace));
	if (!s->trace.input)
		return show_live(s, operands, format);
	if (s->all)
		return error_usage(
			"show: --all is of the running collector, and -i of traces; see: "
			"blkhist show --help");
	return show_trace(s, operands, format, status);
}

const struct command cmd_show = {
	.name = "show",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct show_settings),
};
