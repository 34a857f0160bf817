/* SPDX-License-Identifier: GPL-2.0-only */
/* Partition tables as `sfdisk -d DEVICE` prints them; one file may have those of several disks. */
#ifndef BLKHIST_SOURCES_BLKTRACE_PARTITIONS_H
#define BLKHIST_SOURCES_BLKTRACE_PARTITIONS_H

#include <stdint.h>

#include "core/error.h"
#include "core/hist.h"

/* Larger files are refused. */
#define PARTITIONS_FILE_MAX (1u << 20)

struct partition_entry {
	char name[DEVICE_NAME_MAX]; /* of its node, without the directory */
	uint64_t first, last;       /* sectors of 512 bytes, both inclusive */
};

struct partition_table {
	char disk[DEVICE_NAME_MAX]; /* of its node, without the directory; "" if it was not said */
	struct partition_entry *entries; /* owned; by first sector, none overlap but those within an
					    extended partition, which is left out */
	unsigned int n;
};

struct partition_tables {
	struct partition_table *tables; /* owned */
	unsigned int n;
};

struct error *partitions_read(const char *path, struct partition_tables *ret) must_check;
/* The same for the text of a file; @name stands in errors. */
struct error *partitions_parse(const char *text, size_t len, const char *name,
			       struct partition_tables *ret) must_check;
void partition_tables_deinit(struct partition_tables *t);

/* The number of the entry in which @sector lies, or -1. */
int partition_at(const struct partition_table *t, uint64_t sector);

#endif
