// SPDX-License-Identifier: GPL-2.0-only
/*
 * Our counts beside the rise of /proc/diskstats, and the state of the collector.
 *
 * Neither side can be read in one moment with the other while I/O runs. So ours is read before and
 * after: if diskstats lies between, both agree as far as can be known; when nothing completes
 * meanwhile, the two readings are equal and the comparison is exact.
 *
 * Completions that no program was run for are known all the same: their request slot stays occupied.
 * What diskstats has must be what we have counted and what we know to have missed in this way.
 * Drivers' commands are in no histogram; where the kernel has them in diskstats, they are added.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/util.h"
#include "sources/diskstats.h"
#include "sources/inner.h"
#include "sources/live_internal.h"

/*
 * Requests per operation of one device, or bios of one without requests. Of bios that were
 * submitted before the collector was attached only the completion is known (LOSS_EARLY). Drivers
 * without requests differ in what they have in diskstats: bios before or after they split them,
 * empty flushes as writes or not at all.
 */
struct tally {
	uint64_t seen[OP_NR];
	uint64_t extra[OP_NR]; /* what diskstats may have more: splits and flushes */
	uint64_t unseen[OP_NR];
	uint64_t occupied[OP_NR]; /* slots: in flight, or unseen if the device is idle */
};

/* One per device of a list. */
struct counts {
	struct tally *tally;
};

static void counts_deinit(struct counts *c)
{
	free(c->tally);
	c->tally = NULL;
}

static struct error *add_occupied_bios(struct live *live, uint64_t (*occupied)[OP_NR])
{
	__u64 key, *prev = NULL;
	struct bio_slot slot;

	/* Bios come and go meanwhile, so that the walk may begin anew: as many as there can be. */
	for (unsigned int i = 0; i < 2 * live->meta.bio_slots; i++) {
		if (bpf_map_get_next_key(live->maps[MAP_BIOS], prev, &key))
			return NULL;
		prev = &key;
		if (!bpf_map_lookup_elem(live->maps[MAP_BIOS], &key, &slot) &&
		    slot.part < live->meta.max_partitions && slot.op < OP_NR)
			occupied[slot.part][slot.op]++;
	}
	return NULL;
}

/* Occupied slots by partition and operation; the caller frees it. */
static struct error *read_occupied(struct live *live, uint64_t (**ret)[OP_NR])
{
	unsigned int n = live->meta.regions * REGION_SLOTS, max = live->meta.max_partitions;
	cleanup_free struct slot *slots = xcalloc(n, sizeof(*slots));
	cleanup_free __u32 *keys = xcalloc(n, sizeof(*keys));
	cleanup_free uint64_t(*occupied)[OP_NR] = xcalloc(max, sizeof(*occupied));
	__u32 batch = 0, count = n;

	if (bpf_map_lookup_batch(live->maps[MAP_SLOTS], NULL, &batch, keys, slots, &count, NULL) &&
	    errno != ENOENT)
		return error_errno(errno, "cannot read the request slots");
	for (unsigned int i = 0; i < count; i++)
		if (slots[i].issue_ns && slots[i].part < max && slots[i].op < OP_NR)
			occupied[slots[i].part][slots[i].op]++;
	try(add_occupied_bios(live, occupied));
	*ret = take(occupied);
	return NULL;
}

static void tally_add(struct tally *t, const struct image *im, const uint64_t occupied[OP_NR],
		      bool bios)
{
	for (enum blk_op op = 0; op < OP_NR; op++) {
		t->unseen[op] += image_loss(im, LOSS_UNSEEN, op);
		t->occupied[op] += occupied[op];
		if (bios && op == OP_FLUSH) {
			t->extra[OP_WRITE] += image_requests(im, op);
			continue;
		}
		t->seen[op] += image_requests(im, op) + image_loss(im, LOSS_ACCOUNTED, op);
		if (bios) {
			t->seen[op] += image_loss(im, LOSS_EARLY, op);
			t->extra[op] += image_loss(im, LOSS_SPLIT, op);
		}
	}
}

/* NVMe multipath has the flush requests of the paths in diskstats as reads of the head. */
static void add_to_head(struct counts *counts, const struct device_list *devices,
			const struct part *part, const struct image *im)
{
	const struct device *path = device_by_id(devices, part->key.sysfs_id);

	for (unsigned int d = 0; path && path->name.head[0] && d < devices->n; d++) {
		const struct device_name *name = &devices->devices[d].name;

		if (!strcmp(name->disk, path->name.head) && !name->partition[0])
			counts->tally[d].extra[OP_READ] += image_requests(im, OP_FLUSH);
	}
}

