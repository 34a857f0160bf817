// SPDX-License-Identifier: GPL-2.0-only
/* The counters of single block devices: inner maps, how they are replaced, and their pins. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/timefmt.h"
#include "core/util.h"
#include "sources/inner.h"
#include "sources/live_internal.h"

static char *inner_path(struct live *live, uint32_t id)
{
	return pins_path(&live->paths, "%s/inner/%u", live->dir, id);
}

/* The id of the inner map at @index, 0 if there is none. */
static struct error *outer_get(struct live *live, enum pin_map outer, unsigned int index,
			       uint32_t *ret)
{
	__u32 key = index, id = 0;

	if (bpf_map_lookup_elem(live->maps[outer], &key, &id) && errno != ENOENT)
		return error_errno(errno, "cannot look into the map %s", pin_maps[outer].name);
	*ret = id;
	return NULL;
}

struct error *outer_read(struct live *live, enum pin_map outer, uint32_t **ret)
{
	cleanup_free uint32_t *ids = xcalloc(live->meta.max_partitions, sizeof(*ids));

	for (unsigned int i = 0; i < live->meta.max_partitions && i <= live->parts[0].partno; i++)
		try(outer_get(live, outer, i, &ids[i]));
	*ret = take(ids);
	return NULL;
}

struct error *slot_open(struct live *live, enum pin_map outer, unsigned int index, int *ret)
{
	/* A map that is replaced meanwhile loses its pin: look again. */
	for (int i = 0; i < 100; i++) {
		cleanup_free char *path = NULL;
		uint32_t id;
		int fd;

		try(outer_get(live, outer, index, &id));
		if (!id) {
			*ret = -1;
			return NULL;
		}
		path = inner_path(live, id);
		fd = bpf_obj_get(path);
		if (fd >= 0) {
			*ret = fd;
			return NULL;
		}
		if (errno != ENOENT)
			return error_errno(errno, "cannot open %s", path);
	}
	return error_new("the pinned histogram %u of %s is missing; the collector's directory is "
			 "damaged; run: blkhist stop",
			 index, pin_maps[outer].name);
}

struct error *slot_set(struct live *live, enum pin_map outer, unsigned int index, int fd)
{
	cleanup_free char *old_path = NULL, *path = NULL;
	__u32 key = index, value = (__u32)fd;
	uint32_t old, id;

	try(outer_get(live, outer, index, &old));
	try(inner_id(fd, &id));
	path = inner_path(live, id);
	if (bpf_obj_pin(fd, path) && errno != EEXIST)
		return error_errno(errno, "cannot pin %s", path);
	/* The kernel waits here until no program can still hold the old map. */
	if (bpf_map_update_elem(live->maps[outer], &key, &value, BPF_ANY))
		return error_errno(errno, "cannot set entry %u of the map %s", index,
				   pin_maps[outer].name);
	if (!old || old == id || outer == MAP_HISTS)
		return NULL; /* what hists held is still in retired */
	old_path = inner_path(live, old);
	if (unlink(old_path) && errno != ENOENT)
		return error_errno(errno, "cannot remove %s", old_path);
	return NULL;
}

struct error *slot_clear(struct live *live, enum pin_map outer, unsigned int index)
{
	cleanup_free char *path = NULL;
	__u32 key = index;
	uint32_t id, current;

	try(outer_get(live, outer, index, &id));
	if (!id)
		return NULL;
	if (bpf_map_delete_elem(live->maps[outer], &key) && errno != ENOENT)
		return error_errno(errno, "cannot clear entry %u of the map %s", index,
				   pin_maps[outer].name);
	/* A retirement that did not happen leaves the same map in both. */
	try(outer_get(live, MAP_HISTS, index, &current));
	if (current == id)
		return NULL;
	path = inner_path(live, id);
	if (unlink(path) && errno != ENOENT)
		return error_errno(errno, "cannot remove %s", path);
	return NULL;
}

struct error *slot_image(struct live *live, enum pin_map outer, unsigned int index,
			 struct image *ret)
{
	cleanup_close int fd = -1;
	unsigned int n_blocks;

	*ret = (struct image){};
	try(slot_open(live, outer, index, &fd));
	if (fd < 0)
		return NULL;
	try(inner_size(fd, &n_blocks));
	if (n_blocks > live->scratch_blocks) {
		live->scratch = xreallocarray(live->scratch, n_blocks, sizeof(*live->scratch));
		live->scratch_blocks = n_blocks;
	}
	try(inner_read(fd, n_blocks, live->scratch));
	return image_from_map(live->scratch, n_blocks, ret);
}

struct error *baseline_set(struct live *live, unsigned int index, const struct image *base)
{
	cleanup_close int fd = -1;

	try(inner_create(base->n_blocks, true, &fd));
	for (unsigned int i = 0; i < base->n_blocks; i++)
		try(inner_write(fd, i, &base->blocks[i]));
	return slot_set(live, MAP_BASELINES, index, fd);
}

