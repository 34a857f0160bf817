// SPDX-License-Identifier: GPL-2.0-only
/* Starting and stopping the collector: open, configure, load, fill, pin, attach, publish. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/abi.h"
#include "config.h"
#include "core/timefmt.h"
#include "core/util.h"
#include "sources/diskstats.h"
#include "sources/image.h"
#include "sources/inner.h"
#include "sources/kernel.h"
#include "sources/live.h"
#include "sources/live_internal.h"
#include "sources/object.h"
#include "sources/regions.h"

#define NEW "blkhist-new"
#define OLD "blkhist-old"

const char *const stamp_mode_names[STAMP_NR] = {
	[STAMP_AUTO] = "auto",
	[STAMP_OWN] = "own",
	[STAMP_KERNEL] = "kernel",
};

const char *const bios_mode_names[BIOS_NR] = {
	[BIOS_AUTO] = "auto",
	[BIOS_ON] = "on",
	[BIOS_OFF] = "off",
};

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
		.preempted = kernel->preemptible,
		.bios = settings->bios,
		.version = BLKHIST_VERSION,
	};
	meta->stripes = (__u32)power_of_two(n_cpus);
	if (meta->stripes > STRIPES_MAX)
		meta->stripes = STRIPES_MAX;
	meta->hist_blocks = count_blocks(settings->config, meta->stripes);
	meta->stamp_used = settings->stamp == STAMP_KERNEL || (settings->stamp == STAMP_AUTO &&
							       !kernel->cached_clock) ?
				   STAMP_KERNEL :
				   STAMP_OWN;
}

/* Writes the settings: the only entry of meta, and the rules. */
static struct error *write_settings(struct object *object, const struct meta *meta,
				    const struct rule *rules)
{
	__u32 zero = 0;

	if (bpf_map_update_elem(object_map(object, MAP_META), &zero, meta, BPF_ANY))
		return error_errno(errno, "cannot write the collector's settings");
	for (__u32 i = 0; i < meta->rules; i++)
		if (bpf_map_update_elem(object_map(object, MAP_RULES), &i, &rules[i], BPF_ANY))
			return error_errno(errno, "cannot write the collector's settings");
	return NULL;
}

/* Those of devices that appear later may be few: what finds no slot is counted. */
static unsigned int count_bio_slots(enum bios_mode mode, const struct device_list *devices)
{
	if (mode == BIOS_OFF)
		return 1;
	return mode == BIOS_ON || device_list_has_bios(devices) ? BIO_SLOTS : BIO_SLOTS_FEW;
}

static struct error *look_again(const struct live_paths *paths, struct device_list *devices)
{
	device_list_deinit(devices);
	return device_list_read(paths->root, devices);
}

static struct error *build(const struct live_paths *paths, const struct live_settings *settings)
{
	cleanup(object_destroyp) struct object *object = NULL;
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
	meta.bio_slots = count_bio_slots(settings->bios, &devices);
	try(regions_count(paths, &devices, (unsigned int)n_cpus, &meta.regions));
	try(object_load(paths, &kernel, &meta, &object));
	try(write_settings(object, &meta, rules));
	try(regions_fill(object_map(object, MAP_REGION_POOL), meta.regions));
	try(object_pin(object, paths, NEW));
	try(live_open_dir(paths, NEW, &live));
	/* Loading took a while: what has come meanwhile is to have counters, too. */
	try(look_again(paths, &devices));
	try(live_make_ready(live, &devices));
	try(live_adopt(live, &devices));
	try(points_attach(live, false));
	try(object_attached(object));
	/* And so did making counters for many devices. */
	try(look_again(paths, &devices));
	try(live_adopt(live, &devices));
	try(live_diskstats_begin(live, true));
	return points_follow_devices(live, &devices);
}

struct error *live_start(const struct live_paths *paths, const struct live_settings *settings,
			 bool *already)
{
	cleanup_free char *from = pins_path(paths, NEW);
	cleanup_free char *to = pins_path(paths, "blkhist");
	cleanup_close int lock = -1;
	struct error *err;

	kernel_quiet();
	try(kernel_check_rights(paths, "start the collector", true));
	try(pins_mount(paths));
	try(pins_lock(paths, &lock));
	if (pins_exist(paths)) {
		cleanup(device_list_deinit) struct device_list devices = {};
		cleanup(live_closep) struct live *live = NULL;

		try(live_open_dir(paths, "blkhist", &live));
		try(rules_differ(live, settings));
		try(device_list_read(paths->root, &devices));
		try(live_prepare(live, &devices));
		*already = true;
		return NULL;
	}
	try(pins_remove(paths, OLD));
	try(pins_remove(paths, NEW));
	err = kernel_explain_refusal(paths, build(paths, settings));
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
	if (running && rename(from, to)) {
		int errnum = errno;

		try(pins_check_owner(paths));
		return error_errno(errnum, "cannot take down %s", from);
	}
	try(pins_remove(paths, OLD));
	try(pins_remove(paths, NEW));
	*was_running = running;
	return NULL;
}
