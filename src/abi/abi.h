/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel side (src/bpf) and the user side share: records, map names and limits.
 *
 * Everything here is an ABI between a running collector and any later blkhist binary: fixed-width
 * fields, no implicit padding, sizes asserted. Change a record and BLKHIST_ABI_VERSION goes up; a
 * binary that finds another version in the pinned `meta` map says so and touches nothing.
 *
 * The counters of one block device (a partition, or what was sent to a whole disk directly) live in
 * one inner map of `hists`: an array of blocks of three rows. All inner maps have the same number of
 * blocks, so the kernel can inline every look-up; how the blocks are used follows from the ladders
 * in the map's own first block, so bounds and counters change together, in one atomic replacement.
 *
 *	block 0			written by user space: header, time bounds, seek bounds
 *	blocks 1...		discard, one block per row of sizes, and flush, one block;
 *				shared by all CPUs
 *	then per stripe		one block of losses and seek, then read and write, one block per
 *				row of sizes; a stripe serves one or more CPUs
 *
 * A block of a timed operation has a row for each of request, service and queue, so that one
 * look-up serves a completion.
 */
#ifndef BLKHIST_ABI_H
#define BLKHIST_ABI_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define BLKHIST_ABI_VERSION 3u
#define BLKHIST_ABI_MAGIC 0x626c6b68697374ull /* "blkhist" */

/* Operations as the kernel's stat groups have them (include/linux/blk_types.h, op_stat_group()). */
enum blk_op { OP_READ, OP_WRITE, OP_DISCARD, OP_FLUSH, OP_NR };
#define OPS_ALL ((1u << OP_NR) - 1)

/* Histogram kinds. The first KIND_TIMED are 2-D (time by size), in ns; KIND_SEEK is 1-D, sectors. */
enum hist_kind {
	KIND_REQUEST,
	KIND_SERVICE,
	KIND_QUEUE,
	KIND_TIMED,
	KIND_SEEK = KIND_TIMED,
	KIND_NR
};

#define TIME_BOUNDS_MAX 128
#define SIZE_BOUNDS_MAX 16
#define SEEK_BOUNDS_SIDE 64 /* per direction */
#define SEEK_BOUNDS_MAX (2 * SEEK_BOUNDS_SIDE + 1)

/* Greater than any value that is looked up: 2^62 ns is 146 years, sectors end at 2^55. */
#define BOUND_NONE (1ull << 62)

#define ROW_CELLS 132
#define ROW_SUM 131 /* the sum of all values counted in this row, exact, modulo 2^64 */
/*
 * In the first row of a block of a timed operation: bytes of the requests of that operation and
 * row of sizes that have ended, exact, modulo 2^64; whatever kinds are collected, and whether or
 * not a request had usable stamps. In a baseline every row has what its own kind was reset at.
 */
#define ROW_BYTES 130

struct hist_row {
	__u64 cell[ROW_CELLS];
};

struct hist_block {
	struct hist_row row[KIND_TIMED];
};

enum fixed_block { BLOCK_HEADER, BLOCK_SHARED };

/* Rows of BLOCK_HEADER. Bounds ascend; unused ones are BOUND_NONE. */
enum header_row { ROW_HEADER, ROW_TIME_BOUNDS, ROW_SEEK_BOUNDS };

/* Rows of the first block of a stripe. */
enum stripe_row { ROW_LOSSES, ROW_SEEK };

/* Cells of ROW_HEADER. */
enum header_cell {
	HDR_EPOCH,   /* CLOCK_BOOTTIME ns when these counters began; tells generations apart */
	HDR_KINDS,   /* bit per enum hist_kind that is collected */
	HDR_N_SIZE,  /* number of bounds */
	HDR_STRIPES, /* power of two */
	HDR_STRIPE_BLOCKS, /* blocks of one stripe */
	HDR_FIRST_STRIPE,  /* these five share a cache line */
	HDR_N_TIME,
	HDR_N_SEEK,
	HDR_SINCE,       /* CLOCK_REALTIME ns of HDR_EPOCH */
	HDR_SIZE_BOUNDS, /* SIZE_BOUNDS_MAX of them, bytes, unused ones BOUND_NONE */
	/*
	 * What was counted under earlier ladders of this device: the epoch of the generation that
	 * was added last, requests per operation, and losses as in ROW_LOSSES. They keep `status
	 * --verify` exact across a change of bounds.
	 */
	HDR_CARRY_EPOCH = HDR_SIZE_BOUNDS + SIZE_BOUNDS_MAX,
	HDR_CARRY_REQUESTS,
	HDR_CARRY_LOSSES = HDR_CARRY_REQUESTS + OP_NR,
};

