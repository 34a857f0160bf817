/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What blktrace writes. Source of the numbers: include/uapi/linux/blktrace_api.h of Linux 6.19,
 * which has both versions of the record. A file has the byte order of the machine that recorded it.
 */
#ifndef BLKHIST_SOURCES_BLKTRACE_FORMAT_H
#define BLKHIST_SOURCES_BLKTRACE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

/* The low byte of the magic number is the version. */
#define TRACE_MAGIC 0x65617400u
#define TRACE_V7 7u
#define TRACE_V8 8u
#define TRACE_V7_SIZE 48u
#define TRACE_V8_SIZE 64u
/*
 * The kernel writes 8 bytes of a cgroup's id, and messages of 128 bytes at most; what drivers add
 * is about as much. A record with more is none.
 */
#define TRACE_PAYLOAD_MAX 4096u
#define TRACE_CGROUP_SIZE 8u /* before the payload, if the action has ACTION_CGROUP */

#define ACTION_CGROUP 0x100u
#define ACTION_CATEGORY_SHIFT 16

enum trace_action {
	ACTION_QUEUE = 1,         /* Q: bio */
	ACTION_BACK_MERGE = 2,    /* M: bio, or request that is merged into another */
	ACTION_FRONT_MERGE = 3,   /* F: bio */
	ACTION_GET_REQUEST = 4,   /* G: bio */
	ACTION_SLEEP = 5,         /* S */
	ACTION_REQUEUE = 6,       /* R: request */
	ACTION_ISSUE = 7,         /* D: request */
	ACTION_COMPLETE = 8,      /* C: request; bio on devices without requests */
	ACTION_PLUG = 9,          /* P */
	ACTION_UNPLUG = 10,       /* U */
	ACTION_UNPLUG_TIMER = 11, /* T */
	ACTION_INSERT = 12,       /* I: request */
	ACTION_SPLIT = 13,        /* X: bio, what stays of it */
	ACTION_BOUNCE = 14,       /* B: bio */
	ACTION_REMAP = 15,        /* A: bio */
	ACTION_ABORT = 16,
	ACTION_DRIVER_DATA = 17,
	ACTION_ZONE_PLUG = 18,
	ACTION_ZONE_UNPLUG = 19,
	ACTION_ZONE_MANAGEMENT = 20,
	ACTION_NR,
	ACTION_DAMAGED = 0xffff, /* ours: it is not to be believed */
};

/* No clock is beyond this, and no request takes longer: 146 years and 104 days, in ns. */
#define TRACE_TIME_MAX (1ull << 62)
#define TRACE_INTERVAL_MAX (1ull << 53)

/* Of CATEGORY_NOTIFY records, in place of the action. */
enum trace_notify { NOTIFY_PROCESS, NOTIFY_TIMESTAMP, NOTIFY_MESSAGE };

enum trace_category {
	CATEGORY_READ = 1u << 0,
	CATEGORY_WRITE = 1u << 1,
	CATEGORY_FLUSH = 1u << 2, /* a flush, or a write that asks for one before it */
	CATEGORY_COMPLETE = 1u << 7,
	CATEGORY_FS = 1u << 8, /* of requests that are not passthrough; bios have neither */
	CATEGORY_PASSTHROUGH = 1u << 9,
	CATEGORY_NOTIFY = 1u << 10,
	CATEGORY_DISCARD = 1u << 13,
	CATEGORY_FUA = 1u << 15,
	CATEGORY_ZONE_APPEND = 1u << 16, /* version 8 only, as all that follow */
};

/* device = major << 20 | minor */
#define TRACE_MAJOR(device) ((device) >> 20)
#define TRACE_MINOR(device) ((device)&0xfffff)

/* A record, of either version, in our byte order. */
struct event {
	uint64_t time;   /* ns */
	uint64_t sector; /* of notifies: their time as recorded, see order.c */
	uint64_t from; /* A: the sector before it was remapped; NOTIFY_TIMESTAMP: wall clock, ns */
	uint64_t offset; /* in the file */
	uint32_t bytes;
	uint32_t device;
	uint32_t cpu;
	uint32_t sequence;               /* 0 for notifies */
	uint32_t category;               /* enum trace_category */
	uint32_t from_device, to_device; /* A */
	uint32_t lost;   /* events before this one, of its device and CPU, by its sequence number */
	uint16_t action; /* without ACTION_CGROUP */
	bool restart;    /* sequence numbers begin anew: it belongs to another trace */
};

#endif
