/* SPDX-License-Identifier: GPL-2.0-only */
/* What commands have in common that read traces: options, reading with progress, problems. */
#ifndef BLKHIST_CLI_TRACES_H
#define BLKHIST_CLI_TRACES_H

#include "cli/command.h"
#include "cli/settings.h"
#include "sources/blktrace.h"

struct trace_options {
	bool input;
	const char *devices, *config, *partitions, *start;
	struct ladder_settings ladders;
};

#define TRACE_DEFAULTS \
	{              \
		0      \
	}

/* clang-format off */
#define TRACE_OPTIONS(type, member)                                                            \
	{ "input", 'i', OPTION_FLAG, offsetof(type, member.input), NULL,                       \
	  "the operands are traces of blktrace, not devices; these options are for them:" },   \
	{ "device", 'd', OPTION_STRING, offsetof(type, member.devices), "NAME,...",            \
	  "only these devices of the trace" },                                                 \
	CONFIG_OPTION(type, member.config),                                                    \
	LADDER_OPTIONS(type, member.ladders),                                                  \
	{ "partitions", 0, OPTION_STRING, offsetof(type, member.partitions), "FILE",           \
	  "partitions by sectors, where the trace does not say them: what sfdisk -d prints" }, \
	{ "start", 0, OPTION_STRING, offsetof(type, member.start), "queue|get",                \
	  "request and queue time begin at Q (default), or at G as in the kernel" }
/* clang-format on */

#define TRACE_DETAILS                                                                                             \
	"Traces are files of blktrace: sda.blktrace.0, or sda, means all of sda.blktrace.N; a\n"                  \
	"merged file; - is standard input: blktrace -d /dev/sda -o - | blkhist show -i -\n"                       \
	"Devices have the names that /sys has for their numbers, or are shown by number.\n"                       \
	"What is wrong with a trace is said, what can be read is shown, and the status is 1.\n\n" DEFAULT_LADDERS \
	"\n" LADDER_DETAILS

/* Fails if an option is given that only traces have, without -i. */
struct error *trace_options_check(const char *command, const struct trace_options *o) must_check;

/* A trace that is being read. Zero-initialised is empty; close it in any case. */
struct trace_session {
	struct trace *trace;
	struct config config;
	struct trace_selection selection; /* kinds and ops are all, unless they were set before */
	char *devices;                    /* owned, as the names in selection are parts of it */
	const char **names;               /* owned */
	int signals;
	bool opened, stopped;
	int64_t deadline; /* CLOCK_MONOTONIC when a pipe must have come to its end; 0: none */
	int64_t lag;      /* of a live trace's clock behind ours, the least that was seen */
	int64_t shown;    /* CLOCK_MONOTONIC of the last progress */
	bool shows;       /* there is progress on the terminal */
};

struct error *trace_session_open(const char *command, const struct trace_options *o,
				 const struct operands *paths,
				 struct trace_session *ret) must_check;
void trace_session_close(struct trace_session *s);

/*
 * Reads up to @until_ns on the trace's clock; *@ret is TRACE_REACHED, or TRACE_END, also if a
 * signal has made an end (stopped). A pipe that is silent gets there by our own clock.
 */
struct error *trace_session_read(struct trace_session *s, int64_t until_ns,
				 enum trace_state *ret) must_check;
/* @time_ns as in struct trace_selection. */
void trace_session_snapshot(struct trace_session *s, int64_t time_ns, struct snapshot *ret);

/* Says what was wrong, on standard error; *@status becomes EXIT_FAILED if anything was. */
struct error *trace_session_end(struct trace_session *s, int *status) must_check;

#endif
