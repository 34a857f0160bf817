// SPDX-License-Identifier: GPL-2.0-only
#include "sources/kernel.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/device.h"
#include "core/util.h"

static void btf_freep(struct btf **btf)
{
	btf__free(*btf);
}

/* The value of an enumerator of any enum, named or not; @fallback for kernels that had a macro. */
static unsigned int enumerator(const struct btf *btf, const char *name, unsigned int fallback)
{
	for (__u32 id = 1; id < btf__type_cnt(btf); id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (!btf_is_enum(t))
			continue;
		for (__u16 i = 0; i < btf_vlen(t); i++)
			if (!strcmp(btf__str_by_offset(btf, btf_enum(t)[i].name_off), name))
				return (unsigned int)btf_enum(t)[i].val;
	}
	return fallback;
}

static bool has_member(const struct btf *btf, const char *name, const char *member)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, (__u32)id) : NULL;

	for (__u16 i = 0; t && i < btf_vlen(t); i++)
		if (!strcmp(btf__str_by_offset(btf, btf_members(t)[i].name_off), member))
			return true;
	return false;
}

/* The number of arguments of a tracepoint; -1 if there is none of that name. */
static int tracepoint_args(const struct btf *btf, const char *tracepoint)
{
	cleanup_free char *name = xasprintf("btf_trace_%s", tracepoint);
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, (__u32)id) : NULL;

	t = t ? btf__type_by_id(btf, t->type) : NULL;                  /* a pointer ... */
	t = t && btf_is_ptr(t) ? btf__type_by_id(btf, t->type) : NULL; /* ... to a function */
	return t && btf_is_func_proto(t) ? btf_vlen(t) - 1 : -1; /* less the private pointer */
}

/* Loads a program of one exchange: nothing in BTF says that BPF has it (since 5.12). */
static bool has_exchange(void)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_STX | BPF_MEM | BPF_DW,
		  .dst_reg = BPF_REG_10,
		  .src_reg = BPF_REG_0,
		  .off = -8 },
		{ .code = BPF_STX | BPF_ATOMIC | BPF_DW,
		  .dst_reg = BPF_REG_10,
		  .src_reg = BPF_REG_0,
		  .off = -8,
		  .imm = BPF_XCHG },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	cleanup_close int fd = bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "blkhist_probe", "GPL",
					     insns, ARRAY_SIZE(insns), NULL);

	return fd >= 0;
}

char *kernel_btf_path(const struct live_paths *paths)
{
	return xasprintf("%s/sys/kernel/btf/vmlinux", paths->root);
}

static bool lockdown_confidentiality(const struct live_paths *paths)
{
	cleanup_free char *path = xasprintf("%s/sys/kernel/security/lockdown", paths->root);
	char text[128];
	struct error *err = sysfs_read(path, text, sizeof(text));

	if (err) {
		error_free(err);
		return false;
	}
	return strstr(text, "[confidentiality]");
}

static bool has_capability(unsigned int cap)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	return !syscall(SYS_capget, &header, data) &&
	       data[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap);
}

struct error *kernel_check_rights(const struct live_paths *paths, const char *doing, bool load)
{
	bool bpf = has_capability(CAP_BPF), perfmon = !load || has_capability(CAP_PERFMON);

	if (lockdown_confidentiality(paths))
		return error_new(
			"the kernel is locked down for confidentiality, so BPF programs may not "
			"read it; boot with lockdown=integrity or without lockdown");
	if ((bpf && perfmon) || has_capability(CAP_SYS_ADMIN))
		return NULL;
	return error_new("cannot %s: the %s missing; run blkhist as root, or with %s", doing,
			 !bpf && !perfmon ? "capabilities CAP_BPF and CAP_PERFMON are" :
			 bpf              ? "capability CAP_PERFMON is" :
					    "capability CAP_BPF is",
			 load ? "both CAP_BPF and CAP_PERFMON" : "CAP_BPF");
}

/* Before 80ee81e0403c (5.11) memory of BPF was charged to the user who created it. */
static bool charges_locked_memory(const struct live_paths *paths)
{
	cleanup_free char *path = kernel_btf_path(paths);
	cleanup(btf_freep) struct btf *btf = btf__parse_raw(path);

	return btf && btf__find_by_name_kind(btf, "bpf_map_charge_init", BTF_KIND_FUNC) > 0;
}

struct error *kernel_explain_refusal(const struct live_paths *paths, struct error *err)
{
	struct rlimit limit;

