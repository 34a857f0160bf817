// SPDX-License-Identifier: GPL-2.0-only
/*
 * The recorder: block tracepoints in, events out, through a ring buffer per CPU to the process that
 * has loaded it. Nothing is pinned: when the process is gone, so is all of this.
 *
 * Without a least time every event is sent as it happens. With one, the events of a request are
 * kept in its slot (those of a bio in a hash, by its address) until its completion decides whether
 * they are sent; src/abi/recorder.h describes both.
 *
 * What finds no room in the ring buffer is counted by disk and CPU, and every event says how many
 * were lost before it.
 */
#include "../abi/blktrace.h"
#include "drift.h"

#include <bpf/bpf_tracing.h>

#include "requests.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct recorder_settings record SEC(".rodata.record");

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

/* By CPU; those that were not online at the start have none. Sized by user space, as all of 1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, REC_DISKS);
	__type(key, __u32);
	__type(value, struct rec_disk);
} disks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rec_cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, REC_LOSSES);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

/* Values of these three are a struct rec_slot, with as many events as are to be kept. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct rec_slot));
} slots SEC(".maps");

/* A flush has the tag of the request that it serves, and so has no slot of its own. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(key_size, sizeof(__u64));
	__uint(value_size, sizeof(struct rec_slot));
} flushes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct rec_slot));
} blank SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct rec_bio);
} bios SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rec_bio);
} blank_bio SEC(".maps");

#define RECORDS(point) (record.events & 1u << (point))

static __always_inline void count_loss(__u32 class)
{
	__u64 *n = bpf_map_lookup_elem(&losses, &class);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline struct rec_cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

/*
 * Newer kernels skip a program that is to run while it is running on this CPU: in an interrupt, or
 * for a task that preempts another. For that a second program stands behind the first one; all that
 * it has to know is whether the first is running below it.
 */
static __always_inline struct rec_cpu *enter(__u32 point, bool second)
{
	struct rec_cpu *cpu = this_cpu();

	if (!cpu)
		return NULL;
	if (!second) {
		*(volatile __u32 *)&cpu->running[point] = 1;
		return cpu;
	}
	if (likely(!*(volatile __u32 *)&cpu->running[point]))
		return NULL;
	count_loss(REC_RECOVERED);
	return cpu;
}

static __always_inline void leave(struct rec_cpu *cpu, __u32 point)
{
	*(volatile __u32 *)&cpu->running[point] = 0;
}

/* --- what is sent --- */

/* A full buffer wakes the reader once or twice, not at every event. */
#define WAKEUP_ZONE 256

static __noinline int send(void *data, __u32 size)
{
	__u32 cpu = bpf_get_smp_processor_id();
	void *ring = bpf_map_lookup_elem(&rings, &cpu);
	__u64 flags = 0, used;

	if (!ring)
		return -1;
	if (record.wakeup) {
		used = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
		flags = used - record.wakeup < WAKEUP_ZONE ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	}
	if (size == sizeof(struct rec_event))
		return bpf_ringbuf_output(ring, data, sizeof(struct rec_event), flags);
	if (size == sizeof(struct rec_slow))
		return bpf_ringbuf_output(ring, data, sizeof(struct rec_slow), flags);
	return bpf_ringbuf_output(ring, data, sizeof(struct rec_process), flags);
}

static __noinline int note_process(__u32 pid)
{
	struct rec_process process = { .kind = REC_PROCESS, .pid = pid };

	bpf_get_current_comm(process.name, sizeof(process.name));
	return send(&process, sizeof(process));
}

/* The thread's id, as in blktrace. Its name goes before it, unless it has gone already. */
static __always_inline __u32 current_pid(struct rec_cpu *cpu)
{
	__u32 pid = bpf_get_current_pid_tgid();

	if (cpu->noted[pid & (REC_PIDS - 1)] != pid + 1 && !note_process(pid))
		cpu->noted[pid & (REC_PIDS - 1)] = pid + 1;
	return pid;
}

static __noinline struct rec_disk *disk_find_slow(__u32 device)
{
	struct rec_disk *disk = bpf_map_lookup_elem(&disks, &device), none = {};

	if (disk || record.chosen_n)
		return disk;
	bpf_map_update_elem(&disks, &device, &none, BPF_NOEXIST);
	disk = bpf_map_lookup_elem(&disks, &device);
	if (!disk)
		count_loss(REC_LOST_DISK);
	return disk;
}

