// SPDX-License-Identifier: GPL-2.0-only
/* Ladders of single disks: asked for, and changed while I/O runs. */
#include <errno.h>

#include "core/util.h"
#include "sources/live_internal.h"

static bool same(const struct ladder a[LADDER_KINDS], const struct ladder b[LADDER_KINDS])
{
	for (int i = 0; i < LADDER_KINDS; i++)
		if (!ladder_equal(&a[i], &b[i]))
			return false;
	return true;
}

/* The disk's own counters have its ladders; without any, it has those of its rule. */
struct error *disk_ladders(struct live *live, const struct slots *slots,
			   const struct device *device, struct ladder ret[LADDER_KINDS])
{
	rule_ladders(live_rule(live, device), ret);
	for (unsigned int i = 0; i < slots->n; i++) {
		const struct part_key *key = &slots->slot[i].part.key;
		cleanup(image_deinit) struct image im = {};

		if (key->sysfs_id != device->disk_sysfs_id || key->diskseq != device->diskseq)
			continue;
		try(slot_image(live, MAP_HISTS, slots->slot[i].index, &im));
		for (int k = 0; im.n_blocks && k < LADDER_KINDS; k++)
			ret[k] = image_ladder(&im, (enum dimension)k);
	}
	return NULL;
}

struct error *live_ladders(struct live *live, const struct device *device,
			   struct ladder ret[LADDER_KINDS])
{
	cleanup(slots_deinit) struct slots slots = {};

	if (!device) {
		rule_ladders(&live->rules[0], ret);
		return NULL;
	}
	try(slots_read(live, &slots));
	return disk_ladders(live, &slots, device, ret);
}

struct error *live_set_ladders(struct live *live, const struct device_list *devices,
			       const struct device *device,
			       const struct ladder *const ladders[LADDER_KINDS])
{
	const struct device *disk = device_by_id(devices, device->disk_sysfs_id);
	cleanup(slots_deinit) struct slots slots = {};
	struct ladder wanted[LADDER_KINDS];

	if (!disk)
		return error_new("the disk of %s is gone", device->name.disk);
	try(live_ladders(live, device, wanted));
	for (int k = 0; k < LADDER_KINDS; k++)
		if (ladders[k])
			wanted[k] = *ladders[k];
	/*
	 * All that is there gets counters now, so that their first I/O finds the new bounds.
	 * Partitions that appear later take them from the disk's own counters, see live_prepare().
	 */
	for (unsigned int i = 0; i < devices->n; i++) {
		unsigned int index;

		if (devices->devices[i].disk_sysfs_id == disk->sysfs_id)
			try(slot_for_device(live, &devices->devices[i], disk, &index));
	}
	try(slots_read(live, &slots));
	for (unsigned int i = 0; i < slots.n; i++) {
		const struct part *part = &slots.slot[i].part;
		cleanup(image_deinit) struct image im = {};
		struct ladder now[LADDER_KINDS];

		if (part->disk_sysfs_id != disk->sysfs_id || part->key.diskseq != disk->diskseq)
			continue;
		try(slot_image(live, MAP_HISTS, slots.slot[i].index, &im));
		for (int k = 0; im.n_blocks && k < LADDER_KINDS; k++)
			now[k] = image_ladder(&im, (enum dimension)k);
		if (!im.n_blocks || !same(now, wanted))
			try(slot_replace(live, slots.slot[i].index, wanted,
					 live_rule(live, device)->kinds));
	}
	return NULL;
}
