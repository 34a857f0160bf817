/* SPDX-License-Identifier: GPL-2.0-only */
/* What is set for disks by name, and the counters that are ready for them. */
#ifndef BLKHIST_BPF_RULES_H
#define BLKHIST_BPF_RULES_H

#include "drift.h"

/* max_entries is the number of rules, set by user space before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rule);
} rules SEC(".maps");

/*
 * A hash in place of a queue per rule: a deletion succeeds for one CPU only, on every kernel, and
 * user space can look without taking out.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RULES_MAX *POOL_PLACES);
	__type(key, __u32);
	__type(value, __u32);
} part_pool SEC(".maps");

/* The rule of a disk; run once per device. */
static __noinline __u32 rule_find(struct gendisk *disk)
{
	char name[DISK_NAME_LEN] = {};

	bpf_probe_read_kernel_str(name, sizeof(name), disk->disk_name);
	for (__u32 i = 1; i < RULES_MAX && i < settings.rules; i++) {
		__u32 key = i; /* of its own: older verifiers forget what a helper may look at */
		const struct rule *rule = bpf_map_lookup_elem(&rules, &key);

		if (!rule)
			break;
		if (glob_matches(&rule->glob, name))
			return i;
	}
	return 0;
}

static __always_inline bool rule_ignores(__u32 index)
{
	const struct rule *rule = bpf_map_lookup_elem(&rules, &index);

	return rule && rule->ignore;
}

/* Takes an index that is ready for a rule, and tells its place; 0 if there is none. */
static __noinline __u32 pool_pop(__u32 rule, __u32 *place)
{
	for (__u32 i = 0; i < POOL_PLACES; i++) {
		__u32 key = POOL_KEY(rule, i), index;
		const __u32 *ready = bpf_map_lookup_elem(&part_pool, &key);

		if (!ready)
			continue;
		index = *ready;
		*place = key;
		if (!bpf_map_delete_elem(&part_pool, &key))
			return index;
	}
	return 0;
}

#endif
