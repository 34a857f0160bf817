// SPDX-License-Identifier: GPL-2.0-only
#include "sources/recorder.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/timefmt.h"
#include "core/util.h"
#include "sources/kernel.h"
#include "sources/object.h"
#include "sources/regions.h"

/* Of this only the bytes of the object are used; it names records of src/abi. */
#include "recorder_object.skel.h"

/* Events of a request that are kept until it has ended: a few requeues and partial completions. */
#define HELD_EVENTS 6
#define LOG_MAX 65536
/* The reader is woken when a buffer is filled to this part; the rest is for until he runs. */
#define WAKEUP_PART 8
/* Records that are read of one buffer at a time. */
#define READ_RECORDS 16384
/* A request that has been under way for so long is not waited for. */
#define WAIT_NS 120000000000ull

/* In the order of attaching: of an event that is seen, those that follow are seen. */
static const struct point {
	enum rec_point point;
	const char *program, *tracepoint;
	/* How many arguments it may have, and before which the request or bio stands then. */
	struct {
		int args;
		unsigned int at;
	} forms[2];
} points[] = {
	{ REC_COMPLETE, "complete", "block_rq_complete", { { 3, 0 } } },
	{ REC_END, "end", "block_bio_complete", { { 2, 1 } } },
	{ REC_REQUEUE, "requeue", "block_rq_requeue", { { 1, 0 } } },
	{ REC_ISSUE, "issue", "block_rq_issue", { { 1, 0 } } },
	{ REC_INSERT, "insert", "block_rq_insert", { { 1, 0 } } },
	{ REC_JOIN, "join", "block_rq_merge", { { 1, 0 } } },
	{ REC_FRONT_MERGE, "front_merge", "block_bio_frontmerge", { { 1, 0 }, { 3, 2 } } },
	{ REC_BACK_MERGE, "back_merge", "block_bio_backmerge", { { 1, 0 }, { 3, 2 } } },
	{ REC_GET, "get", "block_getrq", { { 1, 0 }, { 3, 1 } } },
	{ REC_SPLIT, "split", "block_split", { { 2, 0 }, { 3, 1 } } },
	{ REC_QUEUE, "queue", "block_bio_queue", { { 1, 0 }, { 2, 1 } } },
	{ REC_REMAP, "remap", "block_bio_remap", { { 3, 0 }, { 4, 1 } } },
	{ REC_PLUG, "plug", "block_plug", { { 1, 0 } } },
	{ REC_UNPLUG, "unplug", "block_unplug", { { 3, 0 } } },
};
_Static_assert(ARRAY_SIZE(points) == REC_POINTS, "all of them");

struct recorder {
	const struct recorder_sink *sink;
	struct bpf_object *bpf;
	struct {
		struct bpf_program *first, *nested;
		struct bpf_link *links[2];
	} programs[REC_POINTS];
	struct ring {
		struct recorder *recorder;
		struct ring_buffer *buffer;
		unsigned int records; /* of this reading */
		uint64_t last_ns;     /* time of the last event */
	} * rings;
	unsigned int n_cpus; /* possible ones */
	unsigned int last_cpu;
	int epoll;
	int slots_fd, bios_fd, disks_fd, cpus_fd, losses_fd;
	const char *slots; /* mapped, if there is a least time */
	size_t slots_size, slot_size;
	bool keeps_bios;
	size_t ring_bytes;
	struct recorder_settings settings;
	char log[LOG_MAX]; /* of the verifier, if it refuses */
};

void recorder_detach(struct recorder *r)
{
	for (unsigned int i = 0; i < REC_POINTS; i++)
		for (unsigned int k = 0; k < 2; k++) {
			bpf_link__destroy(r->programs[i].links[k]);
			r->programs[i].links[k] = NULL;
		}
}

void recorder_closep(struct recorder **recorder)
{
	struct recorder *r = *recorder;

	if (!r)
		return;
	recorder_detach(r);
	for (unsigned int i = 0; i < r->n_cpus; i++)
		ring_buffer__free(r->rings[i].buffer);
	if (r->slots)
		munmap((void *)r->slots, r->slots_size);
	closep(&r->epoll);
	bpf_object__close(r->bpf);
	free(r->rings);
	free(r);
	*recorder = NULL;
}