static struct error *counts_read(struct live *live, const struct device_list *devices,
				 struct counts *ret)
{
	cleanup(counts_deinit) struct counts counts = { xcalloc(devices->n, sizeof(struct tally)) };
	cleanup(slots_deinit) struct slots slots = {};
	cleanup_free uint64_t(*occupied)[OP_NR] = NULL;

	try(read_occupied(live, &occupied));
	try(slots_read(live, &slots));
	for (unsigned int i = 0; i < slots.n; i++) {
		const struct part *part = &slots.slot[i].part;
		unsigned int index = slots.slot[i].index;
		cleanup(image_deinit) struct image im = {};

		try(slot_image(live, MAP_HISTS, index, &im));
		if (!im.n_blocks)
			continue;
		/* Whatever the diskseq: diskstats goes on when a loop device gets another file. */
		for (unsigned int d = 0; d < devices->n; d++) {
			uint64_t id = devices->devices[d].sysfs_id;
			struct tally *t = &counts.tally[d];

			if (id != part->key.sysfs_id && id != part->disk_sysfs_id)
				continue;
			tally_add(t, &im, occupied[index], !devices->devices[d].request_based);
		}
		add_to_head(&counts, devices, part, &im);
	}
	*ret = counts;
	counts.tally = NULL;
	return NULL;
}

/* Requests, or bios, that are under way. */
static uint64_t device_inflight(struct live *live, const struct device *device)
{
	cleanup_free char *path =
		device_path(live->paths.root, device_name_own(&device->name), "inflight");
	unsigned int reads = 0, writes = 0;
	char text[64];
	struct error *err = sysfs_read(path, text, sizeof(text));

	if (!err && sscanf(text, "%u %u", &reads, &writes) != 2)
		reads = 1;
	error_free(err); /* a device that is just going away is at rest */
	return (uint64_t)reads + writes;
}

/* One reading of both sides. */
struct sample {
	struct counts before, after;
	struct diskstats *stats;
	unsigned int n_stats;
	uint64_t *inflight; /* by device, the greater one of before and after */
};

static void sample_deinit(struct sample *s)
{
	counts_deinit(&s->before);
	counts_deinit(&s->after);
	free(s->stats);
	free(s->inflight);
	*s = (struct sample){};
}

static void sample_inflight(struct live *live, const struct device_list *devices, struct sample *s)
{
	for (unsigned int d = 0; d < devices->n; d++) {
		uint64_t n = device_inflight(live, &devices->devices[d]);

		s->inflight[d] = n > s->inflight[d] ? n : s->inflight[d];
	}
}

static struct error *sample_read(struct live *live, const struct device_list *devices,
				 struct sample *s)
{
	s->inflight = xcalloc(devices->n, sizeof(*s->inflight));
	sample_inflight(live, devices, s);
	try(counts_read(live, devices, &s->before));
	try(diskstats_read(live->paths.root, &s->stats, &s->n_stats));
	try(counts_read(live, devices, &s->after));
	sample_inflight(live, devices, s);
	return NULL;
}

static const struct diskstats *sample_stats(const struct sample *s, const struct device *d)
{
	return diskstats_find(s->stats, s->n_stats, &d->name);
}

#define BEGIN_SAMPLES 20

/*
 * What diskstats had before us: what it has less what we have counted. With I/O under way that is
 * an interval: a request is counted by us a moment before diskstats has it, on each CPU one;
 * drivers without requests count a bio when it comes or when it goes, as the kernel has it.
 */
static struct diskstats_base base_of(const struct sample *s, unsigned int d, bool request_based,
				     const struct diskstats *stats, uint64_t n_cpus)
{
	const struct tally *before = &s->before.tally[d], *after = &s->after.tally[d];
	uint64_t late = !s->inflight[d] ? 0 : request_based ? n_cpus : s->inflight[d];
	struct diskstats_base base;

	for (enum blk_op op = 0; op < OP_NR; op++) {
		base.lo[op] = stats->requests[op] - after->seen[op] - after->extra[op] -
			      (request_based ? 0 : late);
		base.hi[op] = stats->requests[op] - before->seen[op] + late;
	}
	return base;
}

/* Keeps the narrower reading; true if it is exact. */
static bool base_narrow(struct diskstats_base *base, const struct diskstats_base *now, bool first)
{
	bool exact = true;

	for (enum blk_op op = 0; op < OP_NR; op++) {
		if (first || now->hi[op] - now->lo[op] < base->hi[op] - base->lo[op]) {
			base->lo[op] = now->lo[op];
			base->hi[op] = now->hi[op];
		}
		exact = exact && base->hi[op] == base->lo[op];
	}
	return exact;
}

