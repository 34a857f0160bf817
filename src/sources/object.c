// SPDX-License-Identifier: GPL-2.0-only
#include "sources/object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "core/timefmt.h"
#include "core/util.h"
#include "sources/inner.h"

/* Of these only the bytes of the objects are used; they name records of abi.h. */
#include "collector.skel.h"
#include "collector_no_exchange.skel.h"

#define LOG_MAX 16384

struct object {
	struct bpf_object *bpf;
	struct bpf_map *maps[MAP_NR], *attached;
	struct bpf_program *progs[PROG_NR]; /* NULL: not wanted on this kernel */
	char logs[PROG_NR][LOG_MAX];
};

void object_destroyp(struct object **object)
{
	if (!*object)
		return;
	bpf_object__close((*object)->bpf);
	free(*object);
	*object = NULL;
}

int object_map(const struct object *object, enum pin_map map)
{
	return bpf_map__fd(object->maps[map]);
}

struct error *object_find_map(struct bpf_object *bpf, const char *name, struct bpf_map **ret)
{
	*ret = bpf_object__find_map_by_name(bpf, name);
	return *ret ? NULL : error_new("the BPF object has no map %s", name);
}

struct error *object_set_section(struct bpf_object *bpf, const char *name, const void *value,
				 size_t size)
{
	struct bpf_map *map;
	int err;

	try(object_find_map(bpf, name, &map));
	err = bpf_map__set_initial_value(map, value, size);
	return err ? error_errno(-err, "cannot set %s of the BPF object", name) : NULL;
}

struct error *program_skipped_runs(int fd, uint64_t *sum)
{
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return error_errno(errno, "cannot read a program's statistics");
	*sum += info.recursion_misses;
	return NULL;
}

static struct error *object_open(const struct live_paths *paths, const struct kernel_facts *kernel,
				 struct object *o)
{
	cleanup_free char *btf = kernel_btf_path(paths);
	/* With a path, libbpf does not look for missing types in modules: needs CAP_SYS_ADMIN. */
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = btf);
	const void *bytes;
	size_t size;

	if (kernel->exchange)
		bytes = collector__elf_bytes(&size);
	else
		bytes = collector_no_exchange__elf_bytes(&size);
	o->bpf = bpf_object__open_mem(bytes, size, &opts);
	if (!o->bpf)
		return error_errno(errno, "cannot open the collector");
	for (enum pin_map map = 0; map < MAP_NR; map++) {
		const char *name = pin_maps[map].object ? pin_maps[map].object : pin_maps[map].name;

		try(object_find_map(o->bpf, name, &o->maps[map]));
	}
	try(object_find_map(o->bpf, ".data.attached", &o->attached));
	for (enum pin_prog prog = 0; prog < PROG_NR; prog++) {
		struct bpf_program *p =
			bpf_object__find_program_by_name(o->bpf, pin_progs[prog].name);

		if (!p)
			return error_new("the BPF object has no program %s", pin_progs[prog].name);
		if (!pin_prog_needed(prog, kernel->skips_nested, kernel->preemptible)) {
			bpf_program__set_autoload(p, false);
			continue;
		}
		o->progs[prog] = p;
		/* Only the sum, see verified(). */
		bpf_program__set_log_level(p, 4);
		bpf_program__set_log_buf(p, o->logs[prog], LOG_MAX);
	}
	return NULL;
}

static struct error *set_settings(struct object *o, const struct kernel_facts *kernel,
				  const struct meta *meta)
{
	struct collector_settings settings = kernel_settings(kernel);

	settings.stamp_mode = meta->stamp_used;
	settings.rules = meta->rules;
	return object_set_section(o->bpf, ".rodata.settings", &settings, sizeof(settings));
}

static struct error *size_maps(struct object *o, const struct meta *meta)
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
		{ MAP_BIOS, meta->bio_slots },
		{ MAP_DISKSTATS, BLKHIST_MAX_PARTITIONS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		int err = bpf_map__set_max_entries(o->maps[sizes[i].map], sizes[i].entries);

		if (err)
			return error_errno(-err, "cannot size the map %s",
					   pin_maps[sizes[i].map].name);
	}
	return NULL;
}

