// SPDX-License-Identifier: GPL-2.0-only
/* Starting and stopping the collector: open, configure, load, fill, pin, attach, publish. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/abi.h"
#include "collector.skel.h"
#include "config.h"
#include "core/timefmt.h"
#include "core/util.h"
#include "sources/diskstats.h"
#include "sources/image.h"
#include "sources/inner.h"
#include "sources/kernel.h"
#include "sources/live.h"
#include "sources/live_internal.h"

#define NEW "blkhist-new"
#define OLD "blkhist-old"

const char *const stamp_mode_names[STAMP_NR] = {
	[STAMP_AUTO] = "auto",
	[STAMP_OWN] = "own",
	[STAMP_KERNEL] = "kernel",
};

/* Maps, and programs with their links, of the skeleton by number of pin. */
static const size_t map_offsets[MAP_NR] = {
	[MAP_META] = offsetof(struct collector, maps.meta),
	[MAP_HISTS] = offsetof(struct collector, maps.hists),
	[MAP_RETIRED] = offsetof(struct collector, maps.retired),
	[MAP_BASELINES] = offsetof(struct collector, maps.baselines),
	[MAP_PARTS] = offsetof(struct collector, maps.data_parts),
	[MAP_PART_IDS] = offsetof(struct collector, maps.part_ids),
	[MAP_HINTS] = offsetof(struct collector, maps.data_hints),
	[MAP_PART_POOL] = offsetof(struct collector, maps.part_pool),
	[MAP_RULES] = offsetof(struct collector, maps.rules),
	[MAP_REGION_IDS] = offsetof(struct collector, maps.region_ids),
	[MAP_REGION_POOL] = offsetof(struct collector, maps.region_pool),
	[MAP_HEADS] = offsetof(struct collector, maps.heads),
	[MAP_SLOTS] = offsetof(struct collector, maps.slots),
	[MAP_LOSSES] = offsetof(struct collector, maps.losses),
	[MAP_DISKSTATS] = offsetof(struct collector, maps.diskstats),
};

static const struct {
	size_t prog, link;
} prog_offsets[PROG_NR] = {
#define PROG(name)                                                                             \
	{                                                                                      \
		offsetof(struct collector, progs.name), offsetof(struct collector, links.name) \
	}
	[PROG_ISSUE] = PROG(block_rq_issue),
	[PROG_COMPLETE] = PROG(block_rq_complete),
	[PROG_COMPLETE_NESTED] = PROG(block_rq_complete_nested),
	[PROG_REQUEUE] = PROG(block_rq_requeue),
};

#define AT(type, base, offset) (*(type *)((char *)(base) + (offset)))

static struct bpf_map *skel_map(struct collector *skel, enum pin_map map)
{
	return AT(struct bpf_map *, skel, map_offsets[map]);
}

static struct bpf_program *skel_prog(struct collector *skel, enum pin_prog prog)
{
	return AT(struct bpf_program *, skel, prog_offsets[prog].prog);
}

static struct bpf_link **skel_link(struct collector *skel, enum pin_prog prog)
{
	return &AT(struct bpf_link *, skel, prog_offsets[prog].link);
}

static void collector_destroyp(struct collector **skel)
{
	collector__destroy(*skel);
}

