/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few kernel structures that the collector reads, by CO-RE: libbpf finds every field in the
 * running kernel's BTF, so only names and kinds matter here, not offsets. Written by hand in place
 * of a generated vmlinux.h: no BTF is needed to build, and a reader sees all that is read.
 */
#ifndef BLKHIST_BPF_KERNEL_H
#define BLKHIST_BPF_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct kobject {
	struct kernfs_node *sd;
};

struct device {
	struct kobject kobj;
};

struct gendisk;

struct block_device {
	struct gendisk *bd_disk;
	__u32 bd_dev;
	struct device bd_device;
};

struct gendisk {
	char disk_name[32];
	struct block_device *part0;
	__u64 diskseq;
};

struct queue_limits {
	__u32 features;
};

struct request_queue {
	struct gendisk *disk;
	unsigned long queue_flags;
	struct queue_limits limits;
	int id;
};

struct blk_mq_hw_ctx {
	unsigned int queue_num;
};

struct bio {
	struct block_device *bi_bdev;
};

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	__u32 cmd_flags;
	__u32 rq_flags;
	int tag;
	int internal_tag;
	unsigned int __data_len;
	__u64 __sector;
	struct bio *bio;
	struct block_device *part;
	__u64 start_time_ns;
	__u64 io_start_time_ns;
};

#pragma clang attribute pop

#endif
