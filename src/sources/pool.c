// SPDX-License-Identifier: GPL-2.0-only
/* The counters that are ready: kept, taken for a device, and found again after a kill. */
#include <errno.h>
#include <string.h>

#include "core/util.h"
#include "sources/live_internal.h"

/* What the indices of hists are used for. */
struct pool {
	uint32_t *maps; /* inner map of each, 0: none */
	bool *used;     /* by a partition, or ready */
	__u32 ready[RULES_MAX * POOL_PLACES];
};

static void pool_deinit(struct pool *pool)
{
	free(pool->maps);
	free(pool->used);
}

struct error *pool_read_ready(struct live *live, __u32 ret[RULES_MAX * POOL_PLACES])
{
	memset(ret, 0, RULES_MAX * POOL_PLACES * sizeof(*ret));
	for (__u32 key = 0; key < live->meta.rules * POOL_PLACES; key++) {
		if (bpf_map_lookup_elem(live->maps[MAP_PART_POOL], &key, &ret[key]) &&
		    errno != ENOENT)
			return error_errno(errno, "cannot look into the pool of counters");
		if (ret[key] >= live->meta.max_partitions)
			return error_new(
				"the pinned pool of counters is damaged; run: blkhist stop");
	}
	return NULL;
}

/* First what is ready: programs only take out, except what they put back at once. */
static struct error *pool_read(struct live *live, struct pool *ret)
{
	cleanup(slots_deinit) struct slots slots = {};
	cleanup(pool_deinit) struct pool pool = {};

	try(pool_read_ready(live, pool.ready));
	try(slots_read(live, &slots));
	try(outer_read(live, MAP_HISTS, &pool.maps));
	pool.used = xcalloc(live->meta.max_partitions, sizeof(*pool.used));
	for (unsigned int i = 0; i < slots.n; i++)
		pool.used[slots.slot[i].index] = true;
	for (unsigned int key = 0; key < ARRAY_SIZE(pool.ready); key++)
		pool.used[pool.ready[key]] = true;
	*ret = pool;
	pool = (struct pool){};
	return NULL;
}

/* Waits until no program runs that ran at the call, as every replacement of an inner map does. */
static struct error *wait_for_programs(struct live *live)
{
	struct ladder ladders[LADDER_KINDS];
	cleanup_close int fd = -1;

	rule_ladders(&live->rules[0], ladders);
	try(slot_create(live, ladders, live->rules[0].kinds, &fd));
	try(slot_set(live, MAP_RETIRED, 0, fd));
	return slot_clear(live, MAP_RETIRED, 0);
}

/*
 * An index that has a map, but is neither in use nor ready, was given back, or a killed process has
 * left it. What a program has just taken out of the pool is in use, or back, when that program has
 * ended; and no program that starts later finds an index that was given back.
 */
static struct error *find_unused(struct live *live, bool **ret)
{
	cleanup(pool_deinit) struct pool before = {}, after = {};
	cleanup_free bool *unused = xcalloc(live->meta.max_partitions, sizeof(*unused));

	try(pool_read(live, &before));
	try(wait_for_programs(live));
	try(pool_read(live, &after));
	for (__u32 i = 1; i < live->meta.max_partitions; i++)
		unused[i] = after.maps[i] && !before.used[i] && !after.used[i];
	*ret = take(unused);
	return NULL;
}

/*
 * In the order of indices, always: after a kill it goes on where it was, so that what has been
 * counted last is not counted twice. Programs that have seen an index in a request slot are waited
 * for: from then on its counters stand still.
 */
struct error *pool_repair(struct live *live, const struct device_list *devices)
{
	cleanup_free bool *unused = NULL;

	if (!live->parts[0].changing)
		return NULL;
	try(find_unused(live, &unused));
	try(gone_forget(live, unused));
	try(wait_for_programs(live));
	for (__u32 i = 1; i < live->meta.max_partitions; i++) {
		if (!unused[i])
			continue;
		try(gone_count(live, i, devices));
		try(slot_clear(live, MAP_BASELINES, i));
		try(slot_clear(live, MAP_HISTS, i));
		live->parts[i] = (struct part){ .key.diskseq = DISKSEQ_NONE };
	}
	live->parts[0].changing = 0;
	return NULL;
}