struct error *slot_create(struct live *live, const struct ladder ladders[LADDER_KINDS],
			  unsigned int kinds, int *ret)
{
	cleanup_free struct hist_block *header = xcalloc(1, sizeof(*header));
	cleanup_close int fd = -1;

	try(inner_create(live->meta.hist_blocks, false, &fd));
	image_format(header, ladders, kinds, live->meta.hist_blocks, live->meta.stripes,
		     (uint64_t)clock_ns(CLOCK_BOOTTIME), clock_ns(CLOCK_REALTIME));
	try(inner_write(fd, BLOCK_HEADER, header));
	*ret = take_fd(fd);
	return NULL;
}

/*
 * Adds what a retired generation had counted to the header of the one that took its place. Done
 * again after a kill, it changes nothing: the header says which generation it has.
 */
static struct error *carry(struct live *live, unsigned int index)
{
	cleanup(image_deinit) struct image old = {}, new = {};
	cleanup_close int fd = -1;

	try(slot_image(live, MAP_RETIRED, index, &old));
	try(slot_image(live, MAP_HISTS, index, &new));
	if (!old.n_blocks)
		return NULL;
	if (new.n_blocks && image_carry(&new, &old)) {
		struct hist_block header;

		/* An image has one stripe; the map keeps its own number. */
		try(slot_open(live, MAP_HISTS, index, &fd));
		try(inner_read(fd, 1, &header));
		memcpy(&header.row[ROW_HEADER].cell[HDR_CARRY_EPOCH],
		       &image_header(&new)[HDR_CARRY_EPOCH],
		       (ROW_CELLS - HDR_CARRY_EPOCH) * sizeof(__u64));
		try(inner_write(fd, BLOCK_HEADER, &header));
	}
	return slot_clear(live, MAP_RETIRED, index);
}

struct error *slot_replace(struct live *live, unsigned int index,
			   const struct ladder ladders[LADDER_KINDS], unsigned int kinds)
{
	cleanup_close int old = -1, new = -1;

	try(slot_create(live, ladders, kinds, &new));
	try(slot_open(live, MAP_HISTS, index, &old));
	if (old >= 0)
		try(slot_set(live, MAP_RETIRED, index, old));
	try(slot_set(live, MAP_HISTS, index, new));
	try(carry(live, index));
	return slot_clear(live, MAP_BASELINES, index);
}

struct error *slots_recover(struct live *live)
{
	cleanup_free uint32_t *retired = NULL;

	try(outer_read(live, MAP_RETIRED, &retired));
	for (unsigned int i = 0; i < live->meta.max_partitions; i++)
		if (retired[i])
			try(carry(live, i));
	return NULL;
}

static bool contains(const uint32_t *ids, unsigned int n, uint64_t id)
{
	for (unsigned int i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

struct error *slots_unpin_stale(struct live *live)
{
	cleanup_free char *path = pins_path(&live->paths, "%s/inner", live->dir);
	cleanup_closedir DIR *dir = opendir(path);
	cleanup_free uint32_t *hists = NULL, *retired = NULL, *baselines = NULL;
	unsigned int n = live->meta.max_partitions;
	struct dirent *entry;

	if (!dir)
		return error_errno(errno, "cannot list %s", path);
	try(outer_read(live, MAP_HISTS, &hists));
	try(outer_read(live, MAP_RETIRED, &retired));
	try(outer_read(live, MAP_BASELINES, &baselines));
	while ((entry = readdir(dir))) {
		cleanup_free char *pin = xasprintf("%s/%s", path, entry->d_name);
		struct error *err;
		uint64_t id;

		if (entry->d_name[0] == '.')
			continue;
		err = parse_u64(entry->d_name, 1, UINT32_MAX, &id);
		if (err)
			return error_in_file(err, pin);
		if (!contains(hists, n, id) && !contains(retired, n, id) &&
		    !contains(baselines, n, id) && unlink(pin) && errno != ENOENT)
			return error_errno(errno, "cannot remove %s", pin);
	}
	return NULL;
}

struct error *slots_read(struct live *live, struct slots *ret)
{
	cleanup(slots_deinit) struct slots slots = {};
	struct part_key key, *prev = NULL;

	slots.slot = xcalloc(live->meta.max_partitions, sizeof(*slots.slot));
	while (!bpf_map_get_next_key(live->maps[MAP_PART_IDS], prev, &key)) {
		__u32 id;

		prev = &key;
		if (bpf_map_lookup_elem(live->maps[MAP_PART_IDS], &key, &id))
			continue;
		if (id == PART_IGNORED)
			continue;
		if (!id || id >= live->meta.max_partitions || slots.n >= live->meta.max_partitions)
			return error_new(
				"the pinned table of partitions is damaged; run: blkhist stop");
		slots.slot[slots.n].index = id;
		slots.slot[slots.n].part = live->parts[id];
		slots.slot[slots.n++].part.key = key;
	}
	*ret = slots;
	slots = (struct slots){};
	return NULL;
}

void slots_deinit(struct slots *s)
{
	free(s->slot);
	*s = (struct slots){};
}
