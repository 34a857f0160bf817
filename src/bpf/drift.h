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

/*
 * Enumerators without a named enum, or macros in older kernels: user space looks them up in BTF and
 * sets them before loading (src/sources/kernel.c).
 */
const volatile __u32 queue_flag_stats_bit;
const volatile __u32 rqf_flush_seq_bit;

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
	return q->queue_flags & (1ul << queue_flag_stats_bit);
}

#endif
