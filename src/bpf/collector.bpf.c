// SPDX-License-Identifier: GPL-2.0-only
/*
 * The collector: block tracepoints in, counters in pinned maps out. Counters only ever rise.
 *
 *	block_rq_issue		stamp the request's slot, take the seek distance
 *	block_rq_complete	count request, service and queue time by size, and seek distance
 *	block_rq_requeue	count
 *
 * and for devices without requests (dm, md, zram ...), whose bios are all that can be seen:
 *
 *	block_bio_queue		remember the bio, take the seek distance
 *	block_bio_complete	count request time by size, and seek distance
 *	block_split		count: the kernel's own counters may have the pieces
 *
 * A request is known by its slot, indexed by queue, hardware queue and tag: no allocation, no hash
 * per request, nothing that could leak. A block device is known by its sysfs node and diskseq.
 * Both are found through small tables of hints: a hint is one word and may be wrong; the record
 * that it names tells, so a torn or stale hint costs a slow look-up, never a wrong count.
 *
 * All counters are added to atomically: a completion may interrupt another on the same CPU.
 * src/abi/abi.h describes every map; docs/design.md says why it is so.
 */
#include "drift.h"

#include <bpf/bpf_tracing.h>

#include "requests.h"
#include "rules.h"

char LICENSE[] SEC("license") = "GPL";

/* max_entries of 1 are set by user space before loading, to fit the machine. */
struct hist_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct hist_block));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct hist_map);
} hists SEC(".maps");

/* As hists, for user space only: a generation that `buckets` has replaced and not yet carried. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct hist_map);
} retired SEC(".maps");

/* For user space only: what `reset` subtracts; blocks without stripes. */
struct baseline_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_INNER_MAP);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct hist_block));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct baseline_map);
} baselines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct part_key);
	__type(value, __u32);
} part_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} heads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* puts it on page, and so on line, boundaries */
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct bio_slot);
} bios SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GLOBAL_LOSS_NR);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

/*
 * CLOCK_MONOTONIC when all programs were attached, set by user space then. Requests that had
 * started before may have been issued before.
 */
__u64 attached_ns SEC(".data.attached") = ~0ull;

/*
 * Tables of fixed size are global arrays, which the kernel reaches without a look-up; each section
 * is a map of its own.
 */
struct part parts[BLKHIST_MAX_PARTITIONS] SEC(".data.parts");

/* The last two are for user space only. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct meta);
} meta SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct diskstats_base);
} diskstats SEC(".maps");

static __noinline void count_loss(__u32 class)
{
	__u64 *n = bpf_map_lookup_elem(&losses, &class);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* --- block devices --- */

/*
 * Finds or creates the counters of a block device seen for the first time. 0 if there are none;
 * PART_IGNORED if there are to be none.
 */
static __noinline __u32 part_find_slow(struct gendisk *disk, struct part_key *key, __u32 partno)
{
	__u32 *known, id, rule, place = 0, none = 0;
	struct part *part;

	known = bpf_map_lookup_elem(&part_ids, key);
	if (known)
		return *known;
	if (!key->sysfs_id) /* it is being removed */
		return 0;
	rule = rule_find(disk);
	if (rule_ignores(rule)) {
		id = PART_IGNORED;
		bpf_map_update_elem(&part_ids, key, &id, BPF_NOEXIST);
		return PART_IGNORED;
	}
	id = pool_pop(rule, &place);
	if (!id)
		return 0;
	part = &parts[id & (BLKHIST_MAX_PARTITIONS - 1)];
	part->disk_sysfs_id = bdev_sysfs_id(disk_bdev(disk));
	part->partno = partno;
	bpf_core_read(part->disk, sizeof(part->disk), &disk->disk_name);
	part->key = *key;
	if (!bpf_map_update_elem(&part_ids, key, &id, BPF_NOEXIST))
		return id;

	/* Another CPU was faster: give the index back. */
	__builtin_memset(part, 0, sizeof(*part));
	bpf_map_update_elem(&part_pool, &place, &id, BPF_NOEXIST);
	known = bpf_map_lookup_elem(&part_ids, key);
	return known ? *known : none;
}

