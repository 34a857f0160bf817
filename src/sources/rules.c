// SPDX-License-Identifier: GPL-2.0-only
/* Rules: what is set for disks by name, made of a configuration and kept beside the counters. */
#include <errno.h>
#include <string.h>

#include "core/buf.h"
#include "core/glob.h"
#include "core/util.h"
#include "sources/live_internal.h"

/* Counters kept ready for devices that nobody has seen yet: by [default], by any other section. */
#define SPARE_DEFAULT 4
#define SPARE_SECTION 2
_Static_assert(SPARE_DEFAULT < POOL_PLACES, "spare counters have a place");

/* --- made of a configuration --- */

static void rule_make(const struct config_rule *from, struct rule *rule)
{
	rule->glob = from->glob;
	memcpy(rule->glob_text, from->pattern, sizeof(rule->glob_text));
	rule->kinds = from->kinds;
	rule->ignore = from->ignore;
	for (int k = 0; k < LADDER_KINDS; k++) {
		const struct ladder *l = &from->ladders[k];
		struct meta_ladder *to = &rule->ladders[k];

		if (strlen(from->texts[k]) < sizeof(to->text))
			memcpy(to->text, from->texts[k], strlen(from->texts[k]));
		to->n = l->n;
		memcpy(to->bound, l->bound, l->n * sizeof(l->bound[0]));
	}
}

struct error *rules_make(const struct config *config, struct meta *meta, struct rule **ret)
{
	cleanup_free struct rule *rules = xcalloc(config->n, sizeof(*rules));
	unsigned int spare = 0;

	for (unsigned int i = 0; i < config->n; i++) {
		rule_make(&config->rules[i], &rules[i]);
		if (!rules[i].ignore)
			rules[i].spare = i ? SPARE_SECTION : SPARE_DEFAULT;
		spare += rules[i].spare;
	}
	if (spare > meta->max_partitions / 2)
		return error_new("the %u sections of the configuration need %u of %u counters to "
				 "be ready, which leaves too few (build option max_partitions)",
				 config->n, spare, meta->max_partitions - 1);
	meta->rules = config->n;
	meta->spare_partitions = spare;
	*ret = take(rules);
	return NULL;
}

/* --- of a running collector --- */

static bool rule_valid(const struct rule *rule)
{
	for (int k = 0; k < LADDER_KINDS; k++)
		if (rule->ladders[k].n > SEEK_BOUNDS_MAX ||
		    rule->ladders[k].text[LADDER_TEXT_MAX - 1])
			return false;
	return !rule->glob_text[RULE_GLOB_MAX - 1] && rule->spare < POOL_PLACES;
}

struct error *rules_read(struct live *live)
{
	const char damaged[] = "the collector's settings are damaged; run: blkhist stop";
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(live->maps[MAP_RULES], &info, &len))
		return error_errno(errno,
				   "cannot ask for the properties of the collector's settings");
	if (!live->meta.rules || live->meta.rules > RULES_MAX ||
	    info.max_entries != live->meta.rules || info.value_size != sizeof(struct rule))
		return error_new("%s", damaged);
	live->rules = xcalloc(live->meta.rules, sizeof(*live->rules));
	for (__u32 i = 0; i < live->meta.rules; i++) {
		if (bpf_map_lookup_elem(live->maps[MAP_RULES], &i, &live->rules[i]))
			return error_errno(errno, "cannot read the collector's settings");
		if (!rule_valid(&live->rules[i]))
			return error_new("%s", damaged);
	}
	return NULL;
}

void rule_ladders(const struct rule *rule, struct ladder ret[LADDER_KINDS])
{
	for (int i = 0; i < LADDER_KINDS; i++) {
		ret[i] = (struct ladder){ .dim = (enum dimension)i,
					  .n = (unsigned int)rule->ladders[i].n };
		memcpy(ret[i].bound, rule->ladders[i].bound, ret[i].n * sizeof(ret[i].bound[0]));
	}
}

const struct rule *live_rule(const struct live *live, const struct device *device)
{
	/* As rule_find() of the kernel side. */
	for (unsigned int i = 1; i < live->meta.rules; i++)
		if (glob_matches_name(&live->rules[i].glob, device->name.disk))
			return &live->rules[i];
	return &live->rules[0];
}

static const char *section_name(const struct rule *rule)
{
	return rule->glob_text[0] ? rule->glob_text : "default";
}

static bool left_out(const struct live *live, const struct device *device)
{
	return !device->request_based && live->meta.bios == BIOS_OFF;
}

bool live_counts(const struct live *live, const struct device *device)
{
	return !left_out(live, device) && !live_rule(live, device)->ignore;
}