unsigned int recorder_cpus(const struct recorder *r)
{
	return r->last_cpu + 1;
}

int recorder_fd(const struct recorder *r)
{
	return r->epoll;
}

/* --- loading --- */

/* The events of devices without requests stand in for those that they do not have. */
static unsigned int attached_points(const struct recorder_options *o, bool has_bios)
{
	unsigned int mask = o->events;

	if (o->slow)
		mask = 1u << REC_INSERT | 1u << REC_ISSUE | 1u << REC_REQUEUE;
	if (o->min_ns)
		mask |= 1u << REC_COMPLETE;
	if (has_bios && (o->min_ns || mask & 1u << REC_ISSUE))
		mask |= 1u << REC_QUEUE;
	/* Their ends, and those that never become a request. */
	if (mask & 1u << REC_COMPLETE)
		mask |= 1u << REC_END;
	return mask;
}

static bool has_bios(const struct device_list *devices, const struct recorder_options *o)
{
	if (!o->n_devices)
		return device_list_has_bios(devices);
	for (unsigned int i = 0; i < o->n_devices; i++)
		if (!o->devices[i]->request_based)
			return true;
	return false;
}

static struct error *choose_program(struct recorder *r, const struct point *point, int args,
				    const struct kernel_facts *kernel)
{
	cleanup_free char *nested = xasprintf("%s_nested", point->program);
	bool second = kernel->skips_nested && (point->point == REC_COMPLETE || kernel->preemptible);
	unsigned int form = 0;

	/* Not every kernel can merge requests visibly. */
	if (args < 0 && point->point == REC_JOIN)
		return NULL;
	while (form < ARRAY_SIZE(point->forms) && point->forms[form].args != args)
		form++;
	if (form == ARRAY_SIZE(point->forms))
		return error_new("this kernel is not supported: its tracepoint %s %s",
				 point->tracepoint,
				 args < 0 ? "is missing" : "has other arguments");
	r->settings.bio_at[point->point] = point->forms[form].at;
	r->programs[point->point].first = bpf_object__find_program_by_name(r->bpf, point->program);
	r->programs[point->point].nested = bpf_object__find_program_by_name(r->bpf, nested);
	if (!r->programs[point->point].first || !r->programs[point->point].nested)
		return error_new("the BPF object has no program %s", point->program);
	bpf_program__set_autoload(r->programs[point->point].first, true);
	bpf_program__set_autoload(r->programs[point->point].nested, second);
	if (!second)
		r->programs[point->point].nested = NULL;
	return NULL;
}

static struct error *choose_programs(struct recorder *r, const struct live_paths *paths,
				     const struct kernel_facts *kernel, unsigned int mask)
{
	const char *tracepoints[REC_POINTS];
	struct kernel_recorder bits;
	struct bpf_program *program;
	int args[REC_POINTS];

	for (unsigned int i = 0; i < REC_POINTS; i++)
		tracepoints[i] = points[i].tracepoint;
	try(kernel_recorder_read(paths, tracepoints, REC_POINTS, &bits, args));
	r->settings.sync_bit = bits.sync;
	r->settings.ahead_bit = bits.ahead;
	r->settings.meta_bit = bits.meta;
	r->settings.fua_bit = bits.fua;
	bpf_object__for_each_program(program, r->bpf) bpf_program__set_autoload(program, false);
	for (unsigned int i = 0; i < REC_POINTS; i++)
		if (mask & 1u << points[i].point)
			try(choose_program(r, &points[i], args[i], kernel));
	return NULL;
}

static struct error *size_map(struct recorder *r, const char *name, size_t entries, size_t value)
{
	struct bpf_map *map;
	int err;

	try(object_find_map(r->bpf, name, &map));
	err = bpf_map__set_max_entries(map, (unsigned int)entries);
	if (!err && value)
		err = bpf_map__set_value_size(map, (unsigned int)value);
	return err ? error_errno(-err, "cannot size the recorder's map %s", name) : NULL;
}

