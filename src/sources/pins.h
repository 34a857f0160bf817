/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The collector's place in bpffs, <bpffs>/blkhist:
 *
 *	maps/NAME	the maps of src/bpf/collector.bpf.c
 *	inner/ID	the inner maps of hists, retired and baselines, by map id
 *	progs/NAME	programs, for their statistics
 *	links/NAME	what keeps them attached
 *
 * A collector is built up as "blkhist-new" and renamed when it is complete, and renamed to
 * "blkhist-old" before it is taken down: whoever finds "blkhist" finds all of it. What a killed
 * process left of the other two is removed by the next start or stop. Changes are made under one
 * lock, on the directory of bpffs itself.
 */
#ifndef BLKHIST_SOURCES_PINS_H
#define BLKHIST_SOURCES_PINS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"

/* Where things are; "" and "/sys/fs/bpf" on the running system. */
struct live_paths {
	const char *root;  /* put before /sys and /proc */
	const char *bpffs; /* mount point */
};

enum pin_map {
	MAP_META,
	MAP_HISTS,
	MAP_RETIRED,
	MAP_BASELINES,
	MAP_PARTS,
	MAP_PART_IDS,
	MAP_HINTS,
	MAP_PART_POOL,
	MAP_RULES,
	MAP_REGION_IDS,
	MAP_REGION_POOL,
	MAP_HEADS,
	MAP_SLOTS,
	MAP_BIOS,
	MAP_LOSSES,
	MAP_DISKSTATS,
	MAP_NR
};
extern const struct pin_map_info {
	const char *name;   /* of the pin */
	const char *object; /* in the BPF object, where it has another: a section of data */
} pin_maps[MAP_NR];

/*
 * In the order of attaching: an issue that is seen must have its completion seen. A second
 * program must run behind the first.
 */
enum pin_prog {
	PROG_COMPLETE,
	PROG_COMPLETE_NESTED,
	PROG_REQUEUE,
	PROG_ISSUE,
	PROG_ISSUE_NESTED,
	PROG_BIO_COMPLETE,
	PROG_BIO_COMPLETE_NESTED,
	PROG_COMPLETE_BIOS,
	PROG_SPLIT,
	PROG_BIO_QUEUE,
	PROG_BIO_QUEUE_NESTED,
	PROG_NR
};
extern const struct pin_prog_info {
	const char *name;
	const char *tracepoint;
	bool bios;      /* for bios: attached while there is a device without requests */
	bool nested;    /* only for kernels that skip nested runs */
	bool preempted; /* only where a task may preempt another in a program */
} pin_progs[PROG_NR];

/* Whether a program is needed on a kernel that skips nested runs, or where tasks can be preempted. */
bool pin_prog_needed(enum pin_prog prog, bool nested, bool preempted);

/* The path of something below the collector's directory; the caller frees it. */
char *pins_path(const struct live_paths *paths, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Mounts bpffs where it is not mounted yet. */
struct error *pins_mount(const struct live_paths *paths) must_check;

/* Takes the lock, waiting for it; closing @ret gives it back. */
struct error *pins_lock(const struct live_paths *paths, int *ret) must_check;

/* Whether a complete collector is there. */
bool pins_exist(const struct live_paths *paths);

/* Why a collector may be out of reach: fails if it is another user's. */
struct error *pins_check_owner(const struct live_paths *paths) must_check;

/* Removes a directory of this file's shape and all that is in it; fine if it is not there. */
struct error *pins_remove(const struct live_paths *paths, const char *dir) must_check;

#endif