/* What is counted for a disk; NULL if the disk is not to be recorded. */
static __always_inline struct rec_disk *disk_find(struct rec_cpu *cpu, __u32 device)
{
	struct rec_disk *disk = &cpu->disks[REC_DISK_CELL(device)];

	if (likely(disk->device == device))
		return disk;
	return disk_find_slow(device);
}

static __always_inline void send_event(struct rec_event *e, struct rec_disk *disk)
{
	e->lost = disk->lost;
	if (unlikely(send(e, sizeof(*e))))
		__sync_fetch_and_add(&disk->lost, 1);
}

/* --- what is chosen --- */

/* @device: of the partition, or, where it is not known, 0: then @sector decides. */
static __noinline bool is_chosen(__u32 disk, __u32 device, __u64 sector)
{
	if (!record.chosen_n)
		return true;
	for (__u32 i = 0; i < REC_CHOSEN_MAX && i < record.chosen_n; i++) {
		const volatile struct rec_chosen *c = &record.chosen[i];

		if (c->disk != disk)
			continue;
		if (c->device == disk || c->device == device)
			return true;
		if (!device && sector >= c->start && sector < c->end)
			return true;
	}
	return false;
}

static __always_inline bool op_is_chosen(__u32 op, __u32 group)
{
	return record.ops == OPS_ALL || (!op_is_passthrough(op) && record.ops & 1u << group);
}

/* --- what an event says --- */

#define ACTION(action, category) (ACTION_##action | CATEGORY(category))
#define CATEGORY(name) (CATEGORY_##name << ACTION_CATEGORY_SHIFT)
#define FLAG(flags, bit, name) ((flags) >> (bit)&1 ? CATEGORY(name) : 0)

/* As the kernel's own tracer has it, with the numbers of include/uapi/linux/blktrace_api.h. */
static __always_inline __u32 action_of(__u32 action, __u32 flags)
{
	__u32 op = flags & REQ_OP_MASK, group = op_group(op);

	action |= op & 1 ? CATEGORY(WRITE) : CATEGORY(READ);
	action |= FLAG(flags, settings.req_preflush_bit, FLUSH) |
		  FLAG(flags, record.sync_bit, SYNC) | FLAG(flags, record.ahead_bit, AHEAD) |
		  FLAG(flags, record.meta_bit, META) | FLAG(flags, record.fua_bit, FUA);
	if (!op_is_passthrough(op) && group == OP_DISCARD)
		action |= CATEGORY(DISCARD);
	if (op == REQ_OP_FLUSH)
		action |= CATEGORY(FLUSH);
	return action;
}

static __always_inline void event_init(struct rec_cpu *cpu, struct rec_event *e, __u64 now,
				       __u32 device)
{
	e->kind = REC_EVENT;
	e->cpu = bpf_get_smp_processor_id();
	e->time = now;
	e->lost = 0;
	e->from = 0;
	e->device = device;
	e->from_device = 0;
	e->pid = current_pid(cpu);
	e->error = 0;
}

/* --- requests --- */

static __always_inline bool request_wanted(struct request *rq)
{
	__u32 op = rq->cmd_flags & REQ_OP_MASK;

	return op_is_chosen(op, op_group(op));
}

static __always_inline __u64 request_sector(struct request *rq)
{
	if (op_is_passthrough(rq->cmd_flags & REQ_OP_MASK) || rq->__sector == ~0ull)
		return 0;
	return rq->__sector;
}

/* The partition's number; 0 for the whole disk. */
static __always_inline __u32 request_partition(struct request *rq, struct gendisk *disk,
					       __u64 *start)
{
	bdev_t bdev = request_bdev(rq, disk);

	if (!bdev_partno(bdev))
		return 0;
	*start = bdev_start(bdev);
	return bdev_devt(bdev);
}

/* Where it lies in its partition. */
static __always_inline void event_set_partition(struct rec_event *e, struct request *rq,
						struct gendisk *disk)
{
	__u64 start = 0;

	e->from_device = request_partition(rq, disk, &start);
	e->from = e->sector > start ? e->sector - start : 0; /* an empty write has no sector */
}