/* What could not be put into a cell, per partition and operation: cell[class * OP_NR + op]. */
enum part_loss {
	LOSS_NO_START,  /* no usable start stamp from the kernel: no request or queue time */
	LOSS_EARLY,     /* was issued before the collector was there: no service or queue time */
	LOSS_NO_ISSUE,  /* no issue stamp although it must have been issued */
	LOSS_NEGATIVE,  /* the issue stamp is out of order: no service or queue time */
	LOSS_UNSEEN,    /* completed without any program being run: not counted */
	LOSS_UNISSUED,  /* completed without going to the device (empty flush): request time only */
	LOSS_PARTIAL,   /* partial completions: they end nothing; for information */
	LOSS_REQUEUE,   /* requeues: service time counts from the last issue; for information */
	LOSS_SPLIT,     /* bios that a driver without requests has split; for information */
	LOSS_ACCOUNTED, /* of LOSS_PASSTHROUGH those that /proc/diskstats has, too */
	PART_LOSS_NR
};

/* Losses that belong to no partition: index into the map `losses`. */
enum global_loss {
	LOSS_PASSTHROUGH, /* driver commands, in no histogram */
	LOSS_NO_PART,     /* completions on devices that have no counters */
	LOSS_NO_SLOT,     /* issues, and submissions of bios, that found no slot */
	LOSS_RECOVERED,   /* skipped runs that the second program made good; no loss */
	GLOBAL_LOSS_NR
};

/* Blocks taken by discard and flush, and by one stripe, when there are n_rows rows of sizes. */
#define SHARED_BLOCKS(n_rows) ((n_rows) + 1)
#define STRIPE_BLOCKS(n_rows) (1 + 2 * (n_rows))
#define STRIPES_MAX 8
/* An inner map can hold any ladder at least once. */
#define HIST_BLOCKS_MIN \
	(BLOCK_SHARED + SHARED_BLOCKS(SIZE_BOUNDS_MAX + 1) + STRIPE_BLOCKS(SIZE_BOUNDS_MAX + 1))

/*
 * The block of one operation and row of sizes; @stripe is the first block of the caller's stripe.
 * Flush has a single row: it has no size.
 */
static inline __attribute__((always_inline)) __u32 hist_block_index(__u32 op, __u32 size,
								    __u32 n_rows, __u32 stripe)
{
	if (op < OP_DISCARD)
		return stripe + 1 + op * n_rows + size;
	return BLOCK_SHARED + (op == OP_DISCARD ? size : n_rows);
}

#define DISK_NAME_LEN 32 /* include/linux/blkdev.h, or genhd.h; with its NUL */

/* Key of `part_ids`: a block device for as long as it exists. */
struct part_key {
	__u64 sysfs_id; /* kernfs id of its sysfs directory; equals st_ino on 64-bit kernels */
	__u64 diskseq;  /* of its disk; 0 where the kernel has none (before 5.15) */
};

/* In `part_ids` for a device that is ignored: no index, as there is nothing to be counted. */
#define PART_IGNORED 0xffffu

/*
 * Entry of `parts`, same index as in `hists`; BLKHIST_MAX_PARTITIONS of them, a build option and a
 * power of two. Index 0 is no partition; user space keeps POOL_CHANGES in its `changing` while an
 * index has a map, but is neither in `part_pool` nor in `part_ids`, so that a kill in between is
 * noticed.
 */
#define POOL_CHANGES 1u
/*
 * key.diskseq of an index that is given back, as no disk has it; the rest stays until the counters
 * are cleared.
 */
#define DISKSEQ_NONE (~0ull)
struct part {
	struct part_key key;
	__u64 disk_sysfs_id; /* of the whole disk; equals key.sysfs_id for a whole disk */
	__u32 changing;      /* index 0: POOL_CHANGES */
	__u32 partno;        /* 0: the whole disk. Of index 0: the highest index that had a map */
	char disk[DISK_NAME_LEN]; /* its name when it was first seen, as the kernel has it */
};

/*
 * Requests are known by a slot: regions of REGION_SLOTS consecutive tags of one hardware queue. The
 * key packs the request queue's id, the hardware queue's number and tag / REGION_SLOTS into 40
 * bits; a hint has the index of the region below it, so that one load finds and proves a region. No
 * key is 0, the empty hint; index 0 is no region. Greater numbers (never seen) have no slots; their
 * issues are counted as LOSS_NO_SLOT.
 */
