/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What lies where in the tree: a path names a node, and a directory has entries. Devices are those
 * of a list; which of their files exist follows from the device and the collector's rules.
 */
#ifndef BLKHIST_FILES_TREE_H
#define BLKHIST_FILES_TREE_H

#include "core/device.h"
#include "sources/live.h"

enum node_type {
	NODE_ROOT,
	NODE_DEVICE, /* directory of a disk or partition */
	NODE_HISTO,
	NODE_BUCKETS,
	NODE_ALL_JSON,
	NODE_STATUS,
	NODE_CONFIG,
};

struct node {
	enum node_type type;
	struct device device; /* from NODE_DEVICE to NODE_BUCKETS; a copy */
	enum hist_kind kind;  /* NODE_HISTO */
	enum blk_op op;
	enum dimension dim; /* NODE_BUCKETS */
};

static inline bool node_is_directory(const struct node *n)
{
	return n->type <= NODE_DEVICE;
}

static inline bool node_is_writable(const struct node *n)
{
	return n->type == NODE_HISTO || n->type == NODE_BUCKETS;
}

struct tree {
	const char *root; /* of /sys */
	const struct device_list *devices;
	const struct live *live; /* NULL: no collector is running, and there is only `status` */
};

/* False if there is no such node. */
bool tree_find(const struct tree *tree, const char *path, struct node *ret);

/* Calls @add for each entry of a directory, in any order. */
void tree_list(const struct tree *tree, const struct node *directory,
	       void (*add)(void *context, const char *name), void *context);

#endif