static __always_inline void event_of_request(struct rec_cpu *cpu, struct rec_event *e,
					     struct request *rq, struct gendisk *disk, __u32 action,
					     __u64 now)
{
	event_init(cpu, e, now, disk_devt(disk));
	e->action = action_of(action, rq->cmd_flags) |
		    (op_is_passthrough(rq->cmd_flags & REQ_OP_MASK) ? CATEGORY(PASSTHROUGH) :
								      CATEGORY(FS));
	e->sector = request_sector(rq);
	e->bytes = rq->__data_len;
	if (action & CATEGORY(ISSUE))
		event_set_partition(e, rq, disk);
}

static __always_inline struct rec_disk *request_chosen(struct rec_cpu *cpu, struct request *rq,
						       struct gendisk *disk)
{
	__u32 device = disk_devt(disk);
	__u64 start;
	__u32 part = record.chosen_n ? request_partition(rq, disk, &start) : 0;

	if (!is_chosen(device, part ? part : device, 0))
		return NULL;
	return disk_find(cpu, device);
}

/* --- slots --- */

static __always_inline struct rec_slot *slot_at(struct request *rq)
{
	__u32 tag = request_tag(rq), region, at;
	__u64 key = (__u64)rq;

	if ((rq->cmd_flags & REQ_OP_MASK) == REQ_OP_FLUSH)
		return bpf_map_lookup_elem(&flushes, &key);
	region = region_find(rq->q->id, rq->mq_hctx->queue_num, tag >> REGION_SHIFT);
	at = (region << REGION_SHIFT) | (tag & (REGION_SLOTS - 1));
	return likely(region) ? bpf_map_lookup_elem(&slots, &at) : NULL;
}

/* The slot, if it holds this request. */
static __always_inline struct rec_slot *slot_of(struct request *rq)
{
	struct rec_slot *slot = slot_at(rq);

	return slot && slot->busy && slot->request == (__u64)rq &&
			       slot->start == rq->start_time_ns ?
		       slot :
		       NULL;
}

/* Entries are made from a blank one, as they are too large for the stack. */
static __noinline struct rec_slot *flush_slot(__u64 key)
{
	__u32 zero = 0;
	void *none = bpf_map_lookup_elem(&blank, &zero);

	if (none)
		bpf_map_update_elem(&flushes, &key, none, BPF_ANY);
	return bpf_map_lookup_elem(&flushes, &key);
}

/* The slot, which is the request's from now on. */
static __always_inline struct rec_slot *slot_take(struct request *rq, __u64 now)
{
	struct rec_slot *slot = slot_of(rq);

	if (likely(slot))
		return slot;
	slot = (rq->cmd_flags & REQ_OP_MASK) == REQ_OP_FLUSH ? flush_slot((__u64)rq) : slot_at(rq);
	if (!slot)
		return NULL;
	slot->request = (__u64)rq;
	slot->start = rq->start_time_ns;
	slot->first_ns = now;
	slot->issue_ns = 0;
	slot->service_ns = 0;
	slot->bytes = 0;
	slot->advanced = 0;
	slot->requeues = 0;
	slot->held_n = 0;
	slot->omitted = 0;
	slot->busy = 1;
	if (record.slow) {
		slot->pid = bpf_get_current_pid_tgid();
		bpf_get_current_comm(slot->name, sizeof(slot->name));
	}
	return slot;
}

static __always_inline void slot_hold(struct rec_slot *slot, const struct rec_event *e)
{
	__u32 n = slot->held_n;

	if (!record.held)
		return;
	if (n < record.held) {
		slot->held[n] = *e;
		slot->held_n = n + 1;
	} else {
		slot->omitted++;
	}
}

#define HELD_MAX 16

static __always_inline void slot_send(struct rec_slot *slot, struct rec_disk *disk)
{
	for (__u32 i = 0; i < HELD_MAX && i < record.held; i++) {
		if (i >= slot->held_n)
			break;
		send_event(&slot->held[i], disk);
	}
	if (slot->omitted)
		__sync_fetch_and_add(&disk->lost, slot->omitted);
}

/* --- bios --- */

static __always_inline void bio_hold(struct rec_bio *entry, const struct rec_event *e)
{
	__u32 n = entry->held_n;

	if (n >= REC_BIO_HELD) {
		count_loss(REC_UNKEPT);
		return;
	}
	entry->held[n] = *e;
	entry->held_n = n + 1;
}