struct error *live_diskstats_begin(struct live *live, bool request_based)
{
	cleanup(device_list_deinit) struct device_list list = {};
	const struct device_list *devices = &list;
	cleanup_free struct diskstats_base *bases = NULL;
	const struct diskstats_base unused = {};
	uint64_t n_cpus = (uint64_t)libbpf_num_possible_cpus();
	bool exact = false;

	try(device_list_read(live->paths.root, &list));
	bases = xcalloc(devices->n, sizeof(*bases));
	for (int round = 0; round < BEGIN_SAMPLES && !exact; round++) {
		cleanup(sample_deinit) struct sample s = {};

		try(sample_read(live, devices, &s));
		exact = true;
		for (unsigned int d = 0; d < devices->n; d++) {
			const struct diskstats *stats = sample_stats(&s, &devices->devices[d]);
			struct diskstats_base now;

			if (!stats || devices->devices[d].request_based != request_based)
				continue;
			now = base_of(&s, d, request_based, stats, n_cpus);
			exact &= base_narrow(&bases[d], &now, !round);
		}
	}
	for (unsigned int d = 0; d < devices->n; d++) {
		__u64 key = devices->devices[d].sysfs_id;

		if (devices->devices[d].request_based != request_based ||
		    !memcmp(&bases[d], &unused, sizeof(unused)))
			continue;
		/* More devices have been used than can have counters: not all can be compared. */
		if (bpf_map_update_elem(live->maps[MAP_DISKSTATS], &key, &bases[d], BPF_ANY) &&
		    errno != E2BIG)
			return error_errno(errno, "cannot keep the counters of /proc/diskstats");
	}
	return NULL;
}

static void compare(struct verify_row *row, const struct diskstats_base *base, uint64_t stats,
		    const struct tally *before, const struct tally *after, bool idle)
{
	enum blk_op op = row->op;
	/* Of a device at rest, an occupied slot is an unseen completion; else it may be one. */
	uint64_t least = before->unseen[op] + (idle ? before->occupied[op] : 0);
	uint64_t most = after->unseen[op] + after->occupied[op];

	row->ours = after->seen[op];
	row->extra = after->extra[op];
	row->unseen = after->unseen[op] + (idle ? after->occupied[op] : 0);
	/* What may have been there before is a guess, and may be more than there is now. */
	row->diskstats_lo = stats > base->hi[op] ? stats - base->hi[op] : 0;
	row->diskstats_hi = stats - base->lo[op];
	row->equal = row->diskstats_lo <= after->seen[op] + row->extra + most &&
		     row->diskstats_hi >= before->seen[op] + least;
}

/* Whether a device is not compared; noted if it has been used. */
/* Not all drivers of devices without requests keep statistics. */
static bool skip(const struct live *live, const struct device *device,
		 const struct diskstats *stats, struct verify_result *v)
{
	const struct rule *rule = live_rule(live, device);

	if (!stats || !(device->request_based || point_attached(live, PROG_BIO_QUEUE)))
		return true;
	if (!rule->ignore && rule->kinds & 1u << KIND_REQUEST)
		return !device->request_based && !diskstats_kept(stats);
	if (diskstats_kept(stats))
		v->skips[v->n_skips++] =
			(struct verify_skip){ .name = device->name, .ignored = rule->ignore };
	return true;
}

static struct error *verify_once(struct live *live, const struct device_list *devices,
				 struct verify_result *ret)
{
	cleanup(verify_result_deinit) struct verify_result v = { .equal = true };
	cleanup(sample_deinit) struct sample s = {};

	try(sample_read(live, devices, &s));
	v.rows = xcalloc(devices->n * OP_NR, sizeof(*v.rows));
	v.skips = xcalloc(devices->n, sizeof(*v.skips));
	for (unsigned int d = 0; d < devices->n; d++) {
		const struct device *device = &devices->devices[d];
		const struct diskstats *stats = sample_stats(&s, device);
		struct diskstats_base base = {}; /* a device that came later began at zero */
		bool idle = !s.inflight[d];
		__u64 key = device->sysfs_id;

		if (skip(live, device, stats, &v))
			continue;
		if (bpf_map_lookup_elem(live->maps[MAP_DISKSTATS], &key, &base) && errno != ENOENT)
			return error_errno(errno,
					   "cannot read the counters kept of /proc/diskstats");
		for (enum blk_op op = 0; op < OP_NR; op++) {
			struct verify_row *row = &v.rows[v.n];

			/* Some of them do not keep all operations either. */
			if (!device->request_based && !stats->requests[op])
				continue;

			row->name = device->name;
			row->op = op;
			compare(row, &base, stats->requests[op], &s.before.tally[d],
				&s.after.tally[d], idle);
			if (row->equal && !row->ours && !row->diskstats_hi)
				continue;
			v.equal = v.equal && row->equal;
			v.n++;
		}
	}
	*ret = v;
	v = (struct verify_result){};
	return NULL;
}