/* The index of the counters of a block device, which are created at need; 0 if there are none. */
static __always_inline __u32 part_find(struct gendisk *disk, bdev_t bdev, __u64 diskseq)
{
	struct part_key key = { .sysfs_id = bdev_sysfs_id(bdev), .diskseq = diskseq };
	__u32 *hint = &hints.part[hash(key.sysfs_id) & (PART_HINTS - 1)];
	__u32 id = *hint & (BLKHIST_MAX_PARTITIONS - 1);

	if (likely(parts[id].key.sysfs_id == key.sysfs_id && parts[id].key.diskseq == diskseq))
		return id;
	id = part_find_slow(disk, &key, bdev_partno(bdev));
	*hint = id;
	return id;
}

static __always_inline __u32 request_part(struct request *rq)
{
	struct gendisk *disk = request_disk(rq);

	return part_find(disk, request_bdev(rq, disk), disk_seq(disk));
}

/* --- request slots --- */

static __always_inline struct slot *slot_at(__u32 region, __u32 tag)
{
	__u32 at = (region << REGION_SHIFT) | (tag & (REGION_SLOTS - 1));

	return likely(region) ? bpf_map_lookup_elem(&slots, &at) : NULL;
}

static __always_inline struct slot *slot_find(struct request *rq)
{
	__u32 tag = request_tag(rq);

	return slot_at(region_find(rq->q->id, rq->mq_hctx->queue_num, tag >> REGION_SHIFT), tag);
}

/* --- histograms --- */

/* 1 if bound @i of @row lies below @v, else 0, without a branch. */
#define BELOW(row, i, v) ((__u64)((row)->cell[i] - (v)) >> 63)

/*
 * The number of bounds below @v among the 64 that start at @at: the bucket, as bounds are
 * inclusive. Free of branches, so that the verifier sees one path and the CPU guesses nothing; four
 * ways at a time, as it is the chain of dependent loads that costs.
 */
static __always_inline __u32 bucket_of_64(const struct hist_row *bounds, __u32 at, __s64 v)
{
	at += (BELOW(bounds, at + 15, v) + BELOW(bounds, at + 31, v) + BELOW(bounds, at + 47, v))
	      << 4;
	at += (BELOW(bounds, at + 3, v) + BELOW(bounds, at + 7, v) + BELOW(bounds, at + 11, v))
	      << 2;
	return at + BELOW(bounds, at, v) + BELOW(bounds, at + 1, v) + BELOW(bounds, at + 2, v) +
	       BELOW(bounds, at + 3, v);
}

static __always_inline __u32 bucket_time(const struct hist_row *bounds, __u64 ns)
{
	_Static_assert(TIME_BOUNDS_MAX == 128, "two halves of 64");
	return bucket_of_64(bounds, BELOW(bounds, 63, ns) << 6, ns);
}

static __always_inline __u32 bucket_seek(const struct hist_row *bounds, __s64 distance)
{
	_Static_assert(SEEK_BOUNDS_MAX == 129, "64, the middle one, 64");
	return bucket_of_64(bounds, BELOW(bounds, 64, distance) * 65, distance);
}

static __always_inline __u32 bucket_size(const struct hist_row *hdr, __u64 len)
{
	__u32 at = HDR_SIZE_BOUNDS;

	_Static_assert(SIZE_BOUNDS_MAX == 16, "twice four ways");
	at += (BELOW(hdr, at + 3, len) + BELOW(hdr, at + 7, len) + BELOW(hdr, at + 11, len)) << 2;
	at += BELOW(hdr, at, len) + BELOW(hdr, at + 1, len) + BELOW(hdr, at + 2, len) +
	      BELOW(hdr, at + 3, len);
	return at - HDR_SIZE_BOUNDS;
}

static __always_inline struct hist_block *block_at(void *hist, __u32 index)
{
	return bpf_map_lookup_elem(hist, &index);
}

static __always_inline void row_add(struct hist_row *row, __u32 bucket, __u64 value)
{
	__sync_fetch_and_add(&row->cell[bucket], 1);
	__sync_fetch_and_add(&row->cell[ROW_SUM], value);
}

