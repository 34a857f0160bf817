/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the live source share: the opened collector and its slots. */
#ifndef BLKHIST_SOURCES_LIVE_INTERNAL_H
#define BLKHIST_SOURCES_LIVE_INTERNAL_H

#include <bpf/bpf.h>

#include "config.h"
#include "sources/image.h"
#include "sources/live.h"

struct live {
	struct live_paths paths;
	const char *dir; /* "blkhist", or "blkhist-new" while it is built */
	int lock;        /* -1 while it is built, or suspended */
	uint64_t pin;    /* inode of the pinned settings, which tells collectors apart */
	int maps[MAP_NR];
	struct meta meta;
	struct rule *rules;  /* meta.rules of them */
	struct part *parts;  /* mapped: the kernel's own table of BLKHIST_MAX_PARTITIONS */
	struct hints *hints; /* likewise */
	bool exhausted;      /* no index was free when spare counters were to be made */
	/*
	 * Counters that were looked at, mapped, by index: a process that stays does so again and
	 * again. Valid as long as the id is that in the map `hists`.
	 */
	struct {
		uint32_t id;
		unsigned int n_blocks;
		void *blocks;
	} * mapped;
};

struct slots;

struct error *live_open_dir(const struct live_paths *paths, const char *dir,
			    struct live **ret) must_check;

/*
 * Under the lock. Ends what a killed process left undone, makes room and keeps spare counters
 * ready, and gives partitions that have appeared on a disk that disk's ladders.
 */
struct error *live_prepare(struct live *live, const struct device_list *devices) must_check;

/* The ladders of a device's disk. */
struct error *disk_ladders(struct live *live, const struct slots *slots,
			   const struct device *device, struct ladder ret[LADDER_KINDS]) must_check;

/* All of live_prepare() but the attaching. */
struct error *live_make_ready(struct live *live, const struct device_list *devices) must_check;

/* Attaches what is not attached yet: the programs for requests, or those for bios. */
struct error *points_attach(struct live *live, bool bios) must_check;
bool point_attached(const struct live *live, enum pin_prog prog);
/* Attaches the programs for bios, or detaches them, as the devices that are there demand. */
struct error *points_follow_devices(struct live *live,
				    const struct device_list *devices) must_check;

/* Maps one of the collector's tables. */
struct error *live_map_table(struct live *live, enum pin_map map, size_t size,
			     void *ret) must_check;

/*
 * Under the lock, parts of live_make_ready(). Takes back indices that are neither in use nor ready:
 * given back, or left by a killed process.
 */
struct error *pool_repair(struct live *live, const struct device_list *devices) must_check;
/* Keeps spare counters ready. */
struct error *pool_top_up(struct live *live) must_check;

/* Whether the device itself is there, not only another one with its name. */
bool part_exists(const struct part *part, const struct device_list *devices);
/* Gives back counters of disks that are gone, as many as make room. Under the lock. */
struct error *gone_give_back(struct live *live, const struct device_list *devices) must_check;
/* For pool_repair(): lets no request or hint lead to indices that are about to be cleared. */
struct error *gone_forget(struct live *live, const bool *cleared) must_check;
/* Adds what was counted at an index that was given back to the record; done again, it is harmless. */
struct error *gone_count(struct live *live, unsigned int index,
			 const struct device_list *devices) must_check;
/* Requests and losses of all that was given back, carried in the header. */
struct error *gone_record(struct live *live, struct image *ret) must_check;

/* Makes counters for the devices that have been used since the machine booted. Under the lock. */
struct error *live_adopt(struct live *live, const struct device_list *devices) must_check;

/*
 * Records /proc/diskstats as it was when devices with, or without, requests began to be counted.
 * After the programs are attached: it looks for devices itself, as one that came before them and
 * after an earlier look has I/O that nobody counted.
 */
struct error *live_diskstats_begin(struct live *live, bool request_based) must_check;

/* The partitions in use, by index into hists; those ignored are not among them. */
struct slots {
	struct {
		unsigned int index;
		struct part part;
	} * slot;
	unsigned int n;
};
struct error *slots_read(struct live *live, struct slots *ret) must_check;
void slots_deinit(struct slots *s);
/* Lets go what slot_image() keeps of counters. */
void slots_unmap(struct live *live);

/*
 * Opens the inner map at @index of an outer map; *@ret is -1 if there is none. Works while another
 * process replaces it.
 */
struct error *slot_open(struct live *live, enum pin_map outer, unsigned int index,
			int *ret) must_check;
/* Puts an inner map at @index, pinned; on return no program uses the one before any more. */
struct error *slot_set(struct live *live, enum pin_map outer, unsigned int index,
		       int fd) must_check;
struct error *slot_clear(struct live *live, enum pin_map outer, unsigned int index) must_check;

/* The ids of all inner maps of an outer one, by index, 0 for none; the caller frees it. */
struct error *outer_read(struct live *live, enum pin_map outer, uint32_t **ret) must_check;

/* Reads the counters, or the baseline, at @index; no blocks if there are none. */
struct error *slot_image(struct live *live, enum pin_map outer, unsigned int index,
			 struct image *ret) must_check;

/* The same of some operations only, see image_from_map(). */
struct error *slot_image_of(struct live *live, enum pin_map outer, unsigned int index,
			    unsigned int ops, struct image *ret) must_check;

/* Makes an image the baseline at @index, in one step. */
struct error *baseline_set(struct live *live, unsigned int index,
			   const struct image *base) must_check;

/*
 * The index of a device's counters, which are made at need: 0 only if no counters are ready.
 */
struct error *slot_for_device(struct live *live, const struct device *device,
			      const struct device *disk, unsigned int *ret) must_check;

/* Creates zeroed counters. @kinds: bit per enum hist_kind. */
struct error *slot_create(struct live *live, const struct ladder ladders[LADDER_KINDS],
			  unsigned int kinds, int *ret) must_check;

/* Replaces the counters at @index by zeroed ones, carrying their totals over. Under the lock. */
struct error *slot_replace(struct live *live, unsigned int index,
			   const struct ladder ladders[LADDER_KINDS],
			   unsigned int kinds) must_check;
/* Ends replacements that were left undone. Under the lock. */
struct error *slots_recover(struct live *live) must_check;
/* Removes pins of inner maps that nothing refers to. Under the lock. */
struct error *slots_unpin_stale(struct live *live) must_check;

/* The indices that are ready, by key of part_pool; 0 for none. */
struct error *pool_read_ready(struct live *live, __u32 ret[RULES_MAX * POOL_PLACES]) must_check;

/* Makes the rules of a configuration; their number and all spare counters go into @meta. */
struct error *rules_make(const struct config *config, struct meta *meta,
			 struct rule **ret) must_check;
/* Reads those of a collector that is being opened. */
struct error *rules_read(struct live *live) must_check;
/* Fails if a configuration is not what is set, and says what differs. */
struct error *rules_differ(const struct live *live,
			   const struct live_settings *settings) must_check;
void rule_ladders(const struct rule *rule, struct ladder ret[LADDER_KINDS]);
/* Under the lock. Forgets ignored devices that are gone. */
struct error *rules_forget_gone(struct live *live, const struct device_list *devices) must_check;

#endif
