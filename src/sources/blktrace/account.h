/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The devices of a trace with their partitions, and what was counted of them.
 */
#ifndef BLKHIST_SOURCES_BLKTRACE_ACCOUNT_H
#define BLKHIST_SOURCES_BLKTRACE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/device.h"
#include "core/hist.h"
#include "sources/blktrace/format.h"
#include "sources/blktrace/partitions.h"

/* Disks and partitions that can be told apart, all together. */
#define ACCOUNT_PARTS_MAX 1024u

/* A partition, or what was sent to a disk itself. */
struct trace_part {
	struct device_name name;
	uint32_t number; /* major << 20 | minor; 0: known by its sectors only */
	bool in_table;   /* of the dump */
	/* By kind and operation, NULL before the first; owned. The last kind has one, for all. */
	struct hist *hists[KIND_NR][OP_NR];
	unsigned int hints[KIND_NR][OP_NR]; /* the column that was counted in last */
	unsigned int size_hint;             /* likewise, the row */
	uint64_t bytes[OP_NR];              /* of requests that have ended */
};

struct trace_device {
	uint32_t number;
	const struct config_rule *rule;
	/* parts[0] is the disk itself */
	struct trace_part *parts;
	unsigned int n_parts;
	unsigned int last_part;              /* found last by number, or by sector */
	const struct partition_table *table; /* by sector, or NULL */
	unsigned int *table_parts;           /* by entry of table: the part, or 0; owned */
	/* Kinds of events that it has had. */
	bool has_bio, has_issue, has_complete;
	bool has_requests;  /* one has completed, and not only bios */
	bool lossy;         /* events were lost */
	bool has_head;      /* it was issued a request */
	int64_t head;       /* the sector behind that request */
	uint64_t restarted; /* time when another trace of it began; 0: never */
};

struct account {
	const struct config *config;
	struct device_list known;       /* of /sys; may be empty */
	struct partition_tables tables; /* from a dump; may be empty */
	struct trace_device **devices;
	unsigned int n_devices, n_parts;
	unsigned int last; /* device found last */
	const char *set;   /* of files that the event comes from, see trace_set_name() */
};

void account_deinit(struct account *a);

/* The device with this number, new if need be; NULL if there are too many. */
struct trace_device *account_device_other(struct account *a, uint32_t number);
static inline struct trace_device *account_device(struct account *a, uint32_t number)
{
	if (a->n_devices && a->devices[a->last]->number == number)
		return a->devices[a->last];
	return account_device_other(a, number);
}

/* The part that an A record says, 0 if it is of another kind of remapping. */
unsigned int account_part_remapped(struct account *a, struct trace_device *d,
				   const struct event *ev);
/* The part in which a sector lies, by the table of the dump. */
unsigned int account_part_at(struct account *a, struct trace_device *d, uint64_t sector);

/* The row of requests of a size, for account_time(). */
unsigned int account_row(struct trace_device *d, unsigned int part, enum blk_op op, uint32_t bytes);
void account_time(struct trace_device *d, unsigned int part, enum blk_op op, enum hist_kind kind,
		  unsigned int row, int64_t ns);
void account_seek(struct trace_device *d, unsigned int part, int64_t sectors);

/*
 * Whether a part is a partition. A device without requests that lies on another of its kind (dm on
 * dm) is remapped just like one; but such devices have partitions only in the extended numbers.
 */
bool account_is_partition(const struct trace_device *d, unsigned int part);

/* As the device is called in messages. */
const char *trace_device_name(const struct trace_device *d);

#endif
