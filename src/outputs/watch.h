/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What was counted in one interval, by device and operation: what snapshot_delta() gives, of any
 * source. Its clock_ns is the length of the interval.
 */
#ifndef BLKHIST_OUTPUTS_WATCH_H
#define BLKHIST_OUTPUTS_WATCH_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/snapshot.h"

/* No line of the text is wider. */
#define WATCH_WIDTH 100

/* Text goes on from one interval to the next; begin with zeroes but for the first two. */
struct watch_text {
	bool colour;
	unsigned int page;  /* lines after which the header is printed again; 0: never */
	unsigned int lines; /* since the header */
	bool begun;
};

/* A line per device and operation that had I/O, and one of losses if any rose. */
void watch_text(struct watch_text *state, const struct snapshot *delta, struct buf *out);

/* One object in the schema "blkhist-watch/1" (docs/json.md), one line, with a newline. */
void watch_json(const struct snapshot *delta, struct buf *out);

/* What the columns mean, for --help. */
void watch_help(struct buf *out);

#endif
