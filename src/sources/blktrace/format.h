/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What blktrace writes. Source of the numbers: include/uapi/linux/blktrace_api.h of Linux 6.19,
 * which has both versions of the record. A file has the byte order of the machine that recorded it.
 */
#ifndef BLKHIST_SOURCES_BLKTRACE_FORMAT_H
#define BLKHIST_SOURCES_BLKTRACE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/blktrace.h"

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

/* No clock is beyond this, and no request takes longer: 146 years and 104 days, in ns. */
#define TRACE_TIME_MAX (1ull << 62)
#define TRACE_INTERVAL_MAX (1ull << 53)

/* As it stands in a file, before its payload. */
struct trace_v7 {
	uint32_t magic, sequence;
	uint64_t time, sector;
	uint32_t bytes, action, pid, device, cpu;
	uint16_t error, payload; /* errno as a negative number; bytes */
};
_Static_assert(sizeof(struct trace_v7) == TRACE_V7_SIZE, "a format");

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
