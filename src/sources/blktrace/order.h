/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events of any number of files in the order of their time.
 *
 * The events of one device on one CPU are in order; a file may have several such rows, with pieces
 * of them behind each other: blktrace writes to a pipe whatever a CPU has, up to half a second
 * late. So the rows of a file are told apart, and the oldest event is given after TRACE_WINDOW_NS
 * of the trace's time, or when ORDER_MEMORY is used up. A CPU's own file has one row, which needs
 * none of that.
 */
#ifndef BLKHIST_SOURCES_BLKTRACE_ORDER_H
#define BLKHIST_SOURCES_BLKTRACE_ORDER_H

#include "sources/blktrace/stream.h"

/* For the events that are held back, of all files; the fuzzers make it small. */
#ifndef ORDER_MEMORY
#define ORDER_MEMORY (32u << 20)
#endif

struct order;

/* Takes over the streams; @of_cpu, by stream, says which are a CPU's own by their names. */
struct order *order_create(struct stream *streams, const bool *of_cpu, unsigned int n);
void order_destroy(struct order *order); /* NULL-safe */

/*
 * The next events, with lost and restart filled in: *@n of them, at most @max, all of the stream
 * @from. STREAM_WAIT: the next one cannot be known before a pipe has more.
 */
enum stream_state order_next(struct order *order, struct event *ret, unsigned int max,
			     unsigned int *n, unsigned int *from);

/* It is known that nothing more comes that happened before this. */
void order_advance(struct order *order, uint64_t time_ns);

/* Nothing more is read, but what is held back is given. */
void order_stop(struct order *order);

struct stream *order_stream(struct order *order, unsigned int i);

/* Events that were given after one that happened later. */
uint64_t order_late(const struct order *order);
/* The time of the newest event that was read, given or not; 0 without any. */
uint64_t order_newest(const struct order *order);

#endif
