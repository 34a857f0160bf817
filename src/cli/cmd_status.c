// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <string.h>

#include "cli/command.h"
#include "core/timefmt.h"
#include "core/util.h"
#include "outputs/json.h"
#include "outputs/text.h"

struct status_settings {
	const char *format;
	bool verify;
};

static const struct status_settings defaults = { .format = "text" };

static const struct option_spec options[] = {
	{ "format", 'f', OPTION_STRING, offsetof(struct status_settings, format), "text|json",
	  "for people, or one JSON object" },
	{ "verify", 0, OPTION_FLAG, offsetof(struct status_settings, verify), NULL,
	  "compare the counts with /proc/diskstats; exit 1 on a difference" },
	{}
};

static const struct command_syntax syntax = {
	.usage = "[OPTIONS]",
	.summary = "Tell since when and how it collects, what it takes, and what it missed.",
	.options = options,
};

/* A ladder as it was asked for, or in short. */
static char *ladder_text(const struct meta_ladder *m, enum dimension dim)
{
	char first[UNIT_TEXT_MAX], last[UNIT_TEXT_MAX];

	if (!m->n)
		return xstrdup("none");
	unit_format_short(dim, (int64_t)m->bound[0], first);
	unit_format_short(dim, (int64_t)m->bound[m->n - 1], last);
	return xasprintf("%s (%u bounds, %s to %s)", m->text[0] ? m->text : "a list",
			 (unsigned int)m->n, first, last);
}

static void kinds_text(unsigned int kinds, struct buf *out)
{
	for (int kind = 0; kind < KIND_NR; kind++)
		if (kinds & 1u << kind)
			buf_printf(out, " %s", hist_kind_names[kind]);
}

static void kinds_json(unsigned int kinds, struct buf *out)
{
	json_key(out, "kinds");
	buf_puts(out, "[");
	for (int kind = 0; kind < KIND_NR; kind++) {
		if (!(kinds & 1u << kind))
			continue;
		json_element(out);
		json_string(out, hist_kind_names[kind]);
	}
	buf_puts(out, "]");
}

static const char *stamp_text(const struct meta *meta)
{
	return meta->stamp_used == STAMP_OWN ?
		       "own clock at issue" :
		       "the kernel's stamp where there is one, else own clock";
}

/* What is collected of a disk: by requests, or by bios where there are none. */
struct disk_state {
	const struct device *device;
	unsigned int kinds; /* 0: it is not counted */
	uint64_t heads;
};

static struct error *disk_state_read(const struct live *live, const struct device *d,
				     struct disk_state *ret)
{
	cleanup_free char *path = device_path(system_paths.root, d->name.disk, "queue/rotational");
	uint64_t queues, tags, rotational;

	try(device_queues(system_paths.root, d->name.disk, &queues, &tags));
	try(sysfs_read_u64(path, &rotational));
	ret->device = d;
	ret->kinds = live_counts(live, d) ? live_rule(live, d)->kinds : 0;
	if (!d->request_based)
		ret->kinds &= 1u << KIND_REQUEST | 1u << KIND_SEEK;
	ret->heads = d->request_based && !rotational ? queues : 1;
	return NULL;
}

/* All disks that have a size; the caller frees *@ret. */
static struct disk_state *disk_states(const struct live *live, const struct device_list *devices,
				      unsigned int *n)
{
	struct disk_state *states = xcalloc(devices->n, sizeof(*states));

	*n = 0;
	for (unsigned int i = 0; i < devices->n; i++) {
		const struct device *d = &devices->devices[i];
		struct error *err;

		if (d->name.partition[0] || !(d->sectors || d->name.head[0]))
			continue;
		err = disk_state_read(live, d, &states[*n]);
		*n += !err;
		error_free(err); /* the disk is just going away */
	}
	return states;
}

static void disks_text(const struct live *live, const struct device_list *devices, struct buf *out)
{
	unsigned int n;
	cleanup_free struct disk_state *states = disk_states(live, devices, &n);

	buf_printf(out, "disks       %-16s %-8s %5s  %s\n", "", "by", "heads", "kinds");
	for (unsigned int i = 0; i < n; i++) {
		const struct device *d = states[i].device;

		buf_printf(out, "            %-16s ", d->name.disk);
		if (!states[i].kinds) {
			buf_puts(out, "not counted\n");
			continue;
		}
		buf_printf(out, "%-8s %5" PRIu64 " ", d->request_based ? "requests" : "bios",
			   states[i].heads);
		kinds_text(states[i].kinds, out);
		if (d->name.head[0])
			buf_printf(out, " (a path of %s)", d->name.head);
		buf_puts(out, "\n");
	}
}