/* An index with neither map nor user; 0 if there is none. */
static __u32 pool_free_index(const struct live *live, const struct pool *pool)
{
	for (__u32 i = 1; i < live->meta.max_partitions; i++)
		if (!pool->used[i] && !pool->maps[i])
			return i;
	return 0;
}

/* Puts zeroed counters at a free index, which stays marked as changing. */
static struct error *pool_format(struct live *live, const struct rule *rule, __u32 index)
{
	struct ladder ladders[LADDER_KINDS];
	cleanup_close int fd = -1;

	rule_ladders(rule, ladders);
	try(slot_create(live, ladders, rule->kinds, &fd));
	live->parts[0].changing = POOL_CHANGES;
	if (live->parts[0].partno < index)
		live->parts[0].partno = index;
	return slot_set(live, MAP_HISTS, index, fd);
}

/*
 * Fills places that were empty when @pool was read. Putting the map in place waits for all programs
 * that may have seen another index there.
 */
static struct error *rule_top_up(struct live *live, const struct rule *rule, struct pool *pool)
{
	__u32 first = POOL_KEY((__u32)(rule - live->rules), 0), index;
	unsigned int spare = 0;

	for (unsigned int i = 0; i < POOL_PLACES; i++)
		spare += pool->ready[first + i] != 0;
	for (__u32 key = first; key < first + POOL_PLACES && spare < rule->spare; key++) {
		if (pool->ready[key])
			continue;
		index = pool_free_index(live, pool);
		live->exhausted = !index;
		if (!index)
			return NULL;
		try(pool_format(live, rule, index));
		if (bpf_map_update_elem(live->maps[MAP_PART_POOL], &key, &index, BPF_NOEXIST))
			return error_errno(errno, "cannot add to the pool of counters");
		live->parts[0].changing = 0;
		pool->used[index] = true;
		spare++;
	}
	return NULL;
}

struct error *pool_top_up(struct live *live)
{
	cleanup(pool_deinit) struct pool pool = {};

	try(pool_read(live, &pool));
	for (unsigned int i = 0; i < live->meta.rules; i++)
		try(rule_top_up(live, &live->rules[i], &pool));
	return NULL;
}

/* What is ready is left to devices that appear while nobody is there. */
struct error *slot_for_device(struct live *live, const struct device *device,
			      const struct device *disk, unsigned int *ret)
{
	struct part_key key = { .sysfs_id = device->sysfs_id, .diskseq = device->diskseq };
	int known = live->maps[MAP_PART_IDS];
	cleanup(pool_deinit) struct pool pool = {};
	__u32 id;

	try(live_check_counted(live, device));
	if (!bpf_map_lookup_elem(known, &key, &id)) {
		*ret = id;
		return NULL;
	}
	try(pool_read(live, &pool));
	id = pool_free_index(live, &pool);
	if (!id)
		return error_new("no counters are left for %s: all of %u partitions are in use "
				 "(build option max_partitions)",
				 device->name.disk, live->meta.max_partitions - 1);
	try(pool_format(live, live_rule(live, device), id));
	live->parts[id] = (struct part){
		.key = key,
		.disk_sysfs_id = device->disk_sysfs_id,
		.partno = device->partno,
	};
	memcpy(live->parts[id].disk, disk->name.disk, DISK_NAME_LEN - 1);
	if (bpf_map_update_elem(known, &key, &id, BPF_NOEXIST)) {
		/* The kernel was faster: the device has just had its first I/O. */
		live->parts[id] = (struct part){};
		try(slot_clear(live, MAP_HISTS, id));
		if (bpf_map_lookup_elem(known, &key, &id))
			return error_errno(errno, "cannot find the counters of %s",
					   device->name.disk);
	}
	live->parts[0].changing = 0;
	*ret = id;
	return NULL;
}