static struct error *ring_create(size_t bytes, int *ret)
{
	*ret = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "blkhist_ring", 0, 0, (unsigned int)bytes,
			      NULL);
	return *ret < 0 ?
		       error_errno(errno, "cannot create a ring buffer of %zu KiB", bytes >> 10) :
		       NULL;
}

static struct error *shape_rings(struct recorder *r)
{
	cleanup_close int fd = -1;
	struct bpf_map *map;
	int err;

	try(object_find_map(r->bpf, "rings", &map));
	/* Only a model: the kernel keeps its shape, libbpf the descriptor until loaded. */
	try(ring_create(r->ring_bytes, &fd));
	err = bpf_map__set_inner_map_fd(map, fd);
	if (err)
		return error_errno(-err, "cannot shape the recorder's map rings");
	fd = -1;
	return NULL;
}

static struct error *size_maps(struct recorder *r, unsigned int regions)
{
	bool keeps = r->settings.min_ns;

	r->slot_size = sizeof(struct rec_slot) + r->settings.held * sizeof(struct rec_event);
	r->slots_size = keeps ? (size_t)regions * REGION_SLOTS * r->slot_size : 0;
	try(size_map(r, "rings", r->n_cpus, 0));
	try(size_map(r, "region_ids", regions, 0));
	try(size_map(r, "region_pool", regions, 0));
	try(size_map(r, "slots", keeps ? (size_t)regions * REGION_SLOTS : 1, r->slot_size));
	try(size_map(r, "flushes", keeps ? 1024 : 1, r->slot_size));
	try(size_map(r, "blank", 1, r->slot_size));
	try(size_map(r, "bios", r->keeps_bios ? REC_BIOS : 1, 0));
	return shape_rings(r);
}

static void choose_devices(struct recorder *r, const struct device_list *devices,
			   const struct recorder_options *o)
{
	struct recorder_settings *s = &r->settings;

	for (unsigned int i = 0; i < o->n_devices; i++) {
		const struct device *d = o->devices[i];
		const struct device *disk = device_by_id(devices, d->disk_sysfs_id);

		s->chosen[s->chosen_n++] = (struct rec_chosen){
			.disk = device_number(disk ? disk : d),
			.device = device_number(d),
			.start = d->start,
			.end = d->start + d->sectors,
		};
	}
}

static struct error *set_settings(struct recorder *r, const struct kernel_facts *kernel,
				  const struct device_list *devices,
				  const struct recorder_options *o)
{
	const struct collector_settings shared = kernel_settings(kernel);
	struct recorder_settings *s = &r->settings;

	s->ops = o->ops;
	s->events = o->slow ? 0 : o->events;
	s->slow = o->slow;
	s->min_ns = (uint64_t)o->min_ns;
	s->held = o->slow || !o->min_ns ? 0 : HELD_EVENTS;
	s->wakeup = o->slow ? 0 : (uint32_t)(o->ring_bytes / WAKEUP_PART);
	choose_devices(r, devices, o);
	try(object_set_section(r->bpf, ".rodata.settings", &shared, sizeof(shared)));
	return object_set_section(r->bpf, ".rodata.record", s, sizeof(*s));
}

static struct error *open_maps(struct recorder *r)
{
	struct {
		const char *name;
		int *fd;
	} maps[] = {
		{ "slots", &r->slots_fd }, { "bios", &r->bios_fd },     { "disks", &r->disks_fd },
		{ "cpus", &r->cpus_fd },   { "losses", &r->losses_fd },
	};

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		struct bpf_map *map;

		try(object_find_map(r->bpf, maps[i].name, &map));
		*maps[i].fd = bpf_map__fd(map);
	}
	if (!r->settings.min_ns)
		return NULL;
	r->slots = mmap(NULL, r->slots_size, PROT_READ, MAP_SHARED, r->slots_fd, 0);
	if (r->slots == MAP_FAILED) {
		r->slots = NULL;
		return error_errno(errno, "cannot map the recorder's request slots");
	}
	return NULL;
}

/* --- buffers --- */