static struct error *set_inner_maps(struct object *o, const struct meta *meta)
{
	static const enum pin_map outer[] = { MAP_HISTS, MAP_RETIRED, MAP_BASELINES };

	for (size_t i = 0; i < ARRAY_SIZE(outer); i++) {
		bool varying = outer[i] == MAP_BASELINES;
		cleanup_close int fd = -1;
		int err;

		/* Only a model: the kernel keeps its shape, libbpf the descriptor until loaded. */
		try(inner_create(meta->hist_blocks, varying, &fd));
		err = bpf_map__set_inner_map_fd(o->maps[outer[i]], fd);
		if (err)
			return error_errno(-err, "cannot shape the map %s",
					   pin_maps[outer[i]].name);
		fd = -1;
	}
	return NULL;
}

/* "processed 1234 insns (limit 1000000) ..."; the kernel itself tells only since 5.16. */
static __u32 verified(const char *log)
{
	const char *at = strstr(log, "processed ");
	unsigned int n = 0;

	return at && sscanf(at, "processed %u insns", &n) == 1 ? n : 0;
}

/* What the verifier said of the program that it refused, as one line. */
static const char *refusal(struct object *o)
{
	char *log = NULL, *end;

	for (enum pin_prog prog = 0; prog < PROG_NR; prog++)
		if (o->progs[prog] && bpf_program__fd(o->progs[prog]) < 0 && *o->logs[prog])
			log = o->logs[prog];
	if (!log)
		return "the verifier does not say why";
	end = strstr(log, "verification time");
	if (end)
		*end = '\0';
	for (char *p = log; *p; p++)
		if (*p == '\n')
			*p = ' ';
	return log;
}

struct error *object_load(const struct live_paths *paths, const struct kernel_facts *kernel,
			  struct meta *meta, struct object **ret)
{
	cleanup(object_destroyp) struct object *o = xcalloc(1, sizeof(*o));
	int err;

	try(object_open(paths, kernel, o));
	try(set_settings(o, kernel, meta));
	try(size_maps(o, meta));
	try(set_inner_maps(o, meta));
	err = bpf_object__load(o->bpf);
	if (err)
		return error_errno(-err, "cannot load the collector into the kernel: %s",
				   refusal(o));
	for (enum pin_prog prog = 0; prog < PROG_NR; prog++)
		meta->verified[prog] = verified(o->logs[prog]);
	*ret = take(o);
	return NULL;
}

struct error *object_pin(const struct object *o, const struct live_paths *paths, const char *dir)
{
	static const char *const dirs[] = { "", "/maps", "/inner", "/progs", "/links" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		cleanup_free char *path = pins_path(paths, "%s%s", dir, dirs[i]);

		if (mkdir(path, 0700))
			return error_errno(
				errno, "cannot create %s (this user must have the right to)", path);
	}
	for (enum pin_map map = 0; map < MAP_NR; map++) {
		cleanup_free char *path = pins_path(paths, "%s/maps/%s", dir, pin_maps[map].name);

		if (bpf_obj_pin(object_map(o, map), path))
			return error_errno(errno, "cannot pin %s", path);
	}
	for (enum pin_prog prog = 0; prog < PROG_NR; prog++) {
		cleanup_free char *path =
			pins_path(paths, "%s/progs/%s", dir, pin_progs[prog].name);

		if (o->progs[prog] && bpf_obj_pin(bpf_program__fd(o->progs[prog]), path))
			return error_errno(errno, "cannot pin %s", path);
	}
	return NULL;
}

struct error *object_attached(const struct object *o)
{
	__u64 now = (__u64)clock_ns(CLOCK_MONOTONIC);
	__u32 zero = 0;

	if (bpf_map_update_elem(bpf_map__fd(o->attached), &zero, &now, BPF_ANY))
		return error_errno(errno, "cannot tell the collector that it is attached");
	return NULL;
}
