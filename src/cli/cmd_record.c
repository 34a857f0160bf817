// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/recorder.h"
#include "cli/settings.h"
#include "core/units.h"
#include "core/util.h"
#include "record/recording.h"

struct record_settings {
	const char *output, *devices, *events, *ops, *min_time, *duration, *buffer;
};

static const struct record_settings defaults = { .events = "issue,complete", .buffer = "2048" };

#define BUFFER_MIN 64 /* KiB: the largest page that there is */
#define BUFFER_MAX 65536

static const struct option_spec options[] = {
	{ "output", 'o', OPTION_STRING, offsetof(struct record_settings, output), "DIR",
	  "where to: files DISK.blktrace.CPU in it; - is one stream on standard output" },
	{ "device", 'd', OPTION_STRING, offsetof(struct record_settings, devices), "NAME,...",
	  "only these disks and partitions" },
	{ "event", 'a', OPTION_STRING, offsetof(struct record_settings, events), "EVENT,...",
	  "these: queue, remap, split, get, merge, insert, issue, requeue, complete, plug, all" },
	{ "op", 0, OPTION_STRING, offsetof(struct record_settings, ops), "OP,...",
	  "only these: read, write, discard, flush" },
	{ "min-time", 0, OPTION_STRING, offsetof(struct record_settings, min_time), "TIME",
	  "only requests that take at least so long (10ms)" },
	{ "duration", 'w', OPTION_STRING, offsetof(struct record_settings, duration), "TIME",
	  "for how long (seconds, or with a unit); default: until it is interrupted" },
	{ "buffer", 'b', OPTION_STRING, offsetof(struct record_settings, buffer), "KIB",
	  "buffer of each CPU, 64..65536 (default 2048)" },
	{}
};

/* What -a knows, and what stands for it in a trace. */
static const struct {
	const char *name;
	unsigned int events;
	const char *help;
} events[] = {
	{ "queue", 1u << REC_QUEUE, "Q: a bio is submitted" },
	{ "remap", 1u << REC_REMAP, "A: it is sent on to the disk of its partition, or below dm" },
	{ "split", 1u << REC_SPLIT, "X: it is too large for one request" },
	{ "get", 1u << REC_GET, "G: it gets a request" },
	{ "merge", 1u << REC_BACK_MERGE | 1u << REC_FRONT_MERGE | 1u << REC_JOIN,
	  "M, F: it joins a request, or a request another one" },
	{ "insert", 1u << REC_INSERT, "I: a request is given to the scheduler" },
	{ "issue", 1u << REC_ISSUE, "D: it is issued to the driver" },
	{ "requeue", 1u << REC_REQUEUE, "R: it comes back from the driver" },
	{ "complete", 1u << REC_COMPLETE, "C: it has ended" },
	{ "plug", 1u << REC_PLUG | 1u << REC_UNPLUG, "P, U, T: a task collects requests" },
	{ "all", (1u << REC_POINTS) - 1, "all of these" },
};

static void event_table(struct buf *out)
{
	buf_puts(out, "Events:\n");
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		buf_printf(out, "  %-10s %s\n", events[i].name, events[i].help);
}

static const struct command_syntax syntax = {
	.usage = "-o DIR [OPTIONS]",
	.summary = "Record events of requests as blktrace does, all or of slow ones only.",
	.details =
		"The files are blktrace's (version 7): blkhist show -i DIR, blkparse, btt and blkiomon\n"
		"read them, and fio replays them (with queue among the events). It needs no debugfs and\n"
		"no collector, may run beside blktrace, and works with the kernel locked down for\n"
		"integrity. The default events give service time, size and seek distance; get or queue\n"
		"give request and queue time, too. Devices without requests have Q in place of D.\n\n"
		"The partition of a request stands in an A record before its D; with remap recorded, in\n"
		"those of its bios. With --min-time a request's events are kept in the kernel until it\n"
		"has ended, and only those of slow ones are written, in order of time all the same.\n\n"
		"Events that find no room are counted; they are gaps in the sequence numbers.",
	.tables = event_table,
	.options = options,
};

static struct error *events_parse(const char *list, unsigned int *ret)
{
	cleanup_free char *copy = xstrdup(list);
	char *rest = copy, *name;

	*ret = 0;
	while ((name = strsep(&rest, ","))) {
		size_t i = 0;

		while (i < ARRAY_SIZE(events) && strcmp(events[i].name, name))
			i++;
		if (i == ARRAY_SIZE(events))
			return error_usage("record: unknown event '%s'; see: blkhist record --help",
					   name);
		*ret |= events[i].events;
	}
	return NULL;
}

static struct error *parse(const struct record_settings *s, struct recording_options *o)
{
	uint64_t kib;

	if (!s->output)
		return error_usage("record: it is not said where to; give a directory, or - for "
				   "standard output: blkhist record -o DIR");
	o->path = s->output;
	o->recorder.ops = OPS_ALL;
	try(events_parse(s->events, &o->recorder.events));
	if (s->ops)
		try(blk_ops_parse(s->ops, &o->recorder.ops));
	if (s->min_time)
		try(min_time_parse("record", s->min_time, &o->recorder.min_ns));
	if (s->duration)
		try(duration_parse("record", "--duration", s->duration, &o->duration_ns));
	try(number_parse("record", "buffer", s->buffer, BUFFER_MIN, BUFFER_MAX, &kib));
	o->recorder.ring_bytes = power_of_two((size_t)kib << 10);
	return NULL;
}

/* On standard error, as standard output may be the trace. */
static void report(const struct recording_result *r, const char *path)
{
	char bytes[UNIT_TEXT_MAX];

	unit_format_short(DIM_SIZE, (int64_t)r->bytes, bytes);
	fprintf(stderr, "%" PRIu64 " events of %u disk%s in %.1f s, %" PRIu64 " lost; %s in %s\n",
		r->events, r->disks, r->disks == 1 ? "" : "s", (double)r->duration_ns / 1e9,
		r->lost, bytes, strcmp(path, "-") ? path : "standard output");
	if (r->lost)
		fprintf(stderr,
			"Note: the buffers were full; larger ones (-b) or fewer events help. %" PRIu64
			" of the lost events are behind the last one of their CPU, where no gap "
			"shows them.\n",
			r->at_end);
	if (r->skipped)
		fprintf(stderr,
			"Note: up to %" PRIu64
			" more events may be missing: the kernel did not run a "
			"program, or they could not be kept until their request ended.\n",
			r->skipped);
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct record_settings *s = settings;
	cleanup(device_list_deinit) struct device_list devices = {};
	cleanup(devices_chosen_deinit) struct devices_chosen chosen = {};
	struct recording_options o = {};
	struct recording_result result = {};
	cleanup_close int signals = -1;

	(void)operands, (void)status;
	try(parse(s, &o));
	try(device_list_read(system_paths.root, &devices));
	try(devices_chosen_parse(&devices, s->devices, &chosen));
	o.recorder.devices = chosen.devices;
	o.recorder.n_devices = chosen.n;
	try(signals_open(&signals));
	try(recording_run(&system_paths, &devices, &o, signals, &result));
	report(&result, o.path);
	return NULL;
}

const struct command cmd_record = {
	.name = "record",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct record_settings),
};
