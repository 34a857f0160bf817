/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The blktrace source: the histograms of what blktrace has recorded, from its files (one per CPU,
 * or merged) or from a pipe. It reads as a stream: memory does not depend on the length of the
 * trace.
 *
 * Nothing is trusted. What is damaged is left out, and said as a problem that names file and
 * offset; the rest is read.
 */
#ifndef BLKHIST_SOURCES_BLKTRACE_H
#define BLKHIST_SOURCES_BLKTRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/config.h"
#include "core/error.h"
#include "core/snapshot.h"

/*
 * How long events of a pipe or a merged file are held back to be put in order, on the trace's
 * clock. blktrace looks at what a CPU has twice a second.
 */
#define TRACE_WINDOW_NS 1000000000ll

/* Which event request and queue time begin at. */
enum trace_start {
	TRACE_START_QUEUE, /* Q: the bio is submitted; includes the wait for a free request */
	TRACE_START_GET,   /* G: the request exists; this is where the kernel begins to count */
	TRACE_START_NR
};
extern const char *const trace_start_names[TRACE_START_NR];

struct trace_settings {
	/*
	 * Files, "-" for standard input, or what blktrace's names of per-CPU files begin with: "sda"
	 * means all of sda.blktrace.0, sda.blktrace.1, ..., and each of these means all of them.
	 */
	const char *const *paths;
	unsigned int n_paths;
	const struct config *config; /* complete; must live as long as the trace */
	const char *partitions;      /* an `sfdisk -d` dump, or NULL */
	enum trace_start start;
	const char *root; /* of /sys, for names of devices; "" is the running system */
};

struct trace;

struct error *trace_open(const struct trace_settings *settings, struct trace **ret) must_check;
void trace_close(struct trace *trace); /* NULL-safe */
void trace_closep(struct trace **trace);

enum trace_state {
	TRACE_MORE,    /* some was read, and there is more: call again */
	TRACE_REACHED, /* all that happened before the given time was read */
	TRACE_WAITING, /* a pipe has nothing now; trace_poll() waits for more */
	TRACE_END,
};

/*
 * Reads on, up to the events of @until_ns (on the trace's own clock; INT64_MAX: to the end), but
 * returns after some MiB in any case, so that the caller can show progress or be interrupted.
 */
enum trace_state trace_read(struct trace *trace, int64_t until_ns);

/* Waits until a pipe has more, @stop_fd (or -1) is readable, or @timeout_ms (-1: none) is over. */
struct error *trace_poll(struct trace *trace, int stop_fd, int timeout_ms) must_check;

/* Nothing more is read, but what was read and not given yet: TRACE_END comes soon. */
void trace_stop(struct trace *trace);

/*
 * Tells that a live trace has got to @time_ns though no event says so: what is held back to be put
 * in order is let go up to there.
 */
void trace_advance(struct trace *trace, int64_t time_ns);

/*
 * On the trace's clock: of the first event; of the next one, if trace_read() has stopped before it,
 * or else of the last one; of the newest one that was read, in order or not. 0 without any.
 */
int64_t trace_begin_ns(const struct trace *trace);
int64_t trace_next_ns(const struct trace *trace);
int64_t trace_newest_ns(const struct trace *trace);

/* Bytes read, and of all files; *@total is 0 with a pipe. */
void trace_progress(const struct trace *trace, uint64_t *done, uint64_t *total);

/* Which histograms are meant; the devices are those of the trace. */
struct trace_selection {
	const char *const *devices; /* names as in the output, "8:16", paths of nodes; none: all */
	unsigned int n_devices;
	unsigned int kinds, ops; /* masks */
	bool alone;              /* disks without their partitions, but for those that are named */
	int64_t time_ns;         /* on the trace's clock: when this is; 0: the last event */
};

/* The histograms of what was read so far; those that have counted nothing are left out. */
void trace_snapshot(struct trace *trace, const struct trace_selection *selection,
		    struct snapshot *ret);

/* Fails if a device that is named is none of the trace, as far as it was read. */
struct error *trace_check_devices(struct trace *trace,
				  const struct trace_selection *selection) must_check;

/* Appends what was wrong with the files, a sentence and a newline each; false if nothing was. */
bool trace_problems(struct trace *trace, struct buf *out);

#endif