static bool cpu_is_online(const struct live_paths *paths, unsigned int cpu)
{
	cleanup_free char *dir = xasprintf("%s/sys/devices/system/cpu/cpu%u", paths->root, cpu);
	cleanup_free char *path = xasprintf("%s/online", dir);
	uint64_t online;
	struct error *err;

	if (access(dir, F_OK))
		return false;
	/* The first one cannot be taken offline, and often says nothing. */
	if (access(path, F_OK))
		return true;
	err = sysfs_read_u64(path, &online);
	if (err) {
		error_free(err);
		return false;
	}
	return online;
}

static int receive(void *context, void *data, size_t size)
{
	struct ring *ring = context;
	const struct recorder_sink *sink = ring->recorder->sink;
	const __u32 *kind = data;

	if (*kind == REC_EVENT && size == sizeof(struct rec_event)) {
		ring->last_ns = ((const struct rec_event *)data)->time;
		sink->event(sink->context, (unsigned int)(ring - ring->recorder->rings), data);
	} else if (*kind == REC_PROCESS && size >= sizeof(struct rec_process)) {
		sink->process(sink->context, data);
	} else if (*kind == REC_SLOW && size == sizeof(struct rec_slow)) {
		sink->slow(sink->context, data);
	}
	return ++ring->records < READ_RECORDS ? 0 : -EAGAIN;
}

static struct error *ring_open(struct recorder *r, int outer, unsigned int cpu)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct ring *ring = &r->rings[cpu];
	cleanup_close int fd = -1;

	try(ring_create(r->ring_bytes, &fd));
	if (bpf_map_update_elem(outer, &cpu, &fd, BPF_ANY))
		return error_errno(errno, "cannot give CPU %u its ring buffer", cpu);
	ring->recorder = r;
	ring->buffer = ring_buffer__new(fd, receive, ring, NULL);
	if (!ring->buffer)
		return error_errno(errno, "cannot map the ring buffer of CPU %u", cpu);
	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, ring_buffer__epoll_fd(ring->buffer), &event))
		return error_errno(errno, "cannot wait for the ring buffer of CPU %u", cpu);
	r->last_cpu = cpu;
	return NULL;
}

static struct error *rings_open(struct recorder *r, const struct live_paths *paths)
{
	struct bpf_map *map;

	try(object_find_map(r->bpf, "rings", &map));
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll < 0)
		return error_errno(errno, "cannot wait for ring buffers");
	for (unsigned int cpu = 0; cpu < r->n_cpus; cpu++)
		if (cpu_is_online(paths, cpu))
			try(ring_open(r, bpf_map__fd(map), cpu));
	return NULL;
}

/* Where the cell of a disk is free on the first CPU, it is on all. */
static struct error *disk_add(struct recorder *r, struct rec_cpu *cpus, uint32_t device)
{
	cleanup_free struct rec_disk *none = xcalloc(r->n_cpus, sizeof(*none));
	unsigned int cell = REC_DISK_CELL(device);

	if (!cpus[0].disks[cell].device)
		for (unsigned int i = 0; i < r->n_cpus; i++)
			cpus[i].disks[cell].device = device;
	if (cpus[0].disks[cell].device == device)
		return NULL;
	if (bpf_map_update_elem(r->disks_fd, &device, none, BPF_ANY))
		return error_errno(errno, "cannot choose a disk");
	return NULL;
}

/* If disks are chosen, only they have an entry; others get theirs with their first event. */
static struct error *disks_fill(struct recorder *r, const struct device_list *devices)
{
	cleanup_free struct rec_cpu *cpus = xcalloc(r->n_cpus, sizeof(*cpus));
	__u32 zero = 0;

	for (unsigned int i = 0; i < r->settings.chosen_n; i++)
		try(disk_add(r, cpus, r->settings.chosen[i].disk));
	for (unsigned int i = 0; i < devices->n && !r->settings.chosen_n; i++)
		if (!devices->devices[i].partno && devices->devices[i].sectors)
			try(disk_add(r, cpus, device_number(&devices->devices[i])));
	if (bpf_map_update_elem(r->cpus_fd, &zero, cpus, BPF_ANY))
		return error_errno(errno, "cannot prepare the recorder");
	return NULL;
}

/* --- attaching --- */

static struct error *attach_program(struct bpf_program *program, const char *tracepoint,
				    struct bpf_link **ret)
{
	struct bpf_link *link = bpf_program__attach(program);