static __always_inline __u32 stripe_of(const struct hist_row *hdr)
{
	__u32 stripe = bpf_get_smp_processor_id() & (hdr->cell[HDR_STRIPES] - 1);

	return hdr->cell[HDR_FIRST_STRIPE] + stripe * hdr->cell[HDR_STRIPE_BLOCKS];
}

static __noinline void count_part_loss(__u32 part, __u32 class, __u32 op)
{
	void *hist = bpf_map_lookup_elem(&hists, &part);
	struct hist_block *block = hist ? block_at(hist, BLOCK_HEADER) : NULL;

	if (!hist && class == LOSS_UNSEEN) /* the others are counted when the request ends */
		count_loss(LOSS_NO_PART);
	block = block ? block_at(hist, stripe_of(&block->row[ROW_HEADER])) : NULL;
	if (block && class < PART_LOSS_NR && op < OP_NR)
		__sync_fetch_and_add(&block->row[ROW_LOSSES].cell[class * OP_NR + op], 1);
}

#define BIOS_PER_REQUEST 256

/* --- programs --- */

/*
 * The distance from the end of what was sent before to the same head, whose end this sets. It is
 * counted at completion, where the counters are at hand anyway.
 */
static __always_inline __s64 seek_distance(__u32 region, __u64 disk_tag, __u64 sector, __u32 bytes)
{
	__u64 *head = bpf_map_lookup_elem(&heads, &region);
	__u64 end = sector + (bytes >> 9) + 1, last;

	if (!head)
		return SEEK_NONE;
	last = exchange(head, disk_tag << HEAD_SECTOR_BITS | (end & HEAD_SECTOR_MASK));
	if (!last || (last ^ disk_tag << HEAD_SECTOR_BITS) >> HEAD_SECTOR_BITS)
		return SEEK_NONE;
	return sector - ((last & HEAD_SECTOR_MASK) - 1);
}

/* Whether the slot holds this request: it has been issued, and has not completed or been requeued. */
static __always_inline bool slot_holds(const struct slot *slot, const struct request *rq)
{
	return slot && slot->issue_ns && slot->start == rq->start_time_ns;
}

static __always_inline int issue(struct request *rq, __u64 now)
{
	__u32 op = rq->cmd_flags & REQ_OP_MASK;
	struct request_queue *q = rq->q;
	__u32 tag, part, region, hctx, head_hctx;
	struct gendisk *disk;
	struct slot *slot;
	__u64 diskseq;

	if (unlikely(op_is_passthrough(op)))
		return 0;
	if (settings.stamp_mode == STAMP_KERNEL)
		now = kernel_stamps_issue(q) ? ISSUE_BY_KERNEL : bpf_ktime_get_ns();
	disk = request_disk(rq);
	diskseq = disk_seq(disk);
	part = part_find(disk, request_bdev(rq, disk), diskseq);
	if (unlikely(part == PART_IGNORED))
		return 0;

	tag = request_tag(rq);
	hctx = rq->mq_hctx->queue_num;
	region = region_find(q->id, hctx, tag >> REGION_SHIFT);
	slot = slot_at(region, tag);
	if (unlikely(!slot)) {
		count_loss(LOSS_NO_SLOT);
		return 0;
	}
	op = op_group(op);
	if (slot->start != rq->start_time_ns) {
		if (unlikely(slot->issue_ns))
			count_part_loss(slot->part, LOSS_UNSEEN, slot->op);
		else if (unlikely(slot->bytes && op != OP_FLUSH)) /* the end of a flush sequence */
			count_part_loss(slot->part, LOSS_UNSEEN, OP_WRITE);
		slot->start = rq->start_time_ns;
		/* A flush runs on the slot of the request that it serves, and may follow its data. */
		if (op != OP_FLUSH)
			slot->bytes = 0;
	}
	slot->issue_ns = now;
	slot->part = part;
	slot->op = op;
	slot->seek = SEEK_NONE;
	if (unlikely(op == OP_FLUSH)) /* it has no sector */
		return 0;
	head_hctx = queue_is_rotational(q) ? 0 : hctx;
	if (head_hctx != hctx || tag >> REGION_SHIFT)
		region = region_find(q->id, head_hctx, 0);
	slot->seek = seek_distance(region, disk_tag(disk), rq->__sector, rq->__data_len);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	/* First of all: nothing that follows is part of the queue time, and it overlaps with it. */
	return issue(rq, settings.stamp_mode == STAMP_OWN ? bpf_ktime_get_ns() : 0);
}

