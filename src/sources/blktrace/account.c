// SPDX-License-Identifier: GPL-2.0-only
#include "sources/blktrace/account.h"

#include <stdio.h>
#include <string.h>

#include "core/util.h"

/* Partitions that have no minor number left on their disk's major, and all of NVMe. */
#define BLOCK_EXT_MAJOR 259u

static void device_free(struct trace_device *d)
{
	for (unsigned int i = 0; i < d->n_parts; i++) {
		for (unsigned int k = 0; k < KIND_NR * OP_NR; k++) {
			struct hist *h = d->parts[i].hists[k / OP_NR][k % OP_NR];

			if (h)
				hist_deinit(h);
			free(h);
		}
	}
	free(d->parts);
	free(d->table_parts);
	free(d);
}

void account_deinit(struct account *a)
{
	for (unsigned int i = 0; i < a->n_devices; i++)
		device_free(a->devices[i]);
	free(a->devices);
	device_list_deinit(&a->known);
	partition_tables_deinit(&a->tables);
	*a = (struct account){};
}

static const struct device *known(const struct account *a, uint32_t number)
{
	const struct device *d = device_by_number(&a->known, number);

	return d && !d->name.head[0] ? d : NULL;
}

static void number_text(uint32_t number, char ret[DEVICE_NAME_MAX])
{
	snprintf(ret, DEVICE_NAME_MAX, "%u:%u", TRACE_MAJOR(number), TRACE_MINOR(number));
}

const char *trace_device_name(const struct trace_device *d)
{
	return d->parts[0].name.disk;
}

static unsigned int part_add(struct account *a, struct trace_device *d, uint32_t number)
{
	struct trace_part *part;

	if (a->n_parts == ACCOUNT_PARTS_MAX)
		return 0;
	a->n_parts++;
	d->parts = xreallocarray(d->parts, d->n_parts + 1, sizeof(*d->parts));
	part = &d->parts[d->n_parts];
	*part = (struct trace_part){ .number = number };
	if (d->n_parts)
		memcpy(part->name.disk, d->parts[0].name.disk, DEVICE_NAME_MAX);
	part->name.major = TRACE_MAJOR(number);
	part->name.minor = TRACE_MINOR(number);
	return d->n_parts++;
}

/* The table of a disk's name, unless it is another device's already. */
static const struct partition_table *table_named(const struct account *a, const char *disk)
{
	for (unsigned int i = 0; i < a->tables.n; i++) {
		const struct partition_table *table = &a->tables.tables[i];
		bool taken = false;

		for (unsigned int k = 0; k < a->n_devices; k++)
			taken = taken || a->devices[k]->table == table;
		if (!taken && !strcmp(table->disk, disk))
			return table;
	}
	return NULL;
}

/*
 * The table of the disk's name, or of that which blktrace has given to the files. A single table is
 * the first device's, whatever it is called here: the trace may come from another machine.
 */
static const struct partition_table *table_of(const struct account *a, const char *disk)
{
	const struct partition_table *table = table_named(a, disk);

	if (!table && a->set && *a->set)
		table = table_named(a, a->set);
	return !table && a->tables.n == 1 && !a->n_devices ? a->tables.tables : table;
}

/* A name may be of one disk only. */
static bool name_is_free(const struct account *a, const char *disk)
{
	for (unsigned int i = 0; i < a->n_devices; i++)
		if (!strcmp(trace_device_name(a->devices[i]), disk))
			return false;
	return true;
}

/* The first section that matches; [default] is the first of all, and has no pattern. */
static const struct config_rule *rule_of(const struct config *config, const char *disk)
{
	char name[DISK_NAME_LEN] = {};

	memcpy(name, disk, strnlen(disk, sizeof(name) - 1));
	for (unsigned int i = 1; i < config->n; i++)
		if (glob_matches(&config->rules[i].glob, name))
			return &config->rules[i];
	return &config->rules[0];
}

static struct trace_device *device_add(struct account *a, uint32_t number)
{
	const struct device *in_sys = known(a, number);
	struct trace_device *d;
	char *disk;

	if (a->n_parts == ACCOUNT_PARTS_MAX)
		return NULL;
	d = xcalloc(1, sizeof(*d));
	d->number = number;
	part_add(a, d, number);
	disk = d->parts[0].name.disk;
	if (in_sys && !in_sys->partno)
		memcpy(disk, in_sys->name.disk, DEVICE_NAME_MAX);
	else
		number_text(number, disk);
	d->table = table_of(a, disk);
	if (d->table && !in_sys && d->table->disk[0] && name_is_free(a, d->table->disk))
		memcpy(disk, d->table->disk, DEVICE_NAME_MAX);
	if (d->table)
		d->table_parts = xcalloc(d->table->n, sizeof(*d->table_parts));
	d->rule = rule_of(a->config, disk);
	d->ignored = d->rule->ignore;
	a->devices = xreallocarray(a->devices, a->n_devices + 1, sizeof(struct trace_device *));
	a->devices[a->n_devices++] = d;
	return d;
}

struct trace_device *account_device_other(struct account *a, uint32_t number)
{
	for (a->last = 0; a->last < a->n_devices; a->last++)
		if (a->devices[a->last]->number == number)
			return a->devices[a->last];
	a->last = 0;
	return device_add(a, number);
}

