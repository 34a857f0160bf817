// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/traces.h"
#include "core/units.h"
#include "core/util.h"
#include "outputs/watch.h"

struct watch_settings {
	const char *format, *ops;
	bool partitions;
	struct trace_options trace;
};

static const struct watch_settings defaults = { .format = "text", .trace = TRACE_DEFAULTS };

static const struct option_spec options[] = {
	{ "op", 'o', OPTION_STRING, offsetof(struct watch_settings, ops), "OP,...",
	  "only these: read, write, discard, flush" },
	{ "parts", 'p', OPTION_FLAG, offsetof(struct watch_settings, partitions), NULL,
	  "the partitions of disks, too" },
	{ "format", 'f', OPTION_STRING, offsetof(struct watch_settings, format), "text|json",
	  "lines for people, or one JSON object an interval (blkhist-watch/1)" },
	TRACE_OPTIONS(struct watch_settings, trace),
	{}
};

static const struct command_syntax syntax = {
	.usage = "[INTERVAL [COUNT]] [NAME...] [OPTIONS]",
	.summary = "Show, again and again, what the last interval brought.",
	.details =
		"INTERVAL is in seconds (0.5) or has a unit (500ms), from 10ms to a day; without it, a\n"
		"second. COUNT is how many intervals; without it, until it is interrupted. NAME is a disk\n"
		"or partition; without any, all disks that have I/O. What begins with a digit is INTERVAL,\n"
		"then COUNT. The first report comes after the first interval. A reset does not show here.\n\n"
		"With -i the intervals are those of the trace's own clock, the last one being shorter;\n"
		"of a pipe each is shown a second late, as blktrace may be late itself.\n" TRACE_DETAILS,
	.tables = watch_help,
	.options = options,
	.max_operands = -1,
};

/* What the command line asks for. */
struct plan {
	int64_t interval_ns;
	uint64_t count; /* 0: no end */
	unsigned int ops;
	bool partitions;
	enum output_format format;
	struct operands names; /* owned array */
};

static void plan_deinit(struct plan *plan)
{
	free(plan->names.names);
}

static struct error *plan_parse(const struct watch_settings *s, const struct operands *operands,
				struct plan *plan)
{
	int numbers = 0;

	plan->interval_ns = 1000000000;
	plan->ops = OPS_ALL;
	plan->partitions = s->partitions;
	plan->names.names = xcalloc((size_t)operands->n, sizeof(char *));
	try(format_parse(s->format, &plan->format));
	if (s->ops)
		try(blk_ops_parse(s->ops, &plan->ops));
	for (int i = 0; i < operands->n; i++) {
		char *operand = operands->names[i];

		if (!isdigit((unsigned char)*operand)) {
			plan->names.names[plan->names.n++] = operand;
			continue;
		}
		if (numbers == 0)
			try(duration_parse("watch", "the interval", operand, &plan->interval_ns));
		else if (numbers == 1)
			try(parse_u64(operand, 1, UINT32_MAX, &plan->count));
		else
			return error_usage(
				"watch: '%s' is one number too many; see: blkhist watch --help",
				operand);
		numbers++;
	}
	return NULL;
}

/*
 * The devices that were named, as far as they are there. At the first time all must be, later one
 * is enough: devices come and go. The caller frees them.
 */
static struct error *devices_named(const struct device_list *devices, const struct operands *names,
				   bool first, struct live_selection *sel)
{
	cleanup_free const struct device **found = xcalloc((size_t)names->n, sizeof(*found));
	unsigned int n = 0;

	for (int i = 0; i < names->n; i++) {
		struct error *err = device_find(devices, names->names[i], &found[n]);

		if (err && first)
			return err;
		n += !err;
		error_free(err);
	}
	if (names->n && !n)
		return error_new("cannot watch any longer: %s is gone",
				 names->n == 1 ? names->names[0] : "every device that was named");
	sel->devices = take(found);
	sel->n_devices = n;
	return NULL;
}

/* The collector is open, and locked, only for the moment. */
static struct error *counters_read(const struct plan *plan, bool first, struct snapshot *ret)
{
	cleanup(session_close) struct session session = {
		.selection = { .kinds = KINDS_ALL,
			       .ops = plan->ops,
			       .alone = !plan->partitions,
			       .raw = true },
	};

	try(device_list_read(system_paths.root, &session.devices));
	try(devices_named(&session.devices, &plan->names, first, &session.selection));
	try(live_open(&system_paths, &session.devices, &session.live));
	for (unsigned int i = 0; i < session.selection.n_devices; i++)
		try(live_check_counted(session.live, session.selection.devices[i]));
	return live_read(session.live, &session.devices, &session.selection, ret);
}