#define REGION_SHIFT 7
#define REGION_SLOTS (1u << REGION_SHIFT)
#define REGION_INDEX_BITS 24
#define REGION_KEY(queue_id, hctx, block) (((__u64)(queue_id) + 1) << 20 | (hctx) << 7 | (block))
#define REGION_KEY_FITS(queue_id, hctx, block) \
	((queue_id) < (1 << 20) - 1 && (hctx) < 1 << 13 && (block) < 1 << 7)

/* Where to look first. Hints may be wrong: the kernel proves each one. */
#define REGION_HINTS 2048 /* power of two */
#define PART_HINTS 1024   /* power of two */
struct hints {
	__u64 region[REGION_HINTS]; /* key << REGION_INDEX_BITS | index, by hash of the key */
	__u32 part[PART_HINTS];     /* index, by hash of the sysfs id */
};

/*
 * Entry of `heads`, same index as the region of the hardware queue's first tags (of the first
 * hardware queue for rotational disks): 1 + the end sector of the request issued last, and above it
 * low bits of what tells disks apart (disk_tag()), as queues' ids are reused. One word, so that it
 * can be exchanged at once. Sectors from 2^HEAD_SECTOR_BITS (128 PiB) on are not told apart.
 */
#define HEAD_SECTOR_BITS 48
#define HEAD_SECTOR_MASK ((1ull << HEAD_SECTOR_BITS) - 1)

/*
 * Entry of `slots`: a request between issue and completion. The size is not kept: at completion it
 * is rq->__data_len and what partial completions have taken off before. A slot that is still
 * occupied when another request is issued on it tells of a completion that no program has seen.
 * Issue and completion often run on different CPUs: a slot lies within one cache line.
 */
struct slot {
	__u64 issue_ns; /* 0: free; ISSUE_BY_KERNEL: rq->io_start_time_ns is exact */
	__u64 start;    /* rq->start_time_ns: which request it is */
	__s64 seek;     /* sectors from the request issued before, or SEEK_NONE */
	__u32 bytes;    /* of its partial completions; when free, of a flush sequence's data */
	__u16 part;     /* index into hists */
	__u16 op;       /* enum blk_op */
};
#define SEEK_NONE (-0x7fffffffffffffffll - 1)
#define ISSUE_BY_KERNEL 1ull

/*
 * Value of `bios`, key: address of the bio. A bio of a device without requests, between its
 * submission and its completion. One that is still there when the same address is submitted again
 * tells of a completion that no program has seen.
 */
struct bio_slot {
	__u64 start_ns;
	__u64 owner; /* bio->bi_private: with the address, which bio it is */
	__s64 seek;  /* as in struct slot */
	__u32 bytes;
	__u16 part;
	__u16 op;
};
#define BIO_SLOTS 8192
#define BIO_SLOTS_FEW 1024 /* if there is no device without requests at the start */

/* Fixed when the programs are loaded. */
struct collector_settings {
	__u32 stamp_mode; /* STAMP_OWN or STAMP_KERNEL */
	__u32 rules;      /* how many there are: the verifier looks at no more */
	/* Enumerators without a named enum, or macros in older kernels. */
	__u32 queue_flag_stats_bit, rqf_flush_seq_bit, req_preflush_bit, req_drv_bit;
	__u32 bios_in_place; /* md may send on bios as they are */
	__u32 queue_first; /* block_bio_queue and block_split have the queue as their first argument
			    */
};

/* A ladder as it was given, and its bounds. */
#define LADDER_TEXT_MAX 256
struct meta_ladder {
	char text[LADDER_TEXT_MAX]; /* "" if longer */
	__u64 n;
	__u64 bound[SEEK_BOUNDS_MAX]; /* signed */
};

/*
 * A pattern for the name of a disk as an automaton, which runs without a branch. It is in many
 * states at once, a bit each. Bit 31 - n + i: the first i of the n elements of the pattern have
 * matched, the last element being the NUL at the end of the name; so bit 31 says that all of it
 * has. Of the states that accept a byte, the next ones follow; those where a '*' stands stay, too.
 */
#define GLOB_ELEMENTS_MAX 31
struct glob {
	__u32 accepts[256]; /* by byte: the states whose next element it is */
	__u32 stay;
	__u32 start; /* 0 for a pattern that matches nothing */
};