/*
 * Newer kernels (since 6.2) skip a program that would run twice at once on a CPU: in an interrupt
 * on top of itself, and since tracepoints can be preempted (7.0, a46023d5616e) also in a task on
 * top of another. This second program is attached behind the first one where they can be;
 * interrupts issue too few requests to pay for it. It finds the slot not occupied only if the first
 * was skipped.
 */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue_nested, struct request *rq)
{
	struct slot *slot;

	if (op_is_passthrough(rq->cmd_flags & REQ_OP_MASK))
		return 0;
	slot = slot_find(rq);
	if (!slot || slot_holds(slot, rq) || request_part(rq) == PART_IGNORED)
		return 0;
	count_loss(LOSS_RECOVERED);
	return issue(rq, bpf_ktime_get_ns());
}

#define ALL_KINDS ((1u << KIND_NR) - 1)

struct completion {
	__u64 ns[KIND_TIMED];
	__s64 seek;
	__u32 kinds; /* bit per kind that is to be counted now */
	__u32 part, op, len;
	__u32 bytes; /* len, at the one completion that ends the request; else 0 */
};

/* A loop over the kinds, as code that runs once per I/O is fetched from far: less of it is faster. */
static __always_inline void count_completion(const struct completion *c)
{
	__u32 part = c->part, n_rows, kinds, stripe;
	struct hist_block *hdr, *block;
	const __u64 *header;
	void *hist;

	hist = bpf_map_lookup_elem(&hists, &part);
	if (unlikely(!hist)) {
		count_loss(LOSS_NO_PART);
		return;
	}
	hdr = block_at(hist, BLOCK_HEADER);
	if (!hdr)
		return;
	header = hdr->row[ROW_HEADER].cell;
	n_rows = header[HDR_N_SIZE] + 1;
	kinds = c->kinds & header[HDR_KINDS];
	stripe = stripe_of(&hdr->row[ROW_HEADER]);
	block = block_at(hist, hist_block_index(c->op, bucket_size(&hdr->row[ROW_HEADER], c->len),
						n_rows, stripe));
	if (!block)
		return;
#pragma clang loop unroll(disable)
	for (__u32 kind = 0; kind < KIND_TIMED; kind++)
		if (kinds & (1u << kind))
			row_add(&block->row[kind],
				bucket_time(&hdr->row[ROW_TIME_BOUNDS], c->ns[kind]), c->ns[kind]);
	__sync_fetch_and_add(&block->row[KIND_REQUEST].cell[ROW_BYTES], c->bytes);
	if (!(kinds & (1u << KIND_SEEK)) || c->seek == SEEK_NONE)
		return;
	block = block_at(hist, stripe);
	if (block)
		row_add(&block->row[ROW_SEEK], bucket_seek(&hdr->row[ROW_SEEK_BOUNDS], c->seek),
			c->seek);
}

/* A partial completion ends nothing: the rest comes back, whether it is issued again or not. */
static __noinline int complete_partial(struct request *rq, struct slot *slot, __u32 nr_bytes)
{
	if (!slot_holds(slot, rq))
		return 0;
	slot->bytes += nr_bytes;
	count_part_loss(slot->part, LOSS_PARTIAL, op_group(rq->cmd_flags & REQ_OP_MASK));
	return 0;
}

/*
 * The completion of a request that has no issue stamp. Returns the class of loss; PART_LOSS_NR for
 * the end of a flush sequence, whose data was counted when the device had written it.
 */
static __always_inline __u32 unissued(struct request *rq, struct slot *slot, struct completion *c)
{
	c->part = request_part(rq);
	/* The flags that asked for the sequence are gone by now; nothing else writes no bytes. */
	if (!rq->__data_len && c->op == OP_WRITE) {
		if (!slot || slot->issue_ns || !slot->bytes)
			return LOSS_UNISSUED;
		c->len = slot->bytes;
		slot->bytes = 0;
		return PART_LOSS_NR;
	}
	return rq->start_time_ns < attached_ns ? LOSS_EARLY : LOSS_NO_ISSUE;
}