struct error *live_check_counted(const struct live *live, const struct device *device)
{
	const char *own = device_name_own(&device->name);

	if (left_out(live, device))
		return error_new(
			"%s has no requests of its own, and the collector was started with "
			"--bios off: its I/O is counted where it reaches a disk that has",
			own);
	if (live_rule(live, device)->ignore)
		return error_new("%s is not counted: the section [%s] of the configuration says to "
				 "ignore it; change that and start again",
				 own, section_name(live_rule(live, device)));
	return NULL;
}

struct error *rules_forget_gone(struct live *live, const struct device_list *devices)
{
	unsigned int n = 0, max = 2 * live->meta.max_partitions;
	cleanup_free struct part_key *gone = xcalloc(max, sizeof(*gone));
	struct part_key key, *prev = NULL;

	while (n < max && !bpf_map_get_next_key(live->maps[MAP_PART_IDS], prev, &key)) {
		const struct device *d;
		__u32 id;

		prev = &key;
		if (bpf_map_lookup_elem(live->maps[MAP_PART_IDS], &key, &id) || id != PART_IGNORED)
			continue;
		d = device_by_id(devices, key.sysfs_id);
		if (!d || d->diskseq != key.diskseq)
			gone[n++] = key;
	}
	while (n--)
		if (bpf_map_delete_elem(live->maps[MAP_PART_IDS], &gone[n]) && errno != ENOENT)
			return error_errno(errno, "cannot forget an ignored device that is gone");
	return NULL;
}

/* --- compared --- */

static bool same_ladder(const struct meta_ladder *a, const struct ladder *b)
{
	return a->n == b->n && !memcmp(a->bound, b->bound, b->n * sizeof(b->bound[0]));
}

static bool same_patterns(const struct live *live, const struct config *config)
{
	if (live->meta.rules != config->n)
		return false;
	for (unsigned int i = 0; i < config->n; i++)
		if (strcmp(live->rules[i].glob_text, config->rules[i].pattern))
			return false;
	return true;
}

/* Adds what differs in one rule. Of the default, items are called as the options of start are. */
static void rule_differs(const struct rule *rule, const struct config_rule *wanted,
			 struct buf *what)
{
	cleanup_free char *item = rule->glob_text[0] ? xasprintf("[%s] ", rule->glob_text) :
						       xstrdup("--");

	for (int i = 0; i < LADDER_KINDS; i++)
		if (!same_ladder(&rule->ladders[i], &wanted->ladders[i]))
			buf_printf(what, ", %s%s (%s, asked for: %s)", item, ladder_names[i],
				   rule->ladders[i].text[0] ? rule->ladders[i].text : "a list",
				   wanted->texts[i]);
	if (rule->kinds != wanted->kinds)
		buf_printf(what, ", %skinds", item);
	if (rule->ignore != wanted->ignore)
		buf_printf(what, ", [%s] ignore (%s)", section_name(rule),
			   rule->ignore ? "yes" : "no");
}

static void add_patterns(const char *const *patterns, unsigned int n, struct buf *what)
{
	for (unsigned int i = 1; i < n; i++)
		buf_printf(what, "[%s]", patterns[i]);
	if (n < 2)
		buf_puts(what, "none");
}

static void patterns_differ(const struct live *live, const struct config *config, struct buf *what)
{
	const char *now[RULES_MAX], *wanted[RULES_MAX];

	for (unsigned int i = 0; i < live->meta.rules; i++)
		now[i] = live->rules[i].glob_text;
	for (unsigned int i = 0; i < config->n; i++)
		wanted[i] = config->rules[i].pattern;
	buf_puts(what, ", sections (");
	add_patterns(now, live->meta.rules, what);
	buf_puts(what, ", asked for: ");
	add_patterns(wanted, config->n, what);
	buf_puts(what, ")");
}

struct error *rules_differ(const struct live *live, const struct live_settings *settings)
{
	const struct config *config = settings->config;
	bool patterns = same_patterns(live, config);
	cleanup(buf_deinit) struct buf what = {};

	for (unsigned int i = 0; i < (patterns ? config->n : 1); i++)
		rule_differs(&live->rules[i], &config->rules[i], &what);
	if (!patterns)
		patterns_differ(live, config, &what);
	if (live->meta.stamp != settings->stamp)
		buf_printf(&what, ", --stamp (%s)", stamp_mode_names[live->meta.stamp]);
	if (live->meta.bios != settings->bios)
		buf_printf(&what, ", --bios (%s)", bios_mode_names[live->meta.bios]);
	if (!what.len)
		return NULL;
	return error_new(
		"the collector is already running with other settings: %s; nothing was changed; "
		"stop it first, or set a device's bounds with: blkhist buckets",
		what.str + strlen(", "));
}