static struct error *timer_open(int64_t interval_ns, int *ret)
{
	struct timespec interval = { interval_ns / 1000000000, interval_ns % 1000000000 };
	struct itimerspec spec = { .it_interval = interval, .it_value = interval };
	cleanup_close int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (timer < 0 || timerfd_settime(timer, 0, &spec, NULL))
		return error_errno(errno, "cannot set a timer");
	*ret = take_fd(timer);
	return NULL;
}

/* Until the interval is over; *@stop: a signal came first. Intervals that were missed are one. */
static struct error *interval_wait(int timer, int signals, bool *stop)
{
	struct pollfd fds[] = { { .fd = timer, .events = POLLIN },
				{ .fd = signals, .events = POLLIN } };
	uint64_t expirations;

	if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
		return error_errno(errno, "cannot wait for the interval");
	*stop = fds[1].revents != 0;
	if (!*stop && read(timer, &expirations, sizeof(expirations)) != sizeof(expirations))
		return error_errno(errno, "cannot read the timer");
	return NULL;
}

/* The header comes again with every screenful. */
static void terminal_ask(struct watch_text *text)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return;
	text->colour = !getenv("NO_COLOR");
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row > 5)
		text->page = size.ws_row - 3u;
}

static struct error *report(const struct plan *plan, const struct snapshot *newer,
			    const struct snapshot *older, struct watch_text *text)
{
	cleanup(snapshot_deinit) struct snapshot delta = {};
	cleanup(buf_deinit) struct buf out = {};

	snapshot_delta(newer, older, &delta);
	if (plan->format == FORMAT_JSON) {
		watch_json(&delta, &out);
	} else {
		terminal_ask(text);
		watch_text(text, &delta, &out);
	}
	return output_write(&out);
}

static struct error *watch_live(const struct plan *plan)
{
	cleanup(snapshot_deinit) struct snapshot older = {};
	cleanup_close int timer = -1, signals = -1;
	struct watch_text text = {};

	try(signals_open(&signals));
	try(timer_open(plan->interval_ns, &timer));
	try(counters_read(plan, true, &older));
	for (uint64_t i = 0; !plan->count || i < plan->count; i++) {
		cleanup(snapshot_deinit) struct snapshot newer = {};
		bool stop;

		try(interval_wait(timer, signals, &stop));
		if (stop)
			break;
		try(counters_read(plan, false, &newer));
		try(report(plan, &newer, &older, &text));
		snapshot_deinit(&older);
		older = newer;
		newer = (struct snapshot){};
	}
	return NULL;
}

/* Longer pauses of a trace are one interval: its clock may have been set forward by damage. */
#define IDLE_INTERVALS_MAX 100000

static struct error *watch_trace(const struct plan *plan, struct trace_session *s)
{
	cleanup(snapshot_deinit) struct snapshot older = {};
	struct watch_text text = {};
	enum trace_state state;
	int64_t begin, end;

	s->selection.ops = plan->ops;
	s->selection.alone = !plan->partitions;
	try(trace_session_read(s, INT64_MIN, &state));
	begin = trace_begin_ns(s->trace);
	trace_session_snapshot(s, begin, &older);
	older.n_losses = 0; /* the notifies before the first event are of the first interval */
	for (uint64_t i = 0; (!plan->count || i < plan->count) && state == TRACE_REACHED; i++) {
		cleanup(snapshot_deinit) struct snapshot newer = {};
		int64_t pause = trace_next_ns(s->trace) - begin;

		end = begin + plan->interval_ns;
		if (pause / plan->interval_ns > IDLE_INTERVALS_MAX)
			end = begin + pause / plan->interval_ns * plan->interval_ns;
		try(trace_session_read(s, end, &state));
		if (state != TRACE_REACHED) {
			if (trace_next_ns(s->trace) < begin)
				break;
			end = trace_next_ns(s->trace) + 1;
		}
		trace_session_snapshot(s, end, &newer);
		try(report(plan, &newer, &older, &text));
		snapshot_deinit(&older);
		older = newer;
		newer = (struct snapshot){};
		begin = end;
	}
	for (unsigned int i = 0; i < older.n_notes; i++)
		fprintf(stderr, "Note: %s.\n", older.notes[i]);
	return NULL;
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct watch_settings *s = settings;
	cleanup(trace_session_close) struct trace_session session = {};
	cleanup(plan_deinit) struct plan plan = {};

	try(plan_parse(s, operands, &plan));
	try(trace_options_check("watch", &s->trace));
	if (!s->trace.input)
		return watch_live(&plan);
	try(trace_session_open("watch", &s->trace, &plan.names, &session));
	try(watch_trace(&plan, &session));
	return trace_session_end(&session, status);
}

const struct command cmd_watch = {
	.name = "watch",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct watch_settings),
};