/* Whatever is not the plain completion of a plain request. */
static __noinline int complete_rare(struct request *rq, struct slot *slot, __u64 now)
{
	__u64 start = rq->start_time_ns, issue = 0;
	struct completion c = {
		.op = op_group(rq->cmd_flags & REQ_OP_MASK),
		.len = rq->__data_len,
		.kinds = ALL_KINDS,
		.seek = SEEK_NONE,
	};
	__u32 loss = PART_LOSS_NR;
	bool ends = true;

	if (slot_holds(slot, rq)) {
		issue = slot->issue_ns;
		if (issue == ISSUE_BY_KERNEL)
			issue = rq->io_start_time_ns;
		slot->issue_ns = 0;
		c.part = slot->part;
		c.seek = slot->seek;
		if (c.op != OP_FLUSH) {
			c.len += slot->bytes;
			slot->bytes = 0;
		}
		/*
		 * The data of a write in a flush sequence: the device is done with it, but the
		 * request ends only after the flush that may follow.
		 */
		if (rq->rq_flags & (1u << settings.rqf_flush_seq_bit) && c.op != OP_FLUSH) {
			slot->bytes = c.len;
			c.kinds &= ~(1u << KIND_REQUEST);
			ends = false;
		}
		if (!issue)
			loss = LOSS_NO_ISSUE;
		else if (issue > now || (start && issue < start))
			loss = LOSS_NEGATIVE;
	} else {
		loss = unissued(rq, slot, &c);
		if (c.part == PART_IGNORED)
			return 0;
		c.kinds = 1u << KIND_REQUEST;
	}
	if (loss != PART_LOSS_NR) {
		count_part_loss(c.part, loss, c.op);
		c.kinds &= 1u << KIND_REQUEST | 1u << KIND_SEEK;
	}
	if (c.kinds & 1u << KIND_REQUEST && (!start || start > now)) {
		/* Without accounting (queue/iostats 0) the kernel may set no start stamp. */
		count_part_loss(c.part, LOSS_NO_START, c.op);
		c.kinds &= 1u << KIND_SERVICE | 1u << KIND_SEEK;
	}
	if (!start)
		c.kinds &= ~(1u << KIND_QUEUE);
	c.ns[KIND_REQUEST] = now - start;
	c.ns[KIND_SERVICE] = now - issue;
	c.ns[KIND_QUEUE] = issue - start;
	c.bytes = ends ? c.len : 0;
	if (ends || c.part) /* what has no counters is lost once */
		count_completion(&c);
	return 0;
}

/*
 * A driver's command. The kernel sets rq->part if it accounts it all the same: old ones (5.10) do
 * so with those of a disk, and since 6.13 queue/iostats_passthrough can ask for it.
 */
static __noinline int complete_passthrough(struct request *rq, __u32 nr_bytes)
{
	__u32 part;

	count_loss(LOSS_PASSTHROUGH);
	if (!rq->part || nr_bytes < rq->__data_len)
		return 0;
	part = request_part(rq);
	if (part != PART_IGNORED) /* the last bit says which way; they are not in op_group() */
		count_part_loss(part, LOSS_ACCOUNTED, rq->cmd_flags & 1 ? OP_WRITE : OP_READ);
	return 0;
}

static __always_inline int complete(struct request *rq, __u32 nr_bytes, __u64 now)
{
	__u32 op = rq->cmd_flags & REQ_OP_MASK;
	__u64 start = rq->start_time_ns, issue;
	struct completion c;
	struct slot *slot;

	if (unlikely(op_is_passthrough(op)))
		return complete_passthrough(rq, nr_bytes);
	c.len = rq->__data_len;
	slot = slot_find(rq);
	if (unlikely(nr_bytes < c.len))
		return complete_partial(rq, slot, nr_bytes);
	if (unlikely(!slot))
		return complete_rare(rq, slot, now);
	issue = slot->issue_ns;
	if (settings.stamp_mode == STAMP_KERNEL && issue == ISSUE_BY_KERNEL)
		issue = rq->io_start_time_ns;
	/* One branch for all that is rare; without an issue stamp, issue < start. */
	if (unlikely((rq->rq_flags & (1u << settings.rqf_flush_seq_bit)) | slot->bytes | !start |
		     (slot->start != start) | (issue < start) | (issue > now)))
		return complete_rare(rq, slot, now);
	slot->issue_ns = 0;

	c.op = op_group(op);
	c.part = slot->part;
	c.bytes = c.len;
	c.kinds = ALL_KINDS;
	c.seek = slot->seek;
	c.ns[KIND_REQUEST] = now - start;
	c.ns[KIND_SERVICE] = now - issue;
	c.ns[KIND_QUEUE] = issue - start;
	count_completion(&c);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	return complete(rq, nr_bytes, bpf_ktime_get_ns());
}