/* Keeps an event of a bio; @begins: a bio that is known by this address is another one. */
static __noinline int bio_keep(struct bio *bio, struct rec_event *e, bool begins)
{
	__u64 key = (__u64)bio, owner = (__u64)bio->bi_private;
	struct rec_bio *entry = bpf_map_lookup_elem(&bios, &key);
	__u32 zero = 0;

	/* Only A may stand before Q. */
	if (entry && begins && entry->held_n == 1 && (__u16)entry->held[0].action == ACTION_REMAP)
		begins = false;
	if (entry && !begins) {
		entry->owner = owner;
		bio_hold(entry, e);
		return 0;
	}
	entry = bpf_map_lookup_elem(&blank_bio, &zero);
	if (entry)
		bpf_map_update_elem(&bios, &key, entry, BPF_ANY);
	entry = bpf_map_lookup_elem(&bios, &key);
	if (!entry) {
		count_loss(REC_UNKEPT);
		return 0;
	}
	entry->owner = owner;
	entry->first_ns = e->time;
	entry->held_n = 0;
	entry->sent = 0;
	entry->pid = e->pid;
	if (record.slow)
		bpf_get_current_comm(entry->name, sizeof(entry->name));
	bio_hold(entry, e);
	return 0;
}

/* What has been sent already, for a part that was split off, is not sent again. */
static __noinline int bio_send_held(struct rec_bio *entry, struct rec_disk *disk)
{
	for (__u32 i = 0; i < REC_BIO_HELD; i++) {
		if (i >= entry->held_n)
			break;
		/* Of a bio whose Q only its times are kept for. */
		if (i >= entry->sent && entry->held[i].kind == REC_EVENT)
			send_event(&entry->held[i], disk);
	}
	entry->sent = entry->held_n;
	return 0;
}

/* A global function: the verifier looks at it once, however often it is called. */
__attribute__((noinline)) int bio_forget(__u64 key, __u64 owner, __u32 device, int sends)
{
	struct rec_bio *entry = bpf_map_lookup_elem(&bios, &key), *whole;
	struct rec_cpu *cpu = this_cpu();
	struct rec_disk *disk = sends && cpu ? disk_find(cpu, device) : NULL;

	if (disk) {
		/* Of a bio that was split, the whole has the first events. */
		whole = bpf_map_lookup_elem(&bios, &owner);
		if (whole)
			bio_send_held(whole, disk);
		if (entry)
			bio_send_held(entry, disk);
	}
	if (entry)
		bpf_map_delete_elem(&bios, &key);
	return 0;
}

#define BIOS_PER_REQUEST 256

/* The bios of a request end with it. */
static __always_inline void request_bios(struct request *rq, __u32 device, bool sends)
{
	struct bio *bio;

	if (!(record.events & REC_BIO_EVENTS))
		return;
	bpf_core_read(&bio, sizeof(bio), &rq->bio);
	for (int i = 0; i < BIOS_PER_REQUEST && bio; i++) {
		bio_forget((__u64)bio, (__u64)BPF_CORE_READ(bio, bi_private), device, sends);
		bio = BPF_CORE_READ(bio, bi_next);
	}
}

/* --- programs for requests --- */

/* An event other than a completion. */
static __always_inline int request_event(struct rec_cpu *cpu, struct request *rq, __u32 action)
{
	__u64 now = bpf_ktime_get_ns();
	struct gendisk *disk;
	struct rec_disk *counts;
	struct rec_slot *slot;
	struct rec_event e;

	if (!request_wanted(rq))
		return 0;
	disk = request_disk(rq);
	if (!disk)
		return 0;
	if (!record.min_ns) {
		counts = request_chosen(cpu, rq, disk);
		if (!counts)
			return 0;
		event_of_request(cpu, &e, rq, disk, action, now);
		send_event(&e, counts);
		return 0;
	}
	slot = slot_take(rq, now);
	if (!slot) {
		count_loss(REC_UNKEPT);
		return 0;
	}
	if (action & CATEGORY(ISSUE))
		slot->issue_ns = now;
	if (action & CATEGORY(REQUEUE))
		slot->requeues++;
	if (!record.held)
		return 0;
	event_of_request(cpu, &e, rq, disk, action, now);
	slot_hold(slot, &e);
	return 0;
}

