// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices that are gone. Their counters are kept while there is room, and then given back, those of
 * the disks that came first before others; what they had counted goes into one record.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/util.h"
#include "sources/live_internal.h"

static bool exists(const struct device_list *devices, uint64_t sysfs_id, uint64_t diskseq)
{
	const struct device *d = device_by_id(devices, sysfs_id);

	return d && d->diskseq == diskseq;
}

bool part_exists(const struct part *part, const struct device_list *devices)
{
	return exists(devices, part->key.sysfs_id, part->key.diskseq);
}

static bool disk_exists(const struct part *part, const struct device_list *devices)
{
	return exists(devices, part->disk_sysfs_id, part->key.diskseq);
}

/* --- listed --- */

static bool listed(const struct device_list *list, uint64_t sysfs_id, uint64_t diskseq)
{
	for (unsigned int i = 0; i < list->n; i++)
		if (list->devices[i].sysfs_id == sysfs_id && list->devices[i].diskseq == diskseq)
			return true;
	return false;
}

static void add_gone(struct device_list *list, const struct part *part, uint64_t sysfs_id,
		     uint32_t partno)
{
	struct device d = {
		.sysfs_id = sysfs_id,
		.disk_sysfs_id = part->disk_sysfs_id,
		.diskseq = part->key.diskseq,
		.partno = partno,
		.gone = true,
	};

	if (listed(list, sysfs_id, d.diskseq))
		return;
	memcpy(d.name.disk, part->disk, DISK_NAME_LEN - 1);
	if (partno)
		partition_name(d.name.disk, partno, d.name.partition);
	device_list_add(list, &d);
}

struct error *live_add_gone(struct live *live, struct device_list *devices)
{
	cleanup(slots_deinit) struct slots slots = {};

	try(slots_read(live, &slots));
	for (unsigned int i = 0; i < slots.n; i++) {
		const struct part *part = &slots.slot[i].part;

		add_gone(devices, part, part->key.sysfs_id, part->partno);
		/* Of a disk, perhaps only the partitions have been used. */
		add_gone(devices, part, part->disk_sysfs_id, 0);
	}
	device_list_sort(devices);
	return NULL;
}

/* --- given back --- */

static bool same_disk(const struct part *a, const struct part *b)
{
	return a->disk_sysfs_id == b->disk_sysfs_id && a->key.diskseq == b->key.diskseq;
}

/* Both numbers rise with every new disk; older kernels have the second only. */
static bool came_before(const struct part *a, const struct part *b)
{
	if (a->key.diskseq != b->key.diskseq)
		return a->key.diskseq < b->key.diskseq;
	return a->disk_sysfs_id < b->disk_sysfs_id;
}

static const struct part *oldest_gone(const struct slots *slots, const struct device_list *devices)
{
	const struct part *oldest = NULL;

	for (unsigned int i = 0; i < slots->n; i++) {
		const struct part *part = &slots->slot[i].part;

		if (!disk_exists(part, devices) && (!oldest || came_before(part, oldest)))
			oldest = part;
	}
	return oldest;
}

/* From here on no program finds this index; pool_repair() clears it. */
static struct error *take_out(struct live *live, unsigned int index, const struct part_key *key)
{
	live->parts[0].changing = POOL_CHANGES;
	live->parts[index].key.diskseq = DISKSEQ_NONE;
	if (bpf_map_delete_elem(live->maps[MAP_PART_IDS], key) && errno != ENOENT)
		return error_errno(errno, "cannot give back counters of a device that is gone");
	return NULL;
}

struct error *gone_give_back(struct live *live, const struct device_list *devices)
{
	cleanup(slots_deinit) struct slots slots = {};
	unsigned int most = live->meta.max_partitions / 2;
	const struct part *oldest;

	try(slots_read(live, &slots));
	while (slots.n + live->meta.spare_partitions > most &&
	       (oldest = oldest_gone(&slots, devices))) {
		const struct part disk = *oldest;
		unsigned int kept = 0;

		for (unsigned int i = 0; i < slots.n; i++) {
			if (same_disk(&slots.slot[i].part, &disk))
				try(take_out(live, slots.slot[i].index, &slots.slot[i].part.key));
			else
				slots.slot[kept++] = slots.slot[i];
		}
		slots.n = kept;
	}
	return pool_repair(live, devices);
}

/*
 * The end of a request that is still in flight, or was never seen, must not count for the device
 * that gets the index next.
 */
static struct error *forget_requests(struct live *live, const bool *cleared)
{
	size_t n = (size_t)live->meta.regions * REGION_SLOTS;
	struct slot *slots;

