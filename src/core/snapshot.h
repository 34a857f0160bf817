/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A snapshot: all that crosses from a source (the running kernel, a trace) to an output. Histograms
 * are sorted by device, partition (the whole disk first), kind and operation; of devices with one
 * name, those that are gone come last, by diskseq. The snapshot owns everything that it points
 * to.
 */
#ifndef BLKHIST_CORE_SNAPSHOT_H
#define BLKHIST_CORE_SNAPSHOT_H

#include "core/hist.h"

/* A class of what could not be put into a histogram, or of what is shown to be known. */
struct loss {
	const char *name; /* static */
	const char *help; /* static; one line */
	uint64_t count;
	bool usual; /* part of normal operation, so that a rise of it is no news */
};

struct snapshot {
	int64_t time_ns;  /* CLOCK_REALTIME */
	int64_t clock_ns; /* the same moment on a clock that never jumps; only differences count */
	int64_t since_ns; /* CLOCK_REALTIME when the source began to count */
	const char *source; /* static: "live", "blktrace" */
	struct loss *losses;
	unsigned int n_losses;
	struct hist *hists;
	unsigned int n_hists, hists_size;
	struct ladder **ladders;
	unsigned int n_ladders;
	char **notes; /* sentences on how to read it, or what it lacks and why */
	unsigned int n_notes;
};

void snapshot_deinit(struct snapshot *s);

/* A copy of @l that lives as long as the snapshot; equal ladders share one copy. */
const struct ladder *snapshot_ladder(struct snapshot *s, const struct ladder *l);

/* Appends a zeroed histogram; the pointer is valid until the next call. */
struct hist *snapshot_add(struct snapshot *s);

/* Returns it; the pointer is valid until the next call. */
struct loss *snapshot_add_loss(struct snapshot *s, const char *name, const char *help,
			       uint64_t count);

void snapshot_add_note(struct snapshot *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

void snapshot_sort(struct snapshot *s);

/*
 * What was counted between two snapshots of one source; both must be of counters that only rise
 * (not less a baseline), and sorted. Histograms are matched by name, kind and operation. Where the
 * counters have begun anew in between (other bounds, another device under the name, another start
 * of the source), or were not there, those of @newer stand as they are. Histograms that have not
 * counted meanwhile are there, all zeroes; those of devices that are gone are not. since_ns is the
 * time of @older, and clock_ns the length of the interval.
 */
void snapshot_delta(const struct snapshot *newer, const struct snapshot *older,
		    struct snapshot *ret);

/* Collapses the rows of sizes of every histogram into one. */
void snapshot_total(struct snapshot *s);

#endif
