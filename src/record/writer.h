/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes traces as blktrace does, version 7: DISK.blktrace.CPU for every CPU in a directory, or one
 * stream. Whatever happens, a file ends with a whole record.
 */
#ifndef BLKHIST_RECORD_WRITER_H
#define BLKHIST_RECORD_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/recorder.h"
#include "core/error.h"

struct writer_options {
	const char *path;    /* a directory, which is created; "-" is standard output */
	const char *root;    /* put before /sys */
	unsigned int n_cpus; /* files per disk */
	uint64_t begin_ns;   /* CLOCK_MONOTONIC when the recording began */
	int64_t realtime_ns; /* the same moment */
	bool partitions;     /* A before the first event of a request of a partition: bios' are not
				recorded */
};

struct writer;
/* @options must live as long as the writer. */
struct error *writer_open(const struct writer_options *options, struct writer **ret) must_check;
/* Removes what it has made, if nothing could be recorded. */
void writer_abandon(struct writer *w);
/* What was not written by writer_flush() is lost. */
void writer_closep(struct writer **w);

/* Makes the files of a disk; otherwise its first event does. */
struct error *writer_add_disk(struct writer *w, uint32_t device) must_check;

/* The name of a process from now on. */
void writer_name(struct writer *w, uint32_t pid, const char name[16]);

/*
 * How many events of the disk that @event is of were lost since the last event from the buffer of
 * @cpu, by what it says. 0 for a disk that no more can be remembered of.
 */
uint64_t writer_gap(struct writer *w, unsigned int cpu, const struct rec_event *event);

/* Writes an event; its `lost` is the number of events that are missing before it. */
struct error *writer_event(struct writer *w, const struct rec_event *event) must_check;
struct error *writer_flush(struct writer *w) must_check;

struct writer_totals {
	uint64_t events, bytes; /* without notifies; with them */
	uint64_t gaps;          /* events that the sequence numbers show to be missing */
	unsigned int disks;
};
struct writer_totals writer_totals(const struct writer *w);

#endif