/* As block_rq_issue_nested: it finds the slot still occupied only if the first one was skipped. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete_nested, struct request *rq, int error, unsigned int nr_bytes)
{
	struct slot *slot;

	if (op_is_passthrough(rq->cmd_flags & REQ_OP_MASK) || nr_bytes < rq->__data_len)
		return 0;
	slot = slot_find(rq);
	if (!slot_holds(slot, rq))
		return 0;
	count_loss(LOSS_RECOVERED);
	return complete(rq, nr_bytes, bpf_ktime_get_ns());
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(block_rq_requeue, struct request *rq)
{
	__u32 op = rq->cmd_flags & REQ_OP_MASK;
	struct slot *slot;

	if (op_is_passthrough(op))
		return 0;
	count_part_loss(request_part(rq), LOSS_REQUEUE, op_group(op));
	/* It is not at the device any more; merged meanwhile, it may even get another start. */
	slot = slot_find(rq);
	if (slot_holds(slot, rq))
		slot->issue_ns = 0;
	return 0;
}

/* --- devices without requests --- */

/*
 * A flush without data is a flush. The kernel counts it as a write; with requests it is both, an
 * empty write and a flush request, here there is only the one bio.
 */
static __always_inline __u32 bio_op(const struct bio *bio)
{
	if (unlikely(bio->bi_opf & REQ_PREFLUSH && !bio->bi_iter.bi_size))
		return OP_FLUSH;
	return op_group(bio->bi_opf & REQ_OP_MASK);
}

/* Runs for the bios of all devices, once for each, however often it is split or sent on. */
static __noinline int bio_queue(struct bio *bio)
{
	__u64 key = (__u64)bio, diskseq;
	struct gendisk *disk = bio_disk(bio);
	struct request_queue *q = disk->queue;
	struct bio_slot slot, *old;
	__u32 part;

	if (q->mq_ops)
		return 0;
	diskseq = disk_seq(disk);
	part = part_find(disk, bio_bdev(bio), diskseq);
	if (unlikely(part == PART_IGNORED))
		return 0;
	slot.part = part;
	slot.op = bio_op(bio);
	slot.bytes = bio->bi_iter.bi_size;
	slot.owner = (__u64)bio->bi_private;
	slot.seek = SEEK_NONE;
	if (slot.op != OP_FLUSH)
		slot.seek = seek_distance(region_find(q->id, 0, 0), disk_tag(disk),
					  bio->bi_iter.bi_sector, slot.bytes);
	slot.start_ns = bpf_ktime_get_ns();
	if (likely(!bpf_map_update_elem(&bios, &key, &slot, BPF_NOEXIST)))
		return 0;
	old = bpf_map_lookup_elem(&bios, &key);
	if (old)
		count_part_loss(old->part, LOSS_UNSEEN, old->op);
	if (!old || bpf_map_update_elem(&bios, &key, &slot, BPF_ANY))
		count_loss(LOSS_NO_SLOT);
	return 0;
}

SEC("tp_btf/block_bio_queue")
int block_bio_queue(const __u64 *ctx)
{
	return bio_queue(bio_argument(ctx));
}

