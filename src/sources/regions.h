/* SPDX-License-Identifier: GPL-2.0-only */
/* Regions of request slots (src/abi/abi.h), which collector and recorder have alike. */
#ifndef BLKHIST_SOURCES_REGIONS_H
#define BLKHIST_SOURCES_REGIONS_H

#include "core/device.h"
#include "sources/pins.h"

/* How many the disks that are there need, and a few more of the largest kind likely. */
struct error *regions_count(const struct live_paths *paths, const struct device_list *devices,
			    unsigned int n_cpus, unsigned int *ret) must_check;

/* Fills the map region_pool with all of @n but the first. */
struct error *regions_fill(int pool, unsigned int n) must_check;

#endif