static void disks_json(const struct live *live, const struct device_list *devices, struct buf *out)
{
	unsigned int n;
	cleanup_free struct disk_state *states = disk_states(live, devices, &n);

	json_key(out, "disks");
	buf_puts(out, "[");
	for (unsigned int i = 0; i < n; i++) {
		json_element(out);
		buf_puts(out, "{");
		json_device(out, &states[i].device->name);
		json_key_string(out, "by", states[i].device->request_based ? "requests" : "bios");
		json_key_u64(out, "heads", states[i].heads);
		kinds_json(states[i].kinds, out);
		buf_puts(out, "}");
	}
	buf_puts(out, "]");
}

/* What a section sets otherwise than the default. */
static void section_text(const struct live_status *s, unsigned int i, struct buf *out)
{
	const struct rule *rule = &s->rules[i], *base = &s->rules[0];
	cleanup_free char *name = xasprintf("[%s]", rule->glob_text);

	buf_printf(out, "              %-16s", name);
	if (rule->ignore) {
		buf_puts(out, " ignored\n");
		return;
	}
	buf_printf(out, " %u ready", s->ready[i]);
	for (int k = 0; k < LADDER_KINDS; k++) {
		cleanup_free char *text = ladder_text(&rule->ladders[k], (enum dimension)k);

		if (memcmp(&rule->ladders[k], &base->ladders[k], sizeof(base->ladders[k])))
			buf_printf(out, "; %s %s", ladder_names[k], text);
	}
	if (rule->kinds != base->kinds || base->ignore) {
		buf_puts(out, "; kinds");
		kinds_text(rule->kinds, out);
	}
	buf_puts(out, "\n");
}

static void rules_text(const struct live_status *s, struct buf *out)
{
	buf_puts(out, "kinds      ");
	kinds_text(s->rules[0].kinds, out);
	buf_puts(out, s->rules[0].ignore ? ", ignored without a section\n" : "\n");
	for (int i = 0; i < LADDER_KINDS; i++) {
		cleanup_free char *text = ladder_text(&s->rules[0].ladders[i], (enum dimension)i);

		buf_printf(out, "%-12s%s\n", ladder_names[i], text);
	}
	if (s->meta->rules > 1)
		buf_puts(out, "sections    the first that matches holds; the rest as above\n");
	for (unsigned int i = 1; i < s->meta->rules; i++)
		section_text(s, i, out);
}

static void partitions_text(const struct live_status *s, struct buf *out)
{
	buf_printf(out, "partitions  %u in use", s->partitions);
	if (s->gone)
		buf_printf(out, " (%u of devices that are gone: show --all)", s->gone);
	buf_printf(out, ", %u ready, at most %u\n", s->spare, s->meta->max_partitions - 1);
	if (s->exhausted)
		buf_puts(out, "              none is left: devices that appear now are not counted "
			      "(no_counters; build option max_partitions)\n");
}

static void attached_text(const struct live_status *s, struct buf *out)
{
	for (int bios = 0; bios < 2; bios++) {
		buf_puts(out, bios ? "bios       " : "attached   ");
		for (int i = 0; i < PROG_NR; i++)
			if (pin_progs[i].bios == bios && s->points[i].attached)
				buf_printf(out, " %s", s->points[i].program);
		if (bios)
			buf_printf(out, "%s (--bios %s)",
				   s->points[PROG_BIO_QUEUE].attached ? "" : " nothing",
				   bios_mode_names[s->meta->bios]);
		buf_puts(out, "\n");
	}
}

static void status_text(const struct live *live, const struct live_status *s,
			const struct device_list *devices, const struct snapshot *snap,
			struct buf *out)
{
	const struct meta *meta = s->meta;
	char since[RFC3339_MAX];
	size_t before;

