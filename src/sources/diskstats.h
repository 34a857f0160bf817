/* SPDX-License-Identifier: GPL-2.0-only */
/* Requests completed per operation, from /proc/diskstats (Documentation/admin-guide/iostats.rst). */
#ifndef BLKHIST_SOURCES_DISKSTATS_H
#define BLKHIST_SOURCES_DISKSTATS_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/abi.h"
#include "core/error.h"
#include "core/hist.h"

struct diskstats {
	char name[DEVICE_NAME_MAX];
	uint64_t requests[OP_NR];
};

/* Whether anything has been counted: some drivers without requests keep no statistics. */
bool diskstats_kept(const struct diskstats *stats);

/* Reads all lines; the caller frees *@ret. */
struct error *diskstats_read(const char *root, struct diskstats **ret, unsigned int *n) must_check;

/* By name, as hidden disks (the paths of NVMe) have no device number in /sys. NULL if there is
 * none. */
const struct diskstats *diskstats_find(const struct diskstats *stats, unsigned int n,
				       const struct device_name *name);

#endif