	try(live_map_table(live, MAP_SLOTS, n * sizeof(*slots), &slots));
	for (size_t i = 0; i < n; i++) {
		__u16 part = __atomic_load_n(&slots[i].part, __ATOMIC_RELAXED);

		/* Another request may just be taking the slot. */
		if (part < live->meta.max_partitions && cleared[part])
			__atomic_compare_exchange_n(&slots[i].part, &part, 0, false,
						    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
	munmap(slots, n * sizeof(*slots));
	return NULL;
}

static struct error *forget_bios(struct live *live, const bool *cleared)
{
	cleanup_free __u64 *keys = xcalloc(BIO_SLOTS, sizeof(*keys));
	cleanup_free struct bio_slot *bios = xcalloc(BIO_SLOTS, sizeof(*bios));
	__u32 batch, count = BIO_SLOTS;

	if (bpf_map_lookup_batch(live->maps[MAP_BIOS], NULL, &batch, keys, bios, &count, NULL) &&
	    errno != ENOENT)
		return error_errno(errno, "cannot read the bios in flight");
	for (__u32 i = 0; i < count; i++)
		if (bios[i].part < live->meta.max_partitions && cleared[bios[i].part] &&
		    bpf_map_delete_elem(live->maps[MAP_BIOS], &keys[i]) && errno != ENOENT)
			return error_errno(errno,
					   "cannot forget the bios of a device that is gone");
	return NULL;
}

struct error *gone_forget(struct live *live, const bool *cleared)
{
	for (unsigned int i = 0; i < PART_HINTS; i++) {
		__u32 index = live->hints->part[i];

		if (index < live->meta.max_partitions && cleared[index])
			live->hints->part[i] = 0;
	}
	try(forget_requests(live, cleared));
	return forget_bios(live, cleared);
}

/*
 * The record is a baseline without histograms at index 0, which is no device's: its header carries
 * what was given back, as that of a new generation carries what the one before had.
 */
struct error *gone_record(struct live *live, struct image *ret)
{
	const struct ladder none[LADDER_KINDS] = { { .dim = DIM_TIME },
						   { .dim = DIM_SIZE },
						   { .dim = DIM_SECTORS } };
	unsigned int n_blocks = image_blocks(0, 1);
	cleanup_free struct hist_block *blocks = xcalloc(n_blocks, sizeof(*blocks));

	try(slot_image(live, MAP_BASELINES, 0, ret));
	if (ret->n_blocks)
		return NULL;
	image_format(blocks, none, 0, n_blocks, 1, 0, 0);
	return image_from_map(blocks, n_blocks, OPS_ALL, ret);
}

static struct error *record_add(struct live *live, const struct image *im)
{
	cleanup(image_deinit) struct image record = {};

	try(gone_record(live, &record));
	if (!image_carry(&record, im))
		return NULL;
	return baseline_set(live, 0, &record);
}

/*
 * What /proc/diskstats goes on with, though the device as we know it is gone: a loop device that
 * has got another file.
 */
static struct error *diskstats_carry(struct live *live, uint64_t sysfs_id, const struct image *im)
{
	__u64 epoch = image_header(im)[HDR_EPOCH];
	int map = live->maps[MAP_DISKSTATS];
	struct diskstats_base base = {};

	if (bpf_map_lookup_elem(map, &sysfs_id, &base) && errno != ENOENT)
		return error_errno(errno, "cannot read the counters kept of /proc/diskstats");
	if (base.last_epoch == epoch)
		return NULL;
	base.last_epoch = epoch;
	for (enum blk_op op = 0; op < OP_NR; op++) {
		uint64_t n = image_requests(im, op) + image_loss(im, LOSS_UNSEEN, op);

		base.lo[op] += n;
		base.hi[op] += n;
	}
	/* Without room, --verify can only tell of a difference. */
	if (bpf_map_update_elem(map, &sysfs_id, &base, BPF_ANY) && errno != E2BIG)
		return error_errno(errno, "cannot keep the counters of /proc/diskstats");
	return NULL;
}

struct error *gone_count(struct live *live, unsigned int index, const struct device_list *devices)
{
	const struct part *part = &live->parts[index];
	const uint64_t ids[] = { part->key.sysfs_id, part->disk_sysfs_id };
	cleanup(image_deinit) struct image im = {};

	try(slot_image(live, MAP_HISTS, index, &im));
	if (part->key.diskseq != DISKSEQ_NONE || !im.n_blocks)
		return NULL; /* was never in use */
	for (unsigned int i = 0; i < (ids[0] == ids[1] ? 1 : 2); i++) {
		if (device_by_id(devices, ids[i]))
			try(diskstats_carry(live, ids[i], &im));
		else if (bpf_map_delete_elem(live->maps[MAP_DISKSTATS], &ids[i]) && errno != ENOENT)
			return error_errno(errno, "cannot forget the counters of /proc/diskstats");
	}
	return record_add(live, &im);
}
