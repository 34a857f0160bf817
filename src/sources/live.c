// SPDX-License-Identifier: GPL-2.0-only
/* Opening a collector, and keeping it ready for devices to come. */
#include "sources/live.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/util.h"
#include "sources/diskstats.h"
#include "sources/inner.h"
#include "sources/kernel.h"
#include "sources/live_internal.h"

void live_close(struct live *live)
{
	if (!live)
		return;
	slots_unmap(live);
	if (live->parts)
		munmap(live->parts, live->meta.max_partitions * sizeof(struct part));
	if (live->hints)
		munmap(live->hints, sizeof(struct hints));
	for (enum pin_map map = 0; map < MAP_NR; map++)
		closep(&live->maps[map]);
	closep(&live->lock);
	free(live->rules);
	free(live);
}

void live_closep(struct live **live)
{
	live_close(*live);
}

const struct meta *live_meta(const struct live *live)
{
	return &live->meta;
}

static struct error *open_map(struct live *live, enum pin_map map)
{
	cleanup_free char *path =
		pins_path(&live->paths, "%s/maps/%s", live->dir, pin_maps[map].name);
	int fd = bpf_obj_get(path);

	if (fd < 0) {
		int errnum = errno;

		if (errnum == EACCES)
			try(pins_check_owner(&live->paths));
		if (errnum == ENOENT)
			return error_new(
				"the collector's directory is damaged: %s is missing; run: "
				"blkhist stop",
				path);
		return error_errno(errnum, "cannot open %s", path);
	}
	live->maps[map] = fd;
	return NULL;
}

static struct error *read_meta(struct live *live)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info), zero = 0;
	struct meta *meta = &live->meta;
	struct {
		__u64 magic;
		__u32 abi_version;
	} start;
	cleanup_free char *value = NULL;

	try(open_map(live, MAP_META));
	if (bpf_obj_get_info_by_fd(live->maps[MAP_META], &info, &len))
		return error_errno(errno,
				   "cannot ask for the properties of the collector's settings");
	if (info.value_size < sizeof(start) || info.value_size > 1u << 20)
		return error_new("the collector's settings are damaged; run: blkhist stop");
	value = xcalloc(1, info.value_size);
	if (bpf_map_lookup_elem(live->maps[MAP_META], &zero, value))
		return error_errno(errno, "cannot read the collector's settings");
	memcpy(&start, value, sizeof(start));
	if (start.magic != BLKHIST_ABI_MAGIC)
		return error_new("the collector's settings are damaged; run: blkhist stop");
	if (start.abi_version != BLKHIST_ABI_VERSION)
		return error_new(
			"the running collector has format %u, this blkhist knows format %u; use the "
			"blkhist that started it, or run: blkhist stop",
			start.abi_version, BLKHIST_ABI_VERSION);
	if (info.value_size != sizeof(*meta))
		return error_new("the collector's settings are damaged; run: blkhist stop");
	memcpy(meta, value, sizeof(*meta));
	if (meta->max_partitions > 1u << 16 || meta->hist_blocks > 1u << 16 ||
	    meta->regions > 1u << REGION_INDEX_BITS || meta->stripes > STRIPES_MAX ||
	    meta->stamp >= STAMP_NR || meta->stamp_used >= STAMP_NR || meta->bios >= BIOS_NR ||
	    meta->bio_slots > BIO_SLOTS)
		return error_new("the collector's settings are damaged; run: blkhist stop");
	return NULL;
}

/* 0 if there is none. */
static uint64_t pinned_settings(const struct live_paths *paths)
{
	cleanup_free char *path = pins_path(paths, "blkhist/maps/%s", pin_maps[MAP_META].name);
	struct stat st;

	return stat(path, &st) ? 0 : st.st_ino;
}

bool live_is_current(const struct live *live)
{
	return live->pin && live->pin == pinned_settings(&live->paths);
}

void live_suspend(struct live *live)
{
	closep(&live->lock);
	live->lock = -1;
}

struct error *live_resume(struct live *live, bool *current)
{
	cleanup_close int lock = -1;

	try(pins_lock(&live->paths, &lock));
	*current = live_is_current(live);
	if (*current)
		live->lock = take_fd(lock);
	return NULL;
}

struct error *live_refresh(struct live *live, const struct device_list *devices)
{
	return kernel_explain_refusal(&live->paths, live_prepare(live, devices));
}

struct error *live_map_table(struct live *live, enum pin_map map, size_t size, void *ret)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, live->maps[map], 0);

	if (p == MAP_FAILED)
		return error_errno(errno, "cannot map the collector's table %s",
				   pin_maps[map].name);
	memcpy(ret, &p, sizeof(p));
	return NULL;
}

