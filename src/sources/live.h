/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The live source: the collector in the running kernel. Nothing of it stays resident; every call
 * works on what is pinned, and leaves it whole if the process is killed at any point.
 */
#ifndef BLKHIST_SOURCES_LIVE_H
#define BLKHIST_SOURCES_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/abi.h"
#include "core/config.h"
#include "core/device.h"
#include "core/ladder.h"
#include "core/snapshot.h"
#include "sources/pins.h"

struct live_settings {
	const struct config *config; /* complete */
	enum stamp_mode stamp;
	enum bios_mode bios;
};

extern const char *const stamp_mode_names[STAMP_NR];
extern const char *const bios_mode_names[BIOS_NR];

/*
 * Starts collecting. If a collector is running with the same settings, nothing happens and
 * *already is true; with other settings it is an error that says what differs.
 */
struct error *live_start(const struct live_paths *paths, const struct live_settings *settings,
			 bool *already) must_check;

/* Stops collecting and removes everything; *was_running says whether there was anything. */
struct error *live_stop(const struct live_paths *paths, bool *was_running) must_check;

/*
 * A running collector. Opening it takes the lock and keeps it until it is closed, and makes up for
 * what has happened since the last time: what a killed process left undone, spare counters that
 * devices have used up, partitions that need their disk's ladders.
 */
struct live;
struct error *live_open(const struct live_paths *paths, const struct device_list *devices,
			struct live **ret) must_check;
void live_close(struct live *live); /* NULL-safe */
void live_closep(struct live **live);

/*
 * For a process that stays. live_suspend() lets others have the lock; until live_resume() only
 * live_is_current(), live_rule() and live_counts() may be called. *@current is false, and there is
 * no lock, if it is not the running collector any more: close it. live_refresh() does what opening
 * does for devices that come and go; it should be called now and then.
 */
void live_suspend(struct live *live);
struct error *live_resume(struct live *live, bool *current) must_check;
struct error *live_refresh(struct live *live, const struct device_list *devices) must_check;
bool live_is_current(const struct live *live);

const struct meta *live_meta(const struct live *live);

/* The rule of a device's disk. */
const struct rule *live_rule(const struct live *live, const struct device *device);
/* Devices can be ignored (configuration), and those without requests left out (start --bios off). */
bool live_counts(const struct live *live, const struct device *device);
/* Fails if a device is not counted, and says why. */
struct error *live_check_counted(const struct live *live, const struct device *device) must_check;

/*
 * Appends the devices that are gone and whose counters are still kept, marked as gone: every
 * generation of a name that is used again and again.
 */
struct error *live_add_gone(struct live *live, struct device_list *devices) must_check;

/* Which histograms are meant. */
struct live_selection {
	const struct device *const
		*devices; /* disks mean their partitions and paths too; n_devices 0: all */
	unsigned int n_devices;
	unsigned int kinds, ops; /* masks; seek does not have an operation, and is taken with any */
	bool alone; /* disks do not mean their partitions; n_devices 0: all whole disks */
	bool raw;   /* for live_read(): the counters as they are, whatever was reset */
	bool empty; /* likewise: also histograms that have counted nothing, and no losses */
};

/*
 * Reads the selected histograms as a person sees them, less what was reset (unless they are to be
 * raw), with all losses. Those that have counted nothing, and those of devices that are not in
 * @devices any more, are left out.
 */
struct error *live_read(struct live *live, const struct device_list *devices,
			const struct live_selection *selection, struct snapshot *ret) must_check;

/* Resets the selected histograms; @ret, if not NULL, gets exactly what was reset. */
struct error *live_reset(struct live *live, const struct device_list *devices,
			 const struct live_selection *selection, struct snapshot *ret) must_check;

/* The ladders of a disk (or its partition); NULL: those that devices get by default. */
struct error *live_ladders(struct live *live, const struct device *device,
			   struct ladder ret[LADDER_KINDS]) must_check;

/*
 * Gives a disk and its partitions new ladders; @ladders[i] NULL leaves that one as it is. All their
 * histograms begin anew, each in one step. Nothing happens to those that have these ladders.
 */
struct error *live_set_ladders(struct live *live, const struct device_list *devices,
			       const struct device *device,
			       const struct ladder *const ladders[LADDER_KINDS]) must_check;

struct live_status {
	const struct meta *meta;
	const struct rule *rules;       /* meta->rules of them */
	unsigned int ready[RULES_MAX];  /* counters, by rule */
	uint64_t memory;                /* bytes, as the kernel charges them for the maps */
	unsigned int partitions, spare; /* in use, ready */
	unsigned int gone;              /* of those in use, of devices that are gone */
	bool exhausted;                 /* all are in use or ready, though more should be ready */
	unsigned int regions;           /* of request slots, in use */
	struct {
		const char *program, *tracepoint;
		bool attached;
		unsigned int verified; /* instructions that the verifier looked at; 0: unknown */
		uint64_t runs, run_ns; /* 0 unless kernel.bpf_stats_enabled */
	} points[PROG_NR];
};
struct error *live_status(struct live *live, const struct device_list *devices,
			  struct live_status *ret) must_check;

/* A comparison with /proc/diskstats, whose rise must be ours + unseen. */
struct verify_row {
	struct device_name name;
	enum blk_op op;
	uint64_t ours;  /* requests counted since the start */
	uint64_t extra; /* what diskstats may have more: splits and flushes, without requests only */
	uint64_t unseen; /* completions that no program was run for, known by their slots */
	uint64_t diskstats_lo,
		diskstats_hi; /* rise of diskstats; they differ if I/O ran at the start */
	bool equal;
};
/* A device that has been used and is not compared. */
struct verify_skip {
	struct device_name name;
	bool ignored; /* else its requests are not counted: it has no kind 'request' */
};
struct verify_result {
	struct verify_row *rows;
	struct verify_skip *skips;
	unsigned int n, n_skips;
	bool equal; /* all rows */
};
struct error *live_verify(struct live *live, const struct device_list *devices,
			  struct verify_result *ret) must_check;
void verify_result_deinit(struct verify_result *v);

#endif