	if (!link)
		return error_errno(errno, "cannot attach to the tracepoint %s", tracepoint);
	*ret = link;
	return NULL;
}

static struct error *attach(struct recorder *r)
{
	for (unsigned int i = 0; i < REC_POINTS; i++) {
		enum rec_point point = points[i].point;

		if (r->programs[point].first)
			try(attach_program(r->programs[point].first, points[i].tracepoint,
					   &r->programs[point].links[0]));
		/* Behind the first one. */
		if (r->programs[point].nested)
			try(attach_program(r->programs[point].nested, points[i].tracepoint,
					   &r->programs[point].links[1]));
	}
	return NULL;
}

/* The line with the reason: it stands before the summary, "processed N insns". */
static const char *refusal(char *log)
{
	char *end = strstr(log, "\nprocessed "), *begin;

	if (!end)
		return "the verifier does not say why";
	*end = '\0';
	begin = strrchr(log, '\n');
	return begin ? begin + 1 : log;
}

static struct error *load(struct recorder *r, const struct live_paths *paths,
			  const struct device_list *devices, const struct recorder_options *options)
{
	cleanup_free char *btf = kernel_btf_path(paths);
	/* As in object.c: libbpf shall not look into modules. */
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf, .kernel_log_buf = r->log,
		    .kernel_log_size = LOG_MAX);
	struct kernel_facts kernel;
	unsigned int regions, mask = attached_points(options, has_bios(devices, options));
	struct bpf_map *pool;
	const void *bytes;
	size_t size;
	int err;

	try(kernel_facts_read(paths, &kernel));
	try(regions_count(paths, devices, r->n_cpus, &regions));
	bytes = recorder_object__elf_bytes(&size);
	r->bpf = bpf_object__open_mem(bytes, size, &opts);
	if (!r->bpf)
		return error_errno(errno, "cannot open the recorder");
	r->keeps_bios = options->min_ns && mask & REC_BIO_EVENTS;
	try(choose_programs(r, paths, &kernel, mask));
	try(set_settings(r, &kernel, devices, options));
	try(size_maps(r, regions));
	err = bpf_object__load(r->bpf);
	if (err)
		return error_errno(-err, "cannot load the recorder into the kernel: %s",
				   refusal(r->log));
	try(object_find_map(r->bpf, "region_pool", &pool));
	try(regions_fill(bpf_map__fd(pool), regions));
	try(open_maps(r));
	return disks_fill(r, devices);
}

struct error *recorder_open(const struct live_paths *paths, const struct device_list *devices,
			    const struct recorder_options *options,
			    const struct recorder_sink *sink, struct recorder **ret)
{
	cleanup(recorder_closep) struct recorder *r = NULL;
	int n_cpus = libbpf_num_possible_cpus();

	kernel_quiet();
	if (n_cpus < 1)
		return error_errno(-n_cpus, "cannot count the CPUs");
	if (options->n_devices > REC_CHOSEN_MAX)
		return error_usage("more than %d devices are named; without any, all are recorded",
				   REC_CHOSEN_MAX);
	try(kernel_check_rights(paths, "record", true));
	r = xcalloc(1, sizeof(*r));
	r->sink = sink;
	r->n_cpus = (unsigned int)n_cpus;
	r->rings = xcalloc(r->n_cpus, sizeof(*r->rings));
	r->ring_bytes = options->ring_bytes;
	r->epoll = -1;
	try(kernel_explain_refusal(paths, load(r, paths, devices, options)));
	try(rings_open(r, paths));
	try(attach(r));
	*ret = take(r);
	return NULL;
}

/* --- reading --- */

/* The time of the first event of the oldest request that has not ended, if it is before @ns. */
static uint64_t oldest_slot(const struct recorder *r, uint64_t ns)
{
	for (size_t at = 0; at + r->slot_size <= r->slots_size; at += r->slot_size) {
		const volatile struct rec_slot *slot = (const void *)(r->slots + at);
		uint64_t first = slot->first_ns;

		if (slot->busy && first < ns)
			ns = first;
	}
	return ns;
}

static struct error *oldest_bio(const struct recorder *r, uint64_t *ns)
{
	cleanup_free struct rec_bio *bios = NULL;
	cleanup_free __u64 *keys = NULL;
	__u32 n = REC_BIOS;
	__u64 next;

