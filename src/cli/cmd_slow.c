// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <poll.h>

#include "cli/command.h"
#include "cli/recorder.h"
#include "cli/settings.h"
#include "core/units.h"
#include "core/util.h"
#include "outputs/slow.h"
#include "record/slow.h"

struct slow_settings {
	const char *devices, *min_time, *ops, *count, *rate, *format;
};

static const struct slow_settings defaults = {
	.min_time = "10ms",
	.rate = "100",
	.format = "text",
};

static const struct option_spec options[] = {
	{ "device", 'd', OPTION_STRING, offsetof(struct slow_settings, devices), "NAME,...",
	  "only these disks and partitions, as if named without it" },
	{ "min-time", 0, OPTION_STRING, offsetof(struct slow_settings, min_time), "TIME",
	  "request time that is slow (default 10ms)" },
	{ "op", 'o', OPTION_STRING, offsetof(struct slow_settings, ops), "OP,...",
	  "only these: read, write, discard, flush" },
	{ "count", 'n', OPTION_STRING, offsetof(struct slow_settings, count), "N",
	  "end after so many lines; default: when it is interrupted" },
	{ "rate", 'r', OPTION_STRING, offsetof(struct slow_settings, rate), "N",
	  "lines a second at most (default 100); others are counted" },
	{ "format", 'f', OPTION_STRING, offsetof(struct slow_settings, format), "text|json",
	  "a line for people, or a JSON object (blkhist-slow/1), per request" },
	{}
};

static const struct command_syntax syntax = {
	.usage = "[NAME...] [OPTIONS]",
	.summary = "Show slow requests as they complete.",
	.details =
		"NAME is a disk or partition; without any, all devices. A request is slow if its request\n"
		"time, start to completion, is at least --min-time; a bio of a device without requests\n"
		"likewise. It needs no collector, and costs about what a collector does.\n\n"
		"COMPLETED is local time. PID and PROCESS are of the task that gave the request to the\n"
		"scheduler, or without one issued it; that is mostly the task that wanted it. CGROUP is\n"
		"the one that the kernel accounts the I/O to. REQ. counts requeues; the service time is\n"
		"that of the last issue. SECTOR is of the whole disk.",
	.options = options,
	.max_operands = -1,
};

static struct error *parse(const struct slow_settings *s, struct slow_options *o)
{
	enum output_format format;

	o->ops = OPS_ALL;
	try(min_time_parse("slow", s->min_time, &o->min_ns));
	if (s->ops)
		try(blk_ops_parse(s->ops, &o->ops));
	if (s->count)
		try(number_parse("slow", "count", s->count, 1, UINT32_MAX, &o->count));
	try(number_parse("slow", "rate", s->rate, 1, UINT32_MAX, &o->rate));
	try(format_parse(s->format, &format));
	o->json = format == FORMAT_JSON;
	return NULL;
}

static struct error *follow(struct slow *slow, int signals)
{
	struct pollfd fds[] = { { .fd = signals, .events = POLLIN },
				{ .fd = slow_fd(slow), .events = POLLIN } };
	bool done = false;

	while (!done) {
		cleanup(buf_deinit) struct buf out = {};

		if (poll(fds, ARRAY_SIZE(fds), slow_timeout_ms(slow)) < 0)
			return error_errno(errno, "cannot wait for slow requests");
		if (fds[0].revents)
			break;
		try(slow_read(slow, &out, &done));
		try(output_write(&out));
	}
	return NULL;
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct slow_settings *s = settings;
	cleanup(device_list_deinit) struct device_list devices = {};
	cleanup(devices_chosen_deinit) struct devices_chosen chosen = {};
	cleanup(slow_closep) struct slow *slow = NULL;
	cleanup(buf_deinit) struct buf header = {}, end = {};
	struct slow_options o = {};
	cleanup_close int signals = -1;

	(void)status;
	try(parse(s, &o));
	try(device_list_read(system_paths.root, &devices));
	try(devices_chosen_parse(&devices, s->devices, &chosen));
	for (int i = 0; i < operands->n; i++)
		try(devices_chosen_add(&devices, operands->names[i], &chosen));
	o.devices = chosen.devices;
	o.n_devices = chosen.n;
	try(signals_open(&signals));
	try(slow_open(&system_paths, &o, &slow));
	if (!o.json)
		slow_header(&header);
	try(output_write(&header));
	try(follow(slow, signals));
	try(slow_end(slow, &end));
	return output_write(&end);
}

const struct command cmd_slow = {
	.name = "slow",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct slow_settings),
};
