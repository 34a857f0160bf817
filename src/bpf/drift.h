/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where kernels differ, one function per difference. What is there is found by field or by name in
 * BTF, never by version; releases are named for the reader only.
 */
#ifndef BLKHIST_BPF_DRIFT_H
#define BLKHIST_BPF_DRIFT_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* Set by user space before loading: what it has found in BTF, and how to work. */
const volatile struct collector_settings settings SEC(".rodata.settings");

/* The driver's commands (SCSI_IN and SCSI_OUT, 32 and 33, ended in 5.16; DRV_IN and DRV_OUT). */
static __always_inline bool op_is_passthrough(__u32 op)
{
	return op >= 32 && op <= 35;
}

/* Since 6.11 (bd4a633b6f7c) the queue limits say "rotational"; before, a flag said the contrary. */
static __always_inline bool queue_is_rotational(struct request_queue *q)
{
	if (bpf_core_field_exists(q->limits.features))
		return q->limits.features & (1u << 2); /* BLK_FEAT_ROTATIONAL */
	return !(q->queue_flags & (1ul << 6));         /* QUEUE_FLAG_NONROT */
}

/* Disks have a sequence number since 5.15 (cf179948554a). */
static __always_inline __u64 disk_seq(struct gendisk *disk)
{
	if (bpf_core_field_exists(disk->diskseq))
		return disk->diskseq;
	return 0;
}

/*
 * Whether the kernel sets rq->io_start_time_ns at the issue of a request, right after
 * block_rq_issue: not with every disk, and user space decides whether it may be used at all.
 */
static __always_inline bool kernel_stamps_issue(struct request_queue *q)
{
	return q->queue_flags & (1ul << settings.queue_flag_stats_bit);
}

/*
 * A block device, that is, a partition or a whole disk: a struct block_device, or until 5.10 a
 * struct hd_struct (0d02129e76ed merged them in 5.11).
 */
typedef const void *bdev_t;

#define HAS_HD_STRUCT bpf_core_type_exists(struct hd_struct)

static __always_inline __u64 bdev_sysfs_id(bdev_t bdev)
{
	if (HAS_HD_STRUCT)
		return ((const struct hd_struct *)bdev)->__dev.kobj.sd->id;
	return ((const struct block_device *)bdev)->bd_device.kobj.sd->id;
}

/* 0 for a whole disk. The number moved into __bd_flags later (1116b9fa15c0). */
static __always_inline __u32 bdev_partno(bdev_t bdev)
{
	const struct block_device___partno *old = bdev;

	if (HAS_HD_STRUCT)
		return ((const struct hd_struct *)bdev)->partno;
	if (bpf_core_field_exists(old->bd_partno))
		return old->bd_partno;
	return ((const struct block_device *)bdev)->__bd_flags.counter & 0xff;
}

/* Its number, and its first sector; a whole disk's begins at 0. */
static __always_inline __u32 bdev_devt(bdev_t bdev)
{
	if (HAS_HD_STRUCT)
		return ((const struct hd_struct *)bdev)->__dev.devt;
	return ((const struct block_device *)bdev)->bd_dev;
}

static __always_inline __u64 bdev_start(bdev_t bdev)
{
	if (HAS_HD_STRUCT)
		return ((const struct hd_struct *)bdev)->start_sect;
	return ((const struct block_device *)bdev)->bd_start_sect;
}

static __always_inline bdev_t disk_bdev(struct gendisk *disk)
{
	if (HAS_HD_STRUCT)
		return &((struct gendisk___hd *)disk)->part0;
	return disk->part0;
}

/* The number of a whole disk, major << 20 | minor. */
static __always_inline __u32 disk_devt(struct gendisk *disk)
{
	return disk->major << 20 | disk->first_minor;
}

/* Likewise of a queue's disk; 0 if it has none. Before 5.15 it is found as the queue's parent in
 * sysfs. */
static __always_inline __u32 queue_devt(struct request_queue *q)
{
	struct request_queue___kobj *old = (void *)q;
	struct kobject *disk;

	if (bpf_core_field_exists(q->disk))
		return q->disk ? disk_devt(q->disk) : 0;
	disk = old->kobj.parent;
	/* It is the first member of the device. */
	return disk ? BPF_CORE_READ((struct device *)disk, devt) : 0;
}

/* Tells apart the disks that a queue's id has been used for, by its low bits. */
static __always_inline __u64 disk_tag(struct gendisk *disk)
{
	if (bpf_core_field_exists(disk->diskseq))
		return disk->diskseq;
	return bdev_sysfs_id(disk_bdev(disk));
}

/* Queues know their disk since 5.15 (d152c682f03c); requests did until 5.16. */
static __always_inline struct gendisk *request_disk(struct request *rq)
{
	struct request___disk *old = (void *)rq;

	if (bpf_core_field_exists(old->rq_disk))
		return old->rq_disk;
	return rq->q->disk;
}

/* Bios know their partition since 5.12 (309dca309fc3); before, a partition's bio is the disk's. */
static __always_inline bdev_t bio_bdev(struct bio *bio)
{
	if (bpf_core_field_exists(bio->bi_bdev))
		return bio->bi_bdev;
	return disk_bdev(((struct bio___disk *)bio)->bi_disk);
}

/* Whether bio_bdev() tells partitions. */
#define BIOS_KNOW_PARTITION bpf_core_field_exists(((struct bio *)0)->bi_bdev)

static __always_inline struct gendisk *bio_disk(struct bio *bio)
{
	if (bpf_core_field_exists(bio->bi_bdev))
		return bio->bi_bdev->bd_disk;
	return ((struct bio___disk *)bio)->bi_disk;
}

/*
 * An argument of a tracepoint. In assembly, as the compiler would add to the pointer, which the
 * verifier refuses; which one it is must be known when the program is loaded.
 */
static __always_inline void *argument(const __u64 *ctx, __u32 at)
{
	void *p;

	if (at == 3)
		asm volatile("%0 = *(u64 *)(%1 + 24)" : "=r"(p) : "r"(ctx));
	else if (at == 2)
		asm volatile("%0 = *(u64 *)(%1 + 16)" : "=r"(p) : "r"(ctx));
	else if (at == 1)
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(p) : "r"(ctx));
	else
		asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(p) : "r"(ctx));
	return p;
}

/*
 * The bio that block_bio_queue and block_split are about; the queue came before it until 5.11
 * (a54895fa057c).
 */
static __always_inline struct bio *bio_argument(const __u64 *ctx)
{
	return argument(ctx, settings.queue_first);
}

/*
 * Exchanges the value of a word in one step. BPF can since 5.12 (5ffa25502b5a); before, two CPUs
 * that do this at the same moment may get the same old value.
 */
static __always_inline __u64 exchange(__u64 *word, __u64 value)
{
#ifdef BLKHIST_NO_EXCHANGE
	__u64 old = *(volatile __u64 *)word;

	*(volatile __u64 *)word = value;
	return old;
#else
	return __sync_lock_test_and_set(word, value);
#endif
}

#endif