	if (!err || err->errnum != EPERM || getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY || !charges_locked_memory(paths))
		return err;
	return error_prefix(err,
			    "BPF memory is limited to %llu KiB for this user by RLIMIT_MEMLOCK "
			    "(ulimit -l), which root can raise",
			    (unsigned long long)limit.rlim_cur / 1024);
}

static struct error *btf_open(const struct live_paths *paths, struct btf **ret)
{
	cleanup_free char *path = kernel_btf_path(paths);

	if (access(path, R_OK))
		return error_errno(errno,
				   "cannot read the kernel's type information in %s; it needs "
				   "CONFIG_DEBUG_INFO_BTF",
				   path);
	*ret = btf__parse_raw(path);
	if (!*ret)
		return error_errno(errno, "cannot parse the kernel's type information in %s", path);
	return NULL;
}

struct error *kernel_facts_read(const struct live_paths *paths, struct kernel_facts *ret)
{
	cleanup(btf_freep) struct btf *btf = NULL;
	struct kernel_facts facts = {};
	static const struct {
		const char *name;
		int least, most;
	} points[] = {
		{ "block_rq_issue", 1, 1 },     { "block_rq_complete", 3, 3 },
		{ "block_rq_requeue", 1, 1 },   { "block_bio_queue", 1, 2 },
		{ "block_bio_complete", 2, 2 }, { "block_split", 2, 3 },
	};

	try(btf_open(paths, &btf));
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		int args = tracepoint_args(btf, points[i].name);

		if (args < points[i].least || args > points[i].most)
			return error_new(
				"this kernel is not supported: its tracepoint %s %s; blkhist "
				"needs Linux 5.10.137, 5.11 or newer",
				points[i].name, args < 0 ? "is missing" : "has other arguments");
	}
	/* Macros before 6.11 and 6.12: 20 and 4, in include/linux/blkdev.h and blk-mq.h. */
	facts.queue_flag_stats_bit = enumerator(btf, "QUEUE_FLAG_STATS", 20);
	facts.rqf_flush_seq_bit = enumerator(btf, "__RQF_FLUSH_SEQ", 4);
	facts.req_preflush_bit = enumerator(btf, "__REQ_PREFLUSH", 18);
	facts.req_drv_bit = enumerator(btf, "__REQ_DRV", 25);
	/* Until 5.14 (10764815ff47); the nearest that BTF of the kernel without md can tell. */
	facts.bios_in_place = !has_member(btf, "gendisk", "diskseq");
	facts.queue_first = tracepoint_args(btf, "block_bio_queue") == 2;
	facts.exchange = has_exchange();
	/* 05b24ff9b2cf (6.2), which made this function global, began to skip nested runs. */
	facts.skips_nested =
		btf__find_by_name_kind(btf, "bpf_prog_inc_misses_counter", BTF_KIND_FUNC) > 0;
	/*
	 * a46023d5616e (7.0) put tracepoints under SRCU-fast, which the struct tells of (6.15);
	 * they had another SRCU until 6.12.
	 */
	facts.preemptible = btf__find_by_name_kind(btf, "tracepoint_srcu_srcu_data", BTF_KIND_VAR) >
				    0 &&
			    btf__find_by_name_kind(btf, "srcu_ctr", BTF_KIND_STRUCT) > 0;
	/* 06b23f92af87 (6.9) */
	facts.cached_clock = has_member(btf, "blk_plug", "cur_ktime");
	*ret = facts;
	return NULL;
}

struct collector_settings kernel_settings(const struct kernel_facts *facts)
{
	return (struct collector_settings){
		.queue_flag_stats_bit = facts->queue_flag_stats_bit,
		.rqf_flush_seq_bit = facts->rqf_flush_seq_bit,
		.req_preflush_bit = facts->req_preflush_bit,
		.req_drv_bit = facts->req_drv_bit,
		.bios_in_place = facts->bios_in_place,
		.queue_first = facts->queue_first,
	};
}

struct error *kernel_recorder_read(const struct live_paths *paths, const char *const *tracepoints,
				   unsigned int n, struct kernel_recorder *bits, int *args)
{
	cleanup(btf_freep) struct btf *btf = NULL;

	try(btf_open(paths, &btf));
	/* As in 5.10, where they are enumerators, too. */
	bits->sync = enumerator(btf, "__REQ_SYNC", 11);
	bits->meta = enumerator(btf, "__REQ_META", 12);
	bits->fua = enumerator(btf, "__REQ_FUA", 17);
	bits->ahead = enumerator(btf, "__REQ_RAHEAD", 19);
	for (unsigned int i = 0; i < n; i++)
		args[i] = tracepoint_args(btf, tracepoints[i]);
	return NULL;
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

void kernel_quiet(void)
{
	libbpf_set_print(quiet);
}
