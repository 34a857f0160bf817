/* SPDX-License-Identifier: GPL-2.0-only */
/* Requests completed per operation, from /proc/diskstats (Documentation/admin-guide/iostats.rst). */
#ifndef BLKHIST_SOURCES_DISKSTATS_H
#define BLKHIST_SOURCES_DISKSTATS_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/abi.h"
#include "core/error.h"

struct diskstats {
	uint32_t major, minor;
	uint64_t requests[OP_NR];
};

/* Whether anything has been counted: some drivers without requests keep no statistics. */
bool diskstats_kept(const struct diskstats *stats);

/* Reads all lines; the caller frees *@ret. */
struct error *diskstats_read(const char *root, struct diskstats **ret, unsigned int *n) must_check;

/* NULL if there is none. */
const struct diskstats *diskstats_find(const struct diskstats *stats, unsigned int n,
				       uint32_t major, uint32_t minor);

#endif