unsigned int account_part_at(struct account *a, struct trace_device *d, uint64_t sector)
{
	int entry = d->table ? partition_at(d->table, sector) : -1;
	unsigned int part;

	if (entry < 0)
		return 0;
	part = d->table_parts[entry];
	if (!part) {
		part = d->table_parts[entry] = part_add(a, d, 0);
		if (!part)
			return 0;
		d->parts[part].in_table = true;
		memcpy(d->parts[part].name.partition, d->table->entries[entry].name,
		       DEVICE_NAME_MAX);
	}
	return part;
}

/*
 * Devices that lie on others (dm, md, NVMe multipath) are remapped, too. Partitions begin behind
 * the first sector, and their numbers are of their disk's major or of the one for all; the kernel
 * has none on the devices that have no requests.
 */
static bool is_partition(const struct account *a, const struct trace_device *d,
			 const struct event *ev)
{
	const struct device *from;

	if (ev->to_device != d->number || ev->from_device == d->number)
		return false;
	/* Of a request: our own recorder says so of nothing else. */
	if (ev->category & CATEGORY_FS)
		return true;
	if (ev->sector <= ev->from || (TRACE_MAJOR(ev->from_device) != TRACE_MAJOR(d->number) &&
				       TRACE_MAJOR(ev->from_device) != BLOCK_EXT_MAJOR))
		return false;
	from = known(a, ev->from_device);
	return !from || from->partno || from->request_based;
}

bool account_is_partition(const struct trace_device *d, unsigned int part)
{
	const struct trace_part *p = &d->parts[part];

	return part && (d->has_issue || d->has_requests || p->in_table ||
			TRACE_MAJOR(p->number) == BLOCK_EXT_MAJOR);
}

unsigned int account_part_remapped(struct account *a, struct trace_device *d,
				   const struct event *ev)
{
	const struct device *in_sys;
	unsigned int part = d->last_part;

	if (part && d->parts[part].number == ev->from_device)
		return part;
	if (!is_partition(a, d, ev))
		return 0;
	for (part = 1; part < d->n_parts; part++)
		if (d->parts[part].number == ev->from_device)
			return d->last_part = part;
	part = account_part_at(a, d, ev->sector);
	if (part && !d->parts[part].number) {
		d->parts[part].number = ev->from_device;
		d->parts[part].name.major = TRACE_MAJOR(ev->from_device);
		d->parts[part].name.minor = TRACE_MINOR(ev->from_device);
		return d->last_part = part;
	}
	part = part_add(a, d, ev->from_device);
	if (!part)
		return 0;
	in_sys = known(a, ev->from_device);
	if (in_sys && in_sys->partno && !strcmp(in_sys->name.disk, d->parts[0].name.disk))
		memcpy(d->parts[part].name.partition, in_sys->name.partition, DEVICE_NAME_MAX);
	else
		number_text(ev->from_device, d->parts[part].name.partition);
	return d->last_part = part;
}

static struct hist *hist_create(const struct config_rule *rule, enum hist_kind kind, enum blk_op op)
{
	const struct ladder *l = rule->ladders;
	struct hist *h = xcalloc(1, sizeof(*h));

	h->kind = kind;
	h->op = op;
	hist_init(h, &l[kind == KIND_SEEK ? DIM_SECTORS : DIM_TIME],
		  kind == KIND_SEEK || op == OP_FLUSH ? NULL : &l[DIM_SIZE]);
	return h;
}

/* Values often lie where the one before did, which is cheaper to see than to look for. */
static unsigned int bucket_near(const struct ladder *l, unsigned int hint, int64_t value)
{
	if ((hint == l->n || value <= l->bound[hint]) && (!hint || value > l->bound[hint - 1]))
		return hint;
	return ladder_bucket(l, value);
}

static inline void count(struct trace_part *p, const struct config_rule *rule, enum hist_kind kind,
			 enum blk_op op, unsigned int row, int64_t value)
{
	struct hist *h = p->hists[kind][op];
	unsigned int col;

	if (!h)
		h = p->hists[kind][op] = hist_create(rule, kind, op);
	col = p->hints[kind][op] = bucket_near(h->ladder, p->hints[kind][op], value);
	hist_row(h, row)[col]++;
	h->sums[row] = (int64_t)((uint64_t)h->sums[row] + (uint64_t)value);
}

void account_times(struct trace_device *d, unsigned int part, enum blk_op op, uint32_t bytes,
		   unsigned int kinds, const int64_t ns[KIND_TIMED])
{
	struct trace_part *p = &d->parts[part];
	unsigned int row = 0;

	if (op != OP_FLUSH)
		row = p->size_hint = bucket_near(&d->rule->ladders[DIM_SIZE], p->size_hint, bytes);
	for (enum hist_kind kind = 0; kind < KIND_TIMED; kind++)
		if (kinds & d->rule->kinds & 1u << kind)
			count(p, d->rule, kind, op, row, ns[kind]);
}

void account_seek(struct trace_device *d, unsigned int part, int64_t sectors)
{
	if (d->rule->kinds & 1u << KIND_SEEK)
		count(&d->parts[part], d->rule, KIND_SEEK, 0, 0, sectors);
}