	if (!r->keeps_bios)
		return NULL;
	bios = xcalloc(n, sizeof(*bios));
	keys = xcalloc(n, sizeof(*keys));
	if (bpf_map_lookup_batch(r->bios_fd, NULL, &next, keys, bios, &n, NULL) && errno != ENOENT)
		return error_errno(errno, "cannot read the bios under way");
	for (__u32 i = 0; i < n; i++)
		if (bios[i].first_ns < *ns)
			*ns = bios[i].first_ns;
	return NULL;
}

/* What is under way is looked at first, as its end would be found in the buffers then. */
static struct error *oldest_under_way(const struct recorder *r, uint64_t now, uint64_t *ret)
{
	uint64_t ns = now;

	if (r->settings.min_ns) {
		ns = oldest_slot(r, ns);
		try(oldest_bio(r, &ns));
		if (now > WAIT_NS && ns < now - WAIT_NS)
			ns = now - WAIT_NS;
	}
	*ret = ns;
	return NULL;
}

struct error *recorder_read(struct recorder *r, bool *more, uint64_t *until_ns)
{
	uint64_t until = 0;

	if (until_ns)
		try(oldest_under_way(r, (uint64_t)clock_ns(CLOCK_MONOTONIC), &until));
	*more = false;
	for (unsigned int i = 0; i < r->n_cpus; i++) {
		struct ring *ring = &r->rings[i];
		int n;

		if (!ring->buffer)
			continue;
		ring->records = 0;
		n = ring_buffer__consume(ring->buffer);
		if (n < 0 && n != -EAGAIN)
			return error_errno(-n, "cannot read the ring buffer of CPU %u", i);
		if (n == -EAGAIN) {
			*more = true;
			if (ring->last_ns < until)
				until = ring->last_ns;
		}
	}
	if (until_ns)
		*until_ns = until;
	return NULL;
}

/* --- losses --- */

static struct error *read_losses(struct recorder *r, __u64 ret[REC_LOSSES])
{
	for (__u32 i = 0; i < REC_LOSSES; i++)
		if (bpf_map_lookup_elem(r->losses_fd, &i, &ret[i]))
			return error_errno(errno, "cannot read the recorder's losses");
	return NULL;
}

/* Of the disks that have a cell. */
static struct error *read_cells(struct recorder *r, uint64_t *lost)
{
	cleanup_free struct rec_cpu *cpus = xcalloc(r->n_cpus, sizeof(*cpus));
	__u32 zero = 0;

	if (bpf_map_lookup_elem(r->cpus_fd, &zero, cpus))
		return error_errno(errno, "cannot read the recorder's losses");
	for (unsigned int i = 0; i < r->n_cpus; i++)
		for (unsigned int k = 0; k < REC_DISK_CELLS; k++)
			*lost += cpus[i].disks[k].lost;
	return NULL;
}

struct error *recorder_losses(struct recorder *r, struct recorder_losses *ret)
{
	cleanup_free struct rec_disk *disk = xcalloc(r->n_cpus, sizeof(*disk));
	struct recorder_losses losses = {};
	__u64 counts[REC_LOSSES];
	__u32 *previous = NULL, key;

	try(read_losses(r, counts));
	losses.lost = counts[REC_LOST_DISK];
	try(read_cells(r, &losses.lost));
	while (!bpf_map_get_next_key(r->disks_fd, previous, &key)) {
		if (bpf_map_lookup_elem(r->disks_fd, &key, disk))
			return error_errno(errno, "cannot read the recorder's losses");
		for (unsigned int i = 0; i < r->n_cpus; i++)
			losses.lost += disk[i].lost;
		previous = &key;
	}
	for (unsigned int i = 0; i < REC_POINTS; i++)
		if (r->programs[i].first)
			try(program_skipped_runs(bpf_program__fd(r->programs[i].first),
						 &losses.skipped));
	losses.skipped -= counts[REC_RECOVERED] < losses.skipped ? counts[REC_RECOVERED] :
								   losses.skipped;
	losses.skipped += counts[REC_UNKEPT];
	*ret = losses;
	return NULL;
}