static __always_inline __u64 bio_cgroup(struct bio *bio)
{
	if (!bio || !bpf_core_field_exists(bio->bi_blkg))
		return 0;
	return BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup, kn, id);
}

/* @took: from its start. */
static __always_inline int slow_request(struct request *rq, const struct rec_slot *slot,
					struct rec_disk *counts, __u64 now, __u64 took)
{
	struct gendisk *disk = request_disk(rq);
	struct rec_slow slow = {
		.kind = REC_SLOW,
		.time = now,
		.request_ns = took,
		.queue_ns = REC_UNKNOWN,
		.service_ns = REC_UNKNOWN,
		.sector = request_sector(rq),
		.bytes = rq->__data_len,
	};
	__u64 start;

	if (op_is_passthrough(rq->cmd_flags & REQ_OP_MASK))
		return 0;
	slow.op = op_group(rq->cmd_flags & REQ_OP_MASK);
	slow.action = action_of(ACTION_COMPLETE, rq->cmd_flags);
	slow.device = disk_devt(disk);
	slow.partition = request_partition(rq, disk, &start);
	slow.cgroup = bio_cgroup(rq->bio);
	if (slot) {
		slow.bytes += slot->bytes;
		slow.sector -= slot->advanced >> 9;
		slow.requeues = slot->requeues;
		slow.pid = slot->pid;
		__builtin_memcpy(slow.name, slot->name, sizeof(slow.name));
		if (slot->issue_ns) {
			slow.service_ns = slot->service_ns ? slot->service_ns :
							     now - slot->issue_ns;
			slow.queue_ns = slot->issue_ns - (now - took);
		}
	}
	slow.lost = counts->lost;
	if (send(&slow, sizeof(slow)))
		__sync_fetch_and_add(&counts->lost, 1);
	return 0;
}

static __always_inline void event_of_completion(struct rec_cpu *cpu, struct rec_event *e,
						struct request *rq, struct gendisk *disk, int error,
						__u32 nr_bytes, __u64 now)
{
	event_of_request(cpu, e, rq, disk, ACTION(COMPLETE, COMPLETE), now);
	e->bytes = nr_bytes;
	e->error = error;
	if (!nr_bytes) /* an empty flush has no D */
		event_set_partition(e, rq, disk);
}

/* A completion that does not end the request; or of the data of a write in a flush sequence. */
static __noinline int request_goes_on(struct rec_cpu *cpu, struct request *rq, int error,
				      __u32 nr_bytes, __u64 now)
{
	struct rec_slot *slot = slot_of(rq);
	struct gendisk *disk = request_disk(rq);
	struct rec_event e;

	if (!slot || !disk)
		return 0;
	slot->bytes += nr_bytes;
	if (nr_bytes < rq->__data_len)
		slot->advanced += nr_bytes;
	else
		slot->service_ns = now - slot->issue_ns;
	if (!RECORDS(REC_COMPLETE))
		return 0;
	event_of_completion(cpu, &e, rq, disk, error, nr_bytes, now);
	slot_hold(slot, &e);
	return 0;
}

/* Sends a request that has taken long, or its events and its completion. */
static __noinline int request_slow(struct rec_cpu *cpu, struct request *rq, int error, __u64 now,
				   __u64 took)
{
	struct rec_slot *slot = slot_of(rq);
	struct gendisk *disk = request_disk(rq);
	struct rec_disk *counts;
	struct rec_event e;

	if (!disk)
		return 0;
	counts = request_chosen(cpu, rq, disk);
	if (!counts)
		return 0;
	if (record.slow)
		return slow_request(rq, slot, counts, now, took);
	request_bios(rq, disk_devt(disk), true);
	if (slot)
		slot_send(slot, counts);
	if (!RECORDS(REC_COMPLETE))
		return 0;
	event_of_completion(cpu, &e, rq, disk, error, rq->__data_len, now);
	send_event(&e, counts);
	return 0;
}

