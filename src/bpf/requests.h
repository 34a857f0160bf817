/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What both kernel sides, the collector and the recorder, know of requests: operation, block
 * device, and the index of the slot that a request has while it is under way.
 */
#ifndef BLKHIST_BPF_REQUESTS_H
#define BLKHIST_BPF_REQUESTS_H

#include "drift.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

static __always_inline __u32 hash(__u64 key)
{
	return (key * 0x9e3779b97f4a7c15ull) >> 32; /* 2^64 / golden ratio */
}

/* As op_stat_group() of the kernel, with flushes told apart; two bits per REQ_OP_*. */
static __always_inline __u32 op_group(__u32 op)
{
	const __u64 odd = 0x4444444444444444ull; /* OP_WRITE for every odd operation */
	const __u64 groups = (odd & ~(3ull << 4 | 3ull << 6 | 3ull << 10)) |
			     (__u64)OP_FLUSH << 4 |   /* REQ_OP_FLUSH 2 */
			     (__u64)OP_DISCARD << 6 | /* REQ_OP_DISCARD 3 */
			     (__u64)OP_DISCARD << 10; /* REQ_OP_SECURE_ERASE 5 */

	return groups >> ((op & 31) * 2) & 3;
}

#define REQ_OP_MASK 0xff
#define REQ_OP_FLUSH 2
#define REQ_PREFLUSH (1u << settings.req_preflush_bit)
#define REQ_DRV (1u << settings.req_drv_bit)

/*
 * The block device that a request is accounted to. Without accounting (queue/iostats 0) rq->part is
 * NULL and the bio says it; a flush has no bio and belongs to the whole disk.
 */
static __always_inline bdev_t request_bdev(struct request *rq, struct gendisk *disk)
{
	if (rq->part)
		return rq->part;
	if (rq->bio)
		return bio_bdev(rq->bio);
	return disk_bdev(disk);
}

/* --- request slots --- */

/* max_entries of 1 are set by user space before loading, to fit the machine. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} region_ids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} region_pool SEC(".maps");

/* A global array, which the kernel reaches without a look-up; the section is a map of its own. */
struct hints hints SEC(".data.hints");

/* Tags of the scheduler, where there is one, stay with the request for its whole life. */
static __always_inline __u32 request_tag(struct request *rq)
{
	int tag = rq->internal_tag;

	return tag >= 0 ? tag : rq->tag;
}

static __noinline __u32 region_find_slow(__u64 key)
{
	__u32 *known, id;

	known = bpf_map_lookup_elem(&region_ids, &key);
	if (known)
		return *known;
	if (bpf_map_pop_elem(&region_pool, &id))
		return 0;
	if (!bpf_map_update_elem(&region_ids, &key, &id, BPF_NOEXIST))
		return id;

	/* Another CPU was faster: give the index back. */
	bpf_map_push_elem(&region_pool, &id, 0);
	known = bpf_map_lookup_elem(&region_ids, &key);
	return known ? *known : 0;
}

/* The index of a region, which is created at need; 0 if there is none. */
static __always_inline __u32 region_find(__u32 queue_id, __u32 hctx, __u32 block)
{
	__u64 key = REGION_KEY(queue_id, hctx, block);
	__u64 *hint = &hints.region[hash(key) & (REGION_HINTS - 1)];
	__u64 found = *hint;
	__u32 id;

	if (likely(found >> REGION_INDEX_BITS == key))
		return found & ((1u << REGION_INDEX_BITS) - 1);
	if (!REGION_KEY_FITS(queue_id, hctx, block))
		return 0;
	id = region_find_slow(key);
	*hint = id ? key << REGION_INDEX_BITS | id : 0;
	return id;
}

#endif
