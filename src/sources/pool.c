// SPDX-License-Identifier: GPL-2.0-only
/* The counters that are ready: kept, taken for a device, and found again after a kill. */
#include <errno.h>

#include "core/util.h"
#include "sources/live_internal.h"

/* What the indices of hists are used for. */
struct pool {
	uint32_t *maps; /* inner map of each, 0: none */
	bool *used;     /* by a partition */
};

static void pool_deinit(struct pool *pool)
{
	free(pool->maps);
	free(pool->used);
}

static struct error *pool_read(struct live *live, struct pool *ret)
{
	cleanup(slots_deinit) struct slots slots = {};
	cleanup(pool_deinit) struct pool pool = {};

	try(slots_read(live, &slots));
	try(outer_read(live, MAP_HISTS, &pool.maps));
	pool.used = xcalloc(live->meta.max_partitions, sizeof(*pool.used));
	for (unsigned int i = 0; i < slots.n; i++)
		pool.used[slots.slot[i].index] = true;
	*ret = pool;
	pool = (struct pool){};
	return NULL;
}

static struct error *pool_push(struct live *live, __u32 index)
{
	if (bpf_map_update_elem(live->maps[MAP_PART_POOL], NULL, &index, BPF_ANY))
		return error_errno(errno, "cannot add to the pool of counters");
	return NULL;
}

/* Waits until no program runs that ran at the call, as every replacement of an inner map does. */
static struct error *wait_for_programs(struct live *live)
{
	struct ladder ladders[LADDER_KINDS];
	cleanup_close int fd = -1;

	meta_ladders(&live->meta, ladders);
	try(slot_create(live, ladders, &fd));
	try(slot_set(live, MAP_RETIRED, 0, fd));
	return slot_clear(live, MAP_RETIRED, 0);
}

/*
 * A killed process may have left an index that has a map, but is neither in use nor in the pool.
 * The pool is looked through by taking out and putting back one index after the other. What a
 * program has just taken out is in use when that program has ended.
 */
static struct error *pool_repair(struct live *live)
{
	cleanup_free bool *pooled = xcalloc(live->meta.max_partitions, sizeof(*pooled));
	cleanup(pool_deinit) struct pool pool = {};
	__u32 index;

	while (!bpf_map_lookup_and_delete_elem(live->maps[MAP_PART_POOL], NULL, &index)) {
		bool again = index >= live->meta.max_partitions || pooled[index];

		try(pool_push(live, index));
		if (again)
			break;
		pooled[index] = true;
	}
	try(wait_for_programs(live));
	try(pool_read(live, &pool));
	for (__u32 i = 1; i < live->meta.max_partitions; i++)
		if (pool.maps[i] && !pool.used[i] && !pooled[i])
			try(pool_push(live, i));
	live->parts[0].changing = 0;
	return NULL;
}

/* Indices that have a map but no partition are ready; keep as many as wanted, if there is room. */
struct error *pool_top_up(struct live *live)
{
	cleanup(pool_deinit) struct pool pool = {};
	struct ladder ladders[LADDER_KINDS];
	unsigned int spare = 0;

	if (live->parts[0].changing)
		try(pool_repair(live));
	try(pool_read(live, &pool));
	meta_ladders(&live->meta, ladders);
	for (unsigned int i = 1; i < live->meta.max_partitions; i++)
		spare += pool.maps[i] && !pool.used[i];
	for (__u32 i = 1; i < live->meta.max_partitions && spare < live->meta.spare_partitions;
	     i++) {
		cleanup_close int fd = -1;

		if (pool.used[i] || pool.maps[i])
			continue;
		live->parts[0].changing = POOL_CHANGES;
		try(slot_create(live, ladders, &fd));
		try(slot_set(live, MAP_HISTS, i, fd));
		try(pool_push(live, i));
		live->parts[0].changing = 0;
		spare++;
	}
	return NULL;
}

/* Takes an index out of the pool, which stays marked as changing. */
static bool pool_pop(struct live *live, __u32 *ret)
{
	live->parts[0].changing = POOL_CHANGES;
	if (!bpf_map_lookup_and_delete_elem(live->maps[MAP_PART_POOL], NULL, ret))
		return true;
	live->parts[0].changing = 0;
	return false;
}

struct error *slot_for_device(struct live *live, const struct device *device,
			      const struct device *disk, unsigned int *ret)
{
	struct part_key key = { .sysfs_id = device->sysfs_id, .diskseq = device->diskseq };
	int known = live->maps[MAP_PART_IDS];
	__u32 id;

	if (!bpf_map_lookup_elem(known, &key, &id)) {
		*ret = id;
		return NULL;
	}
	if (!pool_pop(live, &id)) {
		try(pool_top_up(live));
		if (!pool_pop(live, &id))
			return error_new(
				"no counters are left for %s: all of %u partitions are in use "
				"(build option max_partitions)",
				device->name.disk, live->meta.max_partitions - 1);
	}
	live->parts[id] = (struct part){
		.key = key,
		.disk_sysfs_id = device->disk_sysfs_id,
		.partno = device->partno,
	};
	memcpy(live->parts[id].disk, disk->name.disk, DISK_NAME_LEN - 1);
	if (bpf_map_update_elem(known, &key, &id, BPF_NOEXIST)) {
		/* The kernel was faster: the device has just had its first I/O. */
		live->parts[id] = (struct part){};
		try(pool_push(live, id));
		if (bpf_map_lookup_elem(known, &key, &id))
			return error_errno(errno, "cannot find the counters of %s",
					   device->name.disk);
	}
	live->parts[0].changing = 0;
	*ret = id;
	return NULL;
}