#define VERIFY_TRIES 50
#define VERIFY_PAUSE_NS 10000000

struct error *live_verify(struct live *live, const struct device_list *devices,
			  struct verify_result *ret)
{
	const struct timespec pause = { .tv_nsec = VERIFY_PAUSE_NS };
	bool possible = false;

	for (unsigned int i = 0; i < live->meta.rules; i++)
		possible |= !live->rules[i].ignore && live->rules[i].kinds & 1u << KIND_REQUEST;
	if (!possible)
		return error_new(
			"cannot compare with /proc/diskstats: the collector was started without the "
			"kind 'request'");
	/* Between our count and that of diskstats lies a moment: a difference must last. */
	for (int i = 1;; i++) {
		try(verify_once(live, devices, ret));
		if (ret->equal || i == VERIFY_TRIES)
			return NULL;
		verify_result_deinit(ret);
		nanosleep(&pause, NULL);
	}
}

void verify_result_deinit(struct verify_result *v)
{
	free(v->rows);
	free(v->skips);
	*v = (struct verify_result){};
}

static struct error *inner_memory(struct live *live, enum pin_map outer, uint64_t *total)
{
	for (unsigned int i = 0; i < live->meta.max_partitions && i <= live->parts[0].partno; i++) {
		cleanup_close int fd = -1;
		uint64_t bytes;

		try(slot_open(live, outer, i, &fd));
		if (fd < 0)
			continue;
		try(map_memory(fd, &bytes));
		*total += bytes;
	}
	return NULL;
}

static struct error *point_status(struct live *live, enum pin_prog prog, struct live_status *s)
{
	const char *name = pin_progs[prog].name;
	cleanup_free char *path = pins_path(&live->paths, "%s/progs/%s", live->dir, name);
	cleanup_free char *link_path = pins_path(&live->paths, "%s/links/%s", live->dir, name);
	cleanup_close int fd = bpf_obj_get(path);
	cleanup_close int link = bpf_obj_get(link_path);
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);

	s->points[prog].program = name;
	s->points[prog].tracepoint = pin_progs[prog].tracepoint;
	s->points[prog].attached = link >= 0;
	s->points[prog].verified = live->meta.verified[prog];
	if (fd < 0)
		return NULL;
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return error_errno(errno, "cannot read the statistics of %s", path);
	s->points[prog].runs = info.run_cnt;
	s->points[prog].run_ns = info.run_time_ns;
	return NULL;
}

static struct error *count_keys(int map, size_t key_size, unsigned int *ret)
{
	cleanup_free char *key = xcalloc(1, key_size);
	void *prev = NULL;

	*ret = 0;
	while (!bpf_map_get_next_key(map, prev, key)) {
		prev = key;
		if (++*ret > 1u << REGION_INDEX_BITS)
			return error_new("a pinned table does not end; run: blkhist stop");
	}
	return NULL;
}

struct error *live_status(struct live *live, const struct device_list *devices,
			  struct live_status *ret)
{
	struct live_status s = { .meta = &live->meta, .rules = live->rules };
	static const enum pin_map outer[] = { MAP_HISTS, MAP_RETIRED, MAP_BASELINES };
	cleanup(slots_deinit) struct slots slots = {};
	__u32 ready[RULES_MAX * POOL_PLACES];
	uint64_t bytes;

	for (enum pin_map map = 0; map < MAP_NR; map++) {
		try(map_memory(live->maps[map], &bytes));
		s.memory += bytes;
	}
	for (size_t i = 0; i < ARRAY_SIZE(outer); i++)
		try(inner_memory(live, outer[i], &s.memory));
	for (enum pin_prog prog = 0; prog < PROG_NR; prog++)
		try(point_status(live, prog, &s));
	try(count_keys(live->maps[MAP_REGION_IDS], sizeof(__u64), &s.regions));
	try(slots_read(live, &slots));
	s.partitions = slots.n;
	s.exhausted = live->exhausted;
	for (unsigned int i = 0; i < slots.n; i++)
		s.gone += !part_exists(&slots.slot[i].part, devices);
	try(pool_read_ready(live, ready));
	for (unsigned int key = 0; key < ARRAY_SIZE(ready); key++) {
		s.ready[key / POOL_PLACES] += ready[key] != 0;
		s.spare += ready[key] != 0;
	}
	*ret = s;
	return NULL;
}
