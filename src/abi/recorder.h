/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the recorder's kernel side (src/bpf/recorder.bpf.c) and the process that has loaded it
 * share. Nothing of it is pinned and both come from one binary, so it may change at any time.
 */
#ifndef BLKHIST_ABI_RECORDER_H
#define BLKHIST_ABI_RECORDER_H

#include "abi.h"

/* The programs, by what they record. */
enum rec_point {
	REC_QUEUE,       /* Q */
	REC_REMAP,       /* A */
	REC_SPLIT,       /* X */
	REC_GET,         /* G */
	REC_BACK_MERGE,  /* M */
	REC_FRONT_MERGE, /* F */
	REC_JOIN,        /* M: of a request that is merged into another */
	REC_INSERT,      /* I */
	REC_ISSUE,       /* D */
	REC_REQUEUE,     /* R */
	REC_COMPLETE,    /* C */
	REC_END,         /* C: of a bio */
	REC_PLUG,        /* P */
	REC_UNPLUG,      /* U */
	REC_POINTS
};

enum rec_kind { REC_EVENT, REC_PROCESS, REC_SLOW };

/* Written into the ring buffer of the CPU that it is found on. */
struct rec_event {
	__u32 kind;   /* REC_EVENT */
	__u32 cpu;    /* where it happened; a slow request's events are sent when it ends */
	__u64 time;   /* CLOCK_MONOTONIC, ns */
	__u64 lost;   /* events of this disk that found no room on the CPU that has sent this */
	__u64 sector; /* of the whole disk */
	__u64 from;   /* sector that it was before, or U: how many requests */
	__u32 bytes;
	__u32 action;      /* as in a record of version 7 */
	__u32 device;      /* of the whole disk; major << 20 | minor */
	__u32 from_device; /* A: what it was sent to; D, an empty C, and Q without requests:
				partition, or 0
			    */
	__u32 pid;
	__s32 error; /* negative errno, or positive blk_status_t */
};

/* The name of a process, before its first event on a CPU, and now and then. */
struct rec_process {
	__u32 kind; /* REC_PROCESS */
	__u32 pid;
	char name[16];
};

/* A request, or a bio of a device without requests, that took long. */
struct rec_slow {
	__u32 kind; /* REC_SLOW */
	__u32 op;   /* enum blk_op */
	__u64 time; /* CLOCK_MONOTONIC of its end, ns */
	__u64 lost; /* as in struct rec_event */
	__u64 sector;
	__u64 request_ns;
	__u64 queue_ns, service_ns; /* REC_UNKNOWN: not known */
	__u64 cgroup; /* id of that of its first bio, in its hierarchy; 0: not known */
	__u32 bytes;
	__u32 action;            /* as of its C: the flags are in it */
	__u32 device, partition; /* numbers; partition 0: none */
	__u32 requeues;
	__u32 pid; /* of the task that sent it to the scheduler or driver; 0 and "": not known */
	char name[16];
};
#define REC_UNKNOWN (~0ull)

/*
 * Request under way, by its slot (see abi.h); only where there is a least time. User space looks at
 * first_ns and busy: what is written is older than the oldest of them.
 */
struct rec_slot {
	__u64 request; /* address */
	__u64 start;   /* rq->start_time_ns; both together tell which request it is */
	__u64 first_ns;
	__u64 issue_ns;   /* the last one; 0: none */
	__u64 service_ns; /* of a flush sequence's data; 0: not yet */
	__u32 bytes;      /* likewise, and what partial completions have taken off */
	__u32 requeues;
	__u16 held_n, omitted; /* events that are kept below, and that found no room there */
	__u32 busy;
	__u32 pid;
	char name[16];
	__u32 advanced;          /* bytes that partial completions have moved its sector by */
	struct rec_event held[]; /* recorder_settings.held of them */
};

/* Likewise a bio, by its address. */
#define REC_BIO_HELD 6
struct rec_bio {
	__u64 owner; /* bio->bi_private: with the address, which bio it is */
	__u64 first_ns;
	__u32 held_n;
	__u32 sent; /* of these, for a part that was split off and has ended before */
	__u32 pid;
	char name[16];
	__u32 unused;
	struct rec_event held[REC_BIO_HELD];
};
#define REC_BIOS 8192

/* Per disk and CPU. */
struct rec_disk {
	__u32 device; /* its number; 0 for those in the hash, whose key it is */
	__u32 unused;
	__u64 lost;
};
#define REC_DISKS 1024

/*
 * Where to look first. User space puts in the disks that are there; one whose cell is taken, or
 * that comes later, is in a hash.
 */
#define REC_DISK_CELLS 64 /* power of two */
#define REC_DISK_CELL(device) \
	(((device)*0x9e3779b97f4a7c15ull) >> 32 & (REC_DISK_CELLS - 1)) /* 2^64 / golden ratio */

#define REC_PIDS 1024 /* power of two */
struct rec_cpu {
	struct rec_disk disks[REC_DISK_CELLS];
	__u32 running[REC_POINTS]; /* a program is, and will be skipped if it should run again */
	__u32 noted[REC_PIDS];     /* processes whose names have been sent, by pid */
};

/* What is not counted by disk. */
enum rec_loss {
	REC_LOST_DISK, /* events of disks that are too many */
	REC_UNKEPT,    /* events that could not be kept; their request may not have been slow */
	REC_RECOVERED, /* skipped runs that the second program made good; no loss */
	REC_LOSSES
};

/* Events of bios, which are kept by the bio's address. */
#define REC_BIO_EVENTS                                                         \
	(1u << REC_QUEUE | 1u << REC_REMAP | 1u << REC_SPLIT | 1u << REC_GET | \
	 1u << REC_BACK_MERGE | 1u << REC_FRONT_MERGE)

/* Chosen partitions, and whole disks; of a disk that is chosen no partitions are. */
#define REC_CHOSEN_MAX 64
struct rec_chosen {
	__u32 disk, device; /* numbers; equal for a whole disk */
	__u64 start, end;   /* sectors; bios of old kernels do not know their partition */
};

struct recorder_settings {
	__u32 chosen_n; /* 0: all devices */
	__u32 ops;      /* mask of enum blk_op; OPS of all: drivers' commands, too */
	__u32 events;   /* mask of enum rec_point: which are recorded */
	__u32 slow;     /* send struct rec_slow in place of events */
	__u64 min_ns;   /* 0: all requests */
	__u32 held;     /* events that a slot has room for */
	__u32 wakeup;   /* bytes in a ring buffer that wake the reader; 0: whenever it waits */
	__u32 sync_bit, ahead_bit, meta_bit, fua_bit; /* of request flags */
	__u32 bio_at[REC_POINTS];                     /* which argument is the bio, or request */
	struct rec_chosen chosen[REC_CHOSEN_MAX];
};

ABI_SIZE(struct rec_event, 64);
ABI_SIZE(struct rec_slow, 104);
ABI_SIZE(struct rec_slot, 80);
ABI_SIZE(struct rec_bio, 48 + REC_BIO_HELD * 64);

#endif
