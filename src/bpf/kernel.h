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

#include "../abi/recorder.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct kobject {
	struct kobject *parent;
	struct kernfs_node *sd;
};

struct device {
	struct kobject kobj;
	__u32 devt;
};

typedef struct {
	int counter;
} atomic_t;

struct gendisk;

struct block_device {
	__u64 bd_start_sect;
	__u32 bd_dev;
	struct gendisk *bd_disk;
	struct device bd_device;
	atomic_t __bd_flags;
};

struct block_device___partno {
	__u8 bd_partno;
};

/* Partitions, and the whole disk's part0, until 5.10; then they became block_device. */
struct hd_struct {
	__u64 start_sect;
	struct device __dev;
	int partno;
};

struct request_queue;

struct gendisk {
	int major;
	int first_minor;
	char disk_name[DISK_NAME_LEN];
	struct block_device *part0;
	struct request_queue *queue;
	__u64 diskseq;
};

struct gendisk___hd {
	struct hd_struct part0;
};

struct queue_limits {
	__u32 features;
};

struct blk_mq_ops;

struct request_queue {
	const struct blk_mq_ops *mq_ops;
	struct gendisk *disk;
	unsigned long queue_flags;
	struct queue_limits limits;
	int id;
};

struct request_queue___kobj {
	struct kobject kobj;
};

struct blk_mq_hw_ctx {
	unsigned int queue_num;
};

struct bvec_iter {
	__u64 bi_sector;
	unsigned int bi_size;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	__u8 bi_status;
	struct bvec_iter bi_iter;
	void *bi_private;
	struct blkcg_gq *bi_blkg;
};

struct bio___disk {
	struct gendisk *bi_disk;
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

struct request___disk {
	struct gendisk *rq_disk;
};

#pragma clang attribute pop

#endif