static unsigned int power_of_two(unsigned int n)
{
	unsigned int p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* Request slots for the disks that are there, and for a few more of the largest kind likely. */
static struct error *count_regions(const struct live_paths *paths,
				   const struct device_list *devices, unsigned int n_cpus,
				   unsigned int *ret)
{
	uint64_t n = 1; /* index 0 is none */

	for (unsigned int i = 0; i < devices->n; i++) {
		const struct device *d = &devices->devices[i];
		uint64_t queues, tags;

		if (d->sysfs_id != d->disk_sysfs_id)
			continue;
		try(device_queues(paths->root, d->name.disk, &queues, &tags));
		n += queues * ((tags + REGION_SLOTS - 1) / REGION_SLOTS);
	}
	/* One more disk with a queue per CPU and 1,023 tags in each. */
	n += n_cpus * 8 > 16 ? n_cpus * 8 : 16;
	if (n >= 1u << REGION_INDEX_BITS)
		return error_new(
			"the disks of this machine have too many tags (%" PRIu64 " regions)", n);
	*ret = (unsigned int)n;
	return NULL;
}

static struct error *size_maps(struct collector *skel, const struct meta *meta,
			       unsigned int n_devices)
{
	const struct {
		enum pin_map map;
		unsigned int entries;
	} sizes[] = {
		{ MAP_HISTS, BLKHIST_MAX_PARTITIONS },
		{ MAP_RETIRED, BLKHIST_MAX_PARTITIONS },
		{ MAP_BASELINES, BLKHIST_MAX_PARTITIONS },
		/* As many devices that are ignored have an entry, but no counters. */
		{ MAP_PART_IDS, 2 * BLKHIST_MAX_PARTITIONS },
		{ MAP_RULES, meta->rules },
		{ MAP_REGION_IDS, meta->regions },
		{ MAP_REGION_POOL, meta->regions },
		{ MAP_HEADS, meta->regions },
		{ MAP_SLOTS, meta->regions * REGION_SLOTS },
		{ MAP_DISKSTATS, n_devices + 16 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		int err = bpf_map__set_max_entries(skel_map(skel, sizes[i].map), sizes[i].entries);

		if (err)
			return error_errno(-err, "cannot size the map %s",
					   pin_map_names[sizes[i].map]);
	}
	return NULL;
}

static struct error *set_inner_maps(struct collector *skel, const struct meta *meta)
{
	static const enum pin_map outer[] = { MAP_HISTS, MAP_RETIRED, MAP_BASELINES };

	for (size_t i = 0; i < ARRAY_SIZE(outer); i++) {
		bool varying = outer[i] == MAP_BASELINES;
		cleanup_close int fd = -1;
		int err;

		/* Only a model: the kernel keeps its shape, libbpf the descriptor until loaded. */
		try(inner_create(meta->hist_blocks, varying, &fd));
		err = bpf_map__set_inner_map_fd(skel_map(skel, outer[i]), fd);
		if (err)
			return error_errno(-err, "cannot shape the map %s",
					   pin_map_names[outer[i]]);
		fd = -1;
	}
	return NULL;
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

static struct error *load(const struct live_paths *paths, const struct meta *meta,
			  const struct kernel_facts *kernel, unsigned int n_devices,
			  struct collector **ret)
{
	cleanup(collector_destroyp) struct collector *skel = collector__open();
	int err;

	if (!skel)
		return error_errno(errno, "cannot open the collector");
	skel->rodata->stamp_mode = meta->stamp_used;
	skel->rodata->queue_flag_stats_bit = kernel->queue_flag_stats_bit;
	skel->rodata->rqf_flush_seq_bit = kernel->rqf_flush_seq_bit;
	bpf_program__set_autoload(skel->progs.block_rq_complete_nested, meta->nested);
	try(size_maps(skel, meta, n_devices));
	try(set_inner_maps(skel, meta));
	err = collector__load(skel);
	if (err) {
		try(kernel_explain_refusal(paths, -err));
		return error_errno(-err, "cannot load the collector into the kernel");
	}
	*ret = take(skel);
	return NULL;
}

/* Pins maps and programs below the new directory. */
static struct error *pin(const struct live_paths *paths, struct collector *skel,
			 const struct meta *meta)
{
	static const char *const dirs[] = { "", "/maps", "/inner", "/progs", "/links" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		cleanup_free char *path = pins_path(paths, NEW "%s", dirs[i]);

		if (mkdir(path, 0700))
			return error_errno(errno, "cannot create %s", path);
	}
	for (enum pin_map map = 0; map < MAP_NR; map++) {
		cleanup_free char *path = pins_path(paths, NEW "/maps/%s", pin_map_names[map]);

		if (bpf_obj_pin(bpf_map__fd(skel_map(skel, map)), path))
			return error_errno(errno, "cannot pin %s", path);
	}
	for (enum pin_prog prog = 0; prog < PROG_NR; prog++) {
		cleanup_free char *path = pins_path(paths, NEW "/progs/%s", pin_progs[prog].name);

		if (prog == PROG_COMPLETE_NESTED && !meta->nested)
			continue;
		if (bpf_obj_pin(bpf_program__fd(skel_prog(skel, prog)), path))
			return error_errno(errno, "cannot pin %s", path);
	}
	return NULL;
}

static struct error *attach(const struct live_paths *paths, struct collector *skel,
			    const struct meta *meta)
{
	for (enum pin_prog prog = 0; prog < PROG_NR; prog++) {
		cleanup_free char *path = pins_path(paths, NEW "/links/%s", pin_progs[prog].name);
		struct bpf_link *link;

		if (prog == PROG_COMPLETE_NESTED && !meta->nested)
			continue;
		link = bpf_program__attach(skel_prog(skel, prog));
		if (!link)
			return error_errno(errno, "cannot attach to the tracepoint %s",
					   pin_progs[prog].tracepoint);
		*skel_link(skel, prog) = link;
		if (bpf_link__pin(link, path))
			return error_errno(errno, "cannot pin %s", path);
	}
	skel->data->attached_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC);
	return NULL;
}

/* Blocks of an inner map: as many as the rule that needs the most, as all have the same size. */
static unsigned int count_blocks(const struct config *config, unsigned int stripes)
{
	unsigned int blocks = HIST_BLOCKS_MIN;

	for (unsigned int i = 0; i < config->n; i++) {
		unsigned int n = image_blocks(config->rules[i].ladders[DIM_SIZE].n, stripes);

		blocks = n > blocks ? n : blocks;
	}
	return blocks;
}

static void fill_meta(struct meta *meta, const struct live_settings *settings,
		      const struct kernel_facts *kernel, unsigned int n_cpus)
{
	*meta = (struct meta){
		.magic = BLKHIST_ABI_MAGIC,
		.abi_version = BLKHIST_ABI_VERSION,
		.since_realtime_ns = (uint64_t)clock_ns(CLOCK_REALTIME),
		.since_boottime_ns = (uint64_t)clock_ns(CLOCK_BOOTTIME),
		.max_partitions = BLKHIST_MAX_PARTITIONS,
		.stamp = settings->stamp,
		.nested = kernel->skips_nested,
		.version = BLKHIST_VERSION,
	};
	meta->stripes = power_of_two(n_cpus);
	if (meta->stripes > STRIPES_MAX)
		meta->stripes = STRIPES_MAX;
	meta->hist_blocks = count_blocks(settings->config, meta->stripes);
	meta->stamp_used = settings->stamp == STAMP_KERNEL || (settings->stamp == STAMP_AUTO &&
							       !kernel->cached_clock) ?
				   STAMP_KERNEL :
				   STAMP_OWN;
}

/* Writes the settings: the only entry of meta, and the rules. */
static struct error *write_settings(struct collector *skel, const struct meta *meta,
				    const struct rule *rules)
{
	__u32 zero = 0;

	if (bpf_map_update_elem(bpf_map__fd(skel->maps.meta), &zero, meta, BPF_ANY))
		return error_errno(errno, "cannot write the collector's settings");
	for (__u32 i = 0; i < meta->rules; i++)
		if (bpf_map_update_elem(bpf_map__fd(skel->maps.rules), &i, &rules[i], BPF_ANY))
			return error_errno(errno, "cannot write the collector's settings");
	return NULL;
}

static struct error *push_regions(struct collector *skel, const struct meta *meta)
{
	for (__u32 id = 1; id < meta->regions; id++)
		if (bpf_map_update_elem(bpf_map__fd(skel->maps.region_pool), NULL, &id, BPF_ANY))
			return error_errno(errno, "cannot fill the pool of request slots");
	return NULL;
}

static struct error *build(const struct live_paths *paths, const struct live_settings *settings)
{
	cleanup(collector_destroyp) struct collector *skel = NULL;
	cleanup(device_list_deinit) struct device_list devices = {};
	cleanup(live_closep) struct live *live = NULL;
	cleanup_free struct rule *rules = NULL;
	struct kernel_facts kernel;
	struct meta meta;
	int n_cpus = libbpf_num_possible_cpus();

	if (n_cpus < 1)
		return error_errno(-n_cpus, "cannot count the CPUs");
	try(kernel_facts_read(paths, &kernel));
	try(device_list_read(paths->root, &devices));
	fill_meta(&meta, settings, &kernel, (unsigned int)n_cpus);
	try(rules_make(settings->config, &meta, &rules));
	try(count_regions(paths, &devices, (unsigned int)n_cpus, &meta.regions));
	try(load(paths, &meta, &kernel, devices.n, &skel));
	try(write_settings(skel, &meta, rules));
	try(push_regions(skel, &meta));
	try(pin(paths, skel, &meta));
	try(live_open_dir(paths, NEW, &live));
	try(live_prepare(live, &devices));
	try(live_adopt(live, &devices));
	try(attach(paths, skel, &meta));
	return live_diskstats_begin(live, &devices);
}

struct error *live_start(const struct live_paths *paths, const struct live_settings *settings,
			 bool *already)
{
	cleanup_free char *from = pins_path(paths, NEW);
	cleanup_free char *to = pins_path(paths, "blkhist");
	cleanup_close int lock = -1;
	struct error *err;

	libbpf_set_print(quiet);
	try(pins_mount(paths));
	try(pins_lock(paths, &lock));
	if (pins_exist(paths)) {
		cleanup(live_closep) struct live *live = NULL;

		try(live_open_dir(paths, "blkhist", &live));
		try(rules_differ(live, settings));
		*already = true;
		return NULL;
	}
	try(pins_remove(paths, OLD));
	try(pins_remove(paths, NEW));
	err = build(paths, settings);
	if (!err && rename(from, to))
		err = error_errno(errno, "cannot rename %s to %s", from, to);
	if (err) {
		error_free(pins_remove(paths, NEW));
		return err;
	}
	*already = false;
	return NULL;
}

struct error *live_stop(const struct live_paths *paths, bool *was_running)
{
	cleanup_free char *from = pins_path(paths, "blkhist");
	cleanup_free char *to = pins_path(paths, OLD);
	cleanup_close int lock = -1;
	bool running;

	try(pins_mount(paths));
	try(pins_lock(paths, &lock));
	try(pins_remove(paths, OLD));
	running = pins_exist(paths);
	if (running && rename(from, to))
		return error_errno(errno, "cannot take down %s; run blkhist as root", from);
	try(pins_remove(paths, OLD));
	try(pins_remove(paths, NEW));
	*was_running = running;
	return NULL;
}