	time_format_seconds((int64_t)meta->since_realtime_ns, since);
	buf_printf(out, "collecting  since %s, started by blkhist %.*s (format %u)\n", since,
		   (int)sizeof(meta->version), meta->version, meta->abi_version);
	buf_printf(out, "issue time  %s (--stamp %s)\n", stamp_text(meta),
		   stamp_mode_names[meta->stamp]);
	rules_text(s, out);
	attached_text(s, out);
	buf_printf(out, "memory      %" PRIu64 " bytes in maps\n", s->memory);
	partitions_text(s, out);
	buf_printf(out, "slots       %u of %u regions in use, for %u requests each\n", s->regions,
		   meta->regions - 1, REGION_SLOTS);
	disks_text(live, devices, out);
	buf_puts(out, "losses      (not in the histograms, or worth knowing)\n");
	before = out->len;
	text_losses(snap, out);
	if (out->len == before)
		buf_puts(out, "  none\n");
}

static void verify_text(const struct verify_result *v, struct buf *out)
{
	buf_printf(out, "\nverify      %-16s %-8s %14s %8s %14s\n", "device", "op", "blkhist",
		   "unseen", "diskstats");
	for (unsigned int i = 0; i < v->n; i++) {
		const struct verify_row *r = &v->rows[i];
		const char *name = device_name_own(&r->name);

		buf_printf(out, "            %-16s %-8s %14" PRIu64 " %8" PRIu64 " %14" PRIu64,
			   name, blk_op_names[r->op], r->ours, r->unseen, r->diskstats_lo);
		if (r->diskstats_hi != r->diskstats_lo)
			buf_printf(out, "..%" PRIu64 " (I/O ran at the start)", r->diskstats_hi);
		if (r->extra)
			buf_printf(out, " (it may have %" PRIu64 " splits and flushes more)",
				   r->extra);
		buf_puts(out, r->equal ? "\n" : "  DIFFERENT\n");
	}
	for (unsigned int i = 0; i < v->n_skips; i++) {
		const struct device_name *n = &v->skips[i].name;

		buf_printf(out, "            %-16s %s\n", device_name_own(n),
			   v->skips[i].ignored ? "ignored" : "not compared: no kind 'request'");
	}
	buf_printf(out, "            %s\n", v->equal ? "equal" : "NOT equal");
}

static void verify_json(const struct verify_result *v, struct buf *out)
{
	json_key(out, "verify");
	buf_puts(out, "{");
	json_key_bool(out, "equal", v->equal);
	json_key(out, "rows");
	buf_puts(out, "[");
	for (unsigned int i = 0; i < v->n; i++) {
		const struct verify_row *r = &v->rows[i];

		json_element(out);
		buf_puts(out, "{");
		json_key_string(out, "name", device_name_own(&r->name));
		json_key_string(out, "op", blk_op_names[r->op]);
		json_key_u64(out, "count", r->ours);
		json_key_u64(out, "unseen", r->unseen);
		json_key_u64(out, "extra", r->extra);
		json_key_u64(out, "diskstats", r->diskstats_lo);
		json_key_u64(out, "diskstats_max", r->diskstats_hi);
		json_key_bool(out, "equal", r->equal);
		buf_puts(out, "}");
	}
	buf_puts(out, "]");
	json_key(out, "skipped");
	buf_puts(out, "[");
	for (unsigned int i = 0; i < v->n_skips; i++) {
		const struct device_name *n = &v->skips[i].name;

		json_element(out);
		buf_puts(out, "{");
		json_key_string(out, "name", device_name_own(n));
		json_key_bool(out, "ignored", v->skips[i].ignored);
		buf_puts(out, "}");
	}
	buf_puts(out, "]}");
}

static void rule_json(const struct rule *rule, struct buf *out)
{
	json_key_bool(out, "ignore", rule->ignore);
	kinds_json(rule->kinds, out);
	json_key(out, "ladders");
	buf_puts(out, "{");
	for (int i = 0; i < LADDER_KINDS; i++) {
		struct ladder l = { .dim = (enum dimension)i,
				    .n = (unsigned int)rule->ladders[i].n };

		memcpy(l.bound, rule->ladders[i].bound, l.n * sizeof(l.bound[0]));
		json_bounds(out, ladder_names[i], &l);
	}
	buf_puts(out, "}");
}

