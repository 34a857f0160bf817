// SPDX-License-Identifier: GPL-2.0-only
#include "cli/traces.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/timefmt.h"
#include "core/util.h"

#define MS 1000000ll
/* After a signal a pipe may still come to its end: blktrace gets the signal of a terminal, too. */
#define GRACE_NS (1000 * MS)
#define PROGRESS_FIRST_NS (500 * MS)
#define PROGRESS_NS (100 * MS)

struct error *trace_options_check(const char *command, const struct trace_options *o)
{
	const struct {
		const char *name, *value;
	} given[] = {
		{ "device", o->devices },
		{ "config", o->config },
		{ "partitions", o->partitions },
		{ "start", o->start },
		{ "time", o->ladders.spec[DIM_TIME] },
		{ "size", o->ladders.spec[DIM_SIZE] },
		{ "seek", o->ladders.spec[DIM_SECTORS] },
	};

	for (size_t i = 0; i < ARRAY_SIZE(given) && !o->input; i++)
		if (given[i].value)
			return error_usage(
				"%s: --%s is for traces, with -i; the bounds of the running "
				"collector are set by: blkhist buckets",
				command, given[i].name);
	return NULL;
}

static void split_names(struct trace_session *s, const char *list)
{
	char *next, *name;

	s->devices = xstrdup(list);
	next = s->devices;
	while ((name = strsep(&next, ","))) {
		s->names = xreallocarray(s->names, s->selection.n_devices + 1, sizeof(char *));
		s->names[s->selection.n_devices++] = name;
	}
	s->selection.devices = s->names;
}

struct error *trace_session_open(const char *command, const struct trace_options *o,
				 const struct operands *paths, struct trace_session *ret)
{
	struct trace_settings settings = {
		.paths = (const char *const *)paths->names,
		.n_paths = (unsigned int)paths->n,
		.partitions = o->partitions,
		.config = &ret->config,
		.root = system_paths.root,
	};
	int start = TRACE_START_QUEUE;

	ret->opened = true;
	ret->signals = -1;
	ret->lag = INT64_MAX;
	config_init(&ret->config);
	if (!ret->selection.kinds) {
		ret->selection.kinds = KINDS_ALL;
		ret->selection.ops = OPS_ALL;
	}
	if (!paths->n)
		return error_usage("%s: -i needs the name of a trace; see: blkhist %s --help",
				   command, command);
	if (o->start)
		try(choice_parse(command, "start", trace_start_names, TRACE_START_NR, o->start,
				 &start));
	settings.start = (enum trace_start)start;
	try(settings_read(o->config, &o->ladders, NULL, &ret->config));
	if (o->devices)
		split_names(ret, o->devices);
	try(trace_open(&settings, &ret->trace));
	try(signals_open(&ret->signals));
	ret->shown = clock_ns(CLOCK_MONOTONIC) + PROGRESS_FIRST_NS - PROGRESS_NS;
	return NULL;
}

void trace_session_close(struct trace_session *s)
{
	if (!s->opened)
		return;
	trace_close(s->trace);
	config_deinit(&s->config);
	free(s->devices);
	free(s->names);
	closep(&s->signals);
}

/* --- progress --- */

static void progress(struct trace_session *s)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t done, total;

	if (now - s->shown < PROGRESS_NS || !isatty(STDERR_FILENO))
		return;
	trace_progress(s->trace, &done, &total);
	s->shown = now;
	s->shows = true;
	if (total)
		fprintf(stderr, "\rreading the trace: %3.0f %% of %.1f MB",
			100.0 * (double)done / (double)total, (double)total / 1e6);
	else
		fprintf(stderr, "\rreading the trace: %.1f MB", (double)done / 1e6);
}

static void progress_clear(struct trace_session *s)
{
	if (s->shows)
		fprintf(stderr, "\r\033[K");
	s->shows = false;
}

/* --- reading --- */

/* A signal stops at once what is a file, and what is a pipe after some grace. */
static bool is_stopped(struct trace_session *s)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);
	uint64_t done, total;

	if (!s->deadline &&
	    poll(&(struct pollfd){ .fd = s->signals, .events = POLLIN }, 1, 0) > 0) {
		trace_progress(s->trace, &done, &total);
		s->deadline = total ? now : now + GRACE_NS;
	}
	s->stopped = s->deadline && now >= s->deadline;
	return s->stopped;
}

/*
 * A pipe has nothing now: waits until it has, or until the trace must have got to @until_ns by our
 * own clock, which *@passed says.
 */
static struct error *wait_for_more(struct trace_session *s, int64_t until_ns, bool *passed)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC), newest = trace_newest_ns(s->trace), left = -1;

	*passed = false;
	if (newest && now - newest < s->lag)
		s->lag = now - newest;
	if (newest && until_ns != INT64_MAX) {
		left = until_ns + TRACE_WINDOW_NS + s->lag - now;
		*passed = left <= 0;
		if (*passed)
			return NULL;
	}
	if (s->deadline && (left < 0 || s->deadline - now < left))
		left = s->deadline > now ? s->deadline - now : 0;
	if (left > 1000 * MS)
		left = 1000 * MS; /* it is asked again */
	return trace_poll(s->trace, s->deadline ? -1 : s->signals,
			  left < 0 ? -1 : (int)((left + MS - 1) / MS));
}

struct error *trace_session_read(struct trace_session *s, int64_t until_ns, enum trace_state *ret)
{
	bool passed = false;

	for (;;) {
		enum trace_state state = trace_read(s->trace, until_ns);

		if (state == TRACE_WAITING && passed)
			state = TRACE_REACHED;
		if (state != TRACE_END && !s->stopped && is_stopped(s)) {
			trace_stop(s->trace);
			until_ns = INT64_MAX;
			continue;
		}
		if (state == TRACE_REACHED || state == TRACE_END) {
			*ret = state;
			break;
		}
		progress(s);
		if (state != TRACE_WAITING)
			continue;
		try(wait_for_more(s, until_ns == INT64_MIN ? trace_newest_ns(s->trace) : until_ns,
				  &passed));
		if (passed)
			trace_advance(s->trace, until_ns == INT64_MIN ?
							trace_newest_ns(s->trace) + 1 :
							until_ns);
	}
	progress_clear(s);
	return NULL;
}

void trace_session_snapshot(struct trace_session *s, int64_t time_ns, struct snapshot *ret)
{
	s->selection.time_ns = time_ns;
	trace_snapshot(s->trace, &s->selection, ret);
}

struct error *trace_session_end(struct trace_session *s, int *status)
{
	cleanup(buf_deinit) struct buf problems = {};
	uint64_t done, total;
	char *next, *line;

	if (trace_problems(s->trace, &problems))
		*status = EXIT_FAILED;
	next = problems.str;
	while (next && (line = strsep(&next, "\n")) && *line)
		fprintf(stderr, "blkhist: %s\n", line);
	trace_progress(s->trace, &done, &total);
	if (s->stopped && total) {
		fprintf(stderr,
			"blkhist: interrupted after %" PRIu64 " of %" PRIu64 " bytes of the trace; "
			"what was read is shown\n",
			done, total);
		*status = EXIT_FAILED;
	}
	return trace_check_devices(s->trace, &s->selection);
}