/* A completion where there is a least time. */
static __always_inline int request_end(struct rec_cpu *cpu, struct request *rq, int error,
				       __u32 nr_bytes, __u64 now)
{
	__u32 op = rq->cmd_flags & REQ_OP_MASK;
	__u64 key = (__u64)rq, start = rq->start_time_ns;
	struct rec_slot *slot;

	if (unlikely(nr_bytes < rq->__data_len ||
		     (rq->rq_flags & (1u << settings.rqf_flush_seq_bit) && op != REQ_OP_FLUSH &&
		      nr_bytes)))
		return request_goes_on(cpu, rq, error, nr_bytes, now);
	slot = slot_of(rq);
	/* Without accounting (queue/iostats 0) the kernel may set no start stamp. */
	if (unlikely(!start || start > now))
		start = slot ? slot->first_ns : now;
	if (unlikely(now - start >= record.min_ns))
		request_slow(cpu, rq, error, now, now - start);
	request_bios(rq, 0, false);
	if (slot)
		slot->busy = 0;
	if (unlikely(op == REQ_OP_FLUSH))
		bpf_map_delete_elem(&flushes, &key);
	return 0;
}

static __always_inline int request_complete(struct rec_cpu *cpu, struct request *rq, int error,
					    __u32 nr_bytes)
{
	__u64 now = bpf_ktime_get_ns();
	struct gendisk *disk;
	struct rec_disk *counts;
	struct rec_event e;

	if (!request_wanted(rq))
		return 0;
	if (record.min_ns)
		return request_end(cpu, rq, error, nr_bytes, now);
	disk = request_disk(rq);
	if (!disk)
		return 0;
	counts = request_chosen(cpu, rq, disk);
	if (!counts)
		return 0;
	event_of_completion(cpu, &e, rq, disk, error, nr_bytes, now);
	send_event(&e, counts);
	return 0;
}

/* Defines a program, and the one behind it that makes good what was skipped. */
#define PROGRAM(tracepoint, name, point, call)             \
	SEC("tp_btf/" tracepoint)                          \
	int name(const __u64 *ctx)                         \
	{                                                  \
		struct rec_cpu *cpu = enter(point, false); \
                                                           \
		if (cpu) {                                 \
			call;                              \
			leave(cpu, point);                 \
		}                                          \
		return 0;                                  \
	}                                                  \
	SEC("tp_btf/" tracepoint)                          \
	int name##_nested(const __u64 *ctx)                \
	{                                                  \
		struct rec_cpu *cpu = enter(point, true);  \
                                                           \
		if (cpu)                                   \
			call;                              \
		return 0;                                  \
	}

#define REQUEST(point) ((struct request *)argument(ctx, record.bio_at[point]))
#define BIO(point) ((struct bio *)argument(ctx, record.bio_at[point]))
#define AFTER_BIO(point, n) ((__u64)argument(ctx, record.bio_at[point] + (n)))

PROGRAM("block_rq_insert", insert, REC_INSERT,
	request_event(cpu, REQUEST(REC_INSERT), ACTION(INSERT, QUEUE)))
PROGRAM("block_rq_merge", join, REC_JOIN,
	request_event(cpu, REQUEST(REC_JOIN), ACTION(BACK_MERGE, QUEUE)))
PROGRAM("block_rq_issue", issue, REC_ISSUE,
	request_event(cpu, REQUEST(REC_ISSUE), ACTION(ISSUE, ISSUE)))
PROGRAM("block_rq_requeue", requeue, REC_REQUEUE,
	request_event(cpu, REQUEST(REC_REQUEUE), ACTION(REQUEUE, REQUEUE)))
PROGRAM("block_rq_complete", complete, REC_COMPLETE,
	request_complete(cpu, REQUEST(REC_COMPLETE), (int)ctx[1], (__u32)ctx[2]))

/* --- programs for bios --- */

static __always_inline __u32 bio_op(const struct bio *bio, bool requests)
{
	/* Without requests an empty write that asks for a flush is the flush itself. */
	if (!requests && bio->bi_opf & REQ_PREFLUSH && !bio->bi_iter.bi_size)
		return OP_FLUSH;
	return op_group(bio->bi_opf & REQ_OP_MASK);
}

static __always_inline __u32 bio_partition(struct bio *bio)
{
	bdev_t bdev = bio_bdev(bio);

	return BIOS_KNOW_PARTITION && bdev_partno(bdev) ? bdev_devt(bdev) : 0;
}