static inline __attribute__((always_inline)) __u32 glob_matches(const struct glob *glob,
								const char name[DISK_NAME_LEN])
{
	__u32 state = glob->start;

	for (int i = 0; i < DISK_NAME_LEN; i++)
		state = (state & glob->accepts[(__u8)name[i]]) << 1 | (state & glob->stay);
	return state >> 31;
}

/*
 * Entry of `rules`: the settings of the disks whose name matches, and of their partitions. Of
 * several that match, the first one holds; the entry 0 is for all disks that none of the others
 * matches. As nobody is resident, the kernel side finds a new disk's rule.
 */
#define RULES_MAX 16
#define RULE_GLOB_MAX 48
struct rule {
	struct glob glob;
	char glob_text[RULE_GLOB_MAX]; /* "" for entry 0 */
	__u32 kinds;                   /* bit per enum hist_kind */
	__u32 ignore;                  /* count nothing */
	__u32 spare;                   /* counters kept ready for devices that appear */
	__u32 unused;
	struct meta_ladder ladders[3]; /* time, size, seek */
};

/*
 * Key of `part_pool`, whose value is an index of `hists` that is formatted for a rule and free.
 * Each rule has POOL_PLACES of them. Who deletes an entry has its index. A place must not get
 * another index as long as a program may have looked at the one before, without having deleted it.
 */
#define POOL_PLACES 8
#define POOL_KEY(rule, place) ((rule)*POOL_PLACES + (place))

/* The only entry of `meta`; written once by user space before anything is attached. */
struct meta {
	__u64 magic;
	__u32 abi_version;
	__u32 hist_blocks; /* blocks of every inner map */
	__u64 since_realtime_ns;
	__u64 since_boottime_ns;
	__u32 rules;   /* number of them */
	__u32 stripes; /* the most that a map has */
	__u32 max_partitions;
	__u32 spare_partitions; /* of all rules */
	__u32 regions;
	__u32 stamp;        /* enum stamp_mode, as it was asked for */
	__u32 stamp_used;   /* STAMP_OWN or STAMP_KERNEL */
	__u32 nested;       /* whether the programs named _nested are needed */
	__u32 preempted;    /* likewise those for tracepoints that can be preempted */
	__u32 bios;         /* enum bios_mode */
	__u32 bio_slots;    /* bios that can be under way at once */
	__u32 verified[11]; /* instructions that the verifier looked at, by enum pin_prog; 0:
			       unknown */
	char version[32];
};

/* Where the issue time comes from; docs/design.md says why the kernel's is not always exact. */
enum stamp_mode {
	STAMP_AUTO,   /* the kernel's where it is exact, else our own */
	STAMP_OWN,    /* always a clock reading at issue */
	STAMP_KERNEL, /* the kernel's wherever there is one */
	STAMP_NR
};

/* Whether bios of devices without requests are counted. */
enum bios_mode {
	BIOS_AUTO, /* while there is such a device */
	BIOS_ON,
	BIOS_OFF,
	BIOS_NR
};

/*
 * Value of `diskstats`, key: sysfs id. /proc/diskstats as the collector was attached, requests per
 * operation: the true value lies in lo..hi; they are equal unless I/O completed at that moment.
 * Requests whose counters were given back while /proc/diskstats still has them are added;
 * last_epoch is the HDR_EPOCH of those added last, so that doing it again changes nothing.
 */
struct diskstats_base {
	__u64 lo[OP_NR];
	__u64 hi[OP_NR];
	__u64 last_epoch;
};

#define ABI_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " is an ABI")
ABI_SIZE(struct hist_block, 3168);
ABI_SIZE(struct part, 64);
ABI_SIZE(struct slot, 32);
ABI_SIZE(struct meta_ladder, LADDER_TEXT_MAX + 8 + 8 * SEEK_BOUNDS_MAX);
ABI_SIZE(struct bio_slot, 32);
ABI_SIZE(struct glob, 1024 + 8);
ABI_SIZE(struct rule, sizeof(struct glob) + RULE_GLOB_MAX + 16 + 3 * sizeof(struct meta_ladder));
ABI_SIZE(struct meta, 120 + 32);
ABI_SIZE(struct diskstats_base, 72);
_Static_assert(SEEK_BOUNDS_MAX + 1 <= ROW_BYTES && TIME_BOUNDS_MAX + 1 <= ROW_BYTES,
	       "a row holds any ladder");
_Static_assert(HDR_CARRY_LOSSES + PART_LOSS_NR * OP_NR <= ROW_CELLS, "the header fits");
_Static_assert(PART_LOSS_NR *OP_NR <= ROW_CELLS, "the losses fit");

#endif