struct error *live_open_dir(const struct live_paths *paths, const char *dir, struct live **ret)
{
	cleanup(live_closep) struct live *live = xcalloc(1, sizeof(*live));

	live->paths = *paths;
	live->dir = dir;
	live->lock = -1;
	for (enum pin_map map = 0; map < MAP_NR; map++)
		live->maps[map] = -1;
	try(read_meta(live));
	for (enum pin_map map = 0; map < MAP_NR; map++)
		if (map != MAP_META)
			try(open_map(live, map));
	try(rules_read(live));
	try(live_map_table(live, MAP_PARTS, live->meta.max_partitions * sizeof(struct part),
			   &live->parts));
	try(live_map_table(live, MAP_HINTS, sizeof(struct hints), &live->hints));
	*ret = take(live);
	return NULL;
}

/* Gives partitions that appeared on a disk with ladders of its own those ladders. */
static struct error *align_ladders(struct live *live, const struct slots *slots,
				   const struct device_list *devices)
{
	for (unsigned int i = 0; i < slots->n; i++) {
		const struct part *disk = &slots->slot[i].part;
		cleanup(image_deinit) struct image of_disk = {};
		struct ladder ladders[LADDER_KINDS];
		unsigned int kinds;

		if (disk->key.sysfs_id != disk->disk_sysfs_id || !part_exists(disk, devices))
			continue;
		try(slot_image(live, MAP_HISTS, slots->slot[i].index, &of_disk));
		if (!of_disk.n_blocks)
			continue;
		for (int k = 0; k < LADDER_KINDS; k++)
			ladders[k] = image_ladder(&of_disk, (enum dimension)k);
		kinds = (unsigned int)image_header(&of_disk)[HDR_KINDS];
		for (unsigned int j = 0; j < slots->n; j++) {
			cleanup(image_deinit) struct image of_part = {};

			if (slots->slot[j].part.disk_sysfs_id != disk->key.sysfs_id ||
			    slots->slot[j].part.key.diskseq != disk->key.diskseq || i == j)
				continue;
			try(slot_image(live, MAP_HISTS, slots->slot[j].index, &of_part));
			if (of_part.n_blocks && !image_same_ladders(&of_disk, &of_part))
				try(slot_replace(live, slots->slot[j].index, ladders, kinds));
		}
	}
	return NULL;
}

struct error *live_make_ready(struct live *live, const struct device_list *devices)
{
	cleanup(slots_deinit) struct slots slots = {};

	try(slots_recover(live));
	try(pool_repair(live, devices));
	try(gone_give_back(live, devices));
	try(slots_read(live, &slots));
	try(rules_forget_gone(live, devices));
	try(align_ladders(live, &slots, devices));
	try(pool_top_up(live));
	return slots_unpin_stale(live);
}

struct error *live_prepare(struct live *live, const struct device_list *devices)
{
	try(live_make_ready(live, devices));
	return points_follow_devices(live, devices);
}

struct error *live_adopt(struct live *live, const struct device_list *devices)
{
	cleanup_free struct diskstats *stats = NULL;
	unsigned int n, room = live->meta.max_partitions - 1 - live->meta.spare_partitions;

	try(diskstats_read(live->paths.root, &stats, &n));
	for (unsigned int i = 0; i < devices->n && room; i++) {
		const struct device *d = &devices->devices[i];
		const struct device *disk = device_by_id(devices, d->disk_sysfs_id);
		const struct diskstats *used = diskstats_find(stats, n, &d->name);
		uint64_t requests = 0;
		unsigned int index;

		for (enum blk_op op = 0; used && op < OP_NR; op++)
			requests += used->requests[op];
		if (!live_counts(live, d) || !disk || !requests)
			continue;
		try(slot_for_device(live, d, disk, &index));
		room--;
	}
	return pool_top_up(live);
}

struct error *live_open(const struct live_paths *paths, const struct device_list *devices,
			struct live **ret)
{
	cleanup(live_closep) struct live *live = NULL;
	cleanup_close int lock = -1;

	try(kernel_check_rights(paths, "use the collector", false));
	try(pins_lock(paths, &lock));
	if (!pins_exist(paths))
		return error_new("the collector is not running; start it with: blkhist start");
	try(live_open_dir(paths, "blkhist", &live));
	live->lock = take_fd(lock);
	live->pin = pinned_settings(paths);
	try(live_refresh(live, devices));
	*ret = take(live);
	return NULL;
}