static __always_inline struct rec_disk *bio_chosen(struct rec_cpu *cpu, struct bio *bio,
						   struct gendisk *disk)
{
	__u32 device = disk_devt(disk), part = bio_partition(bio);

	if (BIOS_KNOW_PARTITION && !part)
		part = device;
	if (!is_chosen(device, part, bio->bi_iter.bi_sector))
		return NULL;
	return disk_find(cpu, device);
}

static __always_inline void event_of_bio(struct rec_cpu *cpu, struct rec_event *e, struct bio *bio,
					 struct gendisk *disk, __u32 action, __u64 now)
{
	event_init(cpu, e, now, disk_devt(disk));
	e->action = action_of(action, bio->bi_opf);
	e->sector = bio->bi_iter.bi_sector;
	e->bytes = bio->bi_iter.bi_size;
}

/* Sends an event of a bio, or keeps it until it has ended. */
static __always_inline int bio_event(struct rec_cpu *cpu, struct bio *bio, struct rec_event *e,
				     struct gendisk *disk, bool begins)
{
	struct rec_disk *counts;

	if (record.min_ns)
		return bio_keep(bio, e, begins);
	counts = bio_chosen(cpu, bio, disk);
	if (counts)
		send_event(e, counts);
	return 0;
}

static __noinline int bio_plain(struct rec_cpu *cpu, struct bio *bio, __u32 action)
{
	__u64 now = bpf_ktime_get_ns();
	struct gendisk *disk = bio_disk(bio);
	struct rec_event e;

	if (!op_is_chosen(bio->bi_opf & REQ_OP_MASK, bio_op(bio, disk->queue->mq_ops)))
		return 0;
	event_of_bio(cpu, &e, bio, disk, action, now);
	return bio_event(cpu, bio, &e, disk, false);
}

/* Devices without requests have no D; their Q takes its place. */
static __noinline int bio_queue(struct rec_cpu *cpu, struct bio *bio)
{
	__u64 now = bpf_ktime_get_ns();
	struct gendisk *disk = bio_disk(bio);
	bool requests = disk->queue->mq_ops;
	struct rec_event e;
	bdev_t bdev;

	if (requests && !RECORDS(REC_QUEUE))
		return 0;
	if (!op_is_chosen(bio->bi_opf & REQ_OP_MASK, bio_op(bio, requests)))
		return 0;
	event_of_bio(cpu, &e, bio, disk, ACTION(QUEUE, QUEUE), now);
	bdev = bio_bdev(bio);
	if (!requests && BIOS_KNOW_PARTITION && bdev_partno(bdev)) {
		e.from_device = bdev_devt(bdev);
		e.from = e.sector - bdev_start(bdev);
	}
	return bio_event(cpu, bio, &e, disk, true);
}

static __noinline int bio_remap(struct rec_cpu *cpu, struct bio *bio, __u32 device, __u64 sector)
{
	__u64 now = bpf_ktime_get_ns();
	struct gendisk *disk = bio_disk(bio);
	struct rec_event e;

	if (!op_is_chosen(bio->bi_opf & REQ_OP_MASK, bio_op(bio, disk->queue->mq_ops)))
		return 0;
	event_of_bio(cpu, &e, bio, disk, ACTION(REMAP, QUEUE), now);
	e.from_device = device;
	e.from = sector;
	return bio_event(cpu, bio, &e, disk, true);
}

static __noinline int bio_split(struct rec_cpu *cpu, struct bio *bio, __u32 sector)
{
	__u64 now = bpf_ktime_get_ns();
	struct gendisk *disk = bio_disk(bio);
	struct rec_event e;

	if (!op_is_chosen(bio->bi_opf & REQ_OP_MASK, bio_op(bio, disk->queue->mq_ops)))
		return 0;
	event_of_bio(cpu, &e, bio, disk, ACTION_SPLIT, now);
	e.from = sector;
	return bio_event(cpu, bio, &e, disk, false);
}

/* A bio that took long, where requests are not to be seen. */
static __noinline int slow_bio(struct rec_cpu *cpu, struct bio *bio, struct rec_bio *entry,
			       struct rec_event *e)
{
	struct gendisk *disk = bio_disk(bio);
	struct rec_disk *counts = bio_chosen(cpu, bio, disk);
	struct rec_slow slow = {
		.kind = REC_SLOW,
		.op = bio_op(bio, false),
		.time = e->time,
		.request_ns = e->time - entry->first_ns,
		.queue_ns = REC_UNKNOWN,
		.service_ns = REC_UNKNOWN,
		.action = e->action,
		.device = e->device,
		.pid = entry->pid,
	};

