// SPDX-License-Identifier: GPL-2.0-only
#include "files/tree.h"

#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "outputs/histo.h"

#define SUFFIX "_histo"
#define NAME_SIZE 128 /* of any file or device here */

static const char *const root_files[] = {
	[NODE_ALL_JSON] = "all.json",
	[NODE_STATUS] = "status",
	[NODE_CONFIG] = "config",
};

/* --- which files a device has --- */

static bool is_partition(const struct device *d)
{
	return d->name.partition[0];
}

static bool queue_says(const struct tree *tree, const struct device *d, const char *file,
		       const char *no)
{
	cleanup_free char *path = device_path(tree->root, d->name.disk, file);
	char text[64];
	struct error *err = sysfs_read(path, text, sizeof(text));

	if (err) {
		error_free(err);
		return false;
	}
	return strcmp(text, no) != 0;
}

/* Whether a device can ever count something in a histogram. */
static bool has_histo(const struct tree *tree, const struct device *d, enum hist_kind kind,
		      enum blk_op op)
{
	if (!(live_rule(tree->live, d)->kinds & 1u << kind))
		return false;
	if (kind == KIND_SEEK)
		return true;
	if (!d->request_based && kind != KIND_REQUEST)
		return false;
	if (op == OP_DISCARD)
		return queue_says(tree, d, "queue/discard_max_bytes", "0");
	/* The kernel's own flushes are of the disk; others are writes without data. */
	if (op == OP_FLUSH)
		return !is_partition(d) &&
		       queue_says(tree, d, "queue/write_cache", "write through");
	return true;
}

static void histo_name(enum hist_kind kind, enum blk_op op, char ret[NAME_SIZE])
{
	if (kind == KIND_SEEK)
		snprintf(ret, NAME_SIZE, "%s" SUFFIX, histo_kind_names[kind]);
	else
		snprintf(ret, NAME_SIZE, "%s_%s" SUFFIX, blk_op_names[op], histo_kind_names[kind]);
}

static void buckets_name(enum dimension dim, char ret[NAME_SIZE])
{
	snprintf(ret, NAME_SIZE, "buckets_%s", ladder_names[dim]);
}

/* As /sys writes it: a name in a path has no '/'. */
static void directory_name(const struct device *d, char ret[NAME_SIZE])
{
	snprintf(ret, NAME_SIZE, "%s", device_name_own(&d->name));
	for (char *p = ret; (p = strchr(p, '/'));)
		*p = '!';
}

#define FOR_EACH_HISTO(kind, op)                              \
	for (enum hist_kind kind = 0; kind < KIND_NR; kind++) \
		for (enum blk_op op = 0; op < (kind == KIND_SEEK ? 1 : OP_NR); op++)

/* Whether a device has a directory in that of @disk, or among the disks if that is NULL. */
static bool belongs(const struct tree *tree, const struct device *d, const struct device *disk)
{
	return is_partition(d) == !!disk && (!disk || d->disk_sysfs_id == disk->sysfs_id) &&
	       live_counts(tree->live, d);
}

/* --- finding --- */

/* The device whose directory has this name, among disks, or among the partitions of one. */
static const struct device *find_device(const struct tree *tree, const char *name,
					const struct device *disk)
{
	for (unsigned int i = 0; i < tree->devices->n; i++) {
		const struct device *d = &tree->devices->devices[i];
		char own[NAME_SIZE];

		if (!belongs(tree, d, disk))
			continue;
		directory_name(d, own);
		if (!strcmp(own, name))
			return d;
	}
	return NULL;
}

static bool find_file(const struct tree *tree, const char *name, struct node *n)
{
	char own[NAME_SIZE];

	FOR_EACH_HISTO(kind, op)
	{
		histo_name(kind, op, own);
		if (strcmp(own, name))
			continue;
		n->type = NODE_HISTO;
		n->kind = kind;
		n->op = op;
		return has_histo(tree, &n->device, kind, op);
	}
	for (enum dimension dim = 0; dim < LADDER_KINDS; dim++) {
		buckets_name(dim, own);
		if (strcmp(own, name))
			continue;
		n->type = NODE_BUCKETS;
		n->dim = dim;
		return !is_partition(&n->device);
	}
	return false;
}

/* From a directory one name further; false if it has no such entry. */
static bool step(const struct tree *tree, const char *name, struct node *n)
{
	const struct device *d = NULL;

	if (n->type == NODE_ROOT)
		for (enum node_type t = NODE_ALL_JSON; t <= NODE_CONFIG; t++)
			if (!strcmp(name, root_files[t]) && (tree->live || t == NODE_STATUS)) {
				n->type = t;
				return true;
			}
	if (!tree->live || !node_is_directory(n))
		return false;
	if (n->type == NODE_ROOT)
		d = find_device(tree, name, NULL);
	else if (!is_partition(&n->device))
		d = find_device(tree, name, &n->device);
	if (!d)
		return n->type == NODE_DEVICE && find_file(tree, name, n);
	n->type = NODE_DEVICE;
	n->device = *d;
	return true;
}

bool tree_find(const struct tree *tree, const char *path, struct node *ret)
{
	cleanup_free char *copy = xstrdup(path);
	char *next = copy, *name;

	*ret = (struct node){ .type = NODE_ROOT };
	while ((name = strsep(&next, "/")))
		if (*name && !step(tree, name, ret))
			return false;
	return true;
}

/* --- listing --- */

static void list_devices(const struct tree *tree, const struct device *disk,
			 void (*add)(void *context, const char *name), void *context)
{
	for (unsigned int i = 0; i < tree->devices->n; i++) {
		const struct device *d = &tree->devices->devices[i];
		char name[NAME_SIZE];

		if (!belongs(tree, d, disk))
			continue;
		directory_name(d, name);
		add(context, name);
	}
}

void tree_list(const struct tree *tree, const struct node *directory,
	       void (*add)(void *context, const char *name), void *context)
{
	const struct device *d = &directory->device;
	char name[NAME_SIZE];

	if (directory->type == NODE_ROOT) {
		for (enum node_type t = NODE_ALL_JSON; t <= NODE_CONFIG; t++)
			if (tree->live || t == NODE_STATUS)
				add(context, root_files[t]);
		if (tree->live)
			list_devices(tree, NULL, add, context);
		return;
	}
	FOR_EACH_HISTO(kind, op)
	{
		if (!has_histo(tree, d, kind, op))
			continue;
		histo_name(kind, op, name);
		add(context, name);
	}
	if (is_partition(d))
		return;
	for (enum dimension dim = 0; dim < LADDER_KINDS; dim++) {
		buckets_name(dim, name);
		add(context, name);
	}
	list_devices(tree, d, add, context);
}
