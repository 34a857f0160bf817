/* SPDX-License-Identifier: GPL-2.0-only */
/* What `record` and `slow` have in common: which requests are meant. */
#ifndef BLKHIST_CLI_RECORDER_H
#define BLKHIST_CLI_RECORDER_H

#include "core/device.h"
#include "core/error.h"

/* Devices that were named; zero-initialised is empty, and means all. Owned by the list they are of.
 */
struct devices_chosen {
	const struct device **devices;
	unsigned int n;
};
void devices_chosen_deinit(struct devices_chosen *c);
/* Appends one; or those of a list with commas, NULL being an empty one. */
struct error *devices_chosen_add(const struct device_list *devices, const char *name,
				 struct devices_chosen *c) must_check;
struct error *devices_chosen_parse(const struct device_list *devices, const char *list,
				   struct devices_chosen *c) must_check;

/* A least request time, of 1 ns at least. */
struct error *min_time_parse(const char *command, const char *text, int64_t *ret) must_check;

#endif