	if (!counts)
		return 0;
	if (!record.slow) {
		bio_send_held(entry, counts);
		send_event(e, counts);
		return 0;
	}
	slow.sector = entry->held[0].sector; /* at the end the bio has none of it left */
	slow.bytes = entry->held[0].bytes;
	slow.partition = bio_partition(bio);
	slow.cgroup = bio_cgroup(bio);
	slow.lost = counts->lost;
	__builtin_memcpy(slow.name, entry->name, sizeof(slow.name));
	if (send(&slow, sizeof(slow)))
		__sync_fetch_and_add(&counts->lost, 1);
	return 0;
}

static __noinline int bio_end(struct rec_cpu *cpu, struct bio *bio)
{
	__u64 now = bpf_ktime_get_ns(), key = (__u64)bio;
	struct gendisk *disk = bio_disk(bio);
	struct rec_bio *entry;
	struct rec_event e;

	if (!op_is_chosen(bio->bi_opf & REQ_OP_MASK, bio_op(bio, disk->queue->mq_ops)))
		return 0;
	event_of_bio(cpu, &e, bio, disk, ACTION(COMPLETE, COMPLETE), now);
	e.error = bio->bi_status;
	if (!record.min_ns)
		return bio_event(cpu, bio, &e, disk, false);
	entry = bpf_map_lookup_elem(&bios, &key);
	if (!entry || entry->owner != (__u64)bio->bi_private)
		return 0;
	if (now - entry->first_ns >= record.min_ns)
		slow_bio(cpu, bio, entry, &e);
	bpf_map_delete_elem(&bios, &key);
	return 0;
}

PROGRAM("block_bio_queue", queue, REC_QUEUE, bio_queue(cpu, BIO(REC_QUEUE)))
PROGRAM("block_bio_remap", remap, REC_REMAP,
	bio_remap(cpu, BIO(REC_REMAP), (__u32)AFTER_BIO(REC_REMAP, 1), AFTER_BIO(REC_REMAP, 2)))
PROGRAM("block_split", split, REC_SPLIT,
	bio_split(cpu, BIO(REC_SPLIT), (__u32)AFTER_BIO(REC_SPLIT, 1)))
PROGRAM("block_getrq", get, REC_GET, bio_plain(cpu, BIO(REC_GET), ACTION(GET_REQUEST, QUEUE)))
PROGRAM("block_bio_backmerge", back_merge, REC_BACK_MERGE,
	bio_plain(cpu, BIO(REC_BACK_MERGE), ACTION(BACK_MERGE, QUEUE)))
PROGRAM("block_bio_frontmerge", front_merge, REC_FRONT_MERGE,
	bio_plain(cpu, BIO(REC_FRONT_MERGE), ACTION(FRONT_MERGE, QUEUE)))
PROGRAM("block_bio_complete", end, REC_END, bio_end(cpu, BIO(REC_END)))

/* --- plugging --- */

static __noinline int plug_event(struct rec_cpu *cpu, struct request_queue *q, __u32 action,
				 __u32 depth)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 device = queue_devt(q);
	struct rec_disk *counts;
	struct rec_event e;

	if (record.min_ns || record.ops != OPS_ALL || !device)
		return 0;
	event_init(cpu, &e, now, device);
	if (!is_chosen(device, device, 0))
		return 0;
	counts = disk_find(cpu, e.device);
	if (!counts)
		return 0;
	e.action = action | CATEGORY(READ);
	e.sector = 0;
	e.bytes = 0;
	e.from = depth;
	send_event(&e, counts);
	return 0;
}

PROGRAM("block_plug", plug, REC_PLUG, plug_event(cpu, (void *)ctx[0], ACTION(PLUG, QUEUE), 0))
PROGRAM("block_unplug", unplug, REC_UNPLUG,
	plug_event(cpu, (void *)ctx[0],
		   ctx[2] & 1 ? ACTION(UNPLUG, QUEUE) : ACTION(UNPLUG_TIMER, QUEUE), (__u32)ctx[1]))