/* As block_rq_issue_nested. */
SEC("tp_btf/block_bio_queue")
int block_bio_queue_nested(const __u64 *ctx)
{
	struct bio *bio = bio_argument(ctx);
	__u64 key = (__u64)bio;
	struct bio_slot *slot;
	struct gendisk *disk = bio_disk(bio);

	if (disk->queue->mq_ops)
		return 0;
	slot = bpf_map_lookup_elem(&bios, &key);
	if (slot && slot->owner == (__u64)bio->bi_private)
		return 0;
	if (part_find(disk, bio_bdev(bio), disk_seq(disk)) == PART_IGNORED)
		return 0;
	count_loss(LOSS_RECOVERED);
	return bio_queue(bio);
}

/*
 * Counts the bio if it is one of ours; it may have been sent on to another device meanwhile (NVMe
 * multipath, md), so its slot alone tells.
 */
static __always_inline bool bio_complete(__u64 key, __u64 owner)
{
	struct bio_slot *slot = bpf_map_lookup_elem(&bios, &key);
	struct completion c = {
		.kinds = 1u << KIND_REQUEST | 1u << KIND_SEEK,
	};

	if (!slot || slot->owner != owner)
		return false;
	c.part = slot->part;
	c.op = slot->op;
	c.len = c.bytes = slot->bytes;
	c.seek = slot->seek;
	c.ns[KIND_REQUEST] = bpf_ktime_get_ns() - slot->start_ns;
	if (!bpf_map_delete_elem(&bios, &key))
		count_completion(&c);
	return true;
}

/*
 * A bio that is not known: the front of a known one, split off, which ends nothing and whose
 * bi_private is that bio; or one that was submitted before there was a collector.
 */
static __noinline int bio_unknown(struct bio *bio)
{
	__u64 whole = (__u64)bio->bi_private;
	struct gendisk *disk = bio_disk(bio);
	__u32 part;

	if (disk->queue->mq_ops || bpf_map_lookup_elem(&bios, &whole))
		return 0;
	part = part_find(disk, bio_bdev(bio), disk_seq(disk));
	if (part == PART_IGNORED)
		return 0;
	if (part)
		count_part_loss(part, LOSS_EARLY, bio_op(bio));
	else
		count_loss(LOSS_NO_PART);
	return 0;
}

SEC("tp_btf/block_bio_complete")
int BPF_PROG(block_bio_complete, struct request_queue *q, struct bio *bio)
{
	if (bio_complete((__u64)bio, (__u64)bio->bi_private))
		return 0;
	return bio_unknown(bio);
}

/* As block_rq_complete_nested. */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(block_bio_complete_nested, struct request_queue *q, struct bio *bio)
{
	if (bio_complete((__u64)bio, (__u64)bio->bi_private))
		count_loss(LOSS_RECOVERED);
	return 0;
}

static __noinline int bio_split(struct bio *bio)
{
	struct gendisk *disk = bio_disk(bio);
	__u32 part;

	if (disk->queue->mq_ops)
		return 0;
	part = part_find(disk, bio_bdev(bio), disk_seq(disk));
	if (part != PART_IGNORED)
		count_part_loss(part, LOSS_SPLIT, bio_op(bio));
	return 0;
}

SEC("tp_btf/block_split")
int block_split(const __u64 *ctx)
{
	return bio_split(bio_argument(ctx));
}

/* A global function: the verifier looks at it once, however often it is called. */
__attribute__((noinline)) int bio_complete_one(__u64 key, __u64 owner)
{
	return bio_complete(key, owner);
}

/*
 * The completion of a bio that was sent on to a disk with requests as it was, not as a clone, is
 * not traced: that of the request is. NVMe multipath does so and marks the requests; md did for
 * some levels before it began to keep statistics by clones.
 */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete_bios, struct request *rq, int error, unsigned int nr_bytes)
{
	struct bio *bio;

	if (!settings.bios_in_place && !(rq->cmd_flags & REQ_DRV))
		return 0;
	if (nr_bytes < rq->__data_len)
		return 0;
	/* Read as numbers, since a global function takes no pointers. */
	bpf_core_read(&bio, sizeof(bio), &rq->bio);
	for (int i = 0; i < BIOS_PER_REQUEST && bio; i++) {
		bio_complete_one((__u64)bio, (__u64)BPF_CORE_READ(bio, bi_private));
		bio = BPF_CORE_READ(bio, bi_next);
	}
	return 0;
}
