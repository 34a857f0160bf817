/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Numbers in blktrace's records, which both the kernel side of the recorder and the readers and
 * writers of files know. Source: include/uapi/linux/blktrace_api.h of Linux 6.19.
 */
#ifndef BLKHIST_ABI_BLKTRACE_H
#define BLKHIST_ABI_BLKTRACE_H

/* A record's action has the category above this bit, and below it the event. */
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

/* Of CATEGORY_NOTIFY records, in place of the action. */
enum trace_notify { NOTIFY_PROCESS, NOTIFY_TIMESTAMP, NOTIFY_MESSAGE };

enum trace_category {
	CATEGORY_READ = 1u << 0,
	CATEGORY_WRITE = 1u << 1,
	CATEGORY_FLUSH = 1u << 2, /* a flush, or a write that asks for one before it */
	CATEGORY_SYNC = 1u << 3,
	CATEGORY_QUEUE = 1u << 4,
	CATEGORY_REQUEUE = 1u << 5,
	CATEGORY_ISSUE = 1u << 6,
	CATEGORY_COMPLETE = 1u << 7,
	CATEGORY_FS = 1u << 8, /* of requests that are not passthrough; bios have neither */
	CATEGORY_PASSTHROUGH = 1u << 9,
	CATEGORY_NOTIFY = 1u << 10,
	CATEGORY_AHEAD = 1u << 11,
	CATEGORY_META = 1u << 12,
	CATEGORY_DISCARD = 1u << 13,
	CATEGORY_FUA = 1u << 15,
	CATEGORY_ZONE_APPEND = 1u << 16, /* version 8 only, as all that follow */
};

#endif