static void rules_json(const struct live_status *s, struct buf *out)
{
	rule_json(&s->rules[0], out);
	json_key(out, "sections");
	buf_puts(out, "[");
	for (unsigned int i = 1; i < s->meta->rules; i++) {
		json_element(out);
		buf_puts(out, "{");
		json_key_string(out, "name", s->rules[i].glob_text);
		rule_json(&s->rules[i], out);
		json_key_u64(out, "ready", s->ready[i]);
		buf_puts(out, "}");
	}
	buf_puts(out, "]");
}

static void status_json(const struct live *live, const struct live_status *s,
			const struct device_list *devices, const struct snapshot *snap,
			const struct verify_result *v, struct buf *out)
{
	const struct meta *meta = s->meta;

	buf_puts(out, "{");
	json_key_string(out, "schema", "blkhist-status/1");
	json_time(out, "time", snap->time_ns);
	json_time(out, "since", (int64_t)meta->since_realtime_ns);
	json_key_u64(out, "format", meta->abi_version);
	json_key_string(out, "stamp", stamp_mode_names[meta->stamp]);
	json_key_string(out, "stamp_used", stamp_mode_names[meta->stamp_used]);
	json_key_string(out, "bios", bios_mode_names[meta->bios]);
	rules_json(s, out);
	disks_json(live, devices, out);
	json_key(out, "programs");
	buf_puts(out, "[");
	for (int i = 0; i < PROG_NR; i++) {
		json_element(out);
		buf_puts(out, "{");
		json_key_string(out, "name", s->points[i].program);
		json_key_string(out, "tracepoint", s->points[i].tracepoint);
		json_key_bool(out, "bios", pin_progs[i].bios);
		json_key_bool(out, "attached", s->points[i].attached);
		json_key_u64(out, "runs", s->points[i].runs);
		json_key_u64(out, "run_ns", s->points[i].run_ns);
		json_key_u64(out, "verified_insns", s->points[i].verified);
		buf_puts(out, "}");
	}
	buf_puts(out, "]");
	json_key_u64(out, "memory_bytes", s->memory);
	json_key_u64(out, "partitions", s->partitions);
	json_key_u64(out, "partitions_gone", s->gone);
	json_key_u64(out, "partitions_ready", s->spare);
	json_key_u64(out, "partitions_max", meta->max_partitions - 1);
	json_key_u64(out, "regions", s->regions);
	json_key_u64(out, "regions_max", meta->regions - 1);
	json_losses(out, snap);
	if (v)
		verify_json(v, out);
	buf_puts(out, "}\n");
}

static struct error *state_read(struct live *live, const struct device_list *devices,
				struct live_status *state, struct snapshot *snap)
{
	const struct live_selection losses_only = {};

	try(live_status(live, devices, state));
	return live_read(live, devices, &losses_only, snap);
}

struct error *status_print(struct live *live, const struct device_list *devices, struct buf *out)
{
	cleanup(snapshot_deinit) struct snapshot snap = {};
	struct live_status state;

	try(state_read(live, devices, &state, &snap));
	status_text(live, &state, devices, &snap, out);
	return NULL;
}

static struct error *run(void *settings, const struct operands *operands, int *status)
{
	const struct status_settings *s = settings;
	cleanup(device_list_deinit) struct device_list devices = {};
	cleanup(live_closep) struct live *live = NULL;
	cleanup(snapshot_deinit) struct snapshot snap = {};
	cleanup(verify_result_deinit) struct verify_result verify = { .equal = true };
	cleanup(buf_deinit) struct buf out = {};
	struct live_status live_state;
	enum output_format format;

	(void)operands;
	try(format_parse(s->format, &format));
	try(device_list_read(system_paths.root, &devices));
	try(live_open(&system_paths, &devices, &live));
	try(state_read(live, &devices, &live_state, &snap));
	if (s->verify)
		try(live_verify(live, &devices, &verify));
	if (format == FORMAT_JSON) {
		status_json(live, &live_state, &devices, &snap, s->verify ? &verify : NULL, &out);
	} else {
		status_text(live, &live_state, &devices, &snap, &out);
		if (s->verify)
			verify_text(&verify, &out);
	}
	try(output_write(&out));
	if (!verify.equal)
		*status = EXIT_FAILED;
	return NULL;
}

const struct command cmd_status = {
	.name = "status",
	.syntax = &syntax,
	.run = run,
	.defaults = &defaults,
	.settings_size = sizeof(struct status_settings),
};
